//! The part of a schema that CEL uses: the types of values, the conversion of JSON to values, and the rules.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use serde_json::Value as Json;

use crate::escape::{escape, unescape};
use crate::go;
use crate::rules::Rule;
use crate::value::{Fault, List, ListKind, Map, Outcome, Text, Value};

/// A node of a structural schema, in the form in which its owner keeps it. [`Shape::new`] reads it once.
///
/// The methods are named after the fields of the OpenAPI schema. They return an empty value for an absent field.
pub trait SchemaNode {
    /// `type`
    fn kind(&self) -> &str;
    /// `format`
    fn format(&self) -> &str {
        ""
    }
    /// `nullable`
    fn nullable(&self) -> bool {
        false
    }
    /// `x-kubernetes-int-or-string`
    fn int_or_string(&self) -> bool {
        false
    }
    /// `x-kubernetes-preserve-unknown-fields`
    fn preserves_unknown_fields(&self) -> bool {
        false
    }
    /// `x-kubernetes-embedded-resource`
    fn embedded_resource(&self) -> bool {
        false
    }
    /// `x-kubernetes-list-type`
    fn list_type(&self) -> &str {
        ""
    }
    /// `x-kubernetes-list-map-keys`
    fn list_map_keys(&self) -> Vec<String> {
        Vec::new()
    }
    /// `properties`
    fn properties(&self) -> Vec<(&str, &dyn SchemaNode)>;
    /// `items`
    fn items(&self) -> Option<&dyn SchemaNode>;
    /// `additionalProperties`, if it is a schema
    fn additional_properties(&self) -> Option<&dyn SchemaNode>;
    /// `allOf`, whose members may have rules for the same value
    fn all_of(&self) -> Vec<&dyn SchemaNode> {
        Vec::new()
    }
    /// `x-kubernetes-validations`
    fn rules(&self) -> Vec<Rule> {
        Vec::new()
    }
}

/// The part of a schema node that CEL needs. It is built once per schema and shared by all programs and evaluations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shape {
    pub(crate) kind: String,
    pub(crate) format: String,
    nullable: bool,
    pub(crate) int_or_string: bool,
    preserves_unknown_fields: bool,
    pub(crate) embedded_resource: bool,
    list_type: String,
    pub(crate) list_map_keys: Vec<String>,
    /// The declared properties; empty if absent.
    pub(crate) properties: BTreeMap<String, Arc<Shape>>,
    /// The properties including `apiVersion`, `kind` and `metadata`, if the node is a whole resource that does not declare
    /// them.
    of_resource: Option<BTreeMap<String, Arc<Shape>>>,
    items: Option<Box<Shape>>,
    pub(crate) additional: Option<Box<Shape>>,
    pub(crate) all_of: Vec<Shape>,
    pub(crate) rules: Vec<Rule>,
}

/// Common shapes that all schemas share, to save memory: most nodes are one of these.
static PLAIN: LazyLock<Vec<Arc<Shape>>> = LazyLock::new(|| {
    let of = |kind: &str, format: &str| Shape { kind: kind.into(), format: format.into(), ..Shape::default() };
    let text = || Some(Box::new(of("string", "")));
    let plain = [
        of("string", ""),
        of("integer", ""),
        of("boolean", ""),
        of("number", ""),
        of("integer", "int32"),
        of("integer", "int64"),
        of("string", "date-time"),
        Shape { int_or_string: true, ..Shape::default() },
        Shape { additional: text(), ..of("object", "") },
        Shape { items: text(), ..of("array", "") },
        Shape { items: text(), list_type: "atomic".into(), ..of("array", "") },
        Shape { items: text(), list_type: "set".into(), ..of("array", "") },
    ];
    plain.into_iter().map(Arc::new).collect()
});

fn text() -> Arc<Shape> {
    Arc::clone(&PLAIN[0])
}

impl Shape {
    /// Reads a schema. `is_root` means that the node is a whole object with `apiVersion`, `kind` and `metadata`.
    #[must_use]
    pub fn new(node: &dyn SchemaNode, is_root: bool) -> Self {
        let children = node.properties();
        let mut shape = Shape {
            kind: node.kind().into(),
            format: node.format().into(),
            nullable: node.nullable(),
            int_or_string: node.int_or_string(),
            preserves_unknown_fields: node.preserves_unknown_fields(),
            embedded_resource: node.embedded_resource(),
            list_type: node.list_type().into(),
            list_map_keys: node.list_map_keys(),
            properties: children.into_iter().map(|(name, child)| (name.to_owned(), Shape::shared(child))).collect(),
            of_resource: None,
            items: node.items().map(|items| Box::new(Shape::new(items, false))),
            additional: node.additional_properties().map(|schema| Box::new(Shape::new(schema, false))),
            all_of: node.all_of().into_iter().map(|member| Shape::new(member, false)).collect(),
            rules: node.rules(),
        };
        if is_root || shape.embedded_resource {
            shape.of_resource = shape.with_type_and_object_meta();
        }
        shape
    }

