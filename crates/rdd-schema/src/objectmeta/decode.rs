//! Decodes ObjectMeta from JSON with the rules and error texts of Go's decoder, and encodes it again.

use std::collections::BTreeMap;

use rdd_meta::{go_json, go_text};
use serde_json::{Map, Value};

use crate::format::{self, Instant};

/// How many unknown fields upstream's decoder reports.
const UNKNOWN_MAX: usize = 100;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OwnerReference {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) controller: Option<bool>,
    pub(super) block_owner_deletion: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ManagedFields {
    pub(super) manager: String,
    pub(super) operation: String,
    pub(super) api_version: String,
    pub(super) time: Option<Instant>,
    pub(super) fields_type: String,
    pub(super) fields: Option<Value>,
    pub(super) subresource: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ObjectMeta {
    pub(super) name: String,
    pub(super) generate_name: String,
    pub(super) namespace: String,
    pub(super) self_link: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) generation: i64,
    pub(super) creation: Option<Instant>,
    pub(super) deletion: Option<Instant>,
    pub(super) deletion_grace_seconds: Option<i64>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) owner_references: Vec<OwnerReference>,
    pub(super) finalizers: Vec<String>,
    pub(super) managed_fields: Vec<ManagedFields>,
}

/// Decoded metadata, with the paths of unknown fields.
#[derive(Clone, Default)]
pub(super) struct Decoded {
    pub(super) meta: ObjectMeta,
    pub(super) unknown: Vec<String>,
    /// The first type error.
    complaint: Option<String>,
}

/// Why a value cannot be decoded. As in Go, decoding continues after a wrong type and reports it at the end; an invalid time
/// ends it.
enum Complaint {
    Type(String),
    Time(String),
}

impl Complaint {
    fn into_text(self) -> String {
        match self {
            Complaint::Type(text) | Complaint::Time(text) => text,
        }
    }
}

/// The decoder's position, for error texts: the innermost struct, and the path of fields to it.
#[derive(Clone, Copy)]
struct Place<'a> {
    owner: &'a str,
    field: &'a str,
}

impl Place<'_> {
    /// The error of a `value` that is not of the type `wanted`.
    fn refuse<T>(self, value: &Value, wanted: &str) -> Result<T, Complaint> {
        self.refuse_as(go_json::type_name(value), wanted)
    }

    fn refuse_as<T>(self, found: &str, wanted: &str) -> Result<T, Complaint> {
        // At the root there is no struct field that the text could name.
        if self.owner.is_empty() {
            return Err(Complaint::Type(format!("json: cannot unmarshal {found} into Go value of type {wanted}")));
        }
        Err(Complaint::Type(format!(
            "json: cannot unmarshal {found} into Go struct field {}.{} of type {wanted}",
            self.owner, self.field
        )))
    }

    fn string(self, value: &Value, wanted: &str) -> Result<String, Complaint> {
        match value {
            Value::Null => Ok(String::new()),
            Value::String(text) => Ok(text.clone()),
            other => self.refuse(other, wanted),
        }
    }

    fn integer(self, value: &Value) -> Result<Option<i64>, Complaint> {
        match value {
            Value::Null => Ok(None),
            // Upstream encodes the value and decodes it again, so a whole float reads as an integer.
            Value::Number(number) => {
                let text = go_json::to_string(&Value::Number(number.clone()));
                text.parse().map(Some).or_else(|_| self.refuse_as(&format!("number {text}"), "int64"))
            }
            other => self.refuse(other, "int64"),
        }
    }

    fn boolean(self, value: &Value) -> Result<Option<bool>, Complaint> {
        match value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            other => self.refuse(other, "bool"),
        }
    }

    /// Go's times decode themselves, so every error of theirs ends the decoding.
    fn time(self, value: &Value) -> Result<Option<Instant>, Complaint> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) => format::parse_rfc3339(text).map(Some).map_err(Complaint::Time),
            other => self.refuse(other, "string").map_err(|complaint| Complaint::Time(complaint.into_text())),
        }
    }

    fn strings(self, value: &Value) -> Result<BTreeMap<String, String>, Complaint> {
        match value {
            Value::Null => Ok(BTreeMap::new()),
            Value::Object(entries) => {
                entries.iter().map(|(key, entry)| Ok((key.clone(), self.string(entry, "string")?))).collect()
            }
            other => self.refuse(other, "map[string]string"),
        }
    }

    fn list<'v>(self, value: &'v Value, wanted: &str) -> Result<&'v [Value], Complaint> {
        match value {
            Value::Null => Ok(&[]),
            Value::Array(items) => Ok(items),
            other => self.refuse(other, wanted),
        }
    }

    fn object<'v>(self, value: &'v Value, wanted: &str) -> Result<Option<&'v Map<String, Value>>, Complaint> {
        match value {
            Value::Null => Ok(None),
            Value::Object(entries) => Ok(Some(entries)),
            other => self.refuse(other, wanted),
        }
    }
}

