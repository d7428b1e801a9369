//! A running manager restores what other clients delete or edit, without needless writes.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
    core::v1::ConfigMap,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use rdd_runtime::{
    Registered,
    discovery::{self, Registry},
    hooks::Hooks,
    manager::{Manager, Options, Role, Started},
    metrics::Metrics,
    probe::Unhurt,
};
use rdd_stdx::clock::SystemClock;
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::{Stage, hooks_of},
};
use serde_json::{Value, json};
use things::{Thing, ThingSpec, judge::Judge, place, until};

struct World {
    client: Client,
    hooks: Arc<dyn Hooks>,
}

impl World {
    async fn start(&self, name: &str, role: Role) -> Manager {
        let options = Options {
            name: name.to_owned(),
            role,
            client: self.client.clone(),
            clock: SystemClock::shared(),
            hooks: Arc::clone(&self.hooks),
            probe: Arc::new(Unhurt),
            metrics: Metrics::default(),
            progress: Arc::new(|_| {}),
        };
        match Manager::start(options, vec![Registered::new(Judge)]).await.unwrap() {
            Started::Running(manager) => *manager,
            other @ Started::NothingToDo(_) => panic!("{other:?}"),
        }
    }

    fn validating(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    fn mutating(&self) -> Api<MutatingWebhookConfiguration> {
        Api::all(self.client.clone())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), discovery::NAMESPACE)
    }

    /// The content of everything that is kept, without fields that change with each write.
    async fn standing(&self) -> Value {
        let validating = self.validating().list(&ListParams::default()).await.unwrap().items;
        let mutating = self.mutating().list(&ListParams::default()).await.unwrap().items;
        let hooks = |name: String, labels: &_, hooks: Value| json!([name, labels, hooks]);
        let list = self.maps().get_opt(discovery::NAME).await.unwrap();
        json!({
            "validating": validating.iter().map(|one| hooks(one.name_any(), one.labels(), json!(one.webhooks))).collect::<Vec<_>>(),
            "mutating": mutating.iter().map(|one| hooks(one.name_any(), one.labels(), json!(one.webhooks))).collect::<Vec<_>>(),
            "list": list.map(|list| json!([list.labels(), list.annotations(), list.data])),
        })
    }

    /// The newest resourceVersion of everything that is kept.
    async fn version(&self) -> u64 {
        let number = |object: &ObjectVersion| object.0.as_ref().and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let mut versions = vec![ObjectVersion(self.maps().get(discovery::NAME).await.unwrap().resource_version())];
        let validating = self.validating().list(&ListParams::default()).await.unwrap().items;
        versions.extend(validating.iter().map(|one| ObjectVersion(one.resource_version())));
        let mutating = self.mutating().list(&ListParams::default()).await.unwrap().items;
        versions.extend(mutating.iter().map(|one| ObjectVersion(one.resource_version())));
        versions.iter().map(number).max().unwrap()
    }

    async fn is_restored(&self, wanted: &Value) {
        until("everything to be as it was", || async { self.standing().await == *wanted }).await;
    }
}

struct ObjectVersion(Option<String>);

fn run<F: Future<Output = ()>>(scenario: impl FnOnce(World) -> F) {
    let api = TestApi::start();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "rdd-system"}})).expect(201);
    let stage = Stage::over(&api, Vec::new);
    let world = World { client: stage.client(), hooks: hooks_of(&api) };
    stage.block_on(async { tokio::time::timeout(Duration::from_secs(90), scenario(world)).await.expect("in time") });
}

