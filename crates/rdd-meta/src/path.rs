//! From method, path and query to what a request wants: a verb on a resource, or a path that no resource is behind.
//!
//! The rules are those of upstream's `RequestInfoFactory`. Two are ours: a path with `.`, `..` or an empty segment is
//! refused, whether encoded or not, and so is one that does not decode to UTF-8; nothing good comes that way.

use std::{fmt, ops::Range};

pub use crate::query::Query;
use crate::{gvk::GroupVersionResource, names, options::ListOptions, query};

/// What a request wants, in the terms of authorization. Its words are places in the path: every request has one of these made for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// Whether it is about a resource. If not, only the path and the verb are known, and `api_prefix` perhaps.
    pub is_resource_request: bool,
    /// What to do. For a path without a resource it is the method in lower case.
    pub verb: Verb,
    /// `api` or `apis`.
    pub api_prefix: &'static str,
    /// The name that a list or watch asks for by `metadata.name`, which authorization takes for the object's.
    pub selected_name: String,
    /// The selector as it came, for verbs on many objects.
    pub field_selector: String,
    /// The same for labels.
    pub label_selector: String,
    /// Decoded.
    path: String,
    group: Range<usize>,
    version: Range<usize>,
    namespace: Range<usize>,
    /// From the resource on.
    parts: Range<usize>,
    /// The first of them: resource, name and subresource.
    first: [Range<usize>; 3],
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
    /// Forward to one, by the old path prefix.
    Proxy,
    /// A method on a path without a resource, in lower case.
    Method(String),
    /// A method that means nothing on a resource.
    #[default]
    None,
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// An escape is broken, or what it stands for is not UTF-8.
    #[error("decode path {0:?}")]
    Encoding(String),
    /// It climbs, or has an empty segment.
    #[error("refuse path {path:?} with the segment {segment:?}")]
    Segment {
        /// All of it.
        path: String,
        /// The part.
        segment: String,
    },
    /// `/watch` or `/proxy` with nothing behind it; upstream's words, without the query.
    #[error("unable to determine kind and namespace from url, {0}")]
    NoKind(String),
}

impl Verb {
    /// The word that authorization rules use.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Proxy => "proxy",
            Self::Method(method) => method,
            Self::None => "",
        }
    }

    fn of_resource(method: &str) -> Self {
        match method {
            "POST" => Self::Create,
            "GET" | "HEAD" => Self::Get,
            "PUT" => Self::Update,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl RequestInfo {
    /// Reads a request: its method in capitals, its path as it came, and its query.
    pub fn parse(method: &str, raw_path: &str, query: &Query) -> Result<Self, PathError> {
        let path = decode(raw_path)?;
        let mut words = Words::of(&path);
        let mut info = Self::default();
        match words.next()? {
            "api" => info.api_prefix = "api",
            "apis" => {
                info.api_prefix = "apis";
                info.group = words.take()?;
            }
            _ => {
                words.finish()?;
                return Ok(Self::without_resource(method, path, ""));
            }
        }
        info.version = words.take()?;
        if words.are_over() {
            // Of these only the version of a group is known to be one.
            let prefix = if info.group.is_empty() || info.version.is_empty() { "" } else { "apis" };
            return Ok(Self::without_resource(method, path, prefix));
        }
        info.is_resource_request = true;
        let mut resource = words.take()?;
        let by_prefix = match &path[resource.clone()] {
            "watch" => Some(Verb::Watch),
            "proxy" => Some(Verb::Proxy),
            _ => None,
        };
        if by_prefix.is_some() {
            if words.are_over() {
                return Err(PathError::NoKind(path));
            }
            resource = words.take()?;
        }
        let selectable = by_prefix.is_none();
        info.verb = by_prefix.unwrap_or_else(|| Verb::of_resource(method));
        let mut name = words.take()?;
        let mut subresource = words.take()?;
        if &path[resource.clone()] == "namespaces" && !name.is_empty() {
            info.namespace = name.clone();
            // A Namespace has these two parts; everything else behind its name is a resource inside of it.
            if !matches!(&path[subresource.clone()], "" | "status" | "finalize") {
                (resource, name, subresource) = (subresource, words.take()?, words.take()?);
            }
        }
        info.parts = resource.start..words.end;
        info.first = [resource, name, subresource];
        words.finish()?;
        info.path = path;
        info.refine_verb(query, selectable);
        Ok(info)
    }

    fn without_resource(method: &str, path: String, api_prefix: &'static str) -> Self {
        Self { path, api_prefix, verb: Verb::Method(method.to_ascii_lowercase()), ..Self::default() }
    }

    /// Group, version and resource together.
    pub fn group_version_resource(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group(), self.version(), self.resource())
    }

    /// The decoded path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The group; empty for the core API.
    pub fn group(&self) -> &str {
        &self.path[self.group.clone()]
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.path[self.version.clone()]
    }

    /// The namespace; for a Namespace itself it is its name.
    pub fn namespace(&self) -> &str {
        &self.path[self.namespace.clone()]
    }

    /// The segments from the resource on: resource, name, subresource, and what only the subresource understands.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.path[self.parts.clone()].split('/').filter(|part| !part.is_empty())
    }

    /// The plural, as in `configmaps`.
    pub fn resource(&self) -> &str {
        self.part(0)
    }

    /// The name of the object. For a list or watch by `metadata.name`, that name.
    pub fn name(&self) -> &str {
        if self.selected_name.is_empty() { self.part(1) } else { &self.selected_name }
    }

    /// The part of the object, as in `status`.
    pub fn subresource(&self) -> &str {
        if self.verb == Verb::Proxy { "" } else { self.part(2) }
    }

    /// One of the first three [`parts`](Self::parts) as the path has it; empty if there is none.
    pub fn part(&self, index: usize) -> &str {
        &self.path[self.first[index].clone()]
    }

    /// Whether there are more than these.
    pub fn has_more_parts(&self) -> bool {
        let [.., last] = &self.first;
        !last.is_empty() && last.end < self.parts.end
    }

    /// Tells one object from many, and a list from a watch.
    fn refine_verb(&mut self, query: &Query, selectable: bool) {
        if self.name().is_empty() && self.verb == Verb::Get {
            let options = ListOptions::from_query(query);
            let watch = options.as_ref().map_or_else(|_| query_asks_to_watch(query), |options| options.watch);
            self.verb = if watch { Verb::Watch } else { Verb::List };
            let name = options.as_ref().ok().and_then(|options| options.field_selector.required_value("metadata.name"));
            if let Some(name) = name.filter(|name| names::path_segment_name(name).is_empty()) {
                self.selected_name = name.to_owned();
            }
        }
        if self.name().is_empty() && self.verb == Verb::Delete {
            self.verb = Verb::DeleteCollection;
        }
        if selectable && matches!(self.verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
            self.field_selector = query.first("fieldSelector").unwrap_or_default().to_owned();
            self.label_selector = query.first("labelSelector").unwrap_or_default().to_owned();
        }
    }
}

