//! Encodes and decodes objects of built-in kinds in protobuf.

use bytes::Bytes;
use rdd_builtin::{protobuf, types};
use rdd_meta::{Status, gvk::GroupVersion};
use rdd_schema::strict::Document;
use serde_json::{Value, json};

use crate::{registry::Part, rest::Target};

/// The media type of objects and lists.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of watch streams.
pub(super) const STREAM_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// The built-in kind that an endpoint accepts and returns. Custom resources have none, but their `scale` subresource has.
pub(super) fn kind_of(target: &Target) -> Option<&'static types::Kind> {
    match target.subresource().map(|subresource| &subresource.part) {
        Some(Part::Scale(_)) => types::kind("autoscaling", "v1", "Scale"),
        Some(Part::Question(question)) => {
            let kind = question.kind();
            types::kind(&kind.group, &kind.version, &kind.kind)
        }
        Some(Part::View) | None if target.def.custom.is_some() => None,
        Some(Part::View) | None => types::kind(&target.def.group, &target.version().name, &target.def.kind),
    }
}

/// Why a body could not be decoded.
pub(super) enum Problem {
    /// The envelope is malformed.
    Unrecognized(String),
    /// The content of the envelope is malformed.
    Unhandled(String),
}

/// Decodes a body. If its envelope names another kind, only the type is decoded.
pub(super) fn read(kind: &'static types::Kind, bytes: &[u8]) -> Result<Document, Problem> {
    let envelope = protobuf::open(bytes).map_err(|malformed| Problem::Unrecognized(malformed.0))?;
    let is = |found: &str, expected: &str| found.is_empty() || found == expected;
    let mut value = json!({});
    if is(&envelope.kind, kind.kind) && is(&envelope.api_version, &kind.api_version()) {
        let read = protobuf::read(kind.structure(), envelope.raw);
        value = read.map_err(|malformed| Problem::Unhandled(malformed.0))?;
    }
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            value[name] = text.into();
        }
    }
    Ok(value.into())
}

/// Decodes the options of a delete, which every resource accepts in protobuf.
pub(super) fn read_delete_options(bytes: &[u8]) -> Result<Value, Status> {
    let refused = |malformed: protobuf::Malformed| Status::bad_request(malformed.0);
    let envelope = protobuf::open(bytes).map_err(refused)?;
    let structure = types::structure("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let structure = structure.expect("the table of types has the options of the API");
    let of_options = matches!(envelope.kind.as_str(), "" | "DeleteOptions");
    let mut value = if of_options { protobuf::read(structure, envelope.raw).map_err(refused)? } else { json!({}) };
    value["kind"] = envelope.kind.into();
    Ok(value)
}

/// Encodes an object with a type, or a Status, in an envelope.
pub(super) fn sealed(object: &Value) -> Result<Vec<u8>, Status> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (text("apiVersion"), text("kind"));
    let raw = match (kind(api_version, name), name) {
        (Some(kind), _) => protobuf::write(kind.structure(), object),
        (None, "PartialObjectMetadata") => protobuf::write_partial(object),
        (None, "PartialObjectMetadataList") => protobuf::write_partial_list(object),
        (None, _) => return Err(Status::internal(format!("{api_version} {name} has no form in protobuf"))),
    };
    Ok(protobuf::seal(api_version, name, &raw))
}

/// Encodes one item of a list; only its metadata if `partial`.
pub(super) fn item(object: &Value, partial: bool) -> Result<Vec<u8>, Status> {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    match kind(text("apiVersion"), text("kind")) {
        _ if partial => Ok(protobuf::write_partial(object)),
        Some(kind) => Ok(protobuf::write(kind.structure(), object)),
        None => Err(Status::internal(format!("{} has no form in protobuf", text("kind")))),
    }
}

/// Encodes a list from encoded items.
pub(super) fn list(api_version: &str, kind: &str, metadata: &Value, items: &[Vec<u8>]) -> Vec<u8> {
    let raw = protobuf::write_list(metadata, items.iter().map(Vec::as_slice));
    protobuf::seal(api_version, kind, &raw)
}

/// The size of the length prefix of each frame of a watch.
pub(crate) const FRAME_LENGTH_BYTES: usize = 4;

/// Encodes an event of a watch. If the object cannot be encoded, the client gets an ERROR event instead: a stream has no other way to
/// report it.
pub(crate) fn event(kind: &str, json: &[u8]) -> Bytes {
    let object = serde_json::from_slice(json).map_err(|error| Status::internal(error.to_string()));
    let frame = object.and_then(|object| sealed(&object)).map(|sealed| protobuf::watch_event(kind, &sealed));
    let frame = frame.unwrap_or_else(|status| {
        tracing::error!(error = status.message, "an event could not be written in protobuf");
        let status: Value = serde_json::from_slice(&status.to_wire()).unwrap_or_default();
        protobuf::watch_event("ERROR", &sealed(&status).unwrap_or_default())
    });
    frame.into()
}

fn kind(api_version: &str, kind: &str) -> Option<&'static types::Kind> {
    let version = GroupVersion::parse(api_version).ok()?;
    types::kind(&version.group, &version.version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_delete_are_read() {
        let body = protobuf::seal("v1", "DeleteOptions", b"\x08\x05\x22\x06Orphan\x2a\x03All");
        let options = read_delete_options(&body).unwrap();
        assert_eq!(
            options,
            json!({"kind": "DeleteOptions", "gracePeriodSeconds": 5, "propagationPolicy": "Orphan", "dryRun": ["All"]})
        );
        let status = read_delete_options(&protobuf::seal("v1", "DeleteOptions", b"\x08")).unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (400, "unexpected EOF"));
    }
}