impl ObjectMeta {
    /// Decodes `metadata`. The error is upstream's text.
    pub(super) fn decode(metadata: &Value) -> Result<Decoded, String> {
        let mut decoded = Decoded::default();
        let root = Place { owner: "", field: "" };
        let entries = root.object(metadata, "v1.ObjectMeta").map_err(Complaint::into_text)?;
        for (key, value) in entries.into_iter().flatten() {
            decoded.field(key, value)?;
        }
        match decoded.complaint {
            Some(complaint) => Err(complaint),
            None => Ok(decoded),
        }
    }

    /// Decodes the fields that are valid and skips the others.
    pub(super) fn decode_good_fields(entries: &Map<String, Value>) -> Decoded {
        let mut decoded = Decoded::default();
        for (key, value) in entries {
            // A field counts only as a whole: an invalid item of a list drops the list.
            let mut attempt = decoded.clone();
            if attempt.field(key, value).is_ok() && attempt.complaint.is_none() {
                decoded = attempt;
            }
        }
        decoded
    }

    /// Encodes the fields that are set, as upstream stores them.
    pub(super) fn to_value(&self) -> Value {
        let mut out = Map::new();
        let mut text = |key: &str, value: &str| {
            if !value.is_empty() {
                out.insert(key.to_owned(), value.into());
            }
        };
        text("name", &self.name);
        text("generateName", &self.generate_name);
        text("namespace", &self.namespace);
        text("selfLink", &self.self_link);
        text("uid", &self.uid);
        text("resourceVersion", &self.resource_version);
        if self.generation != 0 {
            out.insert("generation".into(), self.generation.into());
        }
        if let Some(creation) = self.creation.filter(|creation| !creation.is_zero()) {
            out.insert("creationTimestamp".into(), format::format_time(creation).into());
        }
        if let Some(deletion) = self.deletion {
            out.insert("deletionTimestamp".into(), time_value(deletion));
        }
        if let Some(seconds) = self.deletion_grace_seconds {
            out.insert("deletionGracePeriodSeconds".into(), seconds.into());
        }
        for (key, map) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if !map.is_empty() {
                let entries = map.iter().map(|(key, value)| (key.clone(), value.as_str().into()));
                out.insert(key.into(), Value::Object(entries.collect()));
            }
        }
        if !self.owner_references.is_empty() {
            out.insert("ownerReferences".into(), self.owner_references.iter().map(OwnerReference::to_value).collect());
        }
        if !self.finalizers.is_empty() {
            out.insert("finalizers".into(), self.finalizers.iter().map(String::as_str).collect());
        }
        if !self.managed_fields.is_empty() {
            out.insert("managedFields".into(), self.managed_fields.iter().map(ManagedFields::to_value).collect());
        }
        Value::Object(out)
    }
}

/// Encodes a time as Go does: the zero time is null.
fn time_value(instant: Instant) -> Value {
    if instant.is_zero() { Value::Null } else { format::format_time(instant).into() }
}

impl Decoded {
    fn is_unknown(&mut self, path: String) {
        // Upstream keeps decoding, but drops further fields.
        if self.unknown.len() < UNKNOWN_MAX {
            self.unknown.push(path);
        }
    }

    /// Remembers the first type error and leaves the field empty; returns the error of an invalid time.
    fn keep<T: Default>(&mut self, read: Result<T, Complaint>) -> Result<T, String> {
        match read {
            Ok(value) => Ok(value),
            Err(Complaint::Time(text)) => Err(text),
            Err(Complaint::Type(text)) => {
                // Go's decoder reports only the first type error.
                self.complaint.get_or_insert(text);
                Ok(T::default())
            }
        }
    }

    fn field(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let place = Place { owner: "ObjectMeta", field: key };
        match key {
            "name" => self.meta.name = self.keep(place.string(value, "string"))?,
            "generateName" => self.meta.generate_name = self.keep(place.string(value, "string"))?,
            "namespace" => self.meta.namespace = self.keep(place.string(value, "string"))?,
            "selfLink" => self.meta.self_link = self.keep(place.string(value, "string"))?,
            "uid" => self.meta.uid = self.keep(place.string(value, "types.UID"))?,
            "resourceVersion" => self.meta.resource_version = self.keep(place.string(value, "string"))?,
            "generation" => self.meta.generation = self.keep(place.integer(value))?.unwrap_or(0),
            "creationTimestamp" => self.meta.creation = self.keep(place.time(value))?,
            "deletionTimestamp" => self.meta.deletion = self.keep(place.time(value))?,
            "deletionGracePeriodSeconds" => self.meta.deletion_grace_seconds = self.keep(place.integer(value))?,
            "labels" => self.meta.labels = self.keep(place.strings(value))?,
            "annotations" => self.meta.annotations = self.keep(place.strings(value))?,
            "finalizers" => {
                for item in self.keep(place.list(value, "[]string"))? {
                    let finalizer = self.keep(place.string(item, "string"))?;
                    self.meta.finalizers.push(finalizer);
                }
            }
            "ownerReferences" => {
                for (index, item) in self.keep(place.list(value, "[]v1.OwnerReference"))?.iter().enumerate() {
                    let reference = self.owner_reference(place, index, item)?;
                    self.meta.owner_references.push(reference);
                }
            }
            "managedFields" => {
                for (index, item) in self.keep(place.list(value, "[]v1.ManagedFieldsEntry"))?.iter().enumerate() {
                    let entry = self.managed_fields(place, index, item)?;
                    self.meta.managed_fields.push(entry);
                }
            }
            _ => self.is_unknown(key.to_owned()),
        }
        Ok(())
    }