/// A query that is malformed elsewhere still says whether it is a watch.
fn query_asks_to_watch(query: &Query) -> bool {
    query.first("watch").is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

fn decode(raw_path: &str) -> Result<String, PathError> {
    if !raw_path.as_bytes().contains(&b'%') {
        return Ok(raw_path.to_owned());
    }
    query::percent_decode(raw_path)
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| PathError::Encoding(raw_path.to_owned()))
}

/// The segments between the first slash and one that may trail, each looked at once.
struct Words<'a> {
    path: &'a str,
    /// Where the next one begins; beyond the end if there is none.
    at: usize,
    end: usize,
}

impl<'a> Words<'a> {
    fn of(path: &'a str) -> Self {
        let start = usize::from(path.starts_with('/'));
        let end = path.len() - usize::from(path.len() > start && path.ends_with('/'));
        let is_root = matches!(path, "" | "/");
        Self { path, at: if is_root { end + 1 } else { start }, end }
    }

    fn are_over(&self) -> bool {
        self.at > self.end
    }

    /// The place of the next one, which is empty if there is none.
    fn take(&mut self) -> Result<Range<usize>, PathError> {
        if self.are_over() {
            return Ok(self.end..self.end);
        }
        let rest = &self.path.as_bytes()[self.at..self.end];
        let length = rest.iter().position(|byte| matches!(byte, b'/' | 0)).unwrap_or(rest.len());
        let (segment, has_null) = (&rest[..length], rest.get(length) == Some(&0));
        if matches!(segment, b"" | b"." | b"..") || has_null {
            let segment = self.path[self.at..self.end].split('/').next().unwrap_or_default();
            return Err(PathError::Segment { path: self.path.to_owned(), segment: segment.to_owned() });
        }
        let place = self.at..self.at + length;
        self.at = place.end + 1;
        Ok(place)
    }

    fn next(&mut self) -> Result<&'a str, PathError> {
        Ok(&self.path[self.take()?])
    }

    /// Looks at all that are left.
    fn finish(mut self) -> Result<(), PathError> {
        while !self.are_over() {
            self.take()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    fn parse(method: &str, url: &str) -> Result<RequestInfo, PathError> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        RequestInfo::parse(method, path, &Query::parse(query))
    }

    #[test]
    fn requests_mean_what_they_mean_upstream() {
        for row in vectors::rows("paths") {
            let (method, url) = (row.text("method"), row.text("url"));
            let Some(error) = row.value("error").as_str() else {
                let info = parse(&method, &url).unwrap();
                let ours = serde_json::json!({
                    "resource_request": info.is_resource_request, "path": info.path(), "verb": info.verb.as_str(),
                    "prefix": info.api_prefix, "group": info.group(), "version": info.version(),
                    "namespace": info.namespace(), "resource": info.resource(), "subresource": info.subresource(),
                    "name": info.name(), "parts": info.parts().collect::<Vec<_>>(), "fields": info.field_selector,
                    "labels": info.label_selector,
                });
                assert_eq!(&ours, row.value("info"), "{method} {url}");
                continue;
            };
            assert_eq!(parse(&method, &url).unwrap_err().to_string(), error, "{method} {url}");
        }
    }

    #[test]
    fn what_climbs_or_does_not_decode_is_refused() {
        for url in [
            "/api/v1/../secrets",
            "/api/v1/namespaces/a/configmaps/%2e%2e",
            "/api/v1/namespaces/a/configmaps/..%2fsecrets",
            "/api/v1/./pods",
            "/api/v1//pods",
            "//api/v1/pods",
            "/api/v1/pods//",
            "/healthz/..",
            "/api/v1/pods/a%00b",
            "/..",
            "//",
            "/api/v1/watch//",
            "/api/v1/pods/a/b/c/../d",
            "/apis/..",
            "/version/./x",
        ] {
            assert!(matches!(parse("GET", url), Err(PathError::Segment { .. })), "{url}");
        }
        for url in ["/api/v1/pods/%", "/api/v1/pods/%zz", "/api/v1/pods/%ff"] {
            assert!(matches!(parse("GET", url), Err(PathError::Encoding(_))), "{url}");
        }
    }

    #[test]
    fn a_name_is_decoded() {
        let info = parse("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode").unwrap();
        assert_eq!(info.name(), "system:node");
        assert_eq!(
            info.group_version_resource(),
            GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "clusterroles")
        );
    }
}
