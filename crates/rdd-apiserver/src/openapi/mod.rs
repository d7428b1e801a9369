//! OpenAPI: serves version 3 documents per group-version and one version 2 document, as JSON or protobuf.
//!
//! # Flow
//! A document is identified by a hash of its inputs, so the index and a `304` need no document. A document is generated on the first
//! request, one at a time, written directly into gzip, and cached compressed within a size limit while its hash is current.

mod cache;
mod custom;
mod document;
mod fingerprint;
mod form;
mod gnostic;
mod gnostic3;
mod legacy;
mod parameter;
mod render;
mod route;
mod source;
#[cfg(test)]
mod tests;

use std::{
    io::Read,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION,
        VARY,
    },
    request::Parts,
};
use rdd_meta::Status;
use rdd_stdx::clock::SharedClock;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

pub use self::source::{Definitions, Schemas, StoredSchemas};
use self::{
    cache::{Cache, Entry},
    document::{Sources, Subject},
    form::Form,
};
use crate::{
    discovery::{not_modified, order},
    registry::Served,
    request::query_pairs,
    respond::{self, Response},
    version::Version,
};

const INDEX: &str = "/openapi/v3";
const EVERYTHING: &str = "/openapi/v2";
/// The size limit of the cache. All of upstream's documents take 1.1 MB compressed.
const CACHE_BYTES_MAX: usize = 2 << 20;
/// The lifetime of a document that is requested by its hash: one year, the practical maximum of HTTP.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The OpenAPI handler: generates and caches the documents.
#[derive(Debug)]
pub struct OpenApi {
    definitions: Box<dyn Definitions>,
    schemas: Box<dyn Schemas>,
    clock: SharedClock,
    /// The version and commit of the program. Another program may generate other documents.
    release: String,
    /// The API version of the server, such as `1.35`.
    api: String,
    cache: Mutex<Kept>,
    /// Generating a document takes much memory, so one permit allows one at a time.
    making: Arc<Semaphore>,
}

#[derive(Debug)]
struct Kept {
    cache: Cache,
    /// The generation of the registry's table for which outdated documents were last removed.
    generation: u64,
}

/// A document that exists, with its current hash. All forms of it have the same hash.
#[derive(Debug)]
struct Wanted {
    subject: Subject,
    hash: String,
}

impl OpenApi {
    /// Creates the handler without any documents. `version` is the version that the server reports.
    pub fn new(
        definitions: Box<dyn Definitions>,
        schemas: Box<dyn Schemas>,
        version: &Version,
        clock: SharedClock,
    ) -> Arc<Self> {
        Arc::new(Self {
            definitions,
            schemas,
            clock,
            release: format!("{} {}", version.git_version, version.git_commit),
            api: format!("{}.{}", version.major, version.minor),
            cache: Mutex::new(Kept { cache: Cache::new(CACHE_BYTES_MAX), generation: 0 }),
            making: Arc::new(Semaphore::new(1)),
        })
    }

