//! Go syntax of values, which kubectl prints when a template fails.

use rdd_meta::go_text::{plain_number, quote};
use serde_json::Value;

/// Formats like Go's `%#v`.
pub(crate) fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) => plain_number(number),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, field)| format!("{}:{}", quote(name), go_syntax(field))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}
