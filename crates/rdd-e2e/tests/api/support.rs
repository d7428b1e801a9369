//! Small words that the scenarios share.

use std::{fs, time::Duration};

use rdd_testkit::{
    Daemon,
    api::{Reply, Server},
    eventually,
};
use serde_json::{Value, json};

/// Long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Where the ConfigMaps of the default namespace are.
pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Where definitions are.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) fn mk_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}})
}

/// A definition of a namespaced kind in the group `k.example` with one version, and this schema of `spec`.
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

/// Where the objects of such a kind are.
pub(crate) fn customs(kind: &str, namespace: &str) -> String {
    format!("/apis/k.example/v1/namespaces/{namespace}/{}s", kind.to_lowercase())
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// The version of an object or a list, as a number.
#[track_caller]
pub(crate) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no resourceVersion: {object}"))
}

/// Waits until there is nothing at a path.
#[track_caller]
pub(crate) fn until_gone(server: &dyn Server, path: &str) {
    eventually(&format!("the end of {path}"), SOON, || {
        let reply = server.get(path);
        if reply.code == 404 { Ok(()) } else { Err(reply.text().into_owned()) }
    });
}

/// Waits until what is at a path is as wanted, and returns it.
#[track_caller]
pub(crate) fn until(server: &dyn Server, path: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    eventually(what, SOON, || {
        let reply = server.get(path);
        let object = reply.json();
        if reply.code == 200 && wanted(&object) { Ok(object) } else { Err(reply.text().into_owned()) }
    })
}

/// An answer that any client can make sense of.
#[track_caller]
pub(crate) fn expect_proper(what: &str, reply: &Reply) {
    if let Some(why) = reply.improper() {
        panic!("{what}: {}", why.chars().take(2000).collect::<String>());
    }
}

/// What must hold of a daemon after anything whatever: it serves, it never panicked, and it is not larger than this.
#[track_caller]
pub(crate) fn expect_unharmed(daemon: &Daemon, server: &dyn Server, pid: u32, peak_mib: u64) {
    server.get("/api/v1/namespaces/default").expect(200);
    assert_eq!(daemon.pid(), pid, "it is another process");
    let log = log_of(daemon);
    assert!(!log.contains("panicked"), "the log tells of a panic:\n{log}");
    let peak = peak_kib(pid) / 1024;
    assert!(peak <= peak_mib, "the daemon took {peak} MiB at its peak");
}

/// All that the daemon has logged.
pub(crate) fn log_of(daemon: &Daemon) -> String {
    let folder = daemon.home().join(".local/state");
    let mut text = String::new();
    for instance in fs::read_dir(folder).into_iter().flatten().flatten() {
        for file in fs::read_dir(instance.path()).into_iter().flatten().flatten() {
            text.push_str(&fs::read_to_string(file.path()).unwrap_or_default());
        }
    }
    text
}

fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Numbers that look random and are the same in every run.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of so many, from 0; 0 if there is none.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.number() % count.max(1) as u64).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
