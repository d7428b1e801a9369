//! JSON output indented by four spaces, like Go's `MarshalIndent`.

use rdd_meta::go_json;
use serde_json::Value;

/// Appends a value at an indentation level. Recurses as deep as the value.
pub(crate) fn write(text: &mut String, value: &Value, level: usize) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                next_line(text, index, level + 1);
                write(text, item, level + 1);
            }
            end_line(text, level);
            text.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            text.push('{');
            for (index, (name, field)) in fields.iter().enumerate() {
                next_line(text, index, level + 1);
                go_json::write_string(text, name);
                text.push_str(": ");
                write(text, field, level + 1);
            }
            end_line(text, level);
            text.push('}');
        }
        scalar => go_json::write_value(text, scalar),
    }
}

fn next_line(text: &mut String, index: usize, level: usize) {
    if index > 0 {
        text.push(',');
    }
    end_line(text, level);
}

fn end_line(text: &mut String, level: usize) {
    text.push('\n');
    (0..level).for_each(|_| text.push_str("    "));
}

/// The indented text of a value with a final newline.
pub(crate) fn to_string(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text.push('\n');
    text
}

/// The field orders of a struct, because Go writes struct fields in the order of their declaration: the outermost struct has an
/// empty name, inner structs and list items have the name of their field.
pub(crate) type Orders = &'static [(&'static str, &'static [&'static str])];

/// The field order of config maps, secrets and namespaces, which kubectl has as Go structs.
pub(crate) const OBJECTS: Orders = &[
    (
        "",
        &["kind", "apiVersion", "metadata", "immutable", "data", "stringData", "binaryData", "type", "spec", "status"],
    ),
    ("metadata", &rdd_meta::metadata::FIELDS),
];

/// The field order of resource lists.
pub(crate) const RESOURCES: Orders = &[
    ("", &["kind", "apiVersion", "groupVersion", "resources"]),
    (
        "resources",
        &["name", "singularName", "namespaced", "group", "version", "kind", "verbs", "shortNames", "categories"],
    ),
];

/// The indented text of a struct with a final newline.
pub(crate) fn to_string_as_struct(object: &Value, orders: Orders) -> String {
    let mut text = String::new();
    Struct { orders, indented: true }.write(&mut text, object, "", 0);
    text.push('\n');
    text
}

/// The compact text of a struct, without a newline.
pub(crate) fn compact_as_struct(object: &Value, orders: Orders) -> String {
    let mut text = String::new();
    Struct { orders, indented: false }.write(&mut text, object, "", 0);
    text
}

/// The indented text of a value whose objects are all Go structs, with a final newline. `order` returns the field order of the
/// struct under a field; fields that it does not name follow, sorted by name.
pub(crate) fn to_string_in_order(value: &Value, order: &dyn Fn(&str) -> &'static [&'static str]) -> String {
    let mut text = String::new();
    write_in_order(&mut text, value, "", order, 0);
    text.push('\n');
    text
}

fn write_in_order(
    text: &mut String,
    value: &Value,
    under: &str,
    order: &dyn Fn(&str) -> &'static [&'static str],
    level: usize,
) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let known = order(under);
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| known.iter().position(|known| known == name).unwrap_or(known.len()));
            text.push('{');
            for (index, (name, field)) in fields.into_iter().enumerate() {
                next_line(text, index, level + 1);
                go_json::write_string(text, name);
                text.push_str(": ");
                write_in_order(text, field, name, order, level + 1);
            }
            end_line(text, level);
            text.push('}');
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                next_line(text, index, level + 1);
                write_in_order(text, item, under, order, level + 1);
            }
            end_line(text, level);
            text.push(']');
        }
        value => write(text, value, level),
    }
}

struct Struct {
    orders: Orders,
    indented: bool,
}

impl Struct {
    /// Writes the value of a field. A value without a field order is written generically.
    fn write(&self, text: &mut String, value: &Value, under: &str, level: usize) {
        let order = self.orders.iter().find(|(name, _)| *name == under).map(|(_, order)| *order);
        match (value, order) {
            (Value::Object(fields), Some(order)) if !fields.is_empty() && level < 3 => {
                let place = |name: &str| order.iter().position(|known| *known == name).unwrap_or(order.len());
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| place(name));
                text.push('{');
                for (index, (name, field)) in fields.into_iter().enumerate() {
                    self.separate(text, index, level + 1);
                    go_json::write_string(text, name);
                    text.push_str(if self.indented { ": " } else { ":" });
                    let inner = if level == 0 { name.as_str() } else { "nothing" };
                    self.write(text, field, inner, level + 1);
                }
                self.end(text, level);
                text.push('}');
            }
            (Value::Array(items), Some(_)) if !items.is_empty() && level == 1 => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.separate(text, index, level + 1);
                    self.write(text, item, under, level + 1);
                }
                self.end(text, level);
                text.push(']');
            }
            (value, _) if self.indented => write(text, value, level),
            (value, _) => go_json::write_value(text, value),
        }
    }

    fn separate(&self, text: &mut String, index: usize, level: usize) {
        if index > 0 {
            text.push(',');
        }
        self.end(text, level);
    }

    fn end(&self, text: &mut String, level: usize) {
        if self.indented {
            end_line(text, level);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn structs_are_written_in_the_order_of_their_fields() {
        let object = json!({"apiVersion": "v1", "data": {"name": 1, "a": 2}, "kind": "K", "metadata": {"labels": {}, "name": "x"}});
        let compact = compact_as_struct(&object, OBJECTS);
        assert_eq!(
            compact,
            r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"x","labels":{}},"data":{"a":2,"name":1}}"#
        );
        assert!(to_string_as_struct(&object, OBJECTS).starts_with("{\n    \"kind\": \"K\",\n    \"apiVersion\""));
    }

    #[test]
    fn html_is_escaped_and_empty_values_stay_on_their_line() {
        assert_eq!(
            to_string(&json!({"a": "<&>", "b": [], "c": {}})),
            "{\n    \"a\": \"\\u003c\\u0026\\u003e\",\n    \"b\": [],\n    \"c\": {}\n}\n"
        );
    }
}