    /// Responds to a request for a document or for the index. Returns `None` if the path is neither.
    pub async fn answer(self: &Arc<Self>, served: &Arc<Served>, head: &Parts, path: &str) -> Option<Response> {
        if path != EVERYTHING && path != INDEX && !path.starts_with("/openapi/v3/") {
            return None;
        }
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return Some(respond::status(&Status::method_not_allowed()));
        }
        if path == INDEX {
            return Some(self.index(served, head));
        }
        let Some(wanted) = self.wanted(served, path) else { return Some(empty(StatusCode::NOT_FOUND)) };
        Some(self.document(served, head, path, wanted).await)
    }

    fn index(&self, served: &Served, head: &Parts) -> Response {
        let entry = |(path, group, version): (String, &str, &str)| {
            let hash = fingerprint::of_version(served, &self.release, group, version);
            (path.clone(), json!({"serverRelativeURL": location(&format!("{INDEX}/{path}"), &hash)}))
        };
        let paths: Map<String, Value> = group_versions(served).into_iter().map(entry).collect();
        let body = json!({"paths": paths}).to_string();
        let hash = crate::discovery::upper_hex(ring::digest::digest(&ring::digest::SHA512, body.as_bytes()).as_ref());
        let mut response = match knows(&head.headers, &hash) {
            true => not_modified(),
            false => respond::content(StatusCode::OK, respond::JSON, body),
        };
        response.headers_mut().insert(ETAG, quoted(&hash));
        response
    }

    fn wanted(&self, served: &Served, path: &str) -> Option<Wanted> {
        if path == EVERYTHING {
            return Some(Wanted { subject: Subject::Everything, hash: fingerprint::of_all(served, &self.release) });
        }
        let asked = path.strip_prefix("/openapi/v3/")?;
        let (_, group, version) = group_versions(served).into_iter().find(|(path, ..)| path == asked)?;
        let hash = fingerprint::of_version(served, &self.release, group, version);
        let subject = Subject::Version { group: group.to_owned(), version: version.to_owned() };
        Some(Wanted { subject, hash })
    }

    async fn document(self: &Arc<Self>, served: &Arc<Served>, head: &Parts, path: &str, wanted: Wanted) -> Response {
        let accepted = head.headers.get(ACCEPT).map_or("", |value| value.to_str().unwrap_or("?"));
        let form = match wanted.subject {
            Subject::Everything => Form::of_v2(accepted),
            Subject::Version { .. } => Form::of_v3(accepted),
        };
        let mut response = match form {
            None => empty(StatusCode::NOT_ACCEPTABLE),
            Some(form) => self.acceptable(served, head, path, wanted, form).await,
        };
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        response
    }

    async fn acceptable(
        self: &Arc<Self>,
        served: &Arc<Served>,
        head: &Parts,
        path: &str,
        wanted: Wanted,
        form: Form,
    ) -> Response {
        let hash = wanted.hash.clone();
        // Only version 3 documents are requested by hash.
        let asked = asked_hash(head).filter(|_| path != EVERYTHING);
        let mut response = if asked.as_ref().is_some_and(|asked| *asked != hash) {
            moved(path, &hash)
        } else if knows(&head.headers, &hash) {
            not_modified()
        } else {
            match self.gzip(served, path, wanted, form).await {
                Ok(gzip) => content(&head.headers, form.content_type(path == EVERYTHING), gzip),
                Err(status) => return respond::status(&status),
            }
        };
        let headers = response.headers_mut();
        headers.insert(ETAG, quoted(&hash));
        if asked.is_some_and(|asked| asked == hash) {
            let expires = std::time::UNIX_EPOCH + self.clock.wall() + FOR_EVER;
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
            headers.extend(HeaderValue::try_from(httpdate::fmt_http_date(expires)).ok().map(|date| (EXPIRES, date)));
        }
        response
    }

    /// Returns the document from the cache, or generates it.
    async fn gzip(
        self: &Arc<Self>,
        served: &Arc<Served>,
        path: &str,
        wanted: Wanted,
        form: Form,
    ) -> Result<Bytes, Status> {
        if let Some(gzip) = self.kept(served, path, form, &wanted.hash) {
            return Ok(gzip);
        }
        let failed = |error: String| {
            tracing::error!(path, error, "OpenAPI document could not be made");
            Status::internal("the OpenAPI document could not be made")
        };
        let making = Arc::clone(&self.making).acquire_owned().await.map_err(|error| failed(error.to_string()))?;
        // Another request may have generated it while this one waited for the permit.
        if let Some(gzip) = self.kept(served, path, form, &wanted.hash) {
            return Ok(gzip);
        }
        let (this, shown, place) = (Arc::clone(self), Arc::clone(served), path.to_owned());
        let made = tokio::task::spawn_blocking(move || {
            let made = this.make(&shown, &place, wanted, form);
            // The task holds the permit to its end: if the client disconnects, no second document is generated at the same time.
            drop(making);
            made
        });
        made.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    fn make(&self, served: &Served, path: &str, wanted: Wanted, form: Form) -> std::io::Result<Bytes> {
        let sources = Sources { served, definitions: &*self.definitions, schemas: &*self.schemas, api: &self.api };
        let gzip = Bytes::from(document::write(sources, &wanted.subject, form)?);
        let entry = Entry { hash: wanted.hash, gzip: gzip.clone() };
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).cache.put(path, form, entry);
        Ok(gzip)
    }

    fn kept(&self, served: &Served, path: &str, form: Form, hash: &str) -> Option<Bytes> {
        let mut kept = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        // The registry has changed since the last call: remove the outdated documents.
        if kept.generation != served.generation {
            kept.generation = served.generation;
            kept.cache.retain(|path, hash| self.wanted(served, path).is_some_and(|wanted| wanted.hash == hash));
        }
        kept.cache.get(path, form, hash)
    }
}

