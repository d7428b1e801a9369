//! The same with a real Kubernetes control plane behind the stand-in: kube-apiserver over etcd, and a Node object.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Product, STABLE, needs_standin};

/// The folder with kube-apiserver and etcd: `RDD_TEST_CONTROL_PLANE`, or where `conformance/kubernetes/build.sh` puts them.
#[expect(clippy::print_stderr, reason = "a skip that nobody sees is a test that nobody runs")]
fn programs() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/conformance/control-plane");
    let chosen = std::env::var_os("RDD_TEST_CONTROL_PLANE").map(PathBuf::from);
    let has_both = |folder: &PathBuf| ["kube-apiserver", "etcd"].iter().all(|name| folder.join(name).is_file());
    let found = chosen.into_iter().chain([built]).find(has_both);
    if found.is_none() {
        eprintln!("skipped: there is no kube-apiserver (run conformance/kubernetes/build.sh control-plane)");
    }
    found.map(|folder| folder.canonicalize().unwrap())
}

#[test]
fn kubectl_works_with_a_real_control_plane_through_the_published_port() {
    if !needs_standin() {
        return;
    }
    let Some(programs) = programs() else { return };
    let Some(product) = Product::start() else { return };
    product.offer(STABLE, &json!({"mode": "control-plane", "bin": programs, "nodeAfter": 500}));
    product.enable().expect_success();
    let context = product.context();
    let kubectl = |arguments: &[&str]| {
        let all = [&["--context", context.as_str()], arguments].concat();
        product.kubectl(&all).expect_success().stdout
    };
    assert!(kubectl(&["get", "nodes", "--no-headers"]).contains(" Ready "), "a node that is ready");
    kubectl(&["create", "configmap", "kept", "--from-literal=a=b"]);
    kubectl(&["create", "namespace", "mine"]);
    assert_eq!(kubectl(&["get", "--raw", "/readyz"]).trim(), "ok");
    // The data outlives the cluster, the daemon and both.
    product.disable().expect_success();
    product.enable().expect_success();
    assert_eq!(kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]), "b");
    product.kill("rdd");
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
    assert_eq!(kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]), "b");
    product.rdd(&["reset", "--kubernetes", "--yes"]).expect_success();
    let gone = product.kubectl(&["--context", &context, "get", "configmap", "kept"]);
    assert_ne!(gone.code, Some(0), "{}", gone.stdout);
}
