//! Runs five hundred operations from both sides at once; afterwards the engine and its mirrors agree.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use rdd_testkit::{capability::require, eventually};
use serde_json::Value;

use crate::{
    agree::{until_only_what_is_in_use_lingers, until_they_agree},
    chance::Chance,
    load::{ApiUser, DockerUser},
    product::{ACTION, Product, SOON},
};

/// The number of operations from each side.
const OPERATIONS: usize = 250;
const CONVERGES: Duration = Duration::from_secs(60);

/// Waits until all requested actions of containers have been handled.
#[track_caller]
pub(crate) fn until_everything_asked_for_is_done(product: &Product) {
    eventually("all requests to be answered", SOON, || {
        let all = product.api.list(&product.mirrors("containers")).ok_or_else(|| "no answer".to_owned())?;
        let waits = |object: &&Value| {
            let annotations = object["metadata"]["annotations"].as_object();
            annotations.is_some_and(|all| all.keys().any(|key| key.starts_with(ACTION) || key.ends_with("/acting")))
        };
        let waiting: Vec<String> = all.iter().filter(waits).map(|object| object["metadata"].to_string()).collect();
        if waiting.is_empty() { Ok(()) } else { Err(waiting.join("\n")) }
    });
}

/// Stores the number of an operation when it ends.
struct Step<'a>(&'a AtomicUsize, usize);

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.0.store(self.1, Ordering::Relaxed);
    }
}

#[test]
fn after_a_random_walk_from_both_sides_docker_and_the_mirrors_agree() {
    if !require("own-engine") {
        return;
    }
    let mut chance = Chance::new("random walk");
    let product = Product::start();
    let docker = product.docker();
    docker.import("walk/a:1");
    let mut docker_user = DockerUser::new("walk", docker.another(), chance.fork());
    let mut api_user = ApiUser::new(product.api.clone(), &product.namespace, chance.fork());
    let walked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=OPERATIONS {
                // Dropped even if this thread panics, so that the other one does not wait for it.
                let _step = Step(&walked, number);
                docker_user.act().expect("the engine answers");
            }
        });
        scope.spawn(|| {
            for number in 0..OPERATIONS {
                // The API is many times faster; without a wait it would run its operations long before the engine's.
                let end = Instant::now() + SOON;
                while walked.load(Ordering::Relaxed) < number && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                api_user.act().expect("the API answers");
            }
        });
    });
    eprintln!("docker's side: {:?}; the API's side: {:?}", docker_user.tally, api_user.tally);
    assert!(docker_user.tally.done > OPERATIONS / 4 && api_user.tally.done > OPERATIONS / 4, "most is refused");
    until_everything_asked_for_is_done(&product);
    until_they_agree(&docker, &product.api, &product.namespace, CONVERGES);
    until_only_what_is_in_use_lingers(&docker, &product.api, &product.namespace, CONVERGES);

    // Finding 295-T7: mirrors that only waited for containers are deleted by themselves.
    let list = docker.get("/containers/json?all=1").expect(200).json;
    for row in list.as_array().unwrap() {
        docker.delete(&format!("/containers/{}?force=1", row["Id"].as_str().unwrap()));
    }
    until_they_agree(&docker, &product.api, &product.namespace, CONVERGES);
    for kind in ["containers", "images", "volumes"] {
        eventually(&format!("no {kind} to be on their way out"), CONVERGES, || {
            let all = product.api.list(&product.mirrors(kind)).ok_or_else(|| "no answer".to_owned())?;
            let going = all.iter().find(|object| object["metadata"]["deletionTimestamp"].is_string());
            going.map_or(Ok(()), |object| Err(object.to_string()))
        });
    }
    assert_eq!(product.condition("ContainerEngineReady").unwrap().0, "True");
    product.rdd(&["svc", "delete"]).expect_success();
}
