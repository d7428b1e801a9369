//! Reads and writes the entries of `metadata.managedFields`.

use super::{
    fields_v1::FieldsError,
    set::Set,
    time::Timestamp,
    updater::{Owners, VersionedSet},
};
use rdd_meta::{go_json, go_text};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The kind of request by which a manager got its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an owner: entries with the same identity are one owner. An owner by apply is the same in every
/// version, so its version is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
}

impl Identity {
    /// Creates an identity; for an apply, the version is ignored.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Upstream's manager identifier, by which it sorts owners.
    pub(super) fn to_json(&self) -> String {
        let fields = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        let mut text = String::new();
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(if text.is_empty() { "{" } else { "," });
            go_json::write_string(&mut text, name);
            text.push(':');
            go_json::write_string(&mut text, value);
        }
        text.push('}');
        text
    }
}

/// Why an entry is invalid. The messages are upstream's, except for that of the last.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    #[error("operation must be `Apply` or `Update`")]
    BadOperation,
    #[error("apiVersion must not be empty")]
    NoApiVersion,
    #[error("missing fieldsType in managed fields entry {index}")]
    NoFieldsType { index: usize },
    #[error("invalid fieldsType {} in managed fields entry {index}", go_text::quote(found))]
    BadFieldsType { found: String, index: usize },
    #[error("error decoding versioned set from managed fields entry {index}: error decoding set: {source}")]
    BadFields {
        index: usize,
        #[source]
        source: FieldsError,
    },
}

/// The owners of an object's fields, and when each last changed a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managed {
    pub owners: Owners,
    pub times: BTreeMap<Identity, Timestamp>,
}

/// One item of `metadata.managedFields` as it is stored; absent strings are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Entry {
    manager: String,
    operation: String,
    api_version: String,
    time: Option<Timestamp>,
    fields_type: String,
    fields: Option<Value>,
    subresource: String,
}

impl Entry {
    /// Parses an item; `None` if a field has the wrong type.
    fn read(item: &Value) -> Option<Self> {
        let item = item.as_object()?;
        let text = |name: &str| match item.get(name) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => None,
        };
        let time = match item.get("time") {
            None | Some(Value::Null) => None,
            Some(time) => Some(time.as_str()?.parse().ok()?),
        };
        Some(Self {
            manager: text("manager")?,
            operation: text("operation")?,
            api_version: text("apiVersion")?,
            time,
            fields_type: text("fieldsType")?,
            fields: item.get("fieldsV1").filter(|fields| !fields.is_null()).cloned(),
            subresource: text("subresource")?,
        })
    }

    fn write(self) -> Value {
        let texts = [
            ("manager", self.manager),
            ("operation", self.operation),
            ("apiVersion", self.api_version),
            ("time", self.time.map(|time| time.to_string()).unwrap_or_default()),
            ("fieldsType", self.fields_type),
            ("subresource", self.subresource),
        ];
        let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
        let mut item: Map<String, Value> = texts.map(|(name, text)| (name.to_owned(), Value::String(text))).collect();
        item.extend(self.fields.map(|fields| ("fieldsV1".to_owned(), fields)));
        Value::Object(item)
    }
}

/// The entries of an object; `None` if they are absent or have wrong types, as with upstream's accessor.
pub(super) fn read_entries(object: &Value) -> Option<Vec<Entry>> {
    object.get("metadata")?.get("managedFields")?.as_array()?.iter().map(Entry::read).collect()
}

/// Whether a client resets the ownership: with an empty list, or with a list of one empty entry.
pub(super) fn is_reset(entries: Option<&[Entry]>) -> bool {
    match entries {
        Some([]) => true,
        Some([only]) => *only == Entry::default(),
        _ => false,
    }
}

