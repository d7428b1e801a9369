//! Conversion between the stored form of an object and the form of a version.

use std::borrow::Cow;

use bytes::Bytes;
use rdd_meta::{go_json, metadata::MetadataMut};
use serde_json::Value;

use super::{Origin, ResourceDef, Stored, VersionDef};
use crate::state::Object;

/// The initial capacity for the JSON of an object; most objects fit.
const SIZE_BYTES: usize = 1024;

/// A stored value is not an object: the database is damaged, or another program wrote it.
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

/// Whether [`wire`] returns the stored bytes unchanged.
pub fn is_stored_as_shown(def: &ResourceDef, version: &VersionDef, object: &Object) -> bool {
    !needs_reform(def, object) && matches!(version.stored, Stored::Same)
}

/// The JSON of an object in a version. Does not copy the bytes if they are the stored ones.
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

/// The object in a version, as a value.
pub fn value(def: &ResourceDef, version: &VersionDef, object: &Object) -> Result<Value, Unreadable> {
    let unreadable = |source| Unreadable { key: object.key().to_string(), source };
    let mut value: Value = serde_json::from_slice(object.wire()).map_err(unreadable)?;
    if needs_reform(def, object) {
        let stored = value["apiVersion"].as_str().and_then(|text| text.rsplit('/').next()).unwrap_or_default();
        // A version that is no longer served has no schema, so what it wrote stays as it is.
        if let Some(written_as) = def.version(stored) {
            // `decode` drops what is malformed. Its error does not matter: the object was accepted when it was written.
            let _ = written_as.kind.decode(&mut value, Origin::Storage);
        }
    }
    Ok(match &version.stored {
        Stored::Same | Stored::Renamed => {
            let shown = def.api_version(&version.name);
            if needs_reform(def, object) && value["apiVersion"] != shown {
                // The object was stored in another version, which may have fields that this one does not know.
                version.kind.prune(&mut value);
            }
            value["apiVersion"] = shown.into();
            value
        }
        Stored::Converted(conversion) => conversion.shown(value),
    })
}

/// The JSON to store for an object of a version: without its resourceVersion, which reads add, and without the obsolete
/// selfLink.
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

/// The object as a read would show it after [`to_stored`]. A dry run answers with it: it stores nothing but, as
/// upstream, encodes for the store and decodes again.
pub fn as_stored(version: &VersionDef, object: Value) -> Value {
    match &version.stored {
        Stored::Same | Stored::Renamed => version.kind.default_stored(&object).unwrap_or(object),
        Stored::Converted(conversion) => conversion.shown(conversion.stored(object)),
    }
}

/// The beginning of an object's JSON in a version. [`Object::wire_after_type`] continues it.
pub fn type_meta(def: &ResourceDef, version: &VersionDef) -> Vec<u8> {
    format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", def.api_version(&version.name), def.kind).into_bytes()
}

/// JSON with the type and the metadata first, so that reads can replace the type and splice into the metadata without parsing.
pub fn write(object: &Value) -> Vec<u8> {
    // The buffer rarely grows, so most objects are not moved while they are written.
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

/// Whether an object may follow an older schema, or lack some of its defaults.
fn needs_reform(def: &ResourceDef, object: &Object) -> bool {
    let has_defaults = || def.versions.iter().any(|version| version.kind.defaults_when_read());
    def.custom.as_ref().is_some_and(|custom| {
        object.revision() < custom.revision || (object.revision() <= custom.loaded_at && has_defaults())
    })
}
