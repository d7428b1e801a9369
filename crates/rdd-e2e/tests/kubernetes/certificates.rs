//! Certificates that are about to end are renewed before they do.

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
