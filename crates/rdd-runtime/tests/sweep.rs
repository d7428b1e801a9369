//! Tests of sweeps: thousands of objects in seconds, and objects that cannot be deleted do not stop the others.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};
use rdd_runtime::{
    Context, finalizer,
    hooks::{Answer, Reachable},
    sweep,
};
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::{Stage, hooks_of},
};
use serde_json::json;
use tokio::sync::Notify;

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

fn named(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

async fn mk_owner(client: &Client) -> ConfigMap {
    make(client, named("owner")).await
}

/// A webhook for deletions of objects with this label that hangs until the test releases it, then denies.
async fn hanging_hook(api: &TestApi, client: &Client, release: Arc<Notify>) -> Reachable {
    let answer: Answer = Arc::new(move |review| {
        let release = Arc::clone(&release);
        Box::pin(async move {
            release.notified().await;
            json!({
                "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                "response": {"uid": review["request"]["uid"], "allowed": false, "status": {"message": "not yet"}},
            })
        })
    });
    let reachable = hooks_of(api).serve(vec![("/hangs".to_owned(), answer)]).await.unwrap();
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "hangs"},
        "webhooks": [{
            "name": "hangs.example.com", "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("{}/hangs", reachable.base)}, "timeoutSeconds": 30,
            "objectSelector": {"matchLabels": {"poisoned": "true"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["*"]}],
        }],
    });
    let hooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    hooks.create(&PostParams::default(), &serde_json::from_value(hook).unwrap()).await.unwrap();
    reachable
}

#[test]
fn an_object_whose_deletion_hangs_delays_no_other_of_any_kind() {
    let api = TestApi::start();
    let stage = stage(&api);
    let client = stage.client();
    stage.block_on(async {
        let release = Arc::new(Notify::new());
        let _reachable = hanging_hook(&api, &client, Arc::clone(&release)).await;
        let owner = mk_owner(&client).await;
        let mut poisoned = child(&owner, "poisoned", vec![finalizer::owned_by("ConfigMap")]);
        poisoned.metadata.labels = Some([("poisoned".to_owned(), "true".to_owned())].into());
        make(&client, poisoned).await;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
        let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
        for number in 0..100 {
            let metadata = child(&owner, &format!("child-{number}"), vec![finalizer::owned_by("ConfigMap")]).metadata;
            make(&client, ConfigMap { metadata: metadata.clone(), ..ConfigMap::default() }).await;
            let secret = Secret { metadata: metadata.clone(), ..Secret::default() };
            secrets.create(&PostParams::default(), &secret).await.unwrap();
            leases.create(&PostParams::default(), &Lease { metadata, ..Lease::default() }).await.unwrap();
        }
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let sweeping = sweep::owned(&client, &owner.metadata, "default");
        let others_gone = async {
            let all = ListParams::default();
            let left = async || {
                let owned = |meta: &ObjectMeta| meta.owner_references.is_some();
                let maps = maps.list(&all).await.unwrap().items.iter().filter(|one| owned(&one.metadata)).count();
                let secrets = secrets.list(&all).await.unwrap().items.iter().filter(|one| owned(&one.metadata)).count();
                maps + secrets + leases.list(&all).await.unwrap().items.len()
            };
            let deadline = Instant::now() + Duration::from_secs(20);
            while left().await > 1 {
                assert!(Instant::now() < deadline, "{} are left while one hangs", left().await);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            release.notify_one();
        };
        let (swept, ()) = tokio::join!(sweeping, others_gone);
        let error = swept.unwrap_err().to_string();
        assert!(
            error.starts_with("1 of 301 owned objects could not be let go: delete ConfigMap poisoned: "),
            "{error}"
        );
        assert!(error.contains("not yet"), "{error}");
    });
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
        // The reference: as many objects without an owner, each deleted individually in the same way.
        let bare: Vec<_> = (0..10_000).map(|number| format!("bare-{number}")).collect();
        let made = bare.iter().map(|name| make(&client, named(name)));
        stream::iter(made).buffer_unordered(48).collect::<Vec<_>>().await;
        let began = Instant::now();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        let deletions = bare.iter().map(|name| async { maps.delete(name, &DeleteParams::default()).await.unwrap() });
        stream::iter(deletions).buffer_unordered(48).for_each(|_| async {}).await;
        let yardstick = began.elapsed();
        let began = Instant::now();
        let swept = sweep::owned(&client, &owner.metadata, "default").await.unwrap();
        let took = began.elapsed();
        let ratio = took.as_secs_f64() / yardstick.as_secs_f64();
        println!("10,000 owned objects went in {took:?}, {ratio:.2} times what deletes of as many others take ({yardstick:?})");
        assert_eq!((swept.found, swept.ending), (10_000, 0));
        assert!(took < Duration::from_secs(60), "{took:?}");
        // One list, and for each object one write that releases it and one that deletes it. The limit allows for noise.
        assert!(ratio < 12.0, "{took:?} beside {yardstick:?}");
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
        let other = make(&client, named("other")).await;
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
