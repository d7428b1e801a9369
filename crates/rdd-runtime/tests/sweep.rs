//! Letting go of what is owned: thousands in seconds, and what cannot go keeps no other.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use rdd_runtime::{Context, finalizer, sweep};
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::Stage,
};
use serde_json::json;

fn stage(api: &TestApi) -> Stage {
    Stage::over(api, Vec::new)
}

fn child(owner: &ConfigMap, name: &str, finalizers: Vec<String>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: Context::owner_reference(owner).map(|owner| vec![owner]),
            finalizers: Some(finalizers),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

async fn make(client: &Client, map: ConfigMap) -> ConfigMap {
    Api::<ConfigMap>::namespaced(client.clone(), "default").create(&PostParams::default(), &map).await.unwrap()
}

async fn mk_owner(client: &Client) -> ConfigMap {
    let mut owner = ConfigMap::default();
    owner.metadata.name = Some("owner".to_owned());
    make(client, owner).await
}

#[test]
fn ten_thousand_owned_objects_go_in_seconds() {
    let api = TestApi::start();
    let stage = stage(&api);
    let client = stage.client();
    stage.block_on(async {
        let owner = mk_owner(&client).await;
        let children = (0..10_000).map(|number| {
            let owned = vec![finalizer::owned_by("ConfigMap")];
            make(&client, child(&owner, &format!("child-{number}"), owned))
        });
        stream::iter(children).buffer_unordered(48).collect::<Vec<_>>().await;
        let began = Instant::now();
        let swept = sweep::owned(&client, &owner.metadata, "default").await.unwrap();
        let took = began.elapsed();
        println!("10,000 owned objects went in {took:?}");
        assert_eq!((swept.found, swept.ending), (10_000, 0));
        assert!(took < Duration::from_secs(60), "{took:?}");
        assert!(sweep::owned(&client, &owner.metadata, "default").await.unwrap().is_clean());
    });
}

#[test]
fn what_cannot_go_keeps_no_other_and_what_is_not_owned_stays() {
    let api = TestApi::start();
    let stage = stage(&api);
    let client = stage.client();
    stage.block_on(async {
        let owner = mk_owner(&client).await;
        make(&client, child(&owner, "held", vec!["example.com/mine".to_owned()])).await;
        for number in 0..5 {
            make(&client, child(&owner, &format!("child-{number}"), vec![finalizer::owned_by("ConfigMap")])).await;
        }
        let mut other = ConfigMap::default();
        other.metadata.name = Some("other".to_owned());
        let other = make(&client, other).await;
        make(&client, child(&other, "not-owned", vec![finalizer::owned_by("ConfigMap")])).await;
        let swept = sweep::owned(&client, &owner.metadata, "default").await.unwrap();
        assert_eq!(swept.found, 6);
        let left = sweep::owned(&client, &owner.metadata, "default").await.unwrap();
        assert_eq!((left.found, left.ending), (1, 1), "its own finalizer holds it");
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        assert!(maps.get_opt("not-owned").await.unwrap().is_some());
        assert_eq!(maps.get("held").await.unwrap().finalizers(), ["example.com/mine"]);
    });
}

#[test]
fn a_kind_that_cannot_be_read_is_told_of_after_all_others_were_swept() {
    let api = TestApi::start();
    let stage = stage(&api);
    let client = stage.client();
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "no"},
        "webhooks": [{
            "name": "no.example.com", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/no"},
            "objectSelector": {"matchLabels": {"guarded": "true"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}],
        }],
    });
    let owner = stage.block_on(async {
        let owner = mk_owner(&client).await;
        let mut guarded = child(&owner, "guarded", Vec::new());
        guarded.metadata.labels = Some([("guarded".to_owned(), "true".to_owned())].into());
        make(&client, guarded).await;
        make(&client, child(&owner, "free", Vec::new())).await;
        owner
    });
    api.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &hook).expect(201);
    let error = stage.block_on(sweep::owned(&client, &owner.metadata, "default")).unwrap_err().to_string();
    assert!(error.starts_with("1 of 2 owned objects could not be let go: delete ConfigMap guarded: "), "{error}");
    assert!(error.contains("no.example.com"), "{error}");
    assert_eq!(api.get("/api/v1/namespaces/default/configmaps/free").code, 404);
}
