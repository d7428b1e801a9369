//! Tests real pods, which need a real K3s (`make test-k3s`): the stand-in runs none.

use std::{fs, path::PathBuf, time::Duration};

use rdd_testkit::eventually;

use crate::{
    support::{Product, real_k3s},
    workload::{self, MANIFEST, PODS_TAKE},
};

/// Whether a test that needs pods can continue.
#[expect(clippy::print_stderr, reason = "a skip that nobody sees is a test that nobody runs")]
fn needs_pods() -> bool {
    if real_k3s().is_none() {
        eprintln!("skipped: pods need a real K3s: make test-k3s RDD_TEST_K3S=<path>");
    }
    real_k3s().is_some()
}

// Finding E-24
#[test]
fn pods_are_containers_of_the_engine_serve_outlive_the_daemon_and_go_with_a_reset() {
    if !needs_pods() {
        return;
    }
    let Some(product) = Product::start() else { return };
    fs::write(product.machine_folder().join("k3s-config.yaml"), workload::K3S_CONFIG).unwrap();
    let archive = workload::make_image(product.home());
    for tag in [workload::PAUSE_IMAGE, workload::IMAGE] {
        let change = format!("ENTRYPOINT {}", workload::entrypoint(tag));
        product.docker(&["import", "--change", &change, &archive.to_string_lossy(), tag]).expect_success();
    }
    product.enable().expect_success();
    let context = product.context();
    let kubectl =
        |words: &[&str]| product.kubectl(&[&["--context", context.as_str(), "--request-timeout=0"], words].concat());
    let manifest = product.home().join("workload.yaml");
    fs::write(&manifest, MANIFEST).unwrap();
    kubectl(&["apply", "-f", &manifest.to_string_lossy()]).expect_success();
    let ready = || {
        let answer = kubectl(&["get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}"]);
        if answer.stdout.trim() == "1" { Ok(()) } else { Err(describe(&product)) }
    };
    eventually("the Deployment", PODS_TAKE, ready);
    let container = || {
        let filter = ["ps", "--no-trunc", "-q", "--filter", "label=io.kubernetes.container.name=web"];
        product.docker(&filter).expect_success().stdout.trim().to_owned()
    };
    let before = container();
    assert_ne!(before, "", "docker ps shows the pod");
    // From this machine through the NodePort, and from a pod through the Service's address, which leads back to the same bridge.
    let address =
        kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].status.addresses[?(@.type==\"InternalIP\")].address}"]);
    let address = address.expect_success().stdout.trim().to_owned();
    eventually("the NodePort", PODS_TAKE, || workload::fetch(&address, workload::NODE_PORT));
    let service = kubectl(&["get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"]).expect_success().stdout;
    let url = format!("http://{}/index.html", service.trim());
    eventually("the Service", PODS_TAKE, || {
        let answer = product.docker(&["exec", &before, "/bin/busybox", "wget", "-qO-", &url]);
        if answer.stdout.contains(workload::PAGE) { Ok(()) } else { Err(answer.stdout + &answer.stderr) }
    });
    product.kill("rdd");
    workload::fetch(&address, workload::NODE_PORT).expect("it serves without a daemon");
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
    assert_eq!(container(), before, "the pod outlived the daemon");
    product.rdd(&["reset", "--kubernetes", "--yes", "--timeout=5m"]).expect_success();
    let left = product.docker(&["ps", "-a", "-q", "--filter", &format!("id={before}")]).expect_success().stdout;
    assert_eq!(left.trim(), "");
    product.disable().expect_success();
    let left = product.docker(&["ps", "-a", "-q", "--filter", "label=io.kubernetes.pod.uid"]).expect_success().stdout;
    assert_eq!(left.trim(), "", "nothing is left of any pod");
    eventually("no control group of pods", Duration::from_secs(30), || {
        let left = product.pod_groups();
        if left == Vec::<PathBuf>::new() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// Diagnostics for a failure: what a person would look at.
fn describe(product: &Product) -> String {
    let context = product.context();
    let say = |words: &[&str]| product.kubectl(&[&["--context", context.as_str()], words].concat()).stdout;
    let containers = product.docker(&["ps", "-a"]).stdout;
    format!("{}\n{}\n{containers}", say(&["describe", "pods"]), say(&["get", "events"]))
}
