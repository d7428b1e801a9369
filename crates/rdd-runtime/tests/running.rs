//! Running controllers converge, each object separately, after failures of an object and after kills.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt, api::DeleteParams};
use rdd_runtime::{Context, Controller, Declaration, Error, Key, Plan, Registered, Step, finalizer};
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::{Stage, kill_everywhere},
};
use serde_json::json;
use things::{Hands, Things, World, until};

fn stage(api: &TestApi, world: &Arc<World>) -> Stage {
    let world = Arc::clone(world);
    let mut stage = Stage::over(api, move || vec![Registered::new(Things(Arc::clone(&world)))]);
    stage.start();
    stage
}

#[test]
fn things_are_copied_followed_and_cleaned_up() {
    let (api, world) = (TestApi::start(), Arc::default());
    let mut stage = stage(&api, &world);
    let hands = Hands::new(stage.client());
    stage.block_on(hands.make("a", "1", ""));
    stage.settle();
    let thing = stage.block_on(hands.0.get("a")).unwrap();
    assert_eq!(thing.finalizers(), [finalizer::CLEANUP]);
    assert_eq!(
        stage.block_on(async { (hands.seen("a").await, hands.copied("a").await) }),
        (Some("1 0".into()), Some("1".into()))
    );
    let looks = world.looks("a");
    stage.block_on(hands.set("a", json!({"value": "2"})));
    stage.settle();
    assert_eq!(stage.block_on(hands.copied("a")).as_deref(), Some("2"));
    assert!(world.looks("a") > looks);
    stage.block_on(hands.delete("a"));
    stage.settle();
    assert!(stage.block_on(hands.0.get_opt("a")).unwrap().is_none());
    assert!(stage.block_on(hands.1.get_opt("a-copy")).unwrap().is_none());
    assert_eq!(*world.gone.lock().unwrap(), [Key::namespaced("default", "a")]);
    stage.stop();
    assert_eq!(*world.stopped.lock().unwrap(), 1);
}

#[test]
fn a_child_that_somebody_took_away_comes_back() {
    let (api, world) = (TestApi::start(), Arc::default());
    let mut stage = stage(&api, &world);
    let hands = Hands::new(stage.client());
    stage.block_on(hands.make("a", "1", ""));
    stage.settle();
    api.merge("/api/v1/namespaces/default/configmaps/a-copy", &json!({"metadata": {"finalizers": null}})).expect(200);
    api.delete("/api/v1/namespaces/default/configmaps/a-copy").expect(200);
    stage.settle();
    assert_eq!(stage.block_on(hands.copied("a")).as_deref(), Some("1"));
}

