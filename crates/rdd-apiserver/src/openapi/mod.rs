//! The schemas and operations of what is served, as OpenAPI documents: version 3 per group-version, version 2 as one.
//!
//! Both are JSON, and protobuf as well, which some clients read instead.
//!
//! A document is named by a hash of what it depends on, so that the index and a `304` cost nothing. It is made when someone asks
//! for it, in one go and one at a time, and kept only compressed, within a bound, and only while its hash holds.

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
/// Compressed documents that are kept. All of upstream's are 1.1 MB.
const CACHE_BYTES_MAX: usize = 2 << 20;
/// How long a document that is named by its hash stays true: for ever, as far as HTTP goes.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Makes and keeps the documents.
#[derive(Debug)]
pub struct OpenApi {
    definitions: Box<dyn Definitions>,
    schemas: Box<dyn Schemas>,
    clock: SharedClock,
    /// Names the program: another one may make other documents.
    release: String,
    /// As `1.35`.
    api: String,
    cache: Mutex<Kept>,
    /// Documents are large while they are made, so they are made one after the other.
    making: Arc<Semaphore>,
}

#[derive(Debug)]
struct Kept {
    cache: Cache,
    /// For which table of what is served the cache was last looked through.
    generation: u64,
}

/// A document that can be asked for, and what it is called at the moment. The hash is that of all forms.
#[derive(Debug)]
struct Wanted {
    subject: Subject,
    hash: String,
}

impl OpenApi {
    /// Nothing is made yet. `version` is what the server reports itself as.
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

    /// The answer to a request for a document or for the index; `None` if the path is none of theirs.
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

    /// The document, kept or made.
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
        if let Some(gzip) = self.kept(served, path, form, &wanted.hash) {
            return Ok(gzip);
        }
        let (this, shown, place) = (Arc::clone(self), Arc::clone(served), path.to_owned());
        let made = tokio::task::spawn_blocking(move || {
            let made = this.make(&shown, &place, wanted, form);
            // Held to here: a client that goes away does not make room for a second document beside this one.
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
        if kept.generation != served.generation {
            kept.generation = served.generation;
            kept.cache.retain(|path, hash| self.wanted(served, path).is_some_and(|wanted| wanted.hash == hash));
        }
        kept.cache.get(path, form, hash)
    }
}

/// The paths of the index page.
pub fn paths(served: &Served) -> Vec<String> {
    let documents = group_versions(served).into_iter().map(|(path, ..)| format!("{INDEX}/{path}"));
    [EVERYTHING, INDEX].into_iter().map(str::to_owned).chain(documents).collect()
}

/// The path below the index, the group and the version of each document of version 3.
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

/// Whether the client says that it has the document.
fn knows(headers: &HeaderMap, hash: &str) -> bool {
    let is_it = |tag: &str| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"') == hash;
    let given = headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|tag| is_it(tag.trim()))
}

/// The document as the client takes it: compressed, or inflated again.
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

/// 301 to the document that there is now.
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
