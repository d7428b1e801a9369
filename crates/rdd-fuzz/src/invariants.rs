//! The invariants: what holds for every reply, whatever was requested.

use std::collections::BTreeMap;

use rdd_testkit::api::{Ask, Reply};
use serde_json::Value;

/// Messages of replies that have the code 500 in Kubernetes too, although the object is at fault; there is no better reply to copy.
const UPSTREAM_FAULTS: &[&str] = &["Internal error occurred: the spec replicas field"];

/// Identifies a kind of reply: verb, resource, patch type, code, reason and the form of the message.
pub(crate) type Signature = String;

/// Checks that a reply is a Status or an object in the declared encoding, not an internal error, and that its managed fields are well
/// formed.
pub(crate) fn check_answer(ask: &Ask, reply: &Reply) -> Result<(), String> {
    // A reply to HEAD has no body.
    if ask.method == "HEAD" {
        return if reply.code >= 500 { Err(format!("{} for a HEAD", reply.code)) } else { Ok(()) };
    }
    if let Some(problem) = reply.improper()
        && !UPSTREAM_FAULTS.iter().any(|known| problem.contains(known))
    {
        return Err(problem);
    }
    if reply.code == 503 {
        return Err(format!("503 for a request that will never succeed: {}", reply.text()));
    }
    let kind = reply.header("content-type").unwrap_or_default();
    let is_whole = kind.starts_with("application/json") && !kind.contains("stream=watch") && !is_watch(ask);
    if !is_whole || reply.body.is_empty() {
        return Ok(());
    }
    let Ok(value) = serde_json::from_slice::<Value>(&reply.body) else {
        return Err(format!("the answer says that it is JSON and is not: {}", reply.text()));
    };
    check_managed_fields(&value)
}

fn is_watch(ask: &Ask) -> bool {
    ask.path.contains("watch")
}

fn check_managed_fields(object: &Value) -> Result<(), String> {
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let is_sound = matches!(entry["operation"].as_str(), Some("Apply" | "Update"))
            && entry["apiVersion"].as_str().is_some_and(|version| !version.is_empty())
            && entry["fieldsType"] == "FieldsV1"
            && entry["fieldsV1"].is_object();
        if !is_sound {
            return Err(format!("managed fields are malformed: {entry}"));
        }
    }
    Ok(())
}

/// The newest resource version of each collection by its path and of each object by its UID.
#[derive(Debug, Default)]
pub(crate) struct Versions(BTreeMap<(String, String), u64>);

impl Versions {
    /// Checks that the resource version of an object or a collection never decreases.
    pub(crate) fn check(&mut self, ask: &Ask, reply: &Reply) -> Result<(), String> {
        // A request for a version may get an older one, and the reply to a dry run has the version of the unchanged object.
        if reply.code >= 300 || ask.path.contains('?') || ask.method == "HEAD" {
            return Ok(());
        }
        let metadata = &reply.json()["metadata"];
        let Some(version) = metadata["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok()) else {
            return Ok(());
        };
        let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
        // An object is identified by its UID alone, since several paths may lead to it.
        let path = if uid.is_empty() { ask.path.clone() } else { String::new() };
        let known = self.0.entry((path, uid)).or_default();
        if version < *known {
            return Err(format!("resourceVersion {version} after {known}"));
        }
        *known = version;
        Ok(())
    }
}

/// The path at which the result of a successful write can be read; `None` for dry runs, deletes and resources that are not stored.
pub(crate) fn read_back_path(ask: &Ask, reply: &Reply) -> Option<String> {
    let is_write = matches!(ask.method.as_str(), "POST" | "PUT" | "PATCH");
    let is_json = reply.header("content-type")?.starts_with("application/json");
    let (path, query) = ask.path.split_once('?').unwrap_or((&ask.path, ""));
    if !is_write || !matches!(reply.code, 200 | 201) || !is_json || query.contains("dryRun") || query.contains('%') {
        return None;
    }
    if ask.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        return None;
    }
    let object = reply.json();
    // Only stored objects have a UID; reviews, for example, have none.
    object["metadata"]["uid"].as_str()?;
    let name = object["metadata"]["name"].as_str()?;
    let segments = path.trim_end_matches('/').split('/').count();
    let depth = if path.contains("/namespaces/") { 2 } else { 0 } + if path.starts_with("/api/") { 4 } else { 5 };
    match (ask.method.as_str(), segments == depth, segments == depth + 1) {
        ("POST", true, _) => Some(format!("{}/{name}", path.trim_end_matches('/'))),
        ("PUT" | "PATCH", _, true) => Some(path.to_owned()),
        _ => None,
    }
}

/// Checks that an object reads back as it was returned, unless it has changed since: the server's own controllers update and delete
/// objects.
pub(crate) fn check_read_back(written: &Value, read: &Reply) -> Result<(), String> {
    let version = |object: &Value| {
        let text = object["metadata"]["resourceVersion"].as_str();
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or_default()
    };
    let is_going = !written["metadata"]["deletionTimestamp"].is_null()
        || !written["metadata"]["ownerReferences"].is_null()
        || !written["metadata"]["namespace"].is_null();
    if read.code == 404 && is_going {
        return Ok(());
    }
    let found = read.json();
    if read.code != 200 {
        return Err(format!("a GET after the write answers {}: {}", read.code, read.text()));
    }
    if version(&found) < version(written) {
        return Err(format!(
            "a GET after the write has an older version: {} and {}",
            version(&found),
            version(written)
        ));
    }
    if version(&found) == version(written) && found != *written {
        return Err(format!("a GET after the write differs:\nwritten {written}\nread    {found}"));
    }
    Ok(())
}

