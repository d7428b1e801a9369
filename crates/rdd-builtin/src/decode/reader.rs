//! The decoder: one pass over a value, directed by the Go types, that produces what Go would write.

use rdd_meta::{go_json, time::Timestamp};
use rdd_schema::strict::{Finding, Findings};
use serde_json::{Map, Value};

use super::{
    bytes,
    node::{Entries, Items, Node, View},
};
use crate::{
    quantity,
    types::{self, Field, Struct, Type},
};

/// Go's zero time, as a Unix time in seconds.
const YEAR_ONE: i64 = -62_135_596_800;

/// Go's decoding error.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Complaint {
    /// A value of the wrong type; owner and field are empty at the root.
    Type { found: String, owner: &'static str, field: String, wanted: String },
    /// Another error with this message.
    Text(String),
}

/// Decoding cannot continue, because a type with custom decoding returned an error.
#[derive(Debug)]
pub(super) struct Stop(Box<Complaint>);

/// The decoder with its findings so far.
#[derive(Debug)]
pub(super) struct Reader {
    findings: Findings,
    /// The first error.
    complaint: Option<Complaint>,
    /// Whether to look for unknown fields, which is not done inside types with custom decoding.
    strict: bool,
    keeps_empty: bool,
    /// The current path in the format of findings.
    path: String,
    /// The current path in the format of errors.
    owner: &'static str,
    fields: Vec<&'static str>,
}

