//! Tests of webhooks in process and over HTTPS: the server calls them, follows their decision, and fails closed without them.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::sync::Arc;

use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rdd_runtime::{
    Registered, finalizer,
    hooks::{Hooks, Https},
    manager::{Manager, Options, Role, Started},
    metrics::Metrics,
    probe::Unhurt,
};
use rdd_stdx::clock::SystemClock;
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::{Stage, hooks_of},
};
use serde_json::json;
use things::{Thing, ThingSpec, judge::Judge, place};

fn thing(name: &str, value: &str) -> Thing {
    Thing::new(name, ThingSpec { value: value.to_owned(), mood: String::new() })
}

async fn create(client: &Client, name: &str, value: &str) -> Result<Thing, String> {
    let api: Api<Thing> = Api::namespaced(client.clone(), "default");
    api.create(&PostParams::default(), &thing(name, value)).await.map_err(|error| match error {
        kube::Error::Api(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        other => other.to_string(),
    })
}

async fn check_verdicts(client: &Client) {
    let made = create(client, "good", "1").await.unwrap();
    assert_eq!(made.spec.mood, "calm");
    let denied = "403 Forbidden: admission webhook \"thing-validator.test.rancherdesktop.io\" denied the request: \
                  spec.value must not be bad";
    assert_eq!(create(client, "no", "bad").await.unwrap_err(), denied);
    // Finding 236-I1
    let owned = finalizer::ensure(client, &made, &finalizer::owned_by("App")).await.unwrap();
    let api: Api<Thing> = Api::namespaced(client.clone(), "default");
    let refused = api.delete("good", &DeleteParams::default()).await.unwrap_err();
    let words = r#"denied the request: cannot delete "good": owned by App; delete the App resource instead"#;
    assert!(refused.to_string().contains(words), "{refused}");
    assert!(api.get("good").await.unwrap().meta().deletion_timestamp.is_none());
    let second = finalizer::ensure(client, &owned, &finalizer::owned_by("LimaVM")).await.unwrap_err();
    assert!(second.to_string().contains("already owned by App"), "{second}");
    finalizer::release(client, &owned, &finalizer::owned_by("App")).await.unwrap();
    api.delete("good", &DeleteParams::default()).await.unwrap();
    assert!(api.get_opt("good").await.unwrap().is_none());
}

#[test]
fn in_process_they_are_asked_from_the_first_moment_on() {
    let api = TestApi::start();
    let mut stage = Stage::over(&api, || vec![Registered::new(Judge)]);
    stage.start();
    let client = stage.client();
    stage.block_on(check_verdicts(&client));
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/thing-validator";
    let before = api.get(path).expect(200);
    assert_eq!(before["webhooks"][0]["clientConfig"]["url"], "https://127.0.0.1:9443/validating-thing-validator");
    assert_eq!(before["metadata"]["managedFields"][0]["manager"], "rdd-webhook-manager");
    stage.cut();
    let gone = stage.block_on(create(&client, "while-gone", "1")).unwrap_err();
    assert!(gone.contains("failed calling webhook \"thing-defaulter.test.rancherdesktop.io\""), "{gone}");
    stage.start();
    assert_eq!(api.get(path).expect(200)["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    stage.block_on(check_verdicts(&client));
}

fn https(folder: &std::path::Path) -> Arc<dyn Hooks> {
    Arc::new(Https {
        port: 0,
        tls_dir: folder.to_owned(),
        manager: "rdd".to_owned(),
        controllers: vec!["judge".to_owned()],
        clock: SystemClock::shared(),
    })
}

async fn start(
    client: &Client,
    name: &str,
    hooks: Arc<dyn Hooks>,
    role: Role,
    controllers: Vec<Registered>,
) -> Manager {
    let options = Options {
        name: name.to_owned(),
        role,
        client: client.clone(),
        clock: SystemClock::shared(),
        hooks,
        probe: Arc::new(Unhurt),
        metrics: Metrics::default(),
        progress: Arc::new(|_| {}),
    };
    match Manager::start(options, controllers).await.unwrap() {
        Started::Running(manager) => *manager,
        other @ Started::NothingToDo(_) => panic!("{other:?}"),
    }
}

#[test]
fn over_https_they_are_asked_and_when_they_are_gone_writes_fail_closed_and_recover() {
    let (api, folder) = (TestApi::start(), tempfile::tempdir().unwrap());
    let stage = Stage::over(&api, Vec::new);
    let client = stage.client();
    stage.block_on(async {
        let judge = || vec![Registered::new(Judge)];
        let manager = start(&client, "rdd", https(folder.path()), Role::Alone, judge()).await;
        check_verdicts(&client).await;
        manager.kill().await;
        let gone = create(&client, "while-gone", "1").await.unwrap_err();
        assert!(gone.starts_with("500 InternalError: Internal error occurred: failed calling webhook"), "{gone}");
        assert!(gone.contains("\"thing-defaulter.test.rancherdesktop.io\""), "{gone}");
        let _manager = start(&client, "rdd", https(folder.path()), Role::Alone, judge()).await;
        check_verdicts(&client).await;
    });
}

#[test]
fn a_configuration_of_an_earlier_run_blocks_neither_the_start_nor_what_it_guarded() {
    let api = TestApi::start();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "rdd-system"}})).expect(201);
    let stage = Stage::over(&api, Vec::new);
    let client = stage.client();
    stage.block_on(async {
        let manager = start(&client, "embedded", hooks_of(&api), Role::Embedded(place()), vec![Registered::new(Judge)]).await;
        manager.kill().await;
        assert!(create(&client, "a", "1").await.unwrap_err().contains("failed calling webhook"));
        let patch = json!({"webhooks": [{"name": "thing-guard.test.rancherdesktop.io", "rules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps", "customresourcedefinitions"],
        }]}]});
        let hooks: Api<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration> = Api::all(client.clone());
        hooks.patch("thing-guard", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        // The same controllers again: their handlers are served before anything is written.
        let manager = start(&client, "embedded", hooks_of(&api), Role::Embedded(place()), vec![Registered::new(Judge)]).await;
        manager.kill().await;
        // No controllers: the configurations of the earlier ones are removed.
        let _manager = start(&client, "embedded", hooks_of(&api), Role::Embedded(place()), Vec::new()).await;
        create(&client, "a", "bad").await.unwrap();
    });
}
