//! Concurrent writers, including kubectl: no file is corrupted and no change is lost.

use std::{
    fs::{self, OpenOptions},
    path::Path,
    process::Output,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use rdd_kubeconfig::Merge;
use rdd_stdx::process::foreground;
use rdd_testkit::capability::require;
use serde_json::Value;

use crate::support::{Folder, cluster, merge, read, user};

const BEGIN: &str = "# mine\napiVersion: v1\nclusters: []\ncontexts:\n- context: {cluster: a, user: b}\n  name: keep\ncurrent-context: keep\nkind: Config\npreferences: {}\nusers: []\n";

fn value(path: &Path) -> Value {
    rdd_yaml::read(&read(path)).unwrap().value
}

/// The server of a cluster entry.
fn server(value: &Value, name: &str) -> Option<String> {
    let entry = value["clusters"].as_array()?.iter().find(|entry| entry["name"] == name)?;
    entry["cluster"]["server"].as_str().map(str::to_owned)
}

/// Writes like kubectl: the whole file in place under its lock. Gives up if the lock is held.
fn write_as_kubectl(path: &Path, last: usize) -> bool {
    let lock = path.with_extension("lock");
    if OpenOptions::new().write(true).create_new(true).open(&lock).is_err() {
        return false;
    }
    let text = read(path);
    let seen = rdd_yaml::read(&text).unwrap().value;
    let (old, new) = (format!("https://other:{last}"), format!("https://other:{}", last + 1));
    assert_eq!(server(&seen, "other").as_ref(), Some(&old), "the last write was lost");
    fs::write(path, text.replace(&old, &new)).unwrap();
    fs::remove_file(lock).unwrap();
    true
}

#[test]
fn thousands_of_writes_by_two_instances_and_one_like_kubectl_lose_nothing() {
    let folder = Folder::new();
    let begin = BEGIN.replace("clusters: []", "clusters:\n- name: other\n  cluster: {server: 'https://other:0'}");
    let path = folder.write("config", &begin);
    let deadline = Instant::now() + Duration::from_secs(8);
    let (ours, theirs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let instance = |name: &'static str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let merge = Merge::new(vec![path.clone()], name);
        let mut port = 1;
        while Instant::now() < deadline {
            runtime.block_on(merge.publish(&cluster(port), &user())).unwrap();
            port = port % 60_000 + 1;
            if port.is_multiple_of(7) {
                runtime.block_on(merge.withdraw()).unwrap();
            }
            ours.fetch_add(1, Ordering::Relaxed);
        }
        runtime.block_on(merge.publish(&cluster(9), &user())).unwrap();
    };
    std::thread::scope(|scope| {
        let instance = &instance;
        scope.spawn(move || instance("rancher-desktop-2"));
        scope.spawn(move || instance("rancher-desktop-bats"));
        let mut number = 0;
        while Instant::now() < deadline {
            if write_as_kubectl(&path, number) {
                number += 1;
                theirs.fetch_add(1, Ordering::Relaxed);
                // A real kubectl takes longer than this to start; without a pause the other writers would get no turn.
                std::thread::park_timeout(Duration::from_millis(2));
            }
        }
    });
    let end = value(&path);
    let last = theirs.load(Ordering::Relaxed);
    assert_eq!(server(&end, "other"), Some(format!("https://other:{last}")));
    for name in ["rancher-desktop-2", "rancher-desktop-bats"] {
        assert_eq!(server(&end, name).as_deref(), Some("https://127.0.0.1:9"));
    }
    assert!(read(&path).starts_with("# mine\n") && end["current-context"] == "keep");
    assert_eq!(folder.names(), ["config"], "no lock and no staging file is left");
    let ours = ours.load(Ordering::Relaxed);
    assert!(ours > 10 && last > 10, "{ours} of ours, {last} of theirs");
}

fn kubectl(path: &Path, arguments: &[&str]) -> Output {
    foreground("kubectl").env("KUBECONFIG", path).env("HOME", path.parent().unwrap()).args(arguments).output().unwrap()
}

fn view(path: &Path) -> Value {
    let output = kubectl(path, &["config", "view", "--raw", "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A change by kubectl is never lost. A change of ours may be lost for a moment: kubectl reads all files before it
/// takes its lock, and writes back old values. Controllers therefore publish repeatedly.
#[test]
fn the_real_kubectl_and_an_instance_write_at_once_and_nothing_of_kubectl_is_lost() {
    if !require("kubectl") {
        return;
    }
    let folder = Folder::new();
    let path = folder.write("config", BEGIN);
    let deadline = Instant::now() + Duration::from_secs(6);
    let merge = merge(&[&path]);
    let written = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let mut port = 1;
            while Instant::now() < deadline {
                port += 1;
                runtime.block_on(merge.publish(&cluster(port), &user())).unwrap();
            }
            written.store(usize::from(port), Ordering::Relaxed);
        });
        let mut number = 0;
        while Instant::now() < deadline {
            let server_flag = format!("--server=https://other:{}", number + 1);
            let output = kubectl(&path, &["config", "set-cluster", "other", &server_flag]);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() {
                number += 1;
            } else {
                assert!(error.contains("config.lock: file exists"), "{error}");
            }
            if number > 0 {
                assert_eq!(server(&settled(&path), "other"), Some(format!("https://other:{number}")));
            }
        }
        assert!(number > 3, "kubectl wrote {number} times only");
    });
    assert!(written.load(Ordering::Relaxed) > 20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(merge.publish(&cluster(7443), &user())).unwrap();
    let end = view(&path);
    assert_eq!(
        (&end["current-context"], server(&end, merge.name())),
        (&"keep".into(), Some("https://127.0.0.1:7443".to_owned()))
    );
}

/// The content of the file while kubectl, which writes in place, is not writing.
fn settled(path: &Path) -> Value {
    rdd_testkit::eventually("the file is whole", Duration::from_secs(10), || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let value = rdd_yaml::read(&text).ok().map(|read| read.value);
        let is_whole = value.as_ref().is_some_and(|value| value["users"].is_array()) && text.ends_with('\n');
        (is_whole && !path.with_extension("lock").exists()).then_some(value).flatten()
    })
}

