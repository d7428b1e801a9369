//! Decodes request bodies: JSON, YAML or protobuf into a [`Document`], or a Status with upstream's message.

use bytes::Bytes;
use http::{HeaderMap, header};
use rdd_meta::{Status, go_json, go_text::quote, gvk::GroupVersion};
use rdd_schema::strict::{self, Document, Finding};
use rdd_yaml as yaml;
use serde_json::Value;

use super::{malformed, negotiate::MEDIA_TYPES, protobuf};
use crate::{registry::Part, rest::Target};

/// How many bytes of an undecodable body the error message contains.
const SUMMARY_MAX: usize = 30;
/// The Go type into which upstream decodes the type of an object; error messages contain it.
const TYPE_META: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The encoding of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// JSON, also the default without `Content-Type`.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf, for built-in kinds only.
    Protobuf,
}

/// The encoding that the `Content-Type` of a request names.
///
/// # Errors
/// 415 if the media type is unknown or malformed.
pub fn notation(headers: &HeaderMap) -> Result<Notation, Status> {
    let told = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default();
    let mut parts = told.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    if !are_parameters(parts) {
        return Err(Status::unsupported_media_type(&MEDIA_TYPES));
    }
    match media_type.as_str() {
        "" if told.is_empty() => Ok(Notation::Json),
        "application/json" => Ok(Notation::Json),
        "application/yaml" => Ok(Notation::Yaml),
        protobuf::MEDIA_TYPE => Ok(Notation::Protobuf),
        _ => Err(Status::unsupported_media_type(&MEDIA_TYPES)),
    }
}

/// Whether the parts after a media type are valid parameters with distinct names, as Go's parser requires. An empty part after the
/// last semicolon is allowed.
fn are_parameters<'t>(parts: impl Iterator<Item = &'t str>) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte))
    };
    let mut seen = Vec::new();
    let parts: Vec<&str> = parts.map(str::trim).collect();
    let given = match parts.split_last() {
        Some((&"", before)) => before,
        _ => &parts[..],
    };
    given.iter().all(|part| {
        let Some((name, value)) = part.split_once('=') else { return false };
        let name = name.to_ascii_lowercase();
        let quoted = value.len() > 1 && value.starts_with('"') && value.ends_with('"');
        let fits = is_token(&name) && (is_token(value) || quoted) && !seen.contains(&name);
        seen.push(name);
        fits
    })
}

/// Decodes the body of a request as an object of a target.
///
/// # Guarantees
/// Duplicate keys are findings, not errors. Checking the fields against the kind is the caller's task. The document keeps its text
/// only if the body is JSON: upstream sorts the fields of YAML before it decodes them, and protobuf has an order of its own.
///
/// # Errors
/// 415 for an unsupported media type, 400 for a body that is malformed, nested too deep, or has a malformed `apiVersion` or `kind`.
pub fn read_body(headers: &HeaderMap, bytes: &Bytes, target: &Target) -> Result<Document, Status> {
    let notation = notation(headers)?;
    let (kind, version) = expected(target);
    let read = match notation {
        Notation::Json => checked(read_json(bytes)).map(|document| Document { text: Some(bytes.clone()), ..document }),
        Notation::Yaml => checked(read_yaml(bytes)),
        Notation::Protobuf => {
            let built_in =
                protobuf::kind_of(target).ok_or_else(|| Status::unsupported_media_type(&MEDIA_TYPES[..2]))?;
            checked(protobuf::read(built_in, bytes).map_err(Problem::from))
        }
    };
    read.map_err(|problem| match problem {
        Problem::Unrecognized(why) => {
            let summary = summary(bytes);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
            ))
        }
        Problem::Unhandled(why) => {
            let version = quote(&version);
            Status::bad_request(format!("{kind} in version {version} cannot be handled as a {kind}: {why}"))
        }
    })
}

