//! Routing: which operation a request is, and on which object.

use http::Method;

use super::query::decode;

/// The routes of the fake engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// `GET` or `HEAD /_ping`
    Ping,
    /// `GET /version`
    Version,
    /// `GET /info`
    Info,
    /// `GET /events`
    Events,
    /// `GET /containers/json`
    ContainerList,
    /// `POST /containers/create`
    ContainerCreate,
    /// `POST /containers/prune`
    ContainerPrune,
    /// `GET /containers/{id}/json`
    ContainerInspect,
    /// `POST /containers/{id}/start`
    ContainerStart,
    /// `POST /containers/{id}/stop`
    ContainerStop,
    /// `POST /containers/{id}/restart`
    ContainerRestart,
    /// `POST /containers/{id}/kill`
    ContainerKill,
    /// `POST /containers/{id}/pause`
    ContainerPause,
    /// `POST /containers/{id}/unpause`
    ContainerUnpause,
    /// `POST /containers/{id}/rename`
    ContainerRename,
    /// `GET /containers/{id}/logs`
    ContainerLogs,
    /// `DELETE /containers/{id}`
    ContainerRemove,
    /// `GET /images/json`
    ImageList,
    /// `POST /images/create`
    ImageCreate,
    /// `POST /images/prune`
    ImagePrune,
    /// `GET /images/{name}/json`
    ImageInspect,
    /// `POST /images/{name}/tag`
    ImageTag,
    /// `DELETE /images/{name}`
    ImageRemove,
    /// `GET /volumes`
    VolumeList,
    /// `POST /volumes/create`
    VolumeCreate,
    /// `GET /volumes/{name}`
    VolumeInspect,
    /// `DELETE /volumes/{name}`
    VolumeRemove,
    /// Any other request; answered with 404.
    Unknown,
}

/// A parsed path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) route: Route,
    /// The name of the object in the path; empty if there is none.
    pub(super) object: String,
    /// The API version in the path: major and minor.
    pub(super) version: Option<(u32, u32)>,
}

impl Target {
    pub(super) fn of(method: &Method, path: &str) -> Self {
        let path = path.trim_start_matches('/');
        let (version, path) = match path.split_once('/') {
            Some((first, rest)) => version(first).map_or((None, path), |version| (Some(version), rest)),
            None => (None, path),
        };
        let (route, object) = route(method, path);
        Self { route, object: decode(object), version }
    }
}

fn version(part: &str) -> Option<(u32, u32)> {
    let (major, minor) = part.strip_prefix('v')?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn route<'p>(method: &Method, path: &'p str) -> (Route, &'p str) {
    let (collection, rest) = path.split_once('/').unwrap_or((path, ""));
    let known = match (method.as_str(), collection, rest) {
        ("GET" | "HEAD", "_ping", "") => Route::Ping,
        ("GET", "version", "") => Route::Version,
        ("GET", "info", "") => Route::Info,
        ("GET", "events", "") => Route::Events,
        ("GET", "containers", "json") => Route::ContainerList,
        ("POST", "containers", "create") => Route::ContainerCreate,
        ("POST", "containers", "prune") => Route::ContainerPrune,
        ("GET", "images", "json") => Route::ImageList,
        ("POST", "images", "create") => Route::ImageCreate,
        ("POST", "images", "prune") => Route::ImagePrune,
        ("GET", "volumes", "") => Route::VolumeList,
        ("POST", "volumes", "create") => Route::VolumeCreate,
        ("GET", "volumes", name) => return (Route::VolumeInspect, name),
        ("DELETE", "volumes", name) => return (Route::VolumeRemove, name),
        ("DELETE", "images", name) => return (Route::ImageRemove, name),
        ("DELETE", "containers", name) => return (Route::ContainerRemove, name),
        (_, "containers" | "images", rest) => return verb(method, collection, rest),
        _ => Route::Unknown,
    };
    (known, "")
}

/// Parses `{name}/{verb}`; an image name may contain slashes.
fn verb<'p>(method: &Method, collection: &str, rest: &'p str) -> (Route, &'p str) {
    let Some((object, verb)) = rest.rsplit_once('/') else { return (Route::Unknown, "") };
    let route = match (method.as_str(), collection, verb) {
        ("GET", "containers", "json") => Route::ContainerInspect,
        ("GET", "containers", "logs") => Route::ContainerLogs,
        ("POST", "containers", "start") => Route::ContainerStart,
        ("POST", "containers", "stop") => Route::ContainerStop,
        ("POST", "containers", "restart") => Route::ContainerRestart,
        ("POST", "containers", "kill") => Route::ContainerKill,
        ("POST", "containers", "pause") => Route::ContainerPause,
        ("POST", "containers", "unpause") => Route::ContainerUnpause,
        ("POST", "containers", "rename") => Route::ContainerRename,
        ("GET", "images", "json") => Route::ImageInspect,
        ("POST", "images", "tag") => Route::ImageTag,
        _ => return (Route::Unknown, ""),
    };
    (route, object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        let target = |method: Method, path: &str| {
            let Target { route, object, version } = Target::of(&method, path);
            (route, object, version)
        };
        let plain = |route| (route, String::new(), None);
        assert_eq!(target(Method::GET, "/_ping"), plain(Route::Ping));
        assert_eq!(target(Method::GET, "/v1.41/containers/json"), (Route::ContainerList, String::new(), Some((1, 41))));
        assert_eq!(target(Method::GET, "/containers/a1/json").1, "a1");
        let image = target(Method::POST, "/v1.54/images/localhost:5000%2Fa/b/tag");
        assert_eq!(image, (Route::ImageTag, "localhost:5000/a/b".to_owned(), Some((1, 54))));
        assert_eq!(target(Method::DELETE, "/images/other/box:2").1, "other/box:2");
        assert_eq!(target(Method::GET, "/nosuch").0, Route::Unknown);
        assert_eq!(target(Method::PUT, "/containers/a1/json").0, Route::Unknown);
        assert_eq!(target(Method::GET, "/").0, Route::Unknown);
    }
}
