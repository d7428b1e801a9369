//! The fast path of decoding: completes a value in place if it already has the form that Go would write.

use rdd_meta::time::Timestamp;
use serde_json::{Map, Value};

use super::{
    bytes,
    reader::{Reader, is_left_out, is_year_one},
};
use crate::{
    quantity,
    types::{self, Field, Kind, Struct, Type},
};

/// Adds what Go always writes to an object of the kind. Returns whether decoding would now return the object unchanged, without
/// findings or errors.
///
/// Returns false if finding out would take as long as decoding; the fields added until then are ones that decoding would add too.
/// Most objects qualify when they arrive, and again before they are stored, because only the server has set fields since.
pub(super) fn complete(kind: &Kind, object: &mut Value, keeps_empty: bool) -> bool {
    let Value::Object(entries) = object else { return false };
    let text = |name: &str| entries.get(name).and_then(Value::as_str).unwrap_or_default();
    let is_versioned = match text("apiVersion").split_once('/') {
        Some((group, version)) => !group.is_empty() && group == kind.group && version == kind.version,
        None => kind.group.is_empty() && text("apiVersion") == kind.version,
    };
    is_versioned && text("kind") == kind.kind && Form { keeps_empty }.structure(kind.structure(), entries)
}

#[derive(Clone, Copy)]
struct Form {
    keeps_empty: bool,
}

impl Form {
    fn structure(self, structure: &'static Struct, entries: &mut Map<String, Value>) -> bool {
        let mut absent = Reader::new(self.keeps_empty);
        let mut missing = Vec::new();
        let mut sent = entries.iter_mut().peekable();
        // Both are sorted by name, so an entry that no field consumes is unknown.
        let is_known = structure.fields.iter().all(|field| match sent.next_if(|(name, _)| *name == field.name) {
            Some((_, value)) => self.field(field, value),
            None => absent.zero(&field.kind).is_ok_and(|zero| {
                if !is_left_out(field, zero.as_ref()) {
                    missing.push((field.name, zero.unwrap_or_default()));
                }
                true
            }),
        });
        let is_known = is_known && sent.next().is_none();
        // Added only if every field matched, after the iteration that borrows `entries`.
        if is_known {
            entries.extend(missing.into_iter().map(|(name, zero)| (name.to_owned(), zero)));
        }
        is_known
    }

    /// Whether decoding keeps the field, and keeps its value.
    fn field(self, field: &'static Field, value: &mut Value) -> bool {
        if value.is_null() {
            // Null decodes like an absent field.
            let zero = Reader::new(self.keeps_empty).zero(&field.kind);
            return zero
                .is_ok_and(|zero| zero.as_ref().is_none_or(Value::is_null) && !is_left_out(field, zero.as_ref()));
        }
        !is_left_out(field, Some(value)) && self.value(&field.kind, value)
    }

    /// Whether decoding returns the non-null value unchanged.
    fn value(self, kind: &'static Type, value: &mut Value) -> bool {
        match (kind.underlying(), value) {
            (Type::Pointer(below), value) => self.value(below, value),
            (Type::List(below), Value::Array(items)) => {
                (self.keeps_empty || !items.is_empty()) && items.iter_mut().all(|item| self.element(below, item))
            }
            (Type::Map(below), Value::Object(entries)) => {
                (self.keeps_empty || !entries.is_empty())
                    && entries.values_mut().all(|entry| self.element(below, entry))
            }
            (Type::Struct(at), Value::Object(entries)) => self.structure(&types::structs()[*at], entries),
            (Type::Bool, Value::Bool(_))
            | (Type::String | Type::IntOrString, Value::String(_))
            | (Type::Float64, Value::Number(_))
            | (Type::FieldsV1 | Type::RawExtension | Type::Json, _) => true,
            (Type::Int64, Value::Number(number)) => number.is_i64(),
            (Type::Int32 | Type::IntOrString, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
            }
            (Type::Bytes, Value::String(text)) => bytes::canonical(text).is_ok_and(|canonical| canonical == *text),
            (Type::Quantity, Value::String(text)) => {
                quantity::canonical(text).is_ok_and(|canonical| canonical == *text)
            }
            (Type::Time, Value::String(text)) => is_time(text, Timestamp::parse_time, Timestamp::format_time),
            (Type::MicroTime, Value::String(text)) => {
                is_time(text, Timestamp::parse_micro_time, Timestamp::format_micro_time)
            }
            // The wrong type, or a type around a schema.
            _ => false,
        }
    }

