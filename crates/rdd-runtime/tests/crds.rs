//! Tests of CRD installation on a real server: created once, unchanged when equal, updated when different.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use rdd_runtime::crds::{Outcome, install};
use rdd_testkit::api::TestApi;
use serde_json::{Value, json};

const NAME: &str = "things.example.com";

fn definition(fields: Value) -> CustomResourceDefinition {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    serde_json::from_value(definition).expect("it is a definition")
}

fn whole() -> CustomResourceDefinition {
    definition(json!({"a": {"type": "string"}, "b": {"type": "integer", "minimum": 1}}))
}

fn run<F: Future<Output = ()>>(scenario: impl FnOnce(Client, Api<CustomResourceDefinition>) -> F) {
    let server = TestApi::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.expect("a runtime can be started").block_on(async {
        let client = Client::new(server.door(), "default");
        let api = Api::all(client.clone());
        tokio::time::timeout(Duration::from_secs(60), scenario(client, api)).await
    });
    done.expect("the scenario ends in time");
}

#[test]
fn a_second_start_of_the_same_program_writes_nothing() {
    run(|client, api| async move {
        assert_eq!(install(&client, &[whole()]).await.unwrap(), [Outcome::Created]);
        let made = api.get(NAME).await.unwrap();
        assert_eq!(install(&client, &[whole()]).await.unwrap(), [Outcome::Unchanged]);
        assert_eq!(api.get(NAME).await.unwrap().resource_version(), made.resource_version());
    });
}

// Finding O-12
#[test]
fn the_first_object_of_a_new_kind_is_taken_at_once() {
    run(|client, _| async move {
        install(&client, &[whole()]).await.unwrap();
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}});
        let request = http::Request::post("/apis/example.com/v1/namespaces/default/things")
            .header("content-type", "application/json")
            .body(thing.to_string().into_bytes())
            .unwrap();
        client.request::<Value>(request).await.unwrap();
    });
}

#[test]
fn a_definition_that_lost_a_field_regains_it_and_keeps_what_others_put_on_it() {
    run(|client, api| async move {
        install(&client, &[definition(json!({"a": {"type": "string"}}))]).await.unwrap();
        let note = json!({"metadata": {"annotations": {"example.com/note": "mine"}, "labels": {"l": "1"}}});
        api.patch(NAME, &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
        assert_eq!(install(&client, &[whole()]).await.unwrap(), [Outcome::Updated]);
        let found = api.get(NAME).await.unwrap();
        assert!(rdd_runtime::crds::is_same(&found.spec, &whole().spec));
        assert_eq!(found.annotations().get("example.com/note").map(String::as_str), Some("mine"));
        assert_eq!(found.labels().get("l").map(String::as_str), Some("1"));
        assert_eq!(install(&client, &[whole()]).await.unwrap(), [Outcome::Unchanged]);
    });
}

#[test]
fn managers_that_install_the_same_at_the_same_time_do_not_disturb_each_other() {
    run(|client, _| async move {
        let all = futures::future::join_all((0..8).map(|_| {
            let client = client.clone();
            async move { install(&client, &[whole()]).await.unwrap() }
        }));
        let outcomes: Vec<Outcome> = all.await.into_iter().flatten().collect();
        assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Created).count(), 1, "{outcomes:?}");
        assert!(!outcomes.contains(&Outcome::Updated), "{outcomes:?}");
    });
}

#[test]
fn a_definition_that_is_refused_is_named() {
    run(|client, _| async move {
        let mut bad = whole();
        bad.spec.scope = "Nowhere".to_owned();
        let error = install(&client, &[bad]).await.unwrap_err();
        assert_eq!(error.to_string(), "install the definition things.example.com");
        assert_eq!(error.code(), Some(422));
    });
}