pub(super) fn remove_entries(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Validates the entries of an object. An object without entries is valid.
pub fn validate_entries(object: &Value) -> Result<(), DecodeError> {
    Managed::decode(&read_entries(object).unwrap_or_default()).map(drop)
}

/// Restores the managed fields after mutating admission left them invalid. `before` are the entries before admission,
/// which are valid because the field manager wrote them. Returns the warning for the client if it had to restore them.
pub fn keep_valid_entries(before: Option<Value>, object: &mut Value) -> Option<String> {
    if object.get("metadata").and_then(|metadata| metadata.get("managedFields")) == before.as_ref() {
        return None;
    }
    let error = validate_entries(object).err()?;
    remove_entries(object);
    if let (Some(entries), Some(metadata)) = (before, object.get_mut("metadata").and_then(Value::as_object_mut)) {
        metadata.insert("managedFields".to_owned(), entries);
    }
    Some(format!(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission \
         controller; please fix your requests: {error}"
    ))
}

/// Restores the timestamps of `old` before a write if nothing else changed, so that the write is a no-op.
pub fn keep_timestamps_of_unchanged(old: &Value, object: &mut Value) {
    let (Some(old_entries), Some(new_entries)) = (read_entries(old), read_entries(object)) else { return };
    let is_same = !new_entries.is_empty()
        && old_entries.len() == new_entries.len()
        && old_entries.iter().zip(&new_entries).all(|(old, new)| Entry { time: new.time, ..old.clone() } == *new);
    if !is_same || old_entries.iter().zip(&new_entries).all(|(old, new)| old.time == new.time) {
        return;
    }
    let bare = |object: &Value| {
        let mut object = object.clone();
        remove_entries(&mut object);
        object
    };
    if bare(old) != bare(object) {
        return;
    }
    if let (Some(entries), Some(metadata)) =
        (old["metadata"].get("managedFields").cloned(), object.get_mut("metadata").and_then(Value::as_object_mut))
    {
        metadata.insert("managedFields".to_owned(), entries);
    }
}

impl Managed {
    /// Reads the owners of an object.
    ///
    /// # Errors
    /// When an entry is invalid.
    pub fn read(object: &Value) -> Result<Self, DecodeError> {
        Self::decode(&read_entries(object).unwrap_or_default())
    }

    pub(super) fn decode(entries: &[Entry]) -> Result<Self, DecodeError> {
        let mut managed = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let operation = match entry.operation.as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(DecodeError::BadOperation),
            };
            if entry.api_version.is_empty() {
                return Err(DecodeError::NoApiVersion);
            }
            match entry.fields_type.as_str() {
                "FieldsV1" => {}
                "" => return Err(DecodeError::NoFieldsType { index }),
                other => return Err(DecodeError::BadFieldsType { found: other.to_owned(), index }),
            }
            let set = entry.fields.as_ref().map_or(Ok(Set::new()), Set::from_value);
            let set = set.map_err(|source| DecodeError::BadFields { index, source })?;
            let identity = Identity::new(&entry.manager, operation, &entry.api_version, &entry.subresource);
            match entry.time {
                Some(time) => managed.times.insert(identity.clone(), time),
                None => managed.times.remove(&identity),
            };
            let applied = operation == Operation::Apply;
            managed.owners.insert(identity, VersionedSet { set, api_version: entry.api_version.clone(), applied });
        }
        Ok(managed)
    }

    /// Replaces the entries of an object; without owners, removes them.
    pub fn write(&self, object: &mut Value) {
        if self.owners.is_empty() {
            return remove_entries(object);
        }
        let Value::Object(fields) = object else { return };
        let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(metadata) = metadata {
            metadata.insert("managedFields".to_owned(), self.to_value());
        }
    }

    /// The entries, sorted as on the wire: by operation, time, manager, version and subresource.
    pub fn to_value(&self) -> Value {
        let mut entries: Vec<Entry> = self.owners.iter().map(|(identity, owned)| self.entry(identity, owned)).collect();
        entries.sort_by(|left, right| {
            let key = |entry: &Entry| (entry.operation.clone(), entry.time.map_or(0, |time| time.0));
            key(left)
                .cmp(&key(right))
                .then_with(|| left.manager.cmp(&right.manager))
                .then_with(|| left.api_version.cmp(&right.api_version))
                .then_with(|| left.subresource.cmp(&right.subresource))
        });
        Value::Array(entries.into_iter().map(Entry::write).collect())
    }

    fn entry(&self, identity: &Identity, owned: &VersionedSet) -> Entry {
        let operation = if owned.applied { Operation::Apply } else { identity.operation };
        Entry {
            manager: identity.manager.clone(),
            operation: operation.as_str().to_owned(),
            api_version: owned.api_version.clone(),
            time: self.times.get(identity).copied(),
            fields_type: "FieldsV1".to_owned(),
            fields: Some(owned.set.to_value()),
            subresource: identity.subresource.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(entries: Value) -> Value {
        json!({"metadata": {"name": "x", "managedFields": entries}})
    }

    #[test]
    fn entries_survive_and_come_out_in_order() {
        let entries = json!([
            {"manager": "b", "operation": "Apply", "apiVersion": "v1", "time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": "c", "operation": "Update", "apiVersion": "v1", "time": "2019-01-01T00:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:data": {"f:b": {}}}, "subresource": "status"},
            {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": "2021-01-01T00:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {}},
        ]);
        assert_eq!(Managed::read(&object(entries.clone())).unwrap().to_value(), entries);
    }

    #[test]
    fn an_invalid_entry_is_named() {
        let error = |entry: Value| validate_entries(&object(json!([entry]))).unwrap_err().to_string();
        assert_eq!(error(json!({})), "operation must be `Apply` or `Update`");
        assert_eq!(error(json!({"operation": "Apply"})), "apiVersion must not be empty");
        assert_eq!(
            error(json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"})),
            "invalid fieldsType \"V2\" in managed fields entry 0"
        );
    }

    #[test]
    fn admission_cannot_leave_invalid_entries_behind() {
        let before =
            object(json!([{"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}]));
        let mut after = object(json!([{"manager": "a"}]));
        let entries = || Some(before["metadata"]["managedFields"].clone());
        assert!(keep_valid_entries(entries(), &mut after).unwrap().ends_with("operation must be `Apply` or `Update`"));
        assert_eq!(after, before);
        assert_eq!(keep_valid_entries(entries(), &mut after), None);
    }

    #[test]
    fn a_new_timestamp_alone_is_no_change() {
        let at = |time: &str, name: &str| {
            json!({"metadata": {"name": name, "managedFields": [{"manager": "a", "operation": "Apply", "apiVersion": "v1",
                "fieldsType": "FieldsV1", "time": time}]}})
        };
        let old = at("2020-01-01T00:00:00Z", "x");
        let mut new = at("2021-01-01T00:00:00Z", "x");
        keep_timestamps_of_unchanged(&old, &mut new);
        assert_eq!(new, old);
        let mut other = at("2021-01-01T00:00:00Z", "y");
        keep_timestamps_of_unchanged(&old, &mut other);
        assert_eq!(other, at("2021-01-01T00:00:00Z", "y"));
    }
}