    /// Reads a property; returns the shared shape if it is a common one.
    fn shared(node: &dyn SchemaNode) -> Arc<Self> {
        let shape = Shape::new(node, false);
        // A linear search is enough for a dozen shapes, once per schema node.
        let plain = PLAIN.iter().find(|plain| ***plain == shape);
        plain.map_or_else(|| Arc::new(shape), Arc::clone)
    }

    /// The properties of a resource: of its metadata, rules may only use the name and the generate name. `None` if the schema
    /// already declares all of them.
    fn with_type_and_object_meta(&self) -> Option<BTreeMap<String, Arc<Shape>>> {
        let is_text = |shape: Option<&Arc<Shape>>| shape.is_some_and(|shape| shape.kind == "string");
        let metadata = self.properties.get("metadata");
        let complete = is_text(self.properties.get("kind"))
            && is_text(self.properties.get("apiVersion"))
            && metadata.is_some_and(|metadata| {
                metadata.kind == "object"
                    && is_text(metadata.properties.get("name"))
                    && is_text(metadata.properties.get("generateName"))
            });
        if complete {
            return None;
        }
        let mut properties = self.properties.clone();
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
        let metadata = Shape { kind: "object".into(), properties: names.into(), ..Shape::default() };
        properties.insert("kind".into(), text());
        properties.insert("apiVersion".into(), text());
        properties.insert("metadata".into(), Arc::new(metadata));
        Some(properties)
    }

    /// The properties that an expression can use.
    pub(crate) fn visible(&self) -> &BTreeMap<String, Arc<Shape>> {
        self.of_resource.as_ref().unwrap_or(&self.properties)
    }

    fn is_object(&self) -> bool {
        !self.visible().is_empty()
    }

    pub(crate) fn items(&self) -> Option<&Shape> {
        self.items.as_deref()
    }

    fn property(&self, name: &str) -> Option<&Shape> {
        if self.is_object() { self.visible().get(name).map(|shape| &**shape) } else { self.additional.as_deref() }
    }

