//! Values: what expressions compute with, either their own or borrowed from the JSON of an object.

mod collection;
mod compare;

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use rdd_meta::go_text;
use serde_json::Value as Json;

use crate::go;
use crate::libs::{authz::Authorization, named::NamedFormat, net::Cidr, quantity::Quantity, semver::Semver, url::Url};
use crate::types::Type;

pub(crate) use collection::{Key, ListKind};
pub use collection::{List, ListValues, Map, MapValues};
pub(crate) use compare::{compare, equal, list_contains, list_map_key};

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An error of the language: `&&`, `||` and their like may absorb it. The text is cel-go's.
    #[error("{0}")]
    Error(String),
    /// The budget is used up; nothing absorbs this.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// Where cel-go panics while it prices a call, the evaluation ends there too; nothing absorbs this either.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Fault {
    pub(crate) fn error(message: impl Into<String>) -> Self {
        Fault::Error(message.into())
    }

    pub(crate) fn no_such_overload() -> Self {
        Fault::Error("no such overload".into())
    }

    /// Whether the evaluation cannot go on.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Fault::Error(_))
    }
}

/// No function makes longer text: what would cost more than any budget is not made first and priced afterwards.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 20;

/// A value, or why there is none.
pub type Outcome<'a> = Result<Value<'a>, Fault>;

/// Text of an object or text that was computed.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// Part of the object
    Borrowed(&'a str),
    /// Computed, or part of the program
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Text::Shared(text.into())
    }
}

/// A moment, with the offset from UTC that its text had.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Since 1970, UTC
    pub seconds: i64,
    /// Of the second
    pub nanos: u32,
    /// East of UTC; only the text form shows it
    pub offset_seconds: i32,
}

/// A CEL value.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `bool`
    Bool(bool),
    /// `int`
    Int(i64),
    /// `uint`
    Uint(u64),
    /// `double`
    Double(f64),
    /// `string`
    String(Text<'a>),
    /// `bytes`
    Bytes(Arc<[u8]>),
    /// `timestamp`
    Timestamp(Timestamp),
    /// `duration`, in nanoseconds
    Duration(i64),
    /// `list`
    List(List<'a>),
    /// `map`, also an object with declared fields
    Map(Map<'a>),
    /// `optional_type`
    Optional(Option<Arc<Value<'a>>>),
    /// A type as a value
    Type(Arc<Type>),
    /// `kubernetes.Quantity`
    Quantity(Arc<Quantity>),
    /// `kubernetes.URL`
    Url(Arc<Url>),
    /// `net.IP`
    Ip(IpAddr),
    /// `net.CIDR`
    Cidr(Cidr),
    /// `kubernetes.Semver`
    Semver(Arc<Semver>),
    /// `kubernetes.NamedFormat`
    Format(&'static NamedFormat),
    /// The types of `kubernetes.authorization`
    Authorization(Authorization),
    /// What a schema keeps without describing it; it can only be compared
    Unknown(&'a Json),
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Value::String(Text::Shared(Arc::from(text.into())))
    }

    pub(crate) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Value::List(List::new(texts.into_iter().map(Value::text).collect()))
    }

    /// JSON without a schema.
    #[must_use]
    pub fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Value::Int(whole),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(Text::Borrowed(text)),
            Json::Array(items) => Value::List(List::Json(items, None)),
            Json::Object(object) => Value::Map(Map::Json(object, None)),
        }
    }

    /// The value as cel-go hands it on when it takes it out of an optional variable: without its schema.
    pub(crate) fn without_shape(self) -> Self {
        match self {
            Value::List(List::Json(items, _)) => Value::List(List::Json(items, None)),
            Value::Map(Map::Json(object, _)) => Value::Map(Map::Json(object, None)),
            Value::Unknown(json) => Value::from_json(json),
            other => other,
        }
    }

    pub(crate) fn optional(value: Option<Value<'a>>) -> Self {
        Value::Optional(value.map(Arc::new))
    }

    /// The runtime type's name.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Url(_) => "kubernetes.URL",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Authorization(step) => step.type_name(),
            Value::Unknown(_) => "unknown",
        }
    }

    /// The value's type, as `type(x)` gives it.
    pub(crate) fn type_value(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Timestamp(_) => Type::Timestamp,
            Value::Duration(_) => Type::Duration,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Type(_) => Type::Type(None),
            other => Type::object(other.type_name()),
        }
    }

    /// Whether the value may be an argument of type `expected`; of lists and maps the first entry decides.
    pub(crate) fn fits(&self, expected: &Type) -> bool {
        if matches!(expected, Type::Dyn | Type::Param(_)) {
            return true;
        }
        if expected.runtime_name() != self.type_name() {
            return false;
        }
        match (expected, self) {
            (Type::List(item), Value::List(list)) => list.is_empty() || list.get(0).is_ok_and(|first| first.fits(item)),
            (Type::Map(key_type, value_type), Value::Map(map)) => {
                let Some(key) = map.keys().into_iter().next() else { return true };
                key.fits(key_type) && map.find(&key).ok().flatten().is_some_and(|value| value.fits(value_type))
            }
            _ => true,
        }
    }

    /// As `%v` shows the value inside messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Null => "NULL_VALUE".into(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Double(value) => go_text::plain_float(*value),
            Value::String(text) => text.to_string(),
            Value::Bytes(octets) => {
                format!("[{}]", octets.iter().map(u8::to_string).collect::<Vec<_>>().join(" "))
            }
            Value::Timestamp(moment) => go::timestamp_text(*moment),
            Value::Duration(nanos) => go::duration_text(*nanos),
            Value::List(list) => {
                let items: Vec<String> =
                    list.iter().map(|item| item.map_or_else(|fault| fault.to_string(), |item| item.shown())).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Map(map) => {
                let entries: Vec<String> = map
                    .keys()
                    .iter()
                    .map(|key| {
                        let value = map.find(key).ok().flatten().map_or_else(String::new, |value| value.shown());
                        format!("{}: {value}", key.shown())
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Optional(None) => "optional.none()".into(),
            Value::Optional(Some(value)) => format!("optional({})", value.shown()),
            Value::Type(value) => value.runtime_name().to_owned(),
            Value::Quantity(quantity) => quantity.to_string(),
            Value::Url(url) => url.to_string(),
            Value::Ip(ip) => ip.to_string(),
            Value::Cidr(cidr) => cidr.to_string(),
            Value::Semver(version) => version.to_string(),
            Value::Format(format) => format.name.to_owned(),
            Value::Authorization(step) => step.type_name().to_owned(),
            Value::Unknown(json) => json.to_string(),
        }
    }

    /// The size that costs are computed from, where the value has one.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Value::String(text) => Some(text.chars().count() as u64),
            Value::Bytes(octets) => Some(octets.len() as u64),
            Value::List(list) => Some(list.len() as u64),
            Value::Map(map) => Some(map.len() as u64),
            Value::Ip(IpAddr::V4(_)) => Some(4),
            Value::Ip(IpAddr::V6(_)) => Some(16),
            Value::Cidr(cidr) => Some(u64::from(cidr.bits).div_ceil(8)),
            _ => None,
        }
    }
}
