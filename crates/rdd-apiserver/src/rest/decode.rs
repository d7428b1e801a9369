//! From a body to an object of the kind that an endpoint takes.

use rdd_meta::{Status, go_json, go_text, metadata::MetadataMut};
use rdd_schema::strict::{Document, Finding, decoding_error};
use serde_json::Value;

use super::{Target, writing::Writing};
use crate::registry::{Kind, Ordered, Origin, form};

/// So much of a body is shown of which nothing is known.
const SUMMARY_MAX: usize = 30;

/// What is done about fields that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

impl FieldValidation {
    /// As the options say; warnings by default.
    pub(crate) fn of(text: &str) -> Self {
        match text {
            "Ignore" => Self::Ignore,
            "Strict" => Self::Strict,
            _ => Self::Warn,
        }
    }
}

/// The object in a body. What it has too much is a warning, or an error, as the client wants.
pub(crate) fn object(writing: &Writing<'_>, body: Document) -> Result<Value, Status> {
    let target = writing.target;
    let (kind, version) = (&target.def.kind, &target.version().name);
    let reset = takes_owners_away(&body.value);
    let (mut object, findings) = if target.def.custom.is_some() {
        custom(target, body)?
    } else {
        // Built-in kinds look at the type themselves, and say in upstream's words what is wrong.
        built_in(&*target.version().kind, body)?
    };
    report(writing, &findings).map_err(|why| wrap(kind, kind, version, &why))?;
    if reset {
        take_owners_away(&mut object);
    }
    Ok(object)
}

/// Whether a client asks to forget who owns what: by an empty list, or one with an empty entry. Decoding drops such a list
/// as any empty one, so it is looked for before.
pub(crate) fn takes_owners_away(object: &Value) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.is_some_and(|entries| match entries.as_slice() {
        [] => true,
        [only] => only.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    })
}

/// Puts that wish back into what was decoded.
pub(crate) fn take_owners_away(object: &mut Value) {
    if let Some(mut metadata) = MetadataMut::of(object) {
        metadata.set("managedFields", Some(Value::Array(Vec::new())));
    }
}

/// Decodes an object of a built-in kind. The text is read again only where its order, or what is there twice in it, is seen:
/// in what is told about it, or in what becomes of it.
fn built_in(kind: &dyn Kind, body: Document) -> Result<(Value, Vec<Finding>), Status> {
    let Document { value: mut object, mut findings, text } = body;
    let decoded = kind.decode(&mut object, Origin::Request);
    let is_plain = findings.is_empty() && decoded.as_ref().is_ok_and(|unknown| unknown.len() < 2);
    let text = text.filter(|_| !is_plain);
    let ordered = text.as_ref().and_then(|text| Ordered::read(text).ok());
    let decoded = match ordered.and_then(|ordered| kind.decode_ordered(&ordered)) {
        Some(decoded) => decoded,
        None => decoded.map(|unknown| {
            findings.extend(unknown);
            (object, findings)
        }),
    };
    decoded.map_err(|mut status| {
        if let Some(text) = text {
            status.message = as_written(status.message, &text);
        }
        status
    })
}

/// What is wrong with a number, told with the number as it was written: Go has the text, of which a value has lost the form. Of
/// several ways to write the same number in one body the first is taken.
fn as_written(message: String, text: &[u8]) -> String {
    const WRONG: &str = "cannot unmarshal number ";
    let Some((before, rest)) = message.split_once(WRONG) else { return message };
    let Some((shown, after)) = rest.split_once(" into ") else { return message };
    let Ok(value) = shown.parse::<f64>() else { return message };
    let written = numbers(text).find(|number| number.parse() == Ok(value)).unwrap_or(shown);
    format!("{before}{WRONG}{written} into {after}")
}

/// The numbers in a JSON text, as they are written.
fn numbers(text: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut is_text = false;
        let mut at = 0;
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\\' if is_text => at += 1,
                b'"' => is_text = !is_text,
                b'-' | b'0'..=b'9' if !is_text => {
                    let is_part = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                    let length = rest[at..].iter().take_while(is_part).count();
                    let number = &rest[at..at + length];
                    rest = &rest[at + length..];
                    return std::str::from_utf8(number).ok();
                }
                _ => {}
            }
            at += 1;
        }
        rest = &[];
        None
    })
}

/// Decodes a custom resource, of which only the type is known before. What is there twice is told first, in the order of the
/// text; what is unknown comes after it, in the order of upstream's steps.
fn custom(target: &Target, body: Document) -> Result<(Value, Vec<Finding>), Status> {
    let Document { value: mut object, mut findings, .. } = body;
    let (kind, version) = (&target.def.kind, &target.version().name);
    let expected = target.def.api_version(version);
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    if !object.is_object() {
        let why = format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_json::type_name(&object)
        );
        return Err(wrap(kind, "", "", &why));
    }
    if text("kind").is_empty() {
        let shown = String::from_utf8_lossy(&form::write(&object)).into_owned();
        let summary: String = shown.chars().take(SUMMARY_MAX).collect();
        let dots = if summary.len() < shown.len() { " ..." } else { "" };
        let why = format!("Object 'Kind' is missing in '{shown}' ({summary}{dots})");
        return Err(wrap(kind, "", "", &why));
    }
    let found = text("apiVersion");
    if !found.is_empty() && found != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({found}) does not match the expected API version ({expected})"
        )));
    }
    let decoded = target.version().kind.decode(&mut object, Origin::Request);
    findings.extend(decoded.map_err(|status| wrap(kind, kind, version, &status.message))?);
    Ok((object, findings))
}

/// Warns of findings, or makes an error text of them.
pub(crate) fn report(writing: &Writing<'_>, findings: &[Finding]) -> Result<(), String> {
    match FieldValidation::of(&writing.context.options.field_validation) {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            findings.iter().flat_map(warnings).for_each(|text| writing.context.warnings.add(text));
            Ok(())
        }
        FieldValidation::Strict => decoding_error(findings).map_or(Ok(()), Err),
    }
}

/// What a client is told of a finding: each line of what YAML's reader says on its own, without the first, which names the reader.
fn warnings(finding: &Finding) -> Vec<String> {
    let text = finding.to_string();
    let lines = text.strip_prefix("yaml: unmarshal errors:\n").unwrap_or(&text);
    lines.lines().map(|line| line.trim().to_owned()).collect()
}

/// An error of decoding, as `transformDecodeError` upstream words it.
fn wrap(expected: &str, kind: &str, version: &str, why: &str) -> Status {
    if kind.is_empty() {
        return Status::bad_request(format!("the object provided is unrecognized (must be of type {expected}): {why}"));
    }
    let prefix = format!("{kind} in version {} cannot be handled as a {expected}: ", go_text::quote(version));
    let why = why.strip_prefix(&prefix).unwrap_or(why);
    Status::bad_request(format!("{prefix}{why}"))
}