    /// Whether the schema declares this key of the JSON, so that an expression can use it.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.property(name).is_some()
    }

    /// Returns a field of an object, or an entry of a map, by its name in expressions.
    pub(crate) fn field<'a>(
        &'a self,
        object: &'a serde_json::Map<String, Json>,
        name: &str,
    ) -> Result<Option<Value<'a>>, Fault> {
        let is_object = self.is_object();
        // Keys of a map are not escaped, because they are data and not names.
        let plain = if is_object { unescape(name) } else { Some(name.into()) };
        let Some(json) = plain.as_deref().and_then(|name| object.get(name)) else { return Ok(None) };
        // A null field counts as absent, as in Kubernetes.
        if is_object && json.is_null() {
            return Ok(None);
        }
        match plain.as_deref().and_then(|name| self.property(name)) {
            Some(shape) => shape.value(json).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn keys<'a>(&self, object: &'a serde_json::Map<String, Json>) -> Vec<Value<'a>> {
        let is_object = self.is_object();
        object
            .keys()
            // Undeclared fields are invisible to expressions.
            .filter(|name| self.declares(name))
            .map(|name| match escape(name).filter(|escaped| is_object && escaped != name) {
                Some(escaped) => Value::text(escaped),
                None => Value::String(Text::Borrowed(name)),
            })
            .collect()
    }

    pub(crate) fn list_kind(&self) -> ListKind {
        match self.list_type.as_str() {
            "set" => ListKind::Set,
            "map" => ListKind::Map(
                // As in cel-go, which looks up the keys by their escaped names.
                self.list_map_keys.iter().map(|key| escape(key).unwrap_or_else(|| key.clone())).collect(),
            ),
            _ => ListKind::Plain,
        }
    }

    /// The keys that correlate items of an old and a new list. Only lists of type map have them.
    pub(crate) fn correlating_keys(&self) -> Option<&[String]> {
        let has_keys = self.kind == "array" && self.list_type == "map" && !self.list_map_keys.is_empty();
        has_keys.then_some(&self.list_map_keys)
    }

    /// Converts JSON to a value of this schema, or returns the error that the JSON does not fit the schema.
    pub fn value<'a>(&'a self, json: &'a Json) -> Outcome<'a> {
        let refuse = |message: String| Err(Fault::error(message));
        if json.is_null() {
            return if self.nullable {
                Ok(Value::Null)
            } else {
                refuse("invalid data, got null for schema with nullable=false".into())
            };
        }
        if self.int_or_string {
            return match json {
                Json::String(text) => Ok(Value::String(Text::Borrowed(text))),
                Json::Number(number) if number.as_i64().is_some() => Ok(Value::from_json(json)),
                _ => refuse("invalid data, expected XIntOrString value to be either a string or integer".into()),
            };
        }
        match (self.kind.as_str(), json) {
            ("object", Json::Object(object)) => Ok(Value::Map(Map::Json(object, Some(self)))),
            ("object", _) => refuse("invalid data, expected a map for the provided schema with type=object".into()),
            ("array", Json::Array(_)) if self.items.is_none() => {
                refuse("invalid array type, expected Items with a non-empty Schema".into())
            }
            ("array", Json::Array(items)) => match self.list_type.as_str() {
                "" | "map" | "set" | "atomic" => Ok(Value::List(List::Json(items, Some(self)))),
                other => {
                    refuse(format!("invalid x-kubernetes-list-type, expected 'map', 'set' or 'atomic' but got {other}"))
                }
            },
            ("array", _) => refuse("invalid data, expected an array for the provided schema with type=array".into()),
            ("string", Json::String(text)) => self.text(text),
            ("string", other) => refuse(format!("invalid data, expected string, got {}", go_type(other))),
            ("number", Json::Number(number)) => Ok(Value::Double(match number.as_i64() {
                // JSON may write a number of type `number` as an integer.
                Some(whole) => whole as f64,
                None => number.as_f64().unwrap_or(f64::NAN),
            })),
            ("number", other) => refuse(format!("invalid data, expected float, got {}", go_type(other))),
            ("integer", Json::Number(number)) if number.as_i64().is_some() => Ok(Value::from_json(json)),
            ("integer", other) => refuse(format!("invalid data, expected int, got {}", go_type(other))),
            ("boolean", Json::Bool(value)) => Ok(Value::Bool(*value)),
            ("boolean", other) => refuse(format!("invalid data, expected bool, got {}", go_type(other))),
            // Without a type only the JSON itself is known.
            _ if self.preserves_unknown_fields => Ok(Value::Unknown(json)),
            (kind, _) => refuse(format!(
                "invalid type, expected object, array, number, integer, boolean or string, or no type with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields is true, got {kind}"
            )),
        }
    }

    fn text<'a>(&self, text: &'a str) -> Outcome<'a> {
        match self.format.as_str() {
            "duration" => go::parse_duration(text)
                .or_else(|| spoken_duration(text))
                .map(Value::Duration)
                .ok_or_else(|| Fault::error(format!("Invalid duration {text}: unable to parse {text} as duration"))),
            "date" => go::parse_rfc3339(&format!("{text}T00:00:00Z"))
                // Otherwise the text could bring its own time.
                .filter(|_| text.len() == 10)
                .map(Value::Timestamp)
                .ok_or_else(|| Fault::error(format!("Invalid date formatted string {text}: cannot parse"))),
            "date-time" => date_time(text)
                .map(Value::Timestamp)
                .ok_or_else(|| Fault::error(format!("Invalid date-time formatted string {text}: cannot parse"))),
            "byte" => base64::engine::general_purpose::STANDARD
                // Go's decoder ignores line ends.
                .decode(text.replace(['\r', '\n'], ""))
                .map(|octets| Value::Bytes(octets.into()))
                .map_err(|_| Fault::error(format!("Invalid byte formatted string {text}: illegal base64 data"))),
            _ => Ok(Value::String(Text::Borrowed(text))),
        }
    }
}

/// The type of decoded JSON as Go's `%T` prints it.
fn go_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.as_i64().is_some() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

/// Parses the second syntax of durations in the API: a number and a word, such as `3 days`.
fn spoken_duration(text: &str) -> Option<i64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let amount: i64 = text[..split].parse().ok()?;
    let unit = text[split..].trim_start();
    let nanos: i64 = match unit {
        "ns" | "nano" | "nanosecond" | "nanoseconds" => 1,
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
        "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "w" | "wk" | "week" | "weeks" => 604_800_000_000_000,
        _ => return None,
    };
    amount.checked_mul(nanos)
}

/// Parses RFC 3339. Without an offset the time is in UTC, and the empty text is the first second of 1970.
fn date_time(text: &str) -> Option<crate::value::Timestamp> {
    match text {
        "" => go::parse_rfc3339("1970-01-01T00:00:00Z"),
        text => go::parse_rfc3339(text).or_else(|| go::parse_rfc3339(&format!("{text}Z"))),
    }
}
