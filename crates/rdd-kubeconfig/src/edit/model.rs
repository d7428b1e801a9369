//! Applies a change to the parsed value: the text editor must arrive at exactly this result.

use serde_json::{Map, Value, json};

use super::{Change, List, Others};

/// The key of the current context.
pub(super) const CURRENT: &str = "current-context";

/// The first content of an empty file, as kubectl writes it.
pub(super) const SKELETON: &[&str] = &[
    "apiVersion: v1",
    "clusters: []",
    "contexts: []",
    "current-context: \"\"",
    "kind: Config",
    "preferences: {}",
    "users: []",
];

/// The value after the change; `None` if the value is not that of a kubeconfig in which the change is possible.
pub(super) fn apply(before: &Value, change: &Change) -> Option<Value> {
    let mut after = before.clone();
    match change {
        Change::Put { list, name, fields, others } => put(&mut after, *list, name, fields, *others)?,
        Change::Remove { list, name } => {
            if let Some(Value::Array(entries)) = after.get_mut(list.key()) {
                entries.retain(|entry| !is_named(entry, name));
            }
        }
        Change::SetCurrent(name) => {
            let current = after.get(CURRENT).and_then(Value::as_str).unwrap_or_default();
            if current != name {
                root(&mut after)?.insert(CURRENT.to_owned(), json!(name));
            }
        }
    }
    Some(after)
}

fn put(after: &mut Value, list: List, name: &str, fields: &[(&'static str, String)], others: Others) -> Option<()> {
    let entries = root(after)?.entry(list.key()).or_insert(Value::Null);
    if entries.is_null() {
        *entries = json!([]);
    }
    let entries = entries.as_array_mut()?;
    let mut is_first = true;
    entries.retain(|entry| !is_named(entry, name) || std::mem::take(&mut is_first));
    if is_first {
        entries.push(json!({"name": name}));
    }
    let entry = entries.iter_mut().find(|entry| is_named(entry, name))?.as_object_mut()?;
    let inner = entry.entry(list.inner()).or_insert(Value::Null);
    if !inner.is_object() {
        *inner = json!({});
    }
    let inner = inner.as_object_mut()?;
    inner.retain(|field, _| others.keeps(field));
    inner.extend(fields.iter().map(|(field, text)| ((*field).to_owned(), json!(text))));
    Some(())
}

fn root(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = rdd_yaml::read(&SKELETON.join("\n")).expect("a constant that is YAML").value;
    }
    value.as_object_mut()
}

/// Whether an entry of a list has this name.
pub(super) fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str) == Some(name)
}
