//! JSON with four blanks for each level, as Go's `MarshalIndent` writes it.

use rdd_meta::go_json;
use serde_json::Value;

/// Appends the text of a value that stands at this level. Recursion is as deep as the value.
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

/// The text of a value and a newline.
pub(crate) fn to_string(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text.push('\n');
    text
}

/// The orders of fields of a struct: of the outermost one under an empty name, of inner ones and their items under the name
/// of their field. Go writes structs in the order of their declaration.
pub(crate) type Orders = &'static [(&'static str, &'static [&'static str])];

/// Config maps, secrets and namespaces, where kubectl has structs for them.
pub(crate) const OBJECTS: Orders = &[
    (
        "",
        &["kind", "apiVersion", "metadata", "immutable", "data", "stringData", "binaryData", "type", "spec", "status"],
    ),
    ("metadata", &rdd_meta::metadata::FIELDS),
];

/// Lists of resources.
pub(crate) const RESOURCES: Orders = &[
    ("", &["kind", "apiVersion", "groupVersion", "resources"]),
    (
        "resources",
        &["name", "singularName", "namespaced", "group", "version", "kind", "verbs", "shortNames", "categories"],
    ),
];

/// The indented text of a struct and a newline.
pub(crate) fn to_string_as_struct(object: &Value, orders: Orders) -> String {
    let mut text = String::new();
    Struct { orders, indented: true }.write(&mut text, object, "", 0);
    text.push('\n');
    text
}

/// The same on one line, without the newline.
pub(crate) fn compact_as_struct(object: &Value, orders: Orders) -> String {
    let mut text = String::new();
    Struct { orders, indented: false }.write(&mut text, object, "", 0);
    text
}

/// The indented text of a value whose mappings are structs wherever they are found, and a newline. `order` gives the order of
/// fields of what is found under a field; fields that it does not name follow, by name.
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
    /// A value that is found under a field. What has no order of its own is written as any other value.
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
