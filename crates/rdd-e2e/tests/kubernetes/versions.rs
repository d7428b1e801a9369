//! Tests the version of Kubernetes: the chosen release runs, and an older one is not given the data of a newer one.

use serde_json::json;

use crate::support::{LATEST, Product, STABLE, needs_standin};

#[test]
fn a_newer_release_replaces_the_cluster_and_an_older_one_is_refused() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(LATEST, &json!({}));
    let (engine, third) = (product.engine(), "v1.34.3+k3s3");
    product.offer(third, &json!({}));
    product.rdd(&["set", "kubernetes.enabled=true", "kubernetes.version=1.34.3"]).expect_success();
    product.rdd(&["set", "kubernetes.version=stable"]).expect_success();
    assert_eq!(product.app()["spec"]["kubernetes"]["version"], "1.34.6");
    product.rdd(&["set", "kubernetes.version=v1.35"]).expect_success();
    let version = product.kubectl(&["--context", &product.context(), "version", "-o", "json"]).expect_success();
    assert!(version.stdout.contains(LATEST), "{}", version.stdout);
    assert_eq!(product.starts(), [third, STABLE, LATEST]);
    assert_eq!(product.engine(), engine);

    let refused = product.rdd(&["set", "kubernetes.version=1.34.6"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    assert!(refused.stderr.contains("older than 1.35.3") && refused.stderr.contains("rdd reset --kubernetes"));
    let refused = product.rdd(&["set", "kubernetes.version=v1.35.3+k3s2"]);
    assert_eq!(refused.code, Some(3), "a build that there is not: {}", refused.stderr);

    // While Kubernetes is disabled, the older version may be chosen, but it is still not given the data of a newer one.
    product.disable().expect_success();
    product.rdd(&["set", "kubernetes.version=1.34.6"]).expect_success();
    let refused = product.rdd(&["set", "kubernetes.enabled=true", "--timeout=5m"]);
    assert_eq!(refused.code, Some(3), "it is not waited for: {}", refused.stderr);
    for said in [format!("what may help: rdd set kubernetes.version={LATEST}"), "rdd reset --kubernetes".to_owned()] {
        assert!(refused.stderr.contains(&said), "{said}: {}", refused.stderr);
    }
    let message = product.until("DowngradeRefused");
    assert!(message.contains(LATEST), "{message}");
    let status = product.rdd(&["status"]);
    assert!(status.stdout.ends_with(&format!("next: rdd set kubernetes.version={LATEST}\n")), "{}", status.stdout);
    product.rdd(&["reset", "--kubernetes", "--yes"]).expect_success();
    product.until("Ready");
    assert_eq!(product.starts(), [STABLE]);
}

#[test]
fn a_release_that_cannot_be_had_is_told_and_comes_when_it_is_there() {
    let Some(product) = Product::start() else { return };
    let (folder, aside) = (product.release(STABLE), product.release("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    rdd_testkit::eventually("a word about the download", crate::support::SOON, || {
        let (status, reason, message) = product.condition("KubernetesReady");
        if reason.starts_with("Download") { Ok(()) } else { Err(format!("{status}/{reason}: {message}")) }
    });
    std::fs::rename(&aside, &folder).unwrap();
    product.until("Ready");
}
