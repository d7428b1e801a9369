//! Discovery: serves the documents about groups, versions and resources, unaggregated and aggregated.
//!
//! The documents are small. They are built from the registry's table for each request and not cached.

mod document;
#[cfg(test)]
pub(crate) mod fixture;
pub mod order;
#[cfg(test)]
mod tests;

use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, VARY},
    request::Parts,
};
use rdd_meta::Status;
use ring::digest::{SHA512, digest};
use serde::Serialize;

use crate::{
    registry::Served,
    represent::{self, Encoding, accept},
    respond::{self, Response},
};

/// The content type of the aggregated document.
const AGGREGATED: HeaderValue =
    HeaderValue::from_static("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
const AGGREGATED_YAML: HeaderValue =
    HeaderValue::from_static("application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");

/// Responds to a request for a discovery document. Returns `None` if the path does not belong to discovery.
pub fn answer(served: &Served, head: &Parts, path: &str) -> Option<Response> {
    let place = Place::of(path)?;
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Some(represent::error(head, &Status::method_not_allowed()));
    }
    let made = match place {
        Place::Core => match aggregated_in(head) {
            Some(encoding) => aggregated(head, encoding, served, &[""]),
            None => plain(head, &document::api_versions(served, address(head))),
        },
        Place::Groups => match aggregated_in(head) {
            Some(encoding) => aggregated(head, encoding, served, &order::groups(served)),
            None => plain(head, &document::api_group_list(served)),
        },
        Place::Group(group) => match document::api_group(served, group) {
            Some(document) => plain(head, &document),
            None => unknown(served, group),
        },
        Place::Version(group, version) => match document::api_resource_list(served, group, version) {
            Some(document) => plain(head, &document),
            None => unknown(served, group),
        },
    };
    Some(made.unwrap_or_else(|status| represent::error(head, &status)))
}

/// The discovery paths for the index page of the server.
pub fn paths(served: &Served) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    paths.extend(order::versions(served, "").into_iter().map(|version| format!("/api/{version}")));
    for group in order::groups(served) {
        paths.push(format!("/apis/{group}"));
        paths.extend(order::versions(served, group).into_iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths
}

/// The document that a path refers to.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Core,
    Groups,
    Group(&'a str),
    Version(&'a str, &'a str),
}

impl<'a> Place<'a> {
    /// Parses a path, also with one slash at the end. Returns `None` for other paths.
    fn of(path: &'a str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut segments = path.split('/');
        let place = match (segments.next()?, segments.next(), segments.next()) {
            ("api", None, None) => Self::Core,
            ("api", Some(version), None) => Self::Version("", version),
            ("apis", None, None) => Self::Groups,
            ("apis", Some(group), None) if !group.is_empty() => Self::Group(group),
            ("apis", Some(group), Some(version)) if !group.is_empty() => Self::Version(group, version),
            _ => return None,
        };
        segments.next().is_none().then_some(place)
    }
}

/// The encoding in which the client accepts the aggregated document. Its position in `Accept` does not matter: upstream, too, serves
/// the unaggregated document only if no clause accepts the aggregated one. This server does not offer it in protobuf.
fn aggregated_in(head: &Parts) -> Option<Encoding> {
    let header = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept::clauses(header).iter().filter(|clause| is_aggregated(clause)).find_map(|clause| {
        let stream = clause.parameter("stream").unwrap_or_default();
        match stream {
            "" | "watch" if clause.covers("json") => Some(Encoding::Json { pretty: false }),
            "" if clause.covers("yaml") => Some(Encoding::Yaml),
            _ => None,
        }
    })
}

fn is_aggregated(clause: &accept::Clause<'_>) -> bool {
    const FORM: [Option<&str>; 3] = [Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")];
    ["g", "v", "as"].map(|name| clause.parameter(name)) == FORM && clause.parameter("sv").is_none()
}

fn plain(head: &Parts, document: &impl Serialize) -> Result<Response, Status> {
    represent::document(head, to_json(document)?.into())
}

/// The 404 for an unknown group or version. For a built-in group it is a Status, otherwise plain text, as upstream's components
/// respond.
fn unknown(served: &Served, group: &str) -> Result<Response, Status> {
    let is_builtin = served.in_group(group).any(|def| def.custom.is_none());
    if is_builtin { Err(Status::not_found_path()) } else { Ok(respond::not_found()) }
}

fn aggregated(head: &Parts, encoding: Encoding, served: &Served, groups: &[&str]) -> Result<Response, Status> {
    let json = to_json(&document::aggregated(served, groups))?;
    // A hash of the content, so it survives restarts while the same resources are served.
    let etag = format!("\"{}\"", upper_hex(digest(&SHA512, &json).as_ref()));
    let mut response = if head.headers.get(IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == etag.as_bytes()) {
        not_modified()
    } else {
        let mut response = represent::document_in(encoding, head, json.into())?;
        let form = if encoding == Encoding::Yaml { AGGREGATED_YAML } else { AGGREGATED };
        response.headers_mut().insert(CONTENT_TYPE, form);
        response
    };
    let etag = HeaderValue::try_from(etag).expect("quotes and hexadecimal digits are visible characters");
    let headers = response.headers_mut();
    headers.insert(ETAG, etag);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

/// A response 304 without a body.
pub(crate) fn not_modified() -> Response {
    let mut response = Response::new(respond::full(""));
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Encodes bytes as upper-case hexadecimal digits.
pub(crate) fn upper_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 0xf)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// The address by which the client reached the server. The server listens on one address, so other clients can use it too.
fn address(head: &Parts) -> Option<String> {
    let host = |headers: &HeaderMap| Some(headers.get(HOST)?.to_str().ok()?.to_owned());
    head.uri.authority().map(|authority| authority.as_str().to_owned()).or_else(|| host(&head.headers))
}

fn to_json(document: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(document).map_err(|error| Status::internal(error.to_string()))
}
