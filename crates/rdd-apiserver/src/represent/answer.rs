//! Encodes responses: an object, a list or a Status, in the negotiated encoding and form.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header, request::Parts};
use rdd_meta::{Status, go_json, time::Timestamp};
use rdd_yaml as yaml;
use serde_json::Value;

use super::{
    Encoding, Form, Representation,
    frames::{self, Gather, Source},
    negotiate, partial, pretty, protobuf, table,
};
use crate::{
    registry::{Stored, form},
    respond::{self, BoxError, Response},
    rest::Target,
    state::Object,
};

/// An object to send.
#[derive(Debug, Clone)]
pub enum Wire {
    /// Its JSON, which is sent without parsing it if possible.
    Bytes(Bytes),
    /// Its parsed value.
    Value(Value),
}

/// The metadata of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListMetadata {
    /// The revision of the list.
    pub resource_version: String,
    /// The token for the next page; empty if this is the last one.
    pub continue_token: String,
    /// The number of objects after this page, if it is known.
    pub remaining_item_count: Option<usize>,
}

impl Wire {
    /// The JSON of the object.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Value(value) => form::write(&value).into(),
        }
    }
}

/// Responds with an object of the target, or with the object of a subresource that has a kind of its own.
///
/// # Errors
/// 406 if the client wants the metadata of a list; 500 if the object cannot be encoded.
pub fn object(
    representation: &Representation,
    target: &Target,
    code: StatusCode,
    wire: Wire,
) -> Result<Response, Status> {
    if let Form::PartialObjectMetadataList(_) = representation.form {
        let kind = go_type(target, &target.def.kind);
        let message =
            format!("you requested PartialObjectMetadataList, but the requested object is not a list ({kind})");
        return Err(not_acceptable(message));
    }
    let json = shown(representation, target, wire, true)?;
    encoded(representation, code, json)
}

/// The JSON of an object in the negotiated form. With `headers`, a table includes its column definitions.
pub(crate) fn shown(
    representation: &Representation,
    target: &Target,
    wire: Wire,
    headers: bool,
) -> Result<Bytes, Status> {
    match representation.form {
        Form::Object => Ok(wire.into_bytes()),
        Form::PartialObjectMetadata(version) | Form::PartialObjectMetadataList(version) => {
            Ok(partial::object(version, &wire.into_bytes()))
        }
        Form::Table { version, include } => {
            let (json, object) = both(wire)?;
            Ok(table::of_one(target, (version, include), &json, &object, representation.now, headers))
        }
    }
}

/// Responds with a list of the target's objects.
///
/// # Guarantees
/// A large list in JSON is encoded while it is sent, so it needs little memory beyond the objects that the state holds anyway.
///
/// # Errors
/// 406 if the client wants the metadata of one object; 500 if an object cannot be encoded. Errors while a list is streamed break off
/// the body instead.
pub fn list(
    representation: &Representation,
    target: &Target,
    metadata: &ListMetadata,
    objects: Vec<Arc<Object>>,
) -> Result<Response, Status> {
    if let Form::PartialObjectMetadata(_) = representation.form {
        let kind = go_type(target, &target.def.list_kind);
        let message = format!("you requested PartialObjectMetadata, but the requested object is a list ({kind})");
        return Err(not_acceptable(message));
    }
    if representation.encoding == Encoding::Protobuf {
        return protobuf_list(representation, target, metadata, &objects);
    }
    // One comma follows each item.
    let length: usize = objects.iter().map(|object| object.wire().len() + 1).sum();
    let mut items = Items::new(representation, target, metadata, objects);
    // YAML and indented JSON are converted from the complete document, so they cannot be streamed.
    if representation.encoding == (Encoding::Json { pretty: false }) && length > frames::FRAME_BYTES {
        return Ok(frames::streamed(representation, StatusCode::OK, length, items));
    }
    let mut gather = Gather::default();
    while items.add(&mut gather)? {}
    gather.close();
    let mut json = Vec::with_capacity(length);
    while let Some(piece) = gather.next() {
        json.extend_from_slice(&piece);
    }
    // `encoded` adds the newline again.
    json.pop();
    encoded(representation, StatusCode::OK, json.into())
}

/// Responds with a list in protobuf. The length of a list precedes its items, so all items are encoded before the first is sent.
fn protobuf_list(
    representation: &Representation,
    target: &Target,
    metadata: &ListMetadata,
    objects: &[Arc<Object>],
) -> Result<Response, Status> {
    let (api_version, kind, partial) = match representation.form {
        Form::PartialObjectMetadataList(version) => {
            (version.api_version().to_owned(), "PartialObjectMetadataList", true)
        }
        _ => (target.def.api_version(&target.version().name), target.def.list_kind.as_str(), false),
    };
    let item = |object: &Arc<Object>| protobuf::item(&form::value(&target.def, target.version(), object)?, partial);
    let items = objects.iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let metadata = parsed(list_metadata(metadata, false).as_bytes())?;
    let body = protobuf::list(&api_version, kind, &metadata, &items);
    Ok(frames::whole(representation, StatusCode::OK, body.into(), b""))
}