    fn element(self, below: &'static Type, value: &mut Value) -> bool {
        !value.is_null() && self.value(below, value)
    }
}

fn is_time(
    text: &str,
    parse: fn(&str) -> Result<Timestamp, rdd_meta::time::ParseError>,
    format: fn(Timestamp) -> String,
) -> bool {
    parse(text).is_ok_and(|time| !is_year_one(time) && format(time) == text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::node::Node, *};

    /// A value of a type with all possible fields down to a depth.
    fn mk_value(kind: &Type, depth: usize) -> Value {
        match kind.underlying() {
            Type::Bool => json!(true),
            Type::Int32 | Type::Int64 | Type::IntOrString => json!(7),
            Type::Float64 => json!(0.5),
            Type::String => json!("text"),
            Type::Bytes => json!("AAEC"),
            Type::Time => json!("2026-11-15T10:48:32Z"),
            Type::MicroTime => json!("2026-11-15T10:48:32.000001Z"),
            Type::Quantity => json!("3Mi"),
            Type::FieldsV1 | Type::RawExtension | Type::Json => json!({"f:a": {}}),
            Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStringArray => json!({"type": "string"}),
            Type::Struct(at) => mk_struct(&types::structs()[*at], depth),
            Type::Pointer(below) | Type::Named(_, below) => mk_value(below, depth),
            Type::List(below) => json!([mk_value(below, depth)]),
            Type::Map(below) => json!({"key": mk_value(below, depth)}),
        }
    }

    fn mk_struct(structure: &Struct, depth: usize) -> Value {
        let fields = structure.fields.iter().filter(|_| depth > 0);
        fields.map(|field| (field.name.to_owned(), mk_value(&field.kind, depth - 1))).collect::<Map<_, _>>().into()
    }

    /// The decoded form of a struct with all possible fields down to a depth.
    fn mk_read(structure: &'static Struct, depth: usize) -> Value {
        let read = Reader::new(false).root(structure, Node::Value(&mk_struct(structure, depth)));
        read.expect("it is well formed").into()
    }

    /// The decoded value and the findings.
    fn read(
        structure: &'static Struct,
        value: &Value,
        keeps_empty: bool,
    ) -> (Option<Value>, Result<Vec<String>, String>) {
        let mut reader = Reader::new(keeps_empty);
        let read = reader.root(structure, Node::Value(value)).map(Value::Object);
        (read, reader.finish().map(|findings| findings.iter().map(ToString::to_string).collect()))
    }

    /// The completed value, and whether it is in Go's form.
    fn completed(structure: &'static Struct, value: &Value, keeps_empty: bool) -> (Value, bool) {
        let mut value = value.clone();
        let is_formed = value.as_object_mut().is_some_and(|entries| Form { keeps_empty }.structure(structure, entries));
        (value, is_formed)
    }

    /// Steps into a value: a field by name, or the first item of a list.
    fn step<'v>(value: &'v mut Value, name: &str) -> Option<&'v mut Value> {
        match value {
            Value::Array(items) => items.first_mut(),
            other => other.get_mut(name),
        }
    }

    /// The paths of everything in a value.
    fn paths(value: &Value) -> Vec<Vec<String>> {
        let below: Vec<(String, &Value)> = match value {
            Value::Object(entries) => entries.iter().map(|(name, value)| (name.clone(), value)).collect(),
            Value::Array(items) => items.iter().take(1).map(|item| (String::new(), item)).collect(),
            _ => Vec::new(),
        };
        let longer = below
            .into_iter()
            .flat_map(|(name, value)| paths(value).into_iter().map(move |path| [vec![name.clone()], path].concat()));
        std::iter::once(Vec::new()).chain(longer).collect()
    }

    #[test]
    fn what_was_completed_is_what_reading_makes_whatever_is_done_to_any_field_of_any_struct() {
        let odd = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(-1),
            json!(1_i64 << 40),
            json!(u64::MAX),
            json!(1.5),
            json!(0.0),
            json!(""),
            json!("x"),
            json!("1024Mi"),
            json!(" 1Mi"),
            json!("AAE"),
            json!("AA==\n"),
            json!("0001-01-01T00:00:00Z"),
            json!("2026-11-15T10:48:32+00:00"),
            json!("2026-11-15T10:48:32.5Z"),
            json!([]),
            json!([null]),
            json!([""]),
            json!({}),
            json!({"odd": null}),
            json!({"key": ""}),
            json!({"": [1]}),
        ];
        let (mut in_form, mut not) = (0, 0);
        let mut check = |structure: &'static Struct, value: &Value| {
            for keeps_empty in [false, true] {
                let expected = read(structure, value, keeps_empty);
                let (completed, is_formed) = completed(structure, value, keeps_empty);
                let name = structure.name;
                if is_formed {
                    in_form += 1;
                    assert_eq!((Some(completed), Ok(Vec::new())), expected, "{name} {keeps_empty}: {value}");
                } else {
                    not += 1;
                    // Then it is decoded, and what `complete` added must not change the result.
                    assert_eq!(read(structure, &completed, keeps_empty), expected, "{name} {keeps_empty}: {value}");
                }
            }
        };
        for structure in types::structs() {
            let whole = mk_read(structure, 1);
            check(structure, &whole);
            for path in paths(&whole) {
                let at = |value: &mut Value, change: &dyn Fn(&mut Value)| {
                    let found = path.iter().try_fold(value, |value, name| step(value, name));
                    change(found.expect("the path was found in it"));
                };
                for odd in &odd {
                    let mut changed = whole.clone();
                    at(&mut changed, &|value| *value = odd.clone());
                    check(structure, &changed);
                }
                let Value::Object(entries) = path.iter().fold(&whole, |value, name| match value {
                    Value::Array(items) => &items[0],
                    other => &other[name],
                }) else {
                    continue;
                };
                for name in entries.keys() {
                    let mut changed = whole.clone();
                    at(&mut changed, &|value| drop(value.as_object_mut().map(|entries| entries.remove(name))));
                    check(structure, &changed);
                }
            }
        }
        assert!(in_form > 10_000 && not > 10_000, "{in_form} in form, {not} not");
    }

    #[test]
    fn what_was_read_is_in_form_unless_a_schema_is_in_it() {
        for structure in types::structs() {
            for depth in 0..3 {
                let read = mk_read(structure, depth);
                let has_schema = structure.definition.contains("apiextensions");
                let is_formed = has_schema || completed(structure, &read, false) == (read.clone(), true);
                assert!(is_formed, "{}: {read}", structure.name);
            }
        }
    }

    #[test]
    fn an_object_of_another_type_is_not_in_form() {
        let of = |api_version: &str, kind: &str| {
            let config_map = types::kind("", "v1", "ConfigMap").expect("it is there");
            complete(config_map, &mut json!({"apiVersion": api_version, "kind": kind}), false)
        };
        assert!(of("v1", "ConfigMap"));
        for (api_version, kind) in [
            ("/v1", "ConfigMap"),
            ("v1", "Secret"),
            ("v1/", "ConfigMap"),
            ("a/v1", "ConfigMap"),
            ("", "ConfigMap"),
            ("v1", ""),
        ] {
            assert!(!of(api_version, kind), "{api_version} {kind}");
        }
        let lease = types::kind("coordination.k8s.io", "v1", "Lease").expect("it is there");
        let of = |api_version: &str| {
            complete(lease, &mut json!({"apiVersion": api_version, "kind": "Lease", "metadata": {}}), false)
        };
        assert_eq!((of("coordination.k8s.io/v1"), of("v1"), of("coordination.k8s.io/v1beta1")), (true, false, false));
    }
}
