//! Tests faults: a part of Kubernetes is killed, hangs or becomes unhealthy.

use std::time::Duration;

use rdd_testkit::eventually;
use serde_json::json;

use crate::support::{Product, SOON, STABLE, needs_standin};

#[test]
fn a_daemon_that_is_killed_finds_its_cluster_again_at_the_same_port() {
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    let (port, cluster, engine) = (product.port(), product.cluster(), product.engine());
    product.kill("rdd");
    assert_eq!(product.cluster(), cluster, "it goes on without the daemon");
    product.rdd(&["svc", "start"]).expect_success();
    product.until("Ready");
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
    assert_eq!((product.port(), product.cluster(), product.engine()), (port, cluster, engine));
}

#[test]
fn a_cluster_that_is_killed_is_started_again_and_nothing_else_is() {
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    let (port, cluster, engine) = (product.port(), product.cluster(), product.engine());
    product.kill_cluster();
    let restarted = product.until_restarted(cluster);
    product.until("Ready");
    assert_eq!(product.cluster(), restarted, "once is enough");
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
    assert_eq!((product.port(), product.engine()), (port, engine));
}

#[test]
fn last_words_are_told_and_the_next_try_waits() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(STABLE, &json!({"exitAfter": 100, "exitWith": "no space left on device", "servesAfter": 5000}));
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    eventually("its last words, in both conditions", SOON, || {
        let (own, settled) = (product.condition("KubernetesReady"), product.condition("Settled"));
        // Finding E-22: after three identical failures the reason is another one.
        let is_told = own.1 == "StartFailed" || own.1 == "CrashLoopBackOff";
        let has_words = own.2.contains("no space left on device") && settled.2 == own.2;
        if is_told && has_words { Ok(()) } else { Err(format!("{own:?} {settled:?}")) }
    });
    product.offer(STABLE, &json!({}));
    product.until("Ready");
}

#[test]
fn without_a_ready_node_it_is_not_ready() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.afflict(STABLE, "unready");
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    assert_eq!(product.until("WaitingForNode"), "No node is Ready yet");
    assert_eq!(product.until_condition("Settled", "WaitingForNode"), "No node is Ready yet");
    assert!(product.own_file().exists(), "who wants to look why can");
    product.relieve(STABLE, "unready");
    product.until("Ready");
    product.afflict(STABLE, "sick");
    product.until("Probing");
    product.relieve(STABLE, "sick");
    product.until("Ready");
}

#[test]
fn one_that_hangs_may_miss_two_answers_and_recovers_by_itself() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    product.afflict(STABLE, "hang");
    // The first probe comes after 15 s at most, each takes 3 s, and the delay between them is 5 s.
    let began = std::time::Instant::now();
    product.until("Probing");
    assert!(began.elapsed() > Duration::from_secs(3 + 5 + 3 + 5), "{:?}", began.elapsed());
    product.relieve(STABLE, "hang");
    product.until("Ready");
    assert_eq!(product.starts().len(), 1);
}
