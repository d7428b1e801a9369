//! The fields of kubeconfig entries with their types, in the order in which client-go writes them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::edit::List;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldType {
    Text,
    /// Bytes in base64.
    Data,
    Bool,
    Texts,
    /// Lists of strings by name.
    TextsByName,
    AuthProvider,
    Exec,
    Extensions,
}

type Field = (&'static str, FieldType);

const CLUSTER: &[Field] = &[
    ("server", FieldType::Text),
    ("tls-server-name", FieldType::Text),
    ("insecure-skip-tls-verify", FieldType::Bool),
    ("certificate-authority", FieldType::Text),
    ("certificate-authority-data", FieldType::Data),
    ("proxy-url", FieldType::Text),
    ("disable-compression", FieldType::Bool),
    ("extensions", FieldType::Extensions),
];
const USER: &[Field] = &[
    ("client-certificate", FieldType::Text),
    ("client-certificate-data", FieldType::Data),
    ("client-key", FieldType::Text),
    ("client-key-data", FieldType::Data),
    ("token", FieldType::Text),
    ("tokenFile", FieldType::Text),
    ("as", FieldType::Text),
    ("as-uid", FieldType::Text),
    ("as-groups", FieldType::Texts),
    ("as-user-extra", FieldType::TextsByName),
    ("username", FieldType::Text),
    ("password", FieldType::Text),
    ("auth-provider", FieldType::AuthProvider),
    ("exec", FieldType::Exec),
    ("extensions", FieldType::Extensions),
];
const CONTEXT: &[Field] = &[
    ("cluster", FieldType::Text),
    ("user", FieldType::Text),
    ("namespace", FieldType::Text),
    ("extensions", FieldType::Extensions),
];
const EXEC: &[Field] = &[
    ("command", FieldType::Text),
    ("args", FieldType::Texts),
    ("env", FieldType::Extensions),
    ("apiVersion", FieldType::Text),
    ("installHint", FieldType::Text),
    ("provideClusterInfo", FieldType::Bool),
    ("interactiveMode", FieldType::Text),
];

/// The fields of a cluster entry, in client-go's order.
pub const CLUSTER_FIELDS: &[&str] = &names::<{ CLUSTER.len() }>(CLUSTER);
/// The fields of a user entry, in client-go's order.
pub const USER_FIELDS: &[&str] = &names::<{ USER.len() }>(USER);
/// The fields of a context entry, in client-go's order.
pub const CONTEXT_FIELDS: &[&str] = &names::<{ CONTEXT.len() }>(CONTEXT);
/// The fields of an exec plugin, in client-go's order.
pub const EXEC_FIELDS: &[&str] = &names::<{ EXEC.len() }>(EXEC);

const fn names<const N: usize>(fields: &[Field]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = fields[at].0;
        at += 1;
    }
    names
}

/// The known fields of an entry that are not the zero value of their type; like Go, it drops unknown fields.
///
/// # Errors
/// When a field has the wrong type. The message names the field and quotes no value.
pub(super) fn normalize(list: List, entry: &Value, place: &str) -> Result<Map<String, Value>, String> {
    match list {
        List::Clusters => {
            let mut fields = known(CLUSTER, entry, place)?;
            fields.entry("server").or_insert(json!(""));
            Ok(fields)
        }
        List::Users => known(USER, entry, place),
        List::Contexts => {
            let mut fields = known(CONTEXT, entry, place)?;
            fields.entry("cluster").or_insert(json!(""));
            fields.entry("user").or_insert(json!(""));
            Ok(fields)
        }
    }
}

fn known(table: &[Field], value: &Value, place: &str) -> Result<Map<String, Value>, String> {
    let empty = Map::new();
    let given = match value {
        Value::Null => &empty,
        Value::Object(given) => given,
        _ => return Err(format!("{place} must be a mapping")),
    };
    let mut fields = Map::new();
    for (name, kind) in table {
        let Some(value) = given.get(*name).filter(|value| !value.is_null()) else { continue };
        if let Some(value) = checked(*kind, value, &format!("{place}.{name}"))? {
            fields.insert((*name).to_owned(), value);
        }
    }
    Ok(fields)
}

/// Checks the type of a field's value; `None` for the zero value of the type.
fn checked(kind: FieldType, value: &Value, place: &str) -> Result<Option<Value>, String> {
    let wrong = |wanted: &str| Err(format!("{place} must be {wanted}"));
    match (kind, value) {
        (FieldType::Text, Value::String(text)) => Ok((!text.is_empty()).then(|| value.clone())),
        (FieldType::Text, _) => wrong("a string"),
        (FieldType::Data, Value::String(text)) => match STANDARD.decode(text.replace(['\n', '\r'], "")) {
            Ok(bytes) => Ok((!bytes.is_empty()).then(|| json!(STANDARD.encode(bytes)))),
            Err(_) => wrong("base64"),
        },
        (FieldType::Data, _) => wrong("base64"),
        (FieldType::Bool, Value::Bool(is_on)) => Ok(is_on.then(|| value.clone())),
        (FieldType::Bool, _) => wrong("true or false"),
        (FieldType::Texts, Value::Array(items)) if items.iter().all(Value::is_string) => {
            Ok((!items.is_empty()).then(|| value.clone()))
        }
        (FieldType::Texts, _) => wrong("a list of strings"),
        (FieldType::TextsByName, Value::Object(lists)) => {
            let is_list = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_string));
            if lists.values().all(is_list) {
                Ok((!lists.is_empty()).then(|| value.clone()))
            } else {
                wrong("lists of strings")
            }
        }
        (FieldType::TextsByName, _) => wrong("a mapping to lists of strings"),
        (FieldType::AuthProvider, Value::Object(_)) => Ok(Some(value.clone())),
        (FieldType::AuthProvider, _) => wrong("a mapping"),
        (FieldType::Exec, value) => exec(value, place).map(Some),
        (FieldType::Extensions, Value::Array(items)) if items.iter().all(Value::is_object) => {
            Ok((!items.is_empty()).then(|| value.clone()))
        }
        (FieldType::Extensions, _) => wrong("a list of mappings"),
    }
}

/// An exec plugin with client-go's defaults and with the fields that client-go always writes.
fn exec(value: &Value, place: &str) -> Result<Value, String> {
    let mut fields = known(EXEC, value, place)?;
    let version = fields.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    if version.starts_with("client.authentication.k8s.io/") && version != "client.authentication.k8s.io/v1" {
        // Versions before v1 lack this field, and their plugins may read standard input.
        fields.entry("interactiveMode").or_insert(json!("IfAvailable"));
    }
    fields.entry("command").or_insert(json!(""));
    fields.entry("args").or_insert(Value::Null);
    fields.entry("env").or_insert(Value::Null);
    fields.entry("provideClusterInfo").or_insert(json!(false));
    let env = fields["env"].as_array().into_iter().flatten();
    if !env.flat_map(|variable| [&variable["name"], &variable["value"]]).all(|text| text.is_string() || text.is_null())
    {
        return Err(format!("{place}.env must have strings for names and values"));
    }
    Ok(Value::Object(fields))
}
