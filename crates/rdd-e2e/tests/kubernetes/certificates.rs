//! Tests certificates: those that expire soon are renewed, and those of another time are waited for, replaced or reported.

use rdd_testkit::eventually;
use serde_json::json;

use crate::support::{Product, SOON, STABLE, needs_standin};

#[test]
fn a_cluster_whose_certificates_end_soon_is_started_anew_once() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(STABLE, &json!({"certificateDays": 20}));
    let engine = product.engine();
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    eventually("a second start", SOON, || (product.starts().len() == 2).then_some(()));
    product.until("Ready");
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
    assert_eq!((product.starts().len(), product.engine()), (2, engine));
}

#[test]
fn certificates_of_a_clock_that_is_ahead_are_waited_for_without_a_restart() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(STABLE, &json!({"clockAhead": 6000}));
    let began = std::time::Instant::now();
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    product.until("Ready");
    // Certificates have times in whole seconds.
    assert!(began.elapsed() > std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(product.starts().len(), 1);
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
}

/// A clock difference that is too large to wait for, in milliseconds.
const FAR: u64 = 400 * 24 * 3600 * 1000;

// Issue 7: a guest clock that is wrong.
#[test]
fn a_cluster_that_a_clock_far_ahead_has_made_is_made_anew_before_anybody_has_used_it() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.offer(STABLE, &json!({"clockAhead": FAR, "clockAheadOnce": true}));
    let engine = product.engine();
    product.enable().expect_success();
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
    assert_eq!((product.starts().len(), product.engine()), (1, engine), "data that was started once");
    let log = product.rdd(&["svc", "log"]).expect_success().stdout;
    assert_eq!(log.matches("Kubernetes is made anew").count(), 1, "{log}");
}

// Issue 7: where an automatic repair would harm the data, the condition names the fix.
#[test]
fn a_used_cluster_of_another_time_is_told_left_alone_and_forgotten_on_request() {
    if !needs_standin() {
        return;
    }
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    product.disable().expect_success();
    // As if the clock had been ahead while the cluster was used.
    let tls = product.data().join("server/tls");
    std::fs::remove_dir_all(&tls).unwrap();
    product.offer(STABLE, &json!({"clockAhead": FAR}));
    let refused = product.rdd(&["set", "kubernetes.enabled=true", "--timeout=5m"]);
    assert_eq!(refused.code, Some(3), "{}", refused.stderr);
    for said in ["the certificates of the cluster are valid from", "hint: ", "rdd reset --kubernetes"] {
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
    }
    let starts = product.starts();
    let message = product.until("CertificatesInvalid");
    // A daemon that finds the cluster in this state does not start it, and reports the same.
    product.kill_cluster();
    product.kill("rdd");
    product.rdd(&["svc", "start"]).expect_success();
    assert_eq!(product.until("CertificatesInvalid"), message);
    assert_eq!(product.starts(), starts, "the data was left alone");
    product.offer(STABLE, &json!({}));
    product.rdd(&["reset", "--kubernetes", "--yes"]).expect_success();
    product.until("Ready");
    assert_eq!(product.starts(), [STABLE]);
}
