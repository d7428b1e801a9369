//! Objects of built-in kinds read as Go's typed decoder reads them, and written back as Go writes them.
//!
//! Upstream decodes a body into a Go struct with `sigs.k8s.io/json` and encodes that struct again, so what is unknown is gone,
//! what is empty and may be left out is left out, and structs are there even if nobody sent them. This does the same to a
//! value, by the table of types. A value has forgotten in which order its fields were written, and all but the last of those
//! that were written twice; where that is seen, [`decode_ordered`] reads the text once more.

mod bytes;
mod form;
mod node;
mod reader;

use rdd_meta::{go_json, go_text};
use rdd_schema::{ordered::Ordered, strict::Finding};
use serde_json::{Map, Value};

use self::{node::Node, reader::Reader};
use crate::types::{self, Kind};

/// Why a body is no object of a kind: the words of a BadRequest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused(pub String);

/// What upstream's scheme calls itself in complaints.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";
/// How many characters of a body are shown.
const SUMMARY_BYTES_MAX: usize = 30;
/// How reflection prints the struct that upstream looks for the type with.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Makes `object` what its kind's Go struct is. Returns what was unknown, in the order of the names.
///
/// An object without kind or apiVersion gets the ones that are expected; one with others is refused.
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

/// The object in a text, and what was unknown or there twice, in the order of the text. What is there twice is read into the
/// same place, as Go does: objects become one, lists do so item by item, and of anything else the last counts.
///
/// Otherwise as [`decode`].
pub fn decode_ordered(kind: &Kind, text: &Ordered) -> Result<(Value, Vec<Finding>), Refused> {
    check_type(kind, &text.to_value())?;
    let (read, findings) = typed(kind, Node::Ordered(text), true);
    let findings = findings.map_err(|complaint| handled(kind.kind, kind.version, kind, &complaint))?;
    Ok((read, findings))
}

/// Makes an object of the kind what it is when it comes out of the store: the structs are there that Go always writes, and a
/// list that is empty is none. What is malformed is left empty.
pub fn reform(kind: &Kind, object: &mut Value) {
    let keeps_empty = keeps_empty(kind);
    if form::complete(kind, object, keeps_empty) {
        return;
    }
    let body = object.take();
    // What can be read has been read; there is nobody to complain to.
    (*object, _) = typed(kind, Node::Value(&body), keeps_empty);
}

/// An object of the kind in which nothing is set: its type, and the structs that Go always writes.
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

/// Whether an empty list stays one: most kinds are stored as protobuf, which cannot tell it from none.
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
    // What is missing is what is expected; a version without a kind still is a version.
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
        // The two kinds of events convert into each other, so that only the path tells which one is meant.
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

/// The apiVersion and kind of a body, either empty if it is not there.
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

/// The beginning of a body.
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
