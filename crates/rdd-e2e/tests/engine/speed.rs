//! Tests how soon a started container is seen as running, against the goal of `docs/performance.md`.

use std::time::{Duration, Instant};

use rdd_testkit::{
    api::{Next, Server as _},
    capability::require,
};
use serde_json::json;

use crate::product::{Product, SOON};

const RUNS: usize = 15;
/// The goal in `docs/performance.md`: "a started container to its mirror saying so, median".
const MEDIAN_MAX: Duration = Duration::from_millis(100);

// Finding A-12
#[test]
fn a_container_that_was_started_is_soon_seen_to_run() {
    if !require("own-engine") {
        return;
    }
    let product = Product::start();
    let docker = product.docker();
    docker.import("box:1");
    let mut events = product.api.wire().watch(&format!("{}?watch=1", product.mirrors("containers")));
    let mut delays = Vec::new();
    for number in 0..RUNS {
        let id = docker.run(&format!("run-{number}"), "box:1");
        let started = Instant::now();
        while started.elapsed() < SOON {
            let Next::Event(event) = events.next(SOON) else { panic!("the watch ended") };
            let object = &event["object"];
            if object["metadata"]["name"] == json!(id) && object["status"]["status"] == "running" {
                break;
            }
        }
        delays.push(started.elapsed());
        docker.delete(&format!("/containers/{id}?force=1")).expect(204);
    }
    delays.sort();
    eprintln!("from the engine's answer to the watch: {delays:?}");
    assert!(delays[RUNS / 2] < MEDIAN_MAX, "{delays:?}");
    product.rdd(&["svc", "delete"]).expect_success();
}
