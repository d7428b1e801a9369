//! Helpers that the API tests share.

use std::{fs, path::Path, time::Duration};

use rdd_testkit::{
    Daemon,
    api::{Reply, Server},
    eventually,
};
use serde_json::{Value, json};

/// A random number generator with the same sequence in every run.
pub(crate) use rdd_testkit::api::ledger::SeededRandom as Random;

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The path of the ConfigMaps of the default namespace.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The path of CRDs.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) fn mk_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

/// A CRD of a namespaced kind in the group `k.example` with one version, and with this schema of `spec`.
pub(crate) fn mk_definition(kind: &str, spec: &Value) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.k.example")},
        "spec": {
            "group": "k.example", "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// An object of such a kind.
pub(crate) fn mk_custom(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "k.example/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The path of the objects of such a kind.
pub(crate) fn customs(kind: &str, namespace: &str) -> String {
    format!("/apis/k.example/v1/namespaces/{namespace}/{}s", kind.to_lowercase())
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// The resource version of an object or a list, as a number.
#[track_caller]
pub(crate) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no resourceVersion: {object}"))
}

/// Waits until there is no object at a path.
#[track_caller]
pub(crate) fn until_gone(server: &dyn Server, path: &str) {
    eventually(&format!("the end of {path}"), SOON, || {
        let reply = server.get(path);
        if reply.code == 404 { Ok(()) } else { Err(reply.text().into_owned()) }
    });
}

/// Waits until the object at a path satisfies a condition, and returns it.
#[track_caller]
pub(crate) fn until(server: &dyn Server, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, SOON, || {
        let reply = server.get(path);
        let object = reply.json();
        if reply.code == 200 && wanted(&object) { Ok(object) } else { Err(reply.text().into_owned()) }
    })
}

/// Expects a reply that any Kubernetes client can handle.
#[track_caller]
pub(crate) fn expect_proper(what: &str, reply: &Reply) {
    if let Some(why) = reply.improper() {
        panic!("{what}: {}", why.chars().take(2000).collect::<String>());
    }
}

/// Expects that a daemon is intact after any request: it still serves, it has not panicked, and its memory is within the limit.
#[track_caller]
pub(crate) fn expect_unharmed(daemon: &Daemon, server: &dyn Server, pid: u32, peak_mib: u64) {
    server.get("/api/v1/namespaces/default").expect(200);
    assert_eq!(daemon.pid(), pid, "it is another process");
    let log = log_of(daemon);
    assert!(!log.contains("panicked"), "the log tells of a panic:\n{log}");
    let peak = peak_kib(pid) / 1024;
    assert!(peak <= peak_mib, "the daemon took {peak} MiB at its peak");
}

/// All log lines of the daemon, including rotated files. A log that is missing, empty or unreadable fails the test, since it could hide a
/// panic.
#[track_caller]
pub(crate) fn log_of(daemon: &Daemon) -> String {
    read_logs(&daemon.path("log_dir")).unwrap_or_else(|why| panic!("the log of the daemon cannot be judged: {why}"))
}

fn read_logs(folder: &Path) -> Result<String, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let mut text = String::new();
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))? {
        let path = entry.map_err(|error| failed(folder, error))?.path();
        if path.is_dir() {
            text.push_str(&read_logs(&path)?);
            continue;
        }
        // A crash may cut a character; the rest must still be read.
        text.push_str(&String::from_utf8_lossy(&fs::read(&path).map_err(|error| failed(&path, error))?));
    }
    if text.trim().is_empty() { Err(format!("{} holds no line", folder.display())) } else { Ok(text) }
}

// Finding A-12
#[test]
fn a_log_that_is_missing_empty_or_unreadable_is_an_error_and_not_an_empty_text() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent");
    assert!(read_logs(&absent).unwrap_err().starts_with(&absent.display().to_string()));
    assert!(read_logs(folder.path()).unwrap_err().ends_with("holds no line"));
    fs::write(folder.path().join("rdd.stderr.log"), "a task panicked\n").unwrap();
    assert_eq!(read_logs(folder.path()).as_deref(), Ok("a task panicked\n"));
    std::os::unix::fs::symlink(&absent, folder.path().join("unreadable.log")).unwrap();
    assert!(read_logs(folder.path()).is_err(), "a file that cannot be read is an error");
}

/// The peak memory of a process since its start or since the peak was reset.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