/// The tests of Finding 361-T2 cover the current context; this test covers all other values, as kubectl reads them.
#[test]
fn kubectl_reads_the_same_values_before_and_after_outside_of_our_entries() {
    if !require("kubectl") {
        return;
    }
    let corpus: [(&str, String); 9] = [
        ("as kubectl writes it", BEGIN.to_owned()),
        ("with line ends of Windows", BEGIN.replace('\n', "\r\n")),
        ("with a byte order mark", format!("\u{feff}{BEGIN}")),
        ("as JSON", "{\"kind\":\"Config\",\"apiVersion\":\"v1\",\"contexts\":[{\"name\":\"keep\",\"context\":{\"cluster\":\"a\",\"user\":\"b\"}}],\n\t\"current-context\": \"keep\"}".to_owned()),
        ("with anchors", "apiVersion: v1\nkind: Config\nx-c: &c {server: 'https://a'}\nclusters:\n- {name: a, cluster: *c}\n- name: b\n  cluster: {<<: *c, tls-server-name: b}\n".to_owned()),
        ("with comments and odd indentation", "---\n# one\nkind:   Config\nclusters:\n    # two\n    -   cluster:\n                server: https://a # three\n        name: a\n# four\n".to_owned()),
        ("with null lists", "apiVersion: v1\nkind: Config\nclusters: null\ncontexts:\nusers: ~\n".to_owned()),
        ("with nothing in it", String::new()),
        ("with extensions", "apiVersion: v1\nkind: Config\nextensions:\n- name: x\n  extension: {a: 1}\nclusters:\n- name: minikube\n  cluster:\n    extensions:\n    - extension: {provider: minikube.sigs.k8s.io}\n      name: cluster_info\n    server: https://m\n".to_owned()),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (what, text) in corpus {
        let folder = Folder::new();
        let path = folder.write("config", &text);
        let before = view(&path);
        let ours = merge(&[&path]);
        runtime.block_on(ours.publish(&cluster(7443), &user())).unwrap();
        let mut with = view(&path);
        assert_eq!(server(&with, ours.name()).as_deref(), Some("https://127.0.0.1:7443"), "{what}");
        for list in ["clusters", "users", "contexts"] {
            let entries = with[list].as_array_mut().unwrap();
            entries.retain(|entry| entry["name"] != ours.name());
            if entries.is_empty() {
                with[list] = Value::Null;
            }
        }
        let without_empty = |mut value: Value| {
            for list in ["clusters", "users", "contexts"] {
                if value[list].as_array().is_some_and(Vec::is_empty) {
                    value[list] = Value::Null;
                }
            }
            value
        };
        assert_eq!(with, without_empty(before.clone()), "{what}");
        runtime.block_on(ours.withdraw()).unwrap();
        assert_eq!(without_empty(view(&path)), without_empty(before), "{what}");
    }
}