/// The OpenAPI paths for the index page of the server.
pub fn paths(served: &Served) -> Vec<String> {
    let documents = group_versions(served).into_iter().map(|(path, ..)| format!("{INDEX}/{path}"));
    [EVERYTHING, INDEX].into_iter().map(str::to_owned).chain(documents).collect()
}

/// The path below the index, the group and the version of each version 3 document.
fn group_versions(served: &Served) -> Vec<(String, &str, &str)> {
    let core = order::versions(served, "").into_iter().map(|version| (format!("api/{version}"), "", version));
    let others = order::groups(served).into_iter().flat_map(|group| {
        let versions = order::versions(served, group).into_iter();
        versions.map(move |version| (format!("apis/{group}/{version}"), group, version))
    });
    core.chain(others).collect()
}

fn location(path: &str, hash: &str) -> String {
    format!("{path}?hash={hash}")
}

fn asked_hash(head: &Parts) -> Option<String> {
    let mut pairs = query_pairs(head.uri.query().unwrap_or_default());
    pairs.find(|(name, _)| name == "hash").map(|(_, hash)| hash.into_owned()).filter(|hash| !hash.is_empty())
}

/// Whether `If-None-Match` shows that the client has the document.
fn knows(headers: &HeaderMap, hash: &str) -> bool {
    let is_it = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"') == hash;
    let given = headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|tag| is_it(tag.trim()))
}

/// The response with a document: compressed if the client accepts gzip, otherwise decompressed.
fn content(headers: &HeaderMap, content_type: HeaderValue, gzip: Bytes) -> Response {
    let mut response = if takes_gzip(headers) {
        let mut response = respond::content(StatusCode::OK, content_type, gzip);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        let mut plain = Vec::new();
        match flate2::read::GzDecoder::new(&*gzip).read_to_end(&mut plain) {
            Ok(_) => respond::content(StatusCode::OK, content_type, plain),
            Err(_) => return respond::status(&Status::internal("the OpenAPI document could not be inflated")),
        }
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let refused = |parameters: &str| {
        let quality = parameters.split(';').find_map(|part| part.trim().strip_prefix("q="));
        quality.is_some_and(|quality| quality.trim().parse::<f32>().is_ok_and(|quality| quality <= 0.0))
    };
    let coding = |part: &str| {
        let (name, parameters) = part.split_once(';').unwrap_or((part, ""));
        name.trim().eq_ignore_ascii_case("gzip") && !refused(parameters)
    };
    let given = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(coding)
}

/// A redirect (301) to the current hash of a document.
fn moved(path: &str, hash: &str) -> Response {
    let mut response = empty(StatusCode::MOVED_PERMANENTLY);
    response.headers_mut().insert(CONTENT_TYPE, respond::JSON);
    let location = HeaderValue::try_from(location(path, hash)).ok();
    response.headers_mut().extend(location.map(|location| (LOCATION, location)));
    response
}

fn empty(code: StatusCode) -> Response {
    let mut response = Response::new(respond::full(""));
    *response.status_mut() = code;
    response
}

fn quoted(hash: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{hash}\"")).expect("quotes and hexadecimal digits are visible characters")
}