/// Responds with a Status that is not an error, such as that of a delete. It is sent in the negotiated encoding, but never as a table
/// or metadata.
pub fn outcome(representation: &Representation, code: StatusCode, status: &Status) -> Result<Response, Status> {
    // `encoded` adds the newline again.
    let mut json = status.to_wire();
    json.pop();
    encoded(representation, code, json.into())
}

/// Responds with JSON that is not an API object, such as a discovery document, in an encoding that the client accepts.
///
/// # Errors
/// 406 if the client accepts none.
pub(crate) fn document(head: &Parts, json: Bytes) -> Result<Response, Status> {
    let encoding =
        negotiate::negotiate_plain(head, false).ok_or_else(|| Status::not_acceptable(&negotiate::MEDIA_TYPES))?;
    document_in(encoding, head, json)
}

/// Responds with JSON in an encoding that the caller has negotiated.
pub(crate) fn document_in(encoding: Encoding, head: &Parts, json: Bytes) -> Result<Response, Status> {
    let (encoding, gzip) = (negotiate::prettier(encoding, head), negotiate::takes_gzip(&head.headers));
    encoded(&Representation { encoding, form: Form::Object, gzip, now: Timestamp::new(0, 0) }, StatusCode::OK, json)
}

/// Responds with an error in an encoding that the client accepts, or in indented JSON if it accepts none.
pub fn error(head: &Parts, status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let encoding = negotiate::negotiate_plain(head, true).unwrap_or(Encoding::Json { pretty: true });
    let gzip = negotiate::takes_gzip(&head.headers);
    let representation = Representation { encoding, form: Form::Object, gzip, now: Timestamp::new(0, 0) };
    // A Status that cannot be encoded is sent as JSON rather than not at all.
    let mut response = outcome(&representation, code, status).unwrap_or_else(|_| respond::status(status));
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn encoded(representation: &Representation, code: StatusCode, json: Bytes) -> Result<Response, Status> {
    let (text, end): (Bytes, &'static [u8]) = match representation.encoding {
        Encoding::Json { pretty: false } => (json, b"\n"),
        Encoding::Json { pretty: true } => (pretty::indent(&json).into(), b""),
        Encoding::Yaml => (yaml::write(&parsed(&json)?).into(), b""),
        Encoding::Protobuf => (protobuf::sealed(&parsed(&json)?)?.into(), b""),
    };
    Ok(frames::whole(representation, code, text, end))
}

fn both(wire: Wire) -> Result<(Bytes, Value), Status> {
    match wire {
        Wire::Value(value) => Ok((form::write(&value).into(), value)),
        Wire::Bytes(bytes) => parsed(&bytes).map(|value| (bytes, value)),
    }
}

fn parsed(json: &[u8]) -> Result<Value, Status> {
    serde_json::from_slice(json).map_err(|error| Status::internal(error.to_string()))
}

fn not_acceptable(message: String) -> Status {
    let mut status = Status::not_acceptable(&[]);
    status.message = message;
    status
}

/// The Go type of an object, which one of upstream's messages contains.
fn go_type(target: &Target, kind: &str) -> String {
    if target.def.custom.is_some() {
        let name = if kind == target.def.kind { "Unstructured" } else { "UnstructuredList" };
        return format!("*unstructured.{name}");
    }
    let package = target.def.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    format!("*{package}.{kind}")
}

/// The encoder of a list; it produces one item at a time.
struct Items {
    representation: Representation,
    target: Target,
    objects: std::vec::IntoIter<Arc<Object>>,
    opening: Option<Vec<u8>>,
    first: bool,
    /// The size of the objects that were encoded for the current frame.
    read_bytes: usize,
}

impl Items {
    fn new(
        representation: &Representation,
        target: &Target,
        metadata: &ListMetadata,
        objects: Vec<Arc<Object>>,
    ) -> Self {
        // Upstream's typed lists omit an empty token; its unstructured lists do not.
        let always_continue = target.def.custom.is_some() && representation.form == Form::Object;
        let list_metadata = list_metadata(metadata, always_continue);
        let typed = |kind: &str, api_version: &str| {
            format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{list_metadata},"items":["#)
                .into_bytes()
        };
        let opening = match representation.form {
            Form::Table { version, .. } => table::opening(target, version, &list_metadata, true),
            Form::PartialObjectMetadata(version) | Form::PartialObjectMetadataList(version) => {
                typed("PartialObjectMetadataList", version.api_version())
            }
            Form::Object => typed(&target.def.list_kind, &target.def.api_version(&target.version().name)),
        };
        let (representation, target) = (*representation, target.clone());
        Self {
            representation,
            target,
            objects: objects.into_iter(),
            opening: Some(opening),
            first: true,
            read_bytes: 0,
        }
    }

    /// Adds the next item, or the end of the list. Returns `false` after the end.
    fn add(&mut self, gather: &mut Gather) -> Result<bool, Status> {
        if let Some(opening) = self.opening.take() {
            gather.text(&opening);
        }
        let Some(object) = self.objects.next() else {
            gather.text(b"]}\n");
            return Ok(false);
        };
        if !std::mem::take(&mut self.first) {
            gather.text(b",");
        }
        let (def, version) = (&self.target.def, self.target.version());
        self.read_bytes += object.wire().len();
        match self.representation.form {
            Form::Object if def.manners.untyped_items => {
                gather.text(b"{");
                gather.shared(untyped(&self.target, &object)?);
            }
            Form::Object => gather.shared(form::wire(def, version, &object)?),
            Form::PartialObjectMetadata(meta) | Form::PartialObjectMetadataList(meta) => {
                gather.shared(partial::object(meta, &form::wire(def, version, &object)?));
            }
            Form::Table { version: meta, include } => {
                let json = form::wire(def, version, &object)?;
                let value = parsed(&json)?;
                gather.shared(table::row(&self.target, meta, include, &json, &value, self.representation.now));
            }
        }
        if self.representation.form != Form::Object && self.read_bytes >= frames::FRAME_BYTES {
            // Rows are small even for large objects: without this, one frame could take hundreds of large objects to fill.
            self.read_bytes = 0;
            gather.close();
        }
        Ok(true)
    }
}

impl Source for Items {
    fn is_expensive(&self) -> bool {
        self.representation.form != Form::Object
    }

    fn fill(&mut self, gather: &mut Gather) -> Result<bool, BoxError> {
        self.add(gather).map_err(|status| {
            tracing::error!(error = status.message, "a list could not be completed");
            status.message.into()
        })
    }
}

/// The JSON of an object without `apiVersion`, `kind` and the opening brace, as upstream writes items of typed lists.
fn untyped(target: &Target, object: &Object) -> Result<Bytes, Status> {
    let (def, version) = (&target.def, target.version());
    match version.stored {
        // The state knows where the type ends in the stored bytes, so nothing is parsed.
        Stored::Same | Stored::Renamed if def.custom.is_none() => Ok(object.wire_after_type()),
        _ => {
            let mut value = form::value(def, version, object)?;
            if let Some(members) = value.as_object_mut() {
                members.remove("apiVersion");
                members.remove("kind");
            }
            Ok(Bytes::from(form::write(&value)).slice(1..))
        }
    }
}

/// Encodes the metadata of a list. Lists of custom resources always have a continue token, even an empty one.
fn list_metadata(metadata: &ListMetadata, always_continue: bool) -> String {
    let ListMetadata { resource_version, continue_token, remaining_item_count } = metadata;
    let mut members = Vec::new();
    let mut text = |name: &str, value: &str| {
        let mut member = format!("\"{name}\":");
        go_json::write_string(&mut member, value);
        members.push(member);
    };
    if !resource_version.is_empty() {
        text("resourceVersion", resource_version);
    }
    if !continue_token.is_empty() || always_continue {
        text("continue", continue_token);
    }
    members.extend(remaining_item_count.map(|count| format!("\"remainingItemCount\":{count}")));
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use rdd_meta::Reason;

    use super::*;

    #[test]
    fn a_406_has_the_words_it_was_given_and_no_others() {
        let status = not_acceptable("no".to_owned());
        assert_eq!((status.message.as_str(), status.code, status.reason), ("no", 406, Some(Reason::NotAcceptable)));
    }

    #[test]
    fn the_metadata_of_a_list_has_what_is_known() {
        let full = ListMetadata {
            resource_version: "7".to_owned(),
            continue_token: "t".to_owned(),
            remaining_item_count: Some(3),
        };
        assert_eq!(list_metadata(&full, false), r#"{"resourceVersion":"7","continue":"t","remainingItemCount":3}"#);
        let plain = ListMetadata { resource_version: "7".to_owned(), ..ListMetadata::default() };
        assert_eq!(list_metadata(&plain, false), r#"{"resourceVersion":"7"}"#);
        assert_eq!(list_metadata(&plain, true), r#"{"resourceVersion":"7","continue":""}"#);
        assert_eq!(list_metadata(&ListMetadata::default(), false), "{}");
    }

    #[test]
    fn an_error_is_written_in_what_the_client_accepts() {
        let answer = |accept: &str| {
            let request = http::Request::get("/").header(header::ACCEPT, accept).body(()).unwrap();
            let response = error(&request.into_parts().0, &Status::bad_request("no"));
            (response.status().as_u16(), response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned())
        };
        assert_eq!(answer("application/yaml"), (400, "application/yaml".to_owned()));
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(answer(protobuf), (400, protobuf.to_owned()));
        assert_eq!(answer("application/xml"), (400, "application/json".to_owned()));
    }
}
