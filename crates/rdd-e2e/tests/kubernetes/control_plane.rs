//! Tests with a real Kubernetes control plane behind the stand-in: kube-apiserver with etcd, and a Node object.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rdd_stdx::process::background;
use rdd_testkit::capability::require;
use serde_json::json;

use crate::support::{Product, STABLE, finish, needs_standin};

/// The timeout of the build. It takes minutes with an empty cache, and seconds if the oracles, which use the same packages, were built
/// before.
const BUILD_TAKES: Duration = Duration::from_mins(15);

/// The folder with kube-apiserver and etcd: `RDD_TEST_CONTROL_PLANE`, or the output of `conformance/kubernetes/build.sh`, which runs once.
pub(crate) fn programs() -> Option<PathBuf> {
    static BUILDING: Mutex<()> = Mutex::new(());
    if let Some(chosen) = std::env::var_os("RDD_TEST_CONTROL_PLANE") {
        return Some(PathBuf::from(chosen).canonicalize().unwrap());
    }
    if !require("go") || !require("etcd") {
        return None;
    }
    let _building = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/kubernetes").canonicalize().unwrap();
    let mut build = background(folder.join("build.sh"), &folder);
    let output = finish(build.arg("control-plane"), BUILD_TAKES).expect_success();
    Some(PathBuf::from(output.stdout.lines().last().unwrap()))
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
    // The data survives a restart of the cluster, of the daemon, and of both.
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