/// Decodes the body of a delete: its options, in any API group.
///
/// # Errors
/// 415 for an unsupported media type, 400 for a malformed body or another kind, with upstream's messages.
pub fn read_delete_options(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Status> {
    let read = match notation(headers)? {
        Notation::Json => checked(read_json(bytes)),
        Notation::Yaml => checked(read_yaml(bytes)),
        Notation::Protobuf => return protobuf::read_delete_options(bytes),
    };
    let document = read.map_err(|problem| match problem {
        Problem::Unrecognized(why) | Problem::Unhandled(why) => Status::bad_request(why),
    })?;
    let text = |field: &str| document.value.get(field).and_then(Value::as_str).unwrap_or_default();
    let kind = text("kind");
    if !matches!(kind, "" | "DeleteOptions") {
        let (kind, version) = (quote(kind), quote(text("apiVersion")));
        return Err(Status::bad_request(format!(
            "no kind {kind} is registered for version {version} in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    Ok(document.value)
}

/// Decodes JSON that is not an API object, such as a patch. The error is Go's message.
pub(crate) fn read_json_document(bytes: &Bytes) -> Result<Document, String> {
    let read = strict::read(bytes).map(|document| Document { text: Some(bytes.clone()), ..document });
    read.map_err(|error| malformed::problem(bytes).unwrap_or_else(|| error.to_string()))
}

/// Decodes YAML that is not necessarily a complete object, such as an apply patch. The error is upstream's message.
pub(crate) fn read_yaml_document(bytes: &[u8]) -> Result<Document, String> {
    read_yaml(bytes).map_err(|problem| match problem {
        Problem::Unrecognized(why) | Problem::Unhandled(why) => why,
    })
}

/// The kind and version that an endpoint accepts.
fn expected(target: &Target) -> (String, String) {
    match target.subresource().map(|subresource| &subresource.part) {
        Some(Part::Scale(_)) => ("Scale".to_owned(), "v1".to_owned()),
        Some(Part::Question(question)) => {
            let kind = question.kind();
            (kind.kind, kind.version)
        }
        Some(Part::View) | None => (target.def.kind.clone(), target.version().name.clone()),
    }
}

/// Why a body could not be decoded. Upstream words the two cases differently.
enum Problem {
    /// Its type could not be determined.
    Unrecognized(String),
    /// Its type is known, but one of its values is invalid.
    Unhandled(String),
}

impl From<protobuf::Problem> for Problem {
    fn from(problem: protobuf::Problem) -> Self {
        match problem {
            protobuf::Problem::Unrecognized(why) => Self::Unrecognized(why),
            protobuf::Problem::Unhandled(why) => Self::Unhandled(why),
        }
    }
}

fn checked(read: Result<Document, Problem>) -> Result<Document, Problem> {
    let document = read?;
    check_type(&document.value).map_err(Problem::Unrecognized)?;
    Ok(document)
}

fn read_json(bytes: &[u8]) -> Result<Document, Problem> {
    let error = match strict::read(bytes) {
        Ok(document) => return Ok(document),
        Err(error) => error,
    };
    let parse = |why: &str| Problem::Unrecognized(format!("couldn't get version/kind; json parse error: {why}"));
    // A second scanner words the error like Go; only malformed bodies pay for it.
    if let Some(why) = malformed::problem(bytes) {
        return Err(parse(&why));
    }
    if std::str::from_utf8(bytes).is_err() {
        // Upstream stores replacement characters instead. We refuse such bytes, so that the client learns of the mistake.
        return Err(parse("invalid UTF-8 in string literal"));
    }
    match number_at(bytes, &error) {
        Some(number) => {
            Err(Problem::Unhandled(format!("json: cannot unmarshal number {number} into Go value of type float64")))
        }
        None => Err(parse(&error.to_string())),
    }
}

/// The number that the parser found out of range, if that is the error.
fn number_at<'b>(bytes: &'b [u8], error: &serde_json::Error) -> Option<&'b str> {
    if !error.to_string().starts_with("number out of range") {
        return None;
    }
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().checked_sub(1)?)?;
    let line = std::str::from_utf8(line).ok()?;
    // The parser reports a position somewhere in the number, so search for both ends.
    let end = error.column().min(line.len());
    let part_of_number = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let before = line.as_bytes()[..end].iter().rev().take_while(|byte| part_of_number(byte)).count();
    let after = line.as_bytes()[end..].iter().take_while(|byte| part_of_number(byte)).count();
    line.get(end - before..end + after)
}

fn read_yaml(bytes: &[u8]) -> Result<Document, Problem> {
    // JSON is also YAML, and its parser is much faster. Duplicate keys have other messages in YAML, so they take the slow path.
    if bytes.first() == Some(&b'{')
        && let Ok(document) = strict::read(bytes)
        && document.findings.is_empty()
    {
        return Ok(document);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        Problem::Unrecognized(format!("yaml: offset {offset}: invalid UTF-8"))
    })?;
    let read = yaml::read(text).map_err(|error| Problem::Unrecognized(error.to_string()))?;
    let findings = read.duplicates.map(Finding::Yaml).into_iter().collect();
    Ok(Document { findings, ..read.value.into() })
}

/// Checks `apiVersion` and `kind`, which upstream decodes before the rest of the object.
fn check_type(value: &Value) -> Result<(), String> {
    let parse = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    if !value.is_object() && !value.is_null() {
        return Err(parse(format!(
            "json: cannot unmarshal {} into Go value of type {TYPE_META}",
            go_json::type_name(value)
        )));
    }
    for field in ["apiVersion", "kind"] {
        match value.get(field) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let found = go_json::type_name(other);
                return Err(parse(format!(
                    "json: cannot unmarshal {found} into Go struct field .{field} of type string"
                )));
            }
        }
    }
    let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    GroupVersion::parse(version).map(|_| ()).map_err(|error| error.to_string())
}

/// The beginning of a body for an error message: as text if it looks like JSON, otherwise in hexadecimal.
fn summary(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(SUMMARY_MAX)];
    let more = if bytes.len() > SUMMARY_MAX { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(cut)),
        Some(_) => format!("{}{more}", cut.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}