pub(crate) fn signature(ask: &Ask, reply: &Reply) -> Signature {
    let content_type = ask.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = content_type.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
    let path = ask.path.split('?').next().unwrap_or_default();
    let status = if reply.code >= 400 { reply.json() } else { Value::Null };
    let reason = status["reason"].as_str().unwrap_or_default();
    let message = shape(status["message"].as_str().unwrap_or_default());
    format!("{} {} {content_type} {} {reason} {message}", ask.method, resource_of(path), reply.code)
}

/// The segment after the version or the namespace, which is nearly always the resource.
fn resource_of(path: &str) -> &str {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let skip = if path.starts_with("/apis/") { 3 } else { 2 };
    match segments.by_ref().nth(skip) {
        Some("namespaces") => segments.nth(1).unwrap_or("namespaces"),
        Some(resource) => resource,
        None => "",
    }
}

/// The form of a message, without quoted text and digits, which vary between requests; at most 60 characters.
fn shape(message: &str) -> String {
    let mut shape = String::new();
    for (index, part) in message.split('"').enumerate() {
        if index % 2 == 0 {
            shape.extend(part.chars().filter(|letter| letter.is_ascii_alphabetic() || *letter == ' '));
        }
    }
    shape.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use rdd_testkit::api::{Ask, Reply};
    use serde_json::json;

    use super::*;

    fn mk_reply(code: u16, body: &Value) -> Reply {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Reply { code, headers, body: body.to_string().into_bytes() }
    }

    fn mk_object(version: &str, value: &str) -> Value {
        json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version}, "data": {"k": value}})
    }

    #[test]
    fn what_is_not_json_and_what_is_unavailable_is_found() {
        let ask = Ask::new("GET", "/api/v1/namespaces");
        let torn = Reply { body: b"{".to_vec(), ..mk_reply(200, &json!({})) };
        assert!(check_answer(&ask, &torn).is_err());
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable",
            "code": 503});
        assert!(check_answer(&ask, &mk_reply(503, &status)).is_err());
        assert!(check_answer(&ask, &mk_reply(200, &json!({"kind": "List"}))).is_ok());
    }

    #[test]
    fn malformed_managed_fields_are_found() {
        let sound = json!({"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}});
        for (field, value, expected) in [
            ("manager", json!("m"), true),
            ("operation", json!("Patch"), false),
            ("apiVersion", json!(""), false),
            ("fieldsV1", json!(null), false),
            ("fieldsType", json!("FieldsV9"), false),
        ] {
            let mut entry = sound.clone();
            entry[field] = value;
            let object = json!({"metadata": {"managedFields": [entry]}});
            assert_eq!(check_managed_fields(&object).is_ok(), expected, "{object}");
        }
    }

    #[test]
    fn a_version_that_goes_back_is_found() {
        let mut versions = Versions::default();
        let ask = Ask::new("GET", "/api/v1/namespaces/default/configmaps/a");
        for (version, expected) in [("5", true), ("5", true), ("7", true), ("6", false)] {
            assert_eq!(versions.check(&ask, &mk_reply(200, &mk_object(version, "x"))).is_ok(), expected, "{version}");
        }
    }

    #[test]
    fn a_write_is_read_back_where_the_object_is() {
        let maps = "/api/v1/namespaces/default/configmaps";
        let made = mk_reply(201, &mk_object("5", "x"));
        for (method, path, expected) in [
            ("POST", maps.to_owned(), Some(format!("{maps}/a"))),
            ("PUT", format!("{maps}/a"), Some(format!("{maps}/a"))),
            ("PATCH", format!("{maps}/a?fieldManager=m"), Some(format!("{maps}/a"))),
            ("PUT", format!("{maps}/a/status"), None),
            ("POST", format!("{maps}?dryRun=All"), None),
            ("GET", format!("{maps}/a"), None),
            (
                "POST",
                "/apis/apps/v1/namespaces/d/deployments".to_owned(),
                Some("/apis/apps/v1/namespaces/d/deployments/a".into()),
            ),
            (
                "PATCH",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a".to_owned(),
                Some("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a".into()),
            ),
        ] {
            assert_eq!(read_back_path(&Ask::new(method, &path), &made), expected, "{method} {path}");
        }
    }

    #[test]
    fn an_object_that_reads_back_otherwise_or_older_is_found() {
        let written = mk_object("5", "x");
        for (read, expected) in [
            (mk_reply(200, &mk_object("5", "x")), true),
            (mk_reply(200, &mk_object("6", "y")), true),
            (mk_reply(200, &mk_object("5", "y")), false),
            (mk_reply(200, &mk_object("4", "x")), false),
            (mk_reply(404, &json!({})), false),
        ] {
            assert_eq!(check_read_back(&written, &read).is_ok(), expected, "{read:?}");
        }
    }

    #[test]
    fn answers_of_one_kind_have_one_signature() {
        let status = |message: &str| json!({"reason": "NotFound", "message": message});
        let of = |path: &str, message: &str| signature(&Ask::new("GET", path), &mk_reply(404, &status(message)));
        let (one, two) = ("/api/v1/namespaces/a/secrets/x", "/api/v1/namespaces/b/secrets/y?q=1");
        assert_eq!(of(one, "secrets \"x\" not found"), of(two, "secrets \"y\" not found"));
        assert_ne!(of(one, "secrets \"x\" not found"), of(one, "other"));
        assert_ne!(of(one, ""), of("/api/v1/namespaces/a/pods/x", ""));
    }
}
