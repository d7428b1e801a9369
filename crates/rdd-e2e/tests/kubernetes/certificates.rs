//! Certificates that are about to end are renewed before they do, and those that are not good yet are waited for.

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
    // Certificates count whole seconds.
    assert!(began.elapsed() > std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(product.starts().len(), 1);
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
}
