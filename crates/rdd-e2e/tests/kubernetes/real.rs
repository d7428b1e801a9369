//! Tests of behaviour that was observed with a real K3s, reproduced by the stand-in.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path, time::Instant};

use rdd_testkit::eventually;
use serde_json::json;

use crate::support::{LATEST, Product, SOON, STABLE, needs_standin};

/// How long the stand-in's kubelet takes to report, in milliseconds.
const KUBELET_TAKES: u64 = 3000;

// Finding E-21
#[test]
fn a_node_of_the_last_run_is_not_taken_for_one_of_this() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    product.rdd(&["stop"]).expect_success();
    product.offer(STABLE, &json!({"nodeAfter": KUBELET_TAKES}));
    let began = Instant::now();
    product.rdd(&["start", "--wait=false"]).expect_success();
    assert_eq!(product.until("WaitingForNode"), "No node has reported since Kubernetes was started");
    let nodes = product.kubectl(&["--context", &product.context(), "get", "nodes", "-o", "json"]).expect_success();
    let nodes: serde_json::Value = serde_json::from_str(&nodes.stdout).unwrap();
    assert_eq!(nodes["items"][0]["status"]["conditions"][0]["status"], "True", "the node says that it is ready");
    product.until("Ready");
    assert!(began.elapsed().as_millis() >= u128::from(KUBELET_TAKES), "{:?}", began.elapsed());
    // A daemon that adopts a cluster whose kubelet reported long ago does not wait for its next report.
    product.kill("rdd");
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
}

// Finding E-22
#[test]
fn a_cluster_that_ends_three_times_in_the_same_way_is_not_waited_for_and_names_the_cause() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(STABLE, &json!({"kubeletError": "failed to run Kubelet: no such thing"}));
    let began = Instant::now();
    let refused = product.rdd(&["set", "kubernetes.enabled=true", "--timeout=5m"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    for said in [
        "3 times in a row in the same way",
        "kubelet exited: failed to run Kubelet: no such thing",
        "what may help: tail -n 50 ",
        "lima/rd/k3s.log",
    ] {
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    }
    assert!(!refused.stderr.contains("Closing database connections"), "{}", refused.stderr);
    // Another start reports the same at once, and the cluster starts by itself when the cause is fixed.
    assert_eq!(product.rdd(&["start", "--timeout=5m"]).code, Some(3));
    product.offer(STABLE, &json!({}));
    product.until("Ready");
}

// Finding E-19, E-20
#[test]
fn on_old_control_groups_the_newest_release_runs_with_a_warning_in_a_group_that_goes_with_it() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(LATEST, &json!({}));
    product.rdd(&["set", "kubernetes.enabled=true", "kubernetes.version=latest"]).expect_success();
    let is_old = !Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let message = product.condition("KubernetesReady").2;
    assert_eq!(message.contains("; warning: this machine has control groups of version 1"), is_old, "{message}");
    assert!(!product.pod_groups().is_empty(), "the kubelet has made its groups below ours");
    product.disable().expect_success();
    assert_eq!(product.pod_groups(), Vec::<std::path::PathBuf>::new());
}

// Finding E-6
#[test]
fn a_release_that_was_chosen_and_never_ran_can_be_followed_by_an_older_one() {
    let Some(product) = Product::stopped(&[]) else { return };
    let chosen = ["set", "backend=host", "running=false", "kubernetes.enabled=true", "kubernetes.version=1.35.3"];
    product.rdd(&chosen).expect_success();
    product.rdd(&["set", "kubernetes.version=1.34.6"]).expect_success();
    assert_eq!(product.app()["spec"]["kubernetes"]["version"], "1.34.6");
}

/// The build information that Go embeds in a K3s that was built from its module only.
const SERVER_ALONE: &[u8] =
    b"\npath\tgithub.com/k3s-io/k3s/cmd/server\nmod\tgithub.com/k3s-io/k3s\tv1.34.6\th1:x=\nbuild\t-compiler=gc\n";

// Finding E-23
#[test]
fn what_a_k3s_without_programs_of_its_own_needs_is_missed_before_it_is_started() {
    if !needs_standin() {
        return;
    }
    let plugins = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", plugins.path().display(), std::env::var("PATH").unwrap());
    let Some(product) = Product::start_with(&[("PATH", &path)]) else { return };
    product.offer(STABLE, &json!({"unbundled": true}));
    let program = product.release(STABLE).join("k3s");
    fs::OpenOptions::new().append(true).open(program).unwrap().write_all(SERVER_ALONE).unwrap();
    // One plugin is not enough, even if others are installed elsewhere: the first folder counts.
    put_plugin(plugins.path(), "host-local");
    let refused = product.rdd(&["set", "kubernetes.enabled=true", "--timeout=5m"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    for said in [
        format!("the CNI plugins bridge, flannel, loopback, portmap in {}", plugins.path().display()),
        "apt-get install containernetworking-plugins".to_owned(),
    ] {
        assert!(refused.stderr.contains(&said), "{said}: {}", refused.stderr);
    }
    assert_eq!(product.condition("KubernetesReady").1, "Unsupported");
    assert!(product.starts().is_empty(), "it was not started");
    ["bridge", "flannel", "loopback", "portmap"].iter().for_each(|name| put_plugin(plugins.path(), name));
    // Any reconcile finds them.
    product.rdd(&["ctl", "label", "app", "app", "look=again"]).expect_success();
    product.until("Ready");
}

fn put_plugin(folder: &Path, name: &str) {
    fs::write(folder.join(name), "#!/bin/sh\n").unwrap();
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

// Finding E-1
#[test]
fn the_file_that_paths_names_leads_to_the_cluster_as_long_as_there_is_one() {
    let Some(product) = Product::start() else { return };
    let path = product.rdd(&["svc", "paths", "k3s_config"]).expect_success().stdout.trim().to_owned();
    assert!(!Path::new(&path).exists());
    let names = || {
        let nodes = product.kubectl(&["--kubeconfig", &path, "get", "nodes", "-o", "name"]).expect_success();
        nodes.stdout.trim().to_owned()
    };
    product.enable().expect_success();
    assert_eq!(names(), format!("node/{}", product.context()));
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!("server: https://127.0.0.1:{}\n", product.port())), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    product.rdd(&["reset", "--kubernetes", "--yes"]).expect_success();
    eventually("the kubeconfig of another cluster", SOON, || {
        fs::read_to_string(&path).is_ok_and(|now| now != text).then_some(())
    });
    assert_eq!(names(), format!("node/{}", product.context()));
    product.disable().expect_success();
    assert!(!Path::new(&path).exists());
}
