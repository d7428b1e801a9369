//! Decodes objects of built-in kinds like Go's typed decoder, and returns them in the form that Go encodes.
//!
//! Upstream decodes a body into a Go struct with `sigs.k8s.io/json` and encodes the struct again: unknown fields are dropped,
//! empty `omitempty` fields are omitted, and non-pointer structs are present even if they were not sent. This module does the
//! same to a JSON value, using the table of types. A JSON value has lost the order of its fields and all but the last of
//! duplicate fields; where they matter, [`decode_ordered`] decodes the text.

mod bytes;
mod form;
mod node;
mod reader;

use rdd_meta::{go_json, go_text};
use rdd_schema::{ordered::Ordered, strict::Finding};
use serde_json::{Map, Value};

use self::{node::Node, reader::Reader};
use crate::types::{self, Kind};

/// Why a body is not an object of the kind: the message of a BadRequest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

/// The name of upstream's scheme in error messages.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";
/// The maximum length of the body excerpt in an error message.
const SUMMARY_BYTES_MAX: usize = 30;
/// Go's reflection output for the struct into which upstream decodes the type.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Decodes `object` in place into its kind's form. Returns the unknown fields, sorted by name.
///
/// An object without kind or apiVersion gets the expected ones.
///
/// # Errors
/// [`Refused`] if the object has another kind or apiVersion, or a value of the wrong type.
pub fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<Finding>, Refused> {
    check_type(kind, object)?;
    if form::complete(kind, object, true) {
        return Ok(Vec::new());
    }
    let body = object.take();
    let (read, findings) = typed(kind, Node::Value(&body), true);
    *object = read;
    findings.map_err(|complaint| handled(kind.kind, kind.version, kind, &complaint))
}

/// Decodes the object in a text. Returns the unknown and duplicate fields too, in the order of the text. Duplicates are decoded
/// into the same place, like Go does: objects merge, lists merge item by item, and of other values the last one wins.
///
/// Otherwise like [`decode`].
pub fn decode_ordered(kind: &Kind, text: &Ordered) -> Result<(Value, Vec<Finding>), Refused> {
    check_type(kind, &text.to_value())?;
    let (read, findings) = typed(kind, Node::Ordered(text), true);
    let findings = findings.map_err(|complaint| handled(kind.kind, kind.version, kind, &complaint))?;
    Ok((read, findings))
}

/// Brings an object of the kind into its form after storage: structs that Go always writes are present, and empty lists are
/// absent for kinds whose storage does not keep them. Malformed values become empty.
pub fn reform(kind: &Kind, object: &mut Value) {
    let keeps_empty = keeps_empty(kind);
    if form::complete(kind, object, keeps_empty) {
        return;
    }
    let body = object.take();
    // Decoding keeps what is valid; errors have no receiver here.
    (*object, _) = typed(kind, Node::Value(&body), keeps_empty);
}

/// An empty object of the kind: its type, and the structs that Go always writes.
pub fn empty(kind: &Kind) -> Value {
    let mut object = Value::Object(Map::new());
    reform(kind, &mut object);
    object
}

fn typed(kind: &Kind, body: Node<'_>, keeps_empty: bool) -> (Value, Result<Vec<Finding>, String>) {
    let mut reader = Reader::new(keeps_empty);
    let read = reader.root(kind.structure(), body);
    let mut value = Value::Object(read.unwrap_or_default());
    value["apiVersion"] = kind.api_version().into();
    value["kind"] = kind.kind.into();
    (value, reader.finish())
}

/// Whether empty lists survive storage: most kinds are stored as protobuf, which does not distinguish empty from absent.
fn keeps_empty(kind: &Kind) -> bool {
    let questions = ["authentication.k8s.io", "authorization.k8s.io", "autoscaling"];
    questions.contains(&kind.group) || ["apiextensions.k8s.io", "apiregistration.k8s.io"].contains(&kind.group)
}

fn check_type(kind: &Kind, object: &Value) -> Result<(), Refused> {
    let (api_version, named) = match type_of(object) {
        Ok(found) => found,
        Err(complaint) => {
            let kind = kind.kind;
            let summary = summary(object);
            let text = format!("the object provided is unrecognized (must be of type {kind}): {complaint} ({summary})");
            return Err(Refused(text));
        }
    };
    let expected = kind.api_version();
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    // Missing parts default to the expected ones; a version without a kind is kept.
    let named = if named.is_empty() { kind.kind } else { named };
    let (group, version) = if version.is_empty() { (kind.group, kind.version) } else { (group, version) };
    let found = types::kind(group, version, named);
    let Some(found) = found else {
        let api_version = if api_version.is_empty() { expected.as_str() } else { api_version };
        let complaint = format!(
            "no kind {} is registered for version {} in scheme {}",
            go_text::quote(named),
            go_text::quote(api_version),
            go_text::quote(SCHEME)
        );
        return Err(handled(named, version, kind, &complaint));
    };
    if named == kind.kind && found.group != kind.group && is_event(found) && is_event(kind) {
        // The two event kinds convert into each other, so only the path determines which one is expected.
        let text = format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            found.api_version()
        );
        return Err(Refused(text));
    }
    if !std::ptr::eq(found, kind) {
        let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
        let complaint = format!("converting (v1.{named}) to ({package}.{}): unknown conversion", kind.kind);
        return Err(handled(named, version, kind, &complaint));
    }
    Ok(())
}

fn is_event(kind: &Kind) -> bool {
    kind.kind == "Event"
}

fn handled(named: &str, version: &str, kind: &Kind, complaint: &str) -> Refused {
    let version = go_text::quote(version);
    Refused(format!("{named} in version {version} cannot be handled as a {}: {complaint}", kind.kind))
}

/// The apiVersion and kind of a body; empty if absent.
fn type_of(object: &Value) -> Result<(&str, &str), String> {
    let refuse = |complaint: String| Err(format!("couldn't get version/kind; json parse error: {complaint}"));
    let entries = match object {
        Value::Object(entries) => entries,
        Value::Null => return Ok(("", "")),
        other => {
            let found = go_json::type_name(other);
            return refuse(format!("json: cannot unmarshal {found} into Go value of type {TYPE_META}"));
        }
    };
    let mut texts = ["", ""];
    for (text, name) in texts.iter_mut().zip(["apiVersion", "kind"]) {
        match entries.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(found)) => *text = found,
            Some(other) => {
                let found = go_json::type_name(other);
                return refuse(format!("json: cannot unmarshal {found} into Go struct field .{name} of type string"));
            }
        }
    }
    if texts[0].matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {}", texts[0]));
    }
    Ok((texts[0], texts[1]))
}

/// The beginning of a body, for error messages.
fn summary(object: &Value) -> String {
    let text = rdd_meta::go_json::to_string(object);
    let is_object = object.is_object();
    let show = |bytes: &[u8]| {
        if is_object {
            String::from_utf8_lossy(bytes).into_owned()
        } else {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    };
    match text.as_bytes().get(..SUMMARY_BYTES_MAX) {
        Some(beginning) if text.len() > SUMMARY_BYTES_MAX => format!("{} ...", show(beginning)),
        _ => show(text.as_bytes()),
    }
}

#[cfg(test)]
mod tests;
