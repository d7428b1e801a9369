//! Values of expressions: computed, or borrowed from the JSON of an object.

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

/// The reason why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An error of the expression. `&&`, `||` and similar functions may ignore it. The text is cel-go's.
    #[error("{0}")]
    Error(String),
    /// The cost exceeds the limit. Nothing ignores this.
    #[error("operation cancelled: actual cost limit exceeded")]
    CostLimit,
    /// cel-go panics while it computes the cost of a call, which ends the evaluation. Nothing ignores this.
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

    /// Whether the fault ends the evaluation.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Fault::Error(_))
    }
}

/// No function creates a longer string, because its work would exceed any budget before it is charged. Such a call ends with
/// the cost limit.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 20;

/// A value, or the reason why there is none.
pub type Outcome<'a> = Result<Value<'a>, Fault>;

/// A string, either of an object or computed.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// A string of the object
    Borrowed(&'a str),
    /// A computed string, or a string of the program
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

/// A point in time, with the UTC offset that its text had.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp {
    /// Seconds since 1970 in UTC
    pub seconds: i64,
    /// Nanoseconds of the second
    pub nanos: u32,
    /// Seconds east of UTC; it only affects the text form
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
    /// A value that the schema preserves without describing it; expressions can only compare it
    Unknown(&'a Json),
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Value::String(Text::Shared(Arc::from(text.into())))
    }

    pub(crate) fn texts(texts: impl IntoIterator<Item = String>) -> Self {
        Value::List(List::new(texts.into_iter().map(Value::text).collect()))
    }

    /// Converts JSON without a schema.
    #[must_use]
    pub fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                // JSON has one type of numbers; as in Go, those that fit are integers.
                Some(whole) => Value::Int(whole),
                None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Value::String(Text::Borrowed(text)),
            Json::Array(items) => Value::List(List::Json(items, None)),
            Json::Object(object) => Value::Map(Map::Json(object, None)),
        }
    }

    /// The value without its schema, as cel-go passes it on when it takes it out of an optional variable.
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

    /// The name of the value's type at run time.
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

    /// The type of the value, as `type(x)` returns it.
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

    /// Whether the value is accepted as an argument of type `expected`. For lists and maps, only the first entry is checked.
    pub(crate) fn fits(&self, expected: &Type) -> bool {
        if matches!(expected, Type::Dyn | Type::Param(_)) {
            return true;
        }
        // Only the names are compared: parameters are checked by the first entry below.
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

    /// Formats the value as Go's `%v` does in error texts.
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
            // As the expression that creates it.
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

    /// The size for costs; `None` if the value has none.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            // cel-go measures strings in code points.
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
