//! Webhooks behind the API itself: configured by a create, asked by the next write.

use std::sync::Arc;

use rdd_meta::{Status, options::DeleteOptions};
use rdd_stdx::clock::SystemClock;
use rdd_store::{MemoryStore, Store};
use serde_json::{Value, json};

use super::{super::Handler, answer, said};
use crate::{
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{Core, Parts},
    rest::local::{Local, Named},
    version::Version,
};

async fn open(store: Arc<dyn Store>) -> Core {
    let text = str::to_owned;
    let version = Version {
        major: text("1"),
        minor: text("35"),
        git_version: text("v1.35.4"),
        git_commit: text("0"),
        git_tree_state: text("clean"),
        build_date: text("2026-01-01T00:00:00Z"),
        go_version: text("go1"),
        compiler: text("gc"),
        platform: text("linux/amd64"),
    };
    let parts = Parts {
        store,
        clock: SystemClock::shared(),
        version,
        endowment: Endowment { namespaces: vec![text("default")], ca_bundle: Arc::new(String::new), port: 6443 },
        tokens: None,
        reviewer: TokenReviewer::new(|_, _| None),
        plugins: Vec::new(),
    };
    Core::open(parts).await.unwrap()
}

fn map(name: &str) -> Named<'_> {
    Named { group: "", resource: "configmaps", namespace: Some("default"), name, subresource: "" }
}

async fn configure(client: &Local, kind: &str, plural: &str, resources: &[&str]) -> Result<Value, Status> {
    let named =
        Named { group: "admissionregistration.k8s.io", resource: plural, namespace: None, name: "", subresource: "" };
    let hook = json!({
        "name": "hook.example.com",
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/a"}},
        "rules": [{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"],
    });
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "c"}, "webhooks": [hook],
    });
    client.create(named, configuration).await
}

fn says(response: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Handler {
    Arc::new(move |review| {
        let reply = answer(&review, response(&review));
        Box::pin(async move { reply })
    })
}

#[tokio::test]
async fn a_write_is_changed_and_refused_by_webhooks_that_the_api_was_told_of() {
    let core = open(Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()))).await;
    let client = Local::new(Arc::clone(core.api()), "test");
    let patch = json!([{"op": "add", "path": "/data", "value": {"a": "1"}}]);
    let changes = core.webhooks().register(
        "default",
        "hook",
        "/a",
        says(move |review| {
            let is_create = review["request"]["operation"] == "CREATE";
            if is_create { json!({"allowed": true, "patch": patch}) } else { json!({"allowed": true}) }
        }),
    );
    configure(&client, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", &["configmaps"]).await.unwrap();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let created = client.create(map(""), object.clone()).await.unwrap();
    assert_eq!(created["data"], json!({"a": "1"}));
    drop(changes);
    let unreachable = said(client.create(map(""), object).await);
    assert!(
        unreachable.ends_with("Post \"https://hook.default.svc:443/a?timeout=10s\": service \"hook\" not found"),
        "{unreachable}"
    );

    let denied = json!({"allowed": false, "status": {"code": 403, "message": "keep it"}});
    let _keeps = core.webhooks().register(
        "default",
        "hook",
        "/a",
        says(move |review| {
            let is_delete = review["request"]["operation"] == "DELETE";
            assert_eq!(review["request"]["oldObject"]["metadata"]["name"].is_string(), is_delete);
            if is_delete { denied.clone() } else { json!({"allowed": true}) }
        }),
    );
    let deleted = said(client.delete(map("x"), &DeleteOptions::default()).await.map(|_| Value::Null));
    assert_eq!(deleted, "403 admission webhook \"hook.example.com\" denied the request: keep it");
    assert_eq!(client.get(map("x")).unwrap()["data"], json!({"a": "1"}));
}

#[tokio::test]
async fn a_configuration_whose_conditions_do_not_compile_is_refused() {
    let core = open(Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()))).await;
    let client = Local::new(Arc::clone(core.api()), "test");
    let group = "admissionregistration.k8s.io";
    for (kind, plural) in [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ] {
        let mut made = configure(&client, kind, plural, &["pods"]).await.unwrap();
        made["webhooks"][0]["matchConditions"] = json!([{"name": "c", "expression": "object.x"}]);
        let named = Named { group, resource: plural, namespace: None, name: "c", subresource: "" };
        let expected = format!(
            "422 {kind}.{group} \"c\" is invalid: webhooks[0].matchConditions[0].expression: Invalid value: \"object.x\": must evaluate to bool but got dyn"
        );
        assert_eq!(said(client.update(named, made.clone()).await), expected);
        made["metadata"] = json!({"name": "d"});
        let created = said(client.create(Named { name: "", ..named }, made).await);
        assert_eq!(created, expected.replace("\"c\"", "\"d\""));
    }
}

#[tokio::test]
async fn no_webhook_keeps_the_server_from_starting() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()));
    let core = open(Arc::clone(&store)).await;
    let client = Local::new(Arc::clone(core.api()), "test");
    configure(&client, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", &["*/*"]).await.unwrap();
    drop((client, core));
    let core = open(store).await;
    let client = Local::new(Arc::clone(core.api()), "test");
    let refused =
        said(client.create(map(""), json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})).await);
    assert!(refused.starts_with("500 Internal error occurred: failed calling webhook"), "{refused}");
}