/// A decoded value; `None` is Go's nil.
type Read = Result<Option<Value>, Stop>;
/// The decoded fields by name.
type Sent = Vec<(&'static str, Option<Value>)>;

impl Reader {
    pub(super) fn new(keeps_empty: bool) -> Self {
        Self {
            findings: Findings::default(),
            complaint: None,
            strict: true,
            keeps_empty,
            path: String::new(),
            owner: "",
            fields: Vec::new(),
        }
    }

    /// Decodes the root struct, as far as possible.
    pub(super) fn root(&mut self, structure: &'static Struct, body: Node<'_>) -> Option<Map<String, Value>> {
        let entries = match body.view() {
            View::Object(entries) => entries,
            _ => Entries::none(),
        };
        match self.structure(structure, entries, None) {
            Ok(fields) => Some(fields),
            Err(Stop(complaint)) => {
                // An error of custom decoding takes precedence over an earlier error.
                self.complaint = Some(*complaint);
                None
            }
        }
    }

    /// The findings, or the error message.
    pub(super) fn finish(self) -> Result<Vec<Finding>, String> {
        match self.complaint {
            None => Ok(self.findings.into_vec()),
            Some(complaint) => Err(complaint.text()),
        }
    }

    /// Decodes into a struct; `before` is the value of an earlier field with the same name.
    fn structure(
        &mut self,
        structure: &'static Struct,
        entries: Entries<'_>,
        before: Option<Map<String, Value>>,
    ) -> Result<Map<String, Value>, Stop> {
        let mut before = before.unwrap_or_default();
        let in_order = matches!(entries, Entries::Values(_));
        let mut sent = Sent::new();
        for (name, node) in entries {
            let Some(field) = structure.field(name) else {
                self.is_unknown(name);
                continue;
            };
            let again = if in_order { None } else { sent.iter().position(|(name, _)| *name == field.name) };
            let there = match again {
                None => before.remove(name),
                Some(at) => {
                    self.is_duplicate(name);
                    sent.remove(at).1
                }
            };
            sent.push((field.name, self.field(structure, field, node, there)?));
        }
        if !in_order {
            sent.sort_by_key(|(name, _)| *name);
        }
        self.completed(structure, sent, before)
    }

    /// The complete struct: decoded fields, fields that were there before, and zero values for the rest.
    #[inline(never)]
    fn completed(
        &mut self,
        structure: &'static Struct,
        sent: Sent,
        mut before: Map<String, Value>,
    ) -> Result<Map<String, Value>, Stop> {
        let mut sent = sent.into_iter().peekable();
        let mut out = Map::new();
        for field in structure.fields {
            // Both are sorted by name.
            let read = match sent.next_if(|(name, _)| *name == field.name) {
                Some((_, read)) => read,
                None => match before.remove(field.name) {
                    Some(before) => Some(before),
                    None => self.zero(&field.kind)?,
                },
            };
            if !is_left_out(field, read.as_ref()) {
                out.insert(field.name.to_owned(), read.unwrap_or_default());
            }
        }
        Ok(out)
    }

    fn field(
        &mut self,
        structure: &'static Struct,
        field: &'static Field,
        node: Node<'_>,
        before: Option<Value>,
    ) -> Read {
        let (owner, depth, length) = (self.owner, self.fields.len(), self.path.len());
        self.fields.extend(field.via.split('.').filter(|name| !name.is_empty()));
        self.fields.push(field.name);
        self.owner = structure.name;
        self.enter(field.name);
        let read = self.value(&field.kind, node, before)?;
        self.owner = owner;
        self.fields.truncate(depth);
        self.path.truncate(length);
        Ok(read)
    }

    /// Go's zero value of a type.
    pub(super) fn zero(&mut self, kind: &Type) -> Read {
        Ok(match kind.underlying() {
            Type::Bool | Type::SchemaOrBool => Some(false.into()),
            Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString => Some(0.into()),
            Type::String => Some("".into()),
            Type::Quantity => Some("0".into()),
            Type::Struct(_) => {
                let structure = kind.underlying().structure().expect("it is one");
                Some(self.structure(structure, Entries::none(), None)?.into())
            }
            Type::Bytes | Type::Pointer(_) | Type::List(_) | Type::Map(_) | Type::Named(..) => None,
            Type::Time
            | Type::MicroTime
            | Type::FieldsV1
            | Type::RawExtension
            | Type::Json
            | Type::SchemaOrArray
            | Type::SchemaOrStringArray => Some(Value::Null),
        })
    }

    /// Descends to the value; leaves are decoded in another function, which keeps the recursion's stack frames small.
    fn value(&mut self, kind: &'static Type, node: Node<'_>, before: Option<Value>) -> Read {
        match (kind.underlying(), node.view()) {
            (Type::Pointer(_), View::Leaf(Value::Null)) => Ok(None),
            (Type::Pointer(below), _) => self.value(below, node, before),
            (Type::List(below), View::Array(items)) => self.list(below, items, before),
            (Type::Map(below), View::Object(entries)) => self.map(below, entries, before),
            (Type::Struct(at), View::Object(entries)) => {
                let before = before.and_then(fields);
                self.structure(&types::structs()[*at], entries, before).map(|fields| Some(fields.into()))
            }
            (Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStringArray, _) => self.schemas(kind, node),
            _ => self.leaf(kind, node, before),
        }
    }

    #[inline(never)]
    fn leaf(&mut self, kind: &'static Type, node: Node<'_>, before: Option<Value>) -> Read {
        let value = &*node.value();
        match (kind.underlying(), value) {
            (Type::Bool, Value::Bool(_)) | (Type::String, Value::String(_)) => Ok(Some(value.clone())),
            (Type::Int32 | Type::Int64, Value::Number(number)) => self.integer(kind, number),
            (Type::Float64, Value::Number(_)) => Ok(Some(value.clone())),
            (Type::Bytes, Value::String(text)) => Ok(self.bytes(text)),
            (Type::Bytes, Value::Array(items)) => Ok(Some(self.bytes_of_numbers(items).into())),
            (Type::Time, value) => self.time(value, Timestamp::parse_time, Timestamp::format_time),
            (Type::MicroTime, value) => self.time(value, Timestamp::parse_micro_time, Timestamp::format_micro_time),
            (Type::Quantity, value) => self.quantity(value),
            (Type::IntOrString, value) => self.int_or_string(value),
            (Type::FieldsV1 | Type::RawExtension | Type::Json, value) => Ok(Some(value.clone())),
            // For these types null keeps the earlier value; for all others it clears the value.
            (Type::Bool | Type::Int32 | Type::Int64 | Type::Float64 | Type::String | Type::Struct(_), Value::Null)
                if before.is_some() =>
            {
                Ok(before)
            }
            (_, Value::Null) => self.zero(kind),
            (_, other) => {
                self.complain(go_json::type_name(other), kind);
                self.zero(kind)
            }
        }
    }

    fn list(&mut self, below: &'static Type, items: Items<'_>, before: Option<Value>) -> Read {
        let length = self.path.len();
        let mut before = match before {
            Some(Value::Array(before)) => before.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let mut out = Vec::new();
        for (index, item) in items.enumerate() {
            self.path.push_str(&format!("[{index}]"));
            out.push(self.element(below, item, before.next())?);
            self.path.truncate(length);
        }
        Ok((self.keeps_empty || !out.is_empty()).then(|| out.into()))
    }

    fn map(&mut self, below: &'static Type, entries: Entries<'_>, before: Option<Value>) -> Read {
        let length = self.path.len();
        let mut out = Map::new();
        for (key, entry) in entries {
            if out.contains_key(key) {
                self.is_duplicate(key);
            }
            self.enter(key);
            let read = self.element(below, entry, None)?;
            self.path.truncate(length);
            out.insert(key.to_owned(), read);
        }
        if let Some(mut before) = before.and_then(fields) {
            before.append(&mut out);
            out = before;
        }
        Ok((self.keeps_empty || !out.is_empty()).then(|| out.into()))
    }

    fn element(&mut self, below: &'static Type, node: Node<'_>, before: Option<Value>) -> Result<Value, Stop> {
        let read = self.value(below, node, before)?;
        Ok(match (read, below.underlying()) {
            (Some(value), _) => value,
            // After protobuf storage, absent bytes are empty.
            (None, Type::Bytes) if !self.keeps_empty => "".into(),
            (None, _) => Value::Null,
        })
    }

    fn integer(&mut self, kind: &Type, number: &serde_json::Number) -> Read {
        let fits = |value: &i64| *kind.underlying() == Type::Int64 || i32::try_from(*value).is_ok();
        match number.as_i64().filter(fits) {
            Some(value) => Ok(Some(value.into())),
            None => {
                self.complain(format!("number {number}"), kind);
                self.zero(kind)
            }
        }
    }

    fn bytes(&mut self, text: &str) -> Option<Value> {
        match bytes::canonical(text) {
            Ok(text) => Some(text.into()),
            Err(at) => {
                self.remember(Complaint::Text(format!("illegal base64 data at input byte {at}")));
                None
            }
        }
    }

    /// Go also accepts a list of numbers as bytes.
    fn bytes_of_numbers(&mut self, items: &[Value]) -> String {
        let mut octets = Vec::with_capacity(items.len());
        for item in items {
            let octet = item.as_u64().and_then(|number| u8::try_from(number).ok());
            match (octet, item) {
                (Some(_), _) | (_, Value::Null) => {}
                (None, Value::Number(number)) => self.remember(self.wrong(format!("number {number}"), "uint8")),
                (None, other) => self.remember(self.wrong(go_json::type_name(other), "uint8")),
            }
            octets.push(octet.unwrap_or(0));
        }
        bytes::encode(&octets)
    }

    fn time(
        &mut self,
        value: &Value,
        parse: fn(&str) -> Result<Timestamp, rdd_meta::time::ParseError>,
        format: fn(Timestamp) -> String,
    ) -> Read {
        let text = match value {
            Value::Null => return Ok(Some(Value::Null)),
            Value::String(text) => text,
            other => return Err(self.stop(go_json::type_name(other), "string")),
        };
        let time = parse(text).map_err(|error| Stop(Box::new(Complaint::Text(error.to_string()))))?;
        Ok(Some(if is_year_one(time) { Value::Null } else { format(time).into() }))
    }

    fn quantity(&mut self, value: &Value) -> Read {
        let text = match value {
            Value::Null => return Ok(Some("0".into())),
            Value::String(text) => text.clone(),
            other => rdd_meta::go_json::to_string(other),
        };
        match quantity::canonical(text.trim()) {
            Ok(text) => Ok(Some(text.into())),
            Err(quantity::Wrong(words)) => Err(Stop(Box::new(Complaint::Text(words.to_owned())))),
        }
    }

    fn int_or_string(&mut self, value: &Value) -> Read {
        match value {
            Value::String(_) => Ok(Some(value.clone())),
            Value::Null => Ok(Some(0.into())),
            Value::Number(number) => match number.as_i64().filter(|value| i32::try_from(*value).is_ok()) {
                Some(value) => Ok(Some(value.into())),
                None => Err(self.stop(format!("number {number}"), "int32")),
            },
            other => Err(self.stop(go_json::type_name(other), "int32")),
        }
    }

    /// Decodes the types around a schema, which start a new, non-strict decoding of their content.
    fn schemas(&mut self, kind: &Type, node: Node<'_>) -> Read {
        let or_bool = *kind.underlying() == Type::SchemaOrBool;
        match node.view() {
            View::Object(entries) => {
                let read = self.anew(|inner| inner.structure(types::json_schema_props(), entries, None))?;
                Ok(Some(read.into()))
            }
            View::Leaf(value @ Value::Bool(_)) if or_bool => Ok(Some(value.clone())),
            _ if or_bool => Err(Stop(Box::new(Complaint::Text("boolean or JSON schema expected".to_owned())))),
            View::Array(items) if *kind.underlying() == Type::SchemaOrStringArray => {
                let read = self.anew(|inner| inner.list(&Type::String, items, None))?;
                Ok(Some(read.filter(|names| names != &Value::Array(Vec::new())).unwrap_or_default()))
            }
            View::Array(items) => {
                let read = self.anew(|inner| inner.list(types::json_schema_props_type(), items, None))?;
                Ok(Some(read.filter(|schemas| schemas != &Value::Array(Vec::new())).unwrap_or_default()))
            }
            View::Leaf(_) => Ok(Some(Value::Null)),
        }
    }

    /// Decodes with a fresh context, and reports errors at the outer position.
    fn anew<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        let outer = Box::new(std::mem::replace(self, Self { strict: false, ..Self::new(self.keeps_empty) }));
        let outcome = read(self);
        self.back_to(*outer, outcome)
    }

    #[inline(never)]
    fn back_to<T>(&mut self, outer: Self, outcome: Result<T, Stop>) -> Result<T, Stop> {
        let inner = std::mem::replace(self, outer);
        let complaint = match (&outcome, inner.complaint) {
            (Err(Stop(complaint)), _) => Some((**complaint).clone()),
            (Ok(_), complaint) => complaint,
        };
        match complaint {
            None => outcome,
            Some(Complaint::Type { found, field, wanted, .. }) => {
                let mut place = self.fields.join(".");
                if !field.is_empty() {
                    place = format!("{place}.{field}");
                }
                Err(Stop(Box::new(Complaint::Type { found, owner: self.owner, field: place, wanted })))
            }
            Some(text) => Err(Stop(Box::new(text))),
        }
    }

    fn enter(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
    }

    fn is_unknown(&mut self, name: &str) {
        self.find(name, Finding::UnknownMember);
    }

    fn is_duplicate(&mut self, name: &str) {
        self.find(name, Finding::DuplicateField);
    }

    fn find(&mut self, name: &str, finding: fn(String) -> Finding) {
        if self.strict && !self.findings.is_full() {
            let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
            self.findings.add(finding(path));
        }
    }

    fn wrong(&self, found: impl Into<String>, wanted: &str) -> Complaint {
        Complaint::Type {
            found: found.into(),
            owner: self.owner,
            field: self.fields.join("."),
            wanted: wanted.to_owned(),
        }
    }

    fn complain(&mut self, found: impl Into<String>, kind: &Type) {
        let complaint = self.wrong(found, &kind.go_name());
        self.remember(complaint);
    }

    fn stop(&self, found: impl Into<String>, wanted: &str) -> Stop {
        Stop(Box::new(self.wrong(found, wanted)))
    }

    fn remember(&mut self, complaint: Complaint) {
        self.complaint.get_or_insert(complaint);
    }
}

impl Complaint {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Type { found, owner, field, wanted } if owner.is_empty() && field.is_empty() => {
                format!("json: cannot unmarshal {found} into Go value of type {wanted}")
            }
            Self::Type { found, owner, field, wanted } => {
                format!("json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {wanted}")
            }
        }
    }
}

fn fields(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Whether a time is Go's zero time.
pub(super) fn is_year_one(time: Timestamp) -> bool {
    time.seconds() == YEAR_ONE && time.nanoseconds() == 0
}

/// Whether Go omits the field with this value.
pub(super) fn is_left_out(field: &Field, read: Option<&Value>) -> bool {
    let is_zero = field.omit_zero && read.is_none_or(Value::is_null);
    is_zero || field.omit_empty && is_empty(&field.kind, read)
}

/// Whether Go omits the value because of `omitempty`.
fn is_empty(kind: &Type, read: Option<&Value>) -> bool {
    match (kind.underlying(), read) {
        (_, None) => true,
        (Type::Bool, Some(value)) => value == false,
        (Type::Int32 | Type::Int64, Some(value)) => value.as_i64() == Some(0),
        (Type::Float64, Some(value)) => value.as_f64() == Some(0.0),
        (Type::String | Type::Bytes, Some(value)) => value == "",
        (Type::List(_), Some(value)) => value.as_array().is_some_and(Vec::is_empty),
        (Type::Map(_), Some(value)) => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}