    fn owner_reference(&mut self, place: Place<'_>, index: usize, item: &Value) -> Result<OwnerReference, String> {
        let mut reference = OwnerReference::default();
        for (key, value) in self.keep(place.object(item, "v1.OwnerReference"))?.into_iter().flatten() {
            let field = format!("ownerReferences.{key}");
            let place = Place { owner: "OwnerReference", field: &field };
            match key.as_str() {
                "apiVersion" => reference.api_version = self.keep(place.string(value, "string"))?,
                "kind" => reference.kind = self.keep(place.string(value, "string"))?,
                "name" => reference.name = self.keep(place.string(value, "string"))?,
                "uid" => reference.uid = self.keep(place.string(value, "types.UID"))?,
                "controller" => reference.controller = self.keep(place.boolean(value))?,
                "blockOwnerDeletion" => reference.block_owner_deletion = self.keep(place.boolean(value))?,
                _ => self.is_unknown(format!("ownerReferences[{index}].{key}")),
            }
        }
        Ok(reference)
    }

    fn managed_fields(&mut self, place: Place<'_>, index: usize, item: &Value) -> Result<ManagedFields, String> {
        let mut entry = ManagedFields::default();
        for (key, value) in self.keep(place.object(item, "v1.ManagedFieldsEntry"))?.into_iter().flatten() {
            let field = format!("managedFields.{key}");
            let place = Place { owner: "ManagedFieldsEntry", field: &field };
            match key.as_str() {
                "manager" => entry.manager = self.keep(place.string(value, "string"))?,
                "operation" => entry.operation = self.keep(place.string(value, "v1.ManagedFieldsOperationType"))?,
                "apiVersion" => entry.api_version = self.keep(place.string(value, "string"))?,
                "time" => entry.time = self.keep(place.time(value))?,
                "fieldsType" => entry.fields_type = self.keep(place.string(value, "string"))?,
                // Raw JSON in Go: any value is accepted, and null is absent.
                "fieldsV1" => entry.fields = Some(value.clone()).filter(|value| !value.is_null()),
                "subresource" => entry.subresource = self.keep(place.string(value, "string"))?,
                _ => self.is_unknown(format!("managedFields[{index}].{key}")),
            }
        }
        Ok(entry)
    }
}

impl OwnerReference {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        let texts = [("apiVersion", &self.api_version), ("kind", &self.kind), ("name", &self.name), ("uid", &self.uid)];
        for (key, value) in texts {
            out.insert(key.into(), value.as_str().into());
        }
        for (key, value) in [("controller", self.controller), ("blockOwnerDeletion", self.block_owner_deletion)] {
            if let Some(flag) = value {
                out.insert(key.into(), flag.into());
            }
        }
        Value::Object(out)
    }

    /// Encodes as Go encodes the struct: with its order of fields.
    pub(super) fn to_go_json(&self) -> String {
        let mut out = String::from("{");
        let texts = [("apiVersion", &self.api_version), ("kind", &self.kind), ("name", &self.name), ("uid", &self.uid)];
        for (at, (key, value)) in texts.into_iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            out.push_str(&format!("{comma}\"{key}\":"));
            go_json::write_string(&mut out, value);
        }
        for (key, value) in [("controller", self.controller), ("blockOwnerDeletion", self.block_owner_deletion)] {
            if let Some(flag) = value {
                out.push_str(&format!(",\"{key}\":{flag}"));
            }
        }
        out.push('}');
        out
    }
}

impl ManagedFields {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        let texts = [
            ("manager", &self.manager),
            ("operation", &self.operation),
            ("apiVersion", &self.api_version),
            ("fieldsType", &self.fields_type),
            ("subresource", &self.subresource),
        ];
        for (key, value) in texts {
            if !value.is_empty() {
                out.insert(key.into(), value.as_str().into());
            }
        }
        if let Some(time) = self.time {
            out.insert("time".into(), time_value(time));
        }
        if let Some(fields) = &self.fields {
            out.insert("fieldsV1".into(), fields.clone());
        }
        Value::Object(out)
    }

    /// The errors for unprintable characters in the manager's name, each with its position.
    pub(super) fn unprintable(&self) -> Vec<String> {
        let bad = self.manager.char_indices().filter(|(_, character)| !go_text::is_print(*character));
        bad.map(|(at, character)| format!("invalid character U+{:04X} (at position {at})", character as u32)).collect()
    }
}