async fn edit<K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    patch: Value,
) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[test]
fn configurations_that_are_deleted_or_edited_come_back_and_nothing_else_is_written() {
    run(|world| async move {
        let manager = world.start("embedded", Role::Embedded(place())).await;
        let wanted = world.standing().await;
        until("quiet", || manager.is_quiet()).await;
        let before = world.version().await;

        world.validating().delete("thing-validator", &DeleteParams::default()).await.unwrap();
        world.mutating().delete("thing-defaulter", &DeleteParams::default()).await.unwrap();
        world.is_restored(&wanted).await;
        assert!(world.version().await > before);

        // Changes to policy, address and rules, another hook, and a condition that never holds.
        let found = world.validating().get("thing-validator").await.unwrap();
        let hook = json!(found.webhooks.unwrap()[0]);
        for change in [
            json!({"failurePolicy": "Ignore"}),
            json!({"timeoutSeconds": 1}),
            json!({"rules": []}),
            json!({"matchConditions": [{"name": "never", "expression": "false"}]}),
            json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}),
        ] {
            let mut edited = hook.clone();
            edited.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            edit(&world.validating(), "thing-validator", json!({"webhooks": [edited]})).await;
            world.is_restored(&wanted).await;
        }
        let mut second = hook.clone();
        second["name"] = "another.test.rancherdesktop.io".into();
        edit(&world.validating(), "thing-validator", json!({"webhooks": [hook, second]})).await;
        world.is_restored(&wanted).await;
        edit(&world.validating(), "thing-guard", json!({"webhooks": null})).await;
        world.is_restored(&wanted).await;
        edit(&world.validating(), "thing-guard", json!({"metadata": {"labels": null}})).await;
        world.is_restored(&wanted).await;

        // Fields that the manager does not care about stay and cause no write.
        edit(&world.validating(), "thing-guard", json!({"metadata": {"annotations": {"note": "mine"}}})).await;
        until("quiet", || manager.is_quiet()).await;
        let before = world.version().await;
        let things: Api<Thing> = Api::namespaced(world.client.clone(), "default");
        things.create(&PostParams::default(), &Thing::new("t", ThingSpec::default())).await.unwrap();
        until("quiet", || manager.is_quiet()).await;
        assert_eq!(world.version().await, before);
        assert_eq!(world.validating().get("thing-guard").await.unwrap().annotations()["note"], "mine");
        manager.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn the_list_of_managers_comes_back_whole_and_key_by_key() {
    run(|world| async move {
        let manager = world.start("embedded", Role::Embedded(place())).await;
        let wanted = world.standing().await;
        world.maps().delete(discovery::NAME, &DeleteParams::default()).await.unwrap();
        world.is_restored(&wanted).await;
        edit(&world.maps(), discovery::NAME, json!({"data": {"embedded": null}})).await;
        world.is_restored(&wanted).await;
        edit(&world.maps(), discovery::NAME, json!({"data": {"embedded": "{}"}})).await;
        world.is_restored(&wanted).await;
        edit(&world.maps(), discovery::NAME, json!({"metadata": {"annotations": null, "labels": null}})).await;
        world.is_restored(&wanted).await;
        // The entry of another manager is left alone.
        let theirs = json!({
            "healthPort": 1, "metricsPort": 1, "enabledControllers": ["theirs"], "startTime": "", "healthEndpoint": "",
            "metricsEndpoint": "", "passthroughEndpoint": "",
        });
        edit(&world.maps(), discovery::NAME, json!({"data": {"x": theirs.to_string()}})).await;
        until("quiet", || manager.is_quiet()).await;
        assert_eq!(world.maps().get(discovery::NAME).await.unwrap().data.unwrap()["x"], theirs.to_string());
        manager.stop(Duration::from_secs(5)).await;
        let left = Registry::new(world.client.clone()).read().await.unwrap().unwrap().entries;
        assert_eq!(left.into_keys().collect::<Vec<_>>(), ["x"], "one that stops does not come back");
    });
}

#[test]
fn a_manager_beside_the_daemon_keeps_what_is_its_own() {
    run(|world| async move {
        let manager = world.start("beside", Role::External(place())).await;
        let wanted = world.standing().await;
        edit(&world.maps(), discovery::NAME, json!({"data": {"beside": null}})).await;
        world.is_restored(&wanted).await;
        world.validating().delete("thing-validator", &DeleteParams::default()).await.unwrap();
        world.is_restored(&wanted).await;
        // After the stop, the manager restores nothing, and its webhooks stay configured.
        manager.stop(Duration::from_secs(5)).await;
        world.validating().delete("thing-validator", &DeleteParams::default()).await.unwrap();
        assert!(world.validating().get_opt("thing-validator").await.unwrap().is_none());
        assert!(world.validating().get_opt("thing-guard").await.unwrap().is_some());
    });
}

#[test]
fn the_daemon_takes_over_the_webhooks_of_what_it_runs_and_drops_those_that_stand_in_its_way() {
    run(|world| async move {
        // Another manager ran the same controller beside an earlier daemon, and its webhook matches even the registry.
        drop(world.start("beside", Role::External(place())).await);
        let mut blocking = world.validating().get("thing-guard").await.unwrap();
        blocking.metadata = kube::api::ObjectMeta {
            name: Some("blocking".to_owned()),
            labels: blocking.metadata.labels,
            ..Default::default()
        };
        for hook in blocking.webhooks.iter_mut().flatten() {
            let rule = &mut hook.rules.as_mut().unwrap()[0];
            rule.api_groups = Some(vec![String::new()]);
            rule.resources = Some(vec!["configmaps".to_owned()]);
            rule.api_versions = Some(vec!["v1".to_owned()]);
            rule.operations = Some(vec!["*".to_owned()]);
        }
        world.validating().create(&PostParams::default(), &blocking).await.unwrap();
        let options = || Options {
            name: "embedded".to_owned(),
            role: Role::Embedded(place()),
            client: world.client.clone(),
            clock: SystemClock::shared(),
            hooks: Arc::clone(&world.hooks),
            probe: Arc::new(Unhurt),
            metrics: Metrics::default(),
            progress: Arc::new(|_| {}),
        };
        // The handler is gone: no process answers at this URL.
        let url = json!({"webhooks": [{"name": "thing-guard.test.rancherdesktop.io", "clientConfig": {"url": "https://127.0.0.1:1/gone"}}]});
        world.validating().patch("blocking", &PatchParams::default(), &Patch::Strategic(url)).await.unwrap();
        let failed = Manager::start(options(), vec![Registered::new(Judge)]).await.unwrap_err();
        let failed = rdd_stdx::chain::Chain(&failed).to_string();
        assert!(failed.contains("failed calling webhook"), "{failed}");
        let Started::Running(manager) = Manager::start(options(), vec![Registered::new(Judge)]).await.unwrap() else {
            panic!("it has something to do")
        };
        assert!(world.validating().get_opt("blocking").await.unwrap().is_none());
        for name in ["thing-guard", "thing-validator"] {
            let labels = world.validating().get(name).await.unwrap().labels().clone();
            assert_eq!(labels["rdd.rancherdesktop.io/manager"], "embedded", "{name}");
        }
        manager.stop(Duration::from_secs(5)).await;
    });
}
