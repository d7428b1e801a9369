//! Resolves a request's method, path and query to a verb on a resource, or to a non-resource path.
//!
//! The rules are those of upstream's `RequestInfoFactory`, with two additions: a path with an empty, `.` or `..`
//! segment is rejected, encoded or not, and so is a path that does not decode to UTF-8. No client needs
//! such paths, and they could mislead authorization.

use std::{fmt, ops::Range};

pub use crate::query::Query;
use crate::{gvk::GroupVersionResource, names, options::ListOptions, query};

/// The attributes of a request, as authorization needs them.
///
/// Every request creates one, so it stores ranges of the path and not copies of its segments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestInfo {
    /// Whether the request is for a resource. If not, only the path and the verb are set, and perhaps `api_prefix`.
    pub is_resource_request: bool,
    /// The verb. For a non-resource path, the method in lower case.
    pub verb: Verb,
    /// `api`, `apis` or empty.
    pub api_prefix: &'static str,
    /// The name from the `metadata.name` field selector of a list or watch. Authorization treats it as the name of the
    /// object.
    pub selected_name: String,
    /// The field selector of a verb on collections, unparsed.
    pub field_selector: String,
    /// The label selector of a verb on collections, unparsed.
    pub label_selector: String,
    /// The decoded path, into which the ranges point.
    path: String,
    group: Range<usize>,
    version: Range<usize>,
    namespace: Range<usize>,
    /// The segments from the resource to the end.
    parts: Range<usize>,
    /// The first three of `parts`: resource, name and subresource.
    first: [Range<usize>; 3],
}

/// The verb of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow the changes of a collection.
    Watch,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Modify an object.
    Patch,
    /// Delete an object.
    Delete,
    /// Delete a collection.
    DeleteCollection,
    /// Forward to an object, by the deprecated `/proxy` path prefix.
    Proxy,
    /// The method of a request for a non-resource path, in lower case.
    Method(String),
    /// A method that has no meaning on a resource.
    #[default]
    None,
}

/// Why a path is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A percent escape is broken, or the decoded path is not UTF-8.
    #[error("decode path {0:?}")]
    Encoding(String),
    /// The path has an empty, `.` or `..` segment, or a NUL.
    #[error("refuse path {path:?} with the segment {segment:?}")]
    Segment {
        /// The decoded path.
        path: String,
        /// The rejected segment.
        segment: String,
    },
    /// Nothing follows the `/watch` or `/proxy` prefix. The message is upstream's, without the query.
    #[error("unable to determine kind and namespace from url, {0}")]
    NoKind(String),
}

impl Verb {
    /// The name of the verb in authorization rules.
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
    /// Parses a request from its method in upper case, its path as it came, and its query.
    ///
    /// # Guarantees
    /// No segment of the path is empty, `.` or `..`, except for one trailing slash.
    ///
    /// # Errors
    /// When the path does not decode, has a rejected segment, or ends after a `/watch` or `/proxy` prefix.
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
            // Upstream sets the prefix of such a path only if it has both a group and a version.
            let prefix = if info.group.is_empty() || info.version.is_empty() { "" } else { "apis" };
            return Ok(Self::without_resource(method, path, prefix));
        }
        info.is_resource_request = true;
        let mut resource = words.take()?;
        // The deprecated prefixes `/watch` and `/proxy` precede the resource.
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
            // These subresources belong to the Namespace itself; any other segment is a resource inside of the
            // namespace.
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

    /// The group, version and resource.
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

    /// The namespace. A request for a Namespace object has its name here.
    pub fn namespace(&self) -> &str {
        &self.path[self.namespace.clone()]
    }

    /// The path's segments from the resource on: resource, name, subresource, and segments that only the subresource
    /// interprets.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.path[self.parts.clone()].split('/').filter(|part| !part.is_empty())
    }

    /// The plural name, as in `configmaps`.
    pub fn resource(&self) -> &str {
        self.part(0)
    }

    /// The name of the object; for a list or watch that selects by `metadata.name`, the selected name.
    pub fn name(&self) -> &str {
        if self.selected_name.is_empty() { self.part(1) } else { &self.selected_name }
    }

    /// The subresource, as in `status`; empty for the proxy verb.
    pub fn subresource(&self) -> &str {
        if self.verb == Verb::Proxy { "" } else { self.part(2) }
    }

    /// One of the first three [`parts`](Self::parts), by index; empty if the path has no such part.
    pub fn part(&self, index: usize) -> &str {
        &self.path[self.first[index].clone()]
    }

    /// Whether segments follow the subresource.
    pub fn has_more_parts(&self) -> bool {
        let [.., last] = &self.first;
        !last.is_empty() && last.end < self.parts.end
    }

    /// Turns get and delete without a name into their collection verbs, and reads the selectors.
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

/// Reads the `watch` parameter of a query whose other parameters do not parse.
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

/// Iterates over the path's segments, without the leading and one trailing slash, and validates each.
struct Words<'a> {
    path: &'a str,
    /// Where the next segment starts; greater than `end` if there is none.
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

    /// The range of the next segment; an empty range after the last one.
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

    /// Validates the remaining segments.
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
