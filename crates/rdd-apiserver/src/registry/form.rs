//! Objects between the form that is stored and the form that a version shows.

use std::borrow::Cow;

use bytes::Bytes;
use rdd_meta::{go_json, metadata::MetadataMut};
use serde_json::Value;

use super::{Origin, ResourceDef, Stored, VersionDef};
use crate::state::Object;

/// What most objects take as JSON, and many take less.
const SIZE_BYTES: usize = 1024;

/// What was read from the store is no object: damage, or a program that wrote it without us.
#[derive(Debug, thiserror::Error)]
#[error("read stored object {key}")]
pub struct Unreadable {
    key: String,
    #[source]
    source: serde_json::Error,
}

impl From<Unreadable> for rdd_meta::Status {
    fn from(error: Unreadable) -> Self {
        Self::internal(error.to_string())
    }
}

/// Whether [`wire`] only hands out the stored bytes.
pub fn is_stored_as_shown(def: &ResourceDef, version: &VersionDef, object: &Object) -> bool {
    !needs_reform(def, object) && matches!(version.stored, Stored::Same)
}

/// The JSON of an object as a version shows it. Copies nothing where that is what is stored.
pub fn wire(def: &ResourceDef, version: &VersionDef, object: &Object) -> Result<Bytes, Unreadable> {
    if !needs_reform(def, object) {
        match version.stored {
            Stored::Same => return Ok(object.wire().clone()),
            Stored::Renamed => return Ok([&type_meta(def, version)[..], &object.wire_after_type()].concat().into()),
            Stored::Converted(_) => {}
        }
    }
    Ok(write(&value(def, version, object)?).into())
}

/// The same, parsed.
pub fn value(def: &ResourceDef, version: &VersionDef, object: &Object) -> Result<Value, Unreadable> {
    let unreadable = |source| Unreadable { key: object.key().to_string(), source };
    let mut value: Value = serde_json::from_slice(object.wire()).map_err(unreadable)?;
    if needs_reform(def, object) {
        let stored = value["apiVersion"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
        // A version that is no longer served has left no schema; what it wrote is taken as it is.
        if let Some(written_as) = def.version(stored) {
            // What is malformed was dropped; there is nothing to refuse in what was accepted once.
            let _ = written_as.kind.decode(&mut value, Origin::Storage);
        }
    }
    Ok(match &version.stored {
        Stored::Same | Stored::Renamed => {
            let shown = def.api_version(&version.name);
            if needs_reform(def, object) && value["apiVersion"] != shown {
                // Another version was stored then, and it may have known more.
                version.kind.prune(&mut value);
            }
            value["apiVersion"] = shown.into();
            value
        }
        Stored::Converted(conversion) => conversion.shown(value),
    })
}

/// The JSON to store for an object of a version: without its resourceVersion, which is added when it is read, and without a
/// link to itself, which nobody sets any more.
pub fn to_stored(def: &ResourceDef, version: &VersionDef, object: &Value) -> Bytes {
    let mut stored = match &version.stored {
        Stored::Same => version.kind.default_stored(object).map_or(Cow::Borrowed(object), Cow::Owned),
        Stored::Renamed => {
            let mut renamed = version.kind.default_stored(object).unwrap_or_else(|| object.clone());
            renamed["apiVersion"] = def.api_version(&def.storage_version).into();
            Cow::Owned(renamed)
        }
        Stored::Converted(conversion) => Cow::Owned(conversion.stored(object.clone())),
    };
    let is_marked = stored
        .get("metadata")
        .is_some_and(|metadata| metadata.get("resourceVersion").is_some() || metadata.get("selfLink").is_some());
    if is_marked && let Some(mut metadata) = MetadataMut::of(stored.to_mut()) {
        metadata.set_resource_version("");
        metadata.set("selfLink", None);
    }
    write(&stored).into()
}

/// An object of a version as a read would show it after [`to_stored`] had stored it: what a dry run answers, which writes
/// nothing but, as upstream's, encodes for the store and decodes again.
pub fn as_stored(version: &VersionDef, object: Value) -> Value {
    match &version.stored {
        Stored::Same | Stored::Renamed => version.kind.default_stored(&object).unwrap_or(object),
        Stored::Converted(conversion) => conversion.shown(conversion.stored(object)),
    }
}

/// The beginning of an object's JSON in a version, up to where [`Object::wire_after_type`] goes on.
pub fn type_meta(def: &ResourceDef, version: &VersionDef) -> Vec<u8> {
    format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", def.api_version(&version.name), def.kind).into_bytes()
}

/// JSON with the type and the metadata first, so that reads can replace the one and splice into the other without parsing.
pub fn write(object: &Value) -> Vec<u8> {
    // Most objects fit in it, and none has to be moved many times while it grows.
    let mut text = String::with_capacity(SIZE_BYTES);
    text.push('{');
    let mut member = |name: &str, value: &Value| {
        if text.len() > 1 {
            text.push(',');
        }
        go_json::write_string(&mut text, name);
        text.push(':');
        go_json::write_value(&mut text, value);
    };
    const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
    let members = object.as_object().into_iter().flatten();
    FIRST
        .iter()
        .filter_map(|name| object.get(name).map(|value| (*name, value)))
        .for_each(|(name, value)| member(name, value));
    members.filter(|(name, _)| !FIRST.contains(&name.as_str())).for_each(|(name, value)| member(name, value));
    text.push('}');
    text.into_bytes()
}

/// Whether an object may have been written under another schema than today's, or without all of its defaults.
fn needs_reform(def: &ResourceDef, object: &Object) -> bool {
    let has_defaults = || def.versions.iter().any(|version| version.kind.defaults_when_read());
    def.custom.as_ref().is_some_and(|custom| {
        object.revision() < custom.revision || (object.revision() <= custom.loaded_at && has_defaults())
    })
}