// Finding 295-I2
#[test]
fn objects_that_fail_panic_or_hang_delay_no_other() {
    let (api, world) = (TestApi::start(), Arc::<World>::default());
    let stage = stage(&api, &world);
    let hands = Hands::new(stage.client());
    stage.block_on(async {
        for (name, mood) in [("refuses", "refuse"), ("fails", "fail"), ("panics", "panic"), ("hangs", "hang")] {
            hands.make(name, "1", mood).await;
        }
        until("the bad ones to be tried", || async { world.looks("hangs") == 1 && world.looks("panics") > 1 }).await;
        for number in 0..50 {
            hands.make(&format!("good-{number}"), "1", "").await;
        }
        let began = tokio::time::Instant::now();
        for number in 0..50 {
            until("a good one", || async { hands.seen(&format!("good-{number}")).await.is_some() }).await;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert!(world.looks("refuses") > 2 && world.looks("panics") > 2, "they are tried again");
        assert!(world.looks("panics") < 40, "with growing delays: {}", world.looks("panics"));
        // The repaired object is reconciled at once.
        hands.set("panics", json!({"mood": ""})).await;
        until("the repaired one", || async { hands.seen("panics").await.is_some() }).await;
    });
    assert!(stage.manager().is_well(), "the failures of objects are not those of the manager");
}

// Finding 295-S6
#[test]
fn a_failed_step_is_told_in_the_status_and_tried_again() {
    let (api, world) = (TestApi::start(), Arc::default());
    let stage = stage(&api, &world);
    let hands = Hands::new(stage.client());
    stage.block_on(async {
        hands.make("a", "1", "fail").await;
        until("the problem", || async {
            let status = hands.0.get("a").await.unwrap().status;
            status.is_some_and(|status| status.problem == "step fail: it fails")
        })
        .await;
        until("more attempts", || async { world.looks("a") > 4 }).await;
        assert!(hands.copied("a").await.is_none(), "steps after the one that failed are left out");
    });
}

#[test]
fn a_wake_up_from_outside_is_never_lost() {
    let (api, world) = (TestApi::start(), Arc::<World>::default());
    let mut stage = stage(&api, &world);
    let hands = Hands::new(stage.client());
    stage.block_on(async {
        for name in ["a", "b", "c"] {
            hands.make(name, "1", "").await;
        }
    });
    stage.settle();
    for round in 1..=200 {
        for name in ["a", "b", "c"] {
            let trigger = {
                let mut outside = world.outside.lock().unwrap();
                let (number, trigger) = outside.get_mut(name).unwrap();
                *number = round;
                trigger.clone().unwrap()
            };
            trigger.wake();
        }
    }
    stage.settle();
    for name in ["a", "b", "c"] {
        assert_eq!(stage.block_on(hands.seen(name)).as_deref(), Some("1 200"));
    }
}

#[test]
fn killed_before_and_after_every_step_it_converges() {
    let points = kill_everywhere(
        Arc::<World>::default,
        |world| vec![Registered::new(Things(Arc::clone(world)))],
        |stage, _| {
            let hands = Hands::new(stage.client());
            stage.block_on(hands.make("a", "1", "shaky"));
            stage.settle();
            assert_eq!(stage.block_on(hands.copied("a")).as_deref(), Some("1"));
            assert_eq!(stage.block_on(hands.seen("a")).as_deref(), Some("1 0"));
            stage.block_on(hands.delete("a"));
            stage.settle();
            assert!(stage.block_on(hands.0.get_opt("a")).unwrap().is_none());
            assert!(stage.block_on(hands.1.get_opt("a-copy")).unwrap().is_none());
        },
    );
    println!("killed at {points} points");
    assert_eq!(points, 12);
}

#[test]
fn an_object_that_does_not_fit_its_type_hides_no_other() {
    let (api, world) = (TestApi::start(), Arc::<World>::default());
    let mut stage = stage(&api, &world);
    // A program of another version may have stored an object that ours cannot parse; then the definition differs as well.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.test.rancherdesktop.io";
    let free = json!({"spec": {"versions": [{
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    }]}});
    api.merge(definitions, &free).expect(200);
    let things = "/apis/test.rancherdesktop.io/v1/namespaces/default/things";
    let thing = |name: &str, value: serde_json::Value| json!({"apiVersion": "test.rancherdesktop.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"value": value}});
    api.post(things, &thing("strange", json!(7))).expect(201);
    api.post(things, &thing("usual", json!("1"))).expect(201);
    let hands = Hands::new(stage.client());
    stage.block_on(until("the usual one", || async { hands.copied("usual").await.is_some() }));
    stage.start();
    stage.block_on(until("the usual one again", || async { hands.seen("usual").await.is_some() }));
    assert_eq!(world.looks("strange"), 0);
}

/// Keeps one ConfigMap with a count.
struct Keeper(Arc<Mutex<u32>>);

#[derive(Debug)]
struct Count;

impl Step for Count {
    const ALL: &'static [&'static str] = &["count"];

    fn name(&self) -> &'static str {
        "count"
    }
}

impl Controller for Keeper {
    type Object = ConfigMap;
    type Observed = bool;
    type Step = Count;

    fn declaration(&self) -> Declaration {
        Declaration::new("keeper", "test").patience(Duration::from_secs(5))
    }

    async fn observe(&self, map: Arc<ConfigMap>, _: &Context) -> Result<bool, Error> {
        Ok(map.name_any() == "kept")
    }

    fn plan(&self, kept: &bool) -> Plan<Count> {
        let plan = if *kept { Plan::of([Count]) } else { Plan::nothing() };
        plan.again(Duration::from_millis(20))
    }

    async fn act(&self, _: &Count, _: &bool, _: &Context) -> Result<(), Error> {
        *self.0.lock().unwrap() += 1;
        Ok(())
    }

    fn seeds(&self) -> Vec<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some("default".to_owned());
        map.metadata.name = Some("kept".to_owned());
        vec![map]
    }
}

#[test]
fn what_has_to_exist_is_made_and_made_again_and_looked_at_when_it_asked_for_it() {
    let (api, count) = (TestApi::start(), Arc::<Mutex<u32>>::default());
    let own = Arc::clone(&count);
    let mut stage = Stage::over(&api, move || vec![Registered::new(Keeper(Arc::clone(&own)))]);
    stage.start();
    let maps: Api<ConfigMap> = Api::namespaced(stage.client(), "default");
    stage.block_on(async {
        until("the map", || async { maps.get_opt("kept").await.unwrap().is_some() }).await;
        let first = maps.get("kept").await.unwrap().uid();
        maps.delete("kept", &DeleteParams::default()).await.unwrap();
        until("another map", || async { maps.get_opt("kept").await.unwrap().is_some_and(|map| map.uid() != first) })
            .await;
        until("looks without any change", || async { *count.lock().unwrap() > 10 }).await;
    });
}
