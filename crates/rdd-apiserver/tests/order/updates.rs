//! Tests of special rules of upstream for updates, patches and applies: versions, names, nulls, and inputs in place of an object.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    support::{World, definition},
    wire::{APPLY, JSON, MERGE},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn named(name: &str, rest: &Value) -> Value {
    let mut object = rest.clone();
    object["metadata"] = json!({"name": name});
    object
}

#[tokio::test]
async fn kinds_that_judge_others_are_not_updated_without_a_version() {
    let world = World::open().await;
    let rules = json!([{"apiGroups": ["z"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["z"]}]);
    let policy = json!({"spec": {
        "matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}],
    }});
    let binding = json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}});
    let widgets = definition(json!({}));
    let cases = [
        (format!("{ADMISSION}/validatingwebhookconfigurations"), "x", json!({}), ""),
        (format!("{ADMISSION}/mutatingwebhookconfigurations"), "x", json!({}), ""),
        (format!("{ADMISSION}/validatingadmissionpolicies"), "x", policy, "/status"),
        (format!("{ADMISSION}/validatingadmissionpolicybindings"), "x", binding, ""),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned(),
            "widgets.example.dev",
            widgets,
            "/status",
        ),
    ];
    for (path, name, rest, status) in cases {
        let made = world.ask("POST", &path, JSON, named(name, &rest)).await;
        assert_eq!(made.code, 201, "{made:?}");
        let mut zero = named(name, &rest);
        zero["metadata"]["resourceVersion"] = "0".into();
        let nothing = json!({"metadata": {"resourceVersion": null, "labels": {"a": "b"}}});
        for (method, part, content_type, body) in [
            ("PUT", "", JSON, named(name, &rest)),
            ("PUT", "", JSON, zero),
            ("PATCH", "", MERGE, nothing),
            ("PUT", status, JSON, named(name, &rest)),
        ] {
            let told = world.ask(method, &format!("{path}/{name}{part}"), content_type, body).await;
            assert_eq!(told.code, 422, "{method} {path}: {told:?}");
            let wanted = format!(
                "\"{name}\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            );
            assert!(told.message().ends_with(&wanted), "{told:?}");
        }
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let patched = world.ask("PATCH", &format!("{path}/{name}"), MERGE, labelled).await;
        assert_eq!(patched.code, 200, "a patch is of the version that it finds: {patched:?}");
        let applied = json!({"apiVersion": made.body["apiVersion"], "kind": made.body["kind"], "metadata": {"name": name, "labels": {"c": "d"}}});
        let applied = world.ask("PATCH", &format!("{path}/{name}?fieldManager=m"), APPLY, applied).await;
        assert_eq!(applied.code, 200, "{applied:?}");
    }
}

#[tokio::test]
async fn an_update_of_what_is_not_there_creates_it_where_upstream_does() {
    let world = World::open().await;
    let role = json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}});
    for (path, rest) in [
        (format!("{RBAC}/clusterroles"), json!({})),
        (format!("{RBAC}/namespaces/default/roles"), json!({})),
        (format!("{RBAC}/clusterrolebindings"), role.clone()),
        (format!("{RBAC}/namespaces/default/rolebindings"), role),
        ("/api/v1/namespaces/default/services".to_owned(), json!({"spec": {"ports": [{"port": 80}]}})),
    ] {
        let mut known = named("x", &rest);
        known["metadata"]["uid"] = "u-1".into();
        let refused = world.ask("PUT", &format!("{path}/x"), JSON, known).await;
        assert_eq!(refused.code, 409, "{refused:?}");
        let plural = path.rsplit('/').next().unwrap();
        let plural = if plural == "services" { "services/specs" } else { plural };
        assert!(refused.message().contains(&format!("Key: /registry/{plural}/")), "{refused:?}");
        let made = world.ask("PUT", &format!("{path}/x"), JSON, named("x", &rest)).await;
        assert_eq!(made.code, 201, "{made:?}");
        let again = world.ask("PUT", &format!("{path}/x"), JSON, named("x", &rest)).await;
        assert_eq!(again.code, 200, "{again:?}");
    }
    let absent = world.ask("PUT", &format!("{MAPS}/x"), JSON, map("x")).await;
    assert_eq!(absent.code, 404, "{absent:?}");
}

#[tokio::test]
async fn an_apply_that_a_webhook_renames_is_stored_under_the_name_of_its_path_at_once() {
    let world = World::open().await;
    assert_eq!(world.ask("POST", MAPS, JSON, map("other")).await.code, 201);
    let rename = STANDARD.encode(json!([{"op": "replace", "path": "/metadata/name", "value": "other"}]).to_string());
    let (asked, _hook) = world
        .hook("MutatingWebhookConfiguration", &["configmaps"], move |request| match &request["name"] {
            // The server creates a ConfigMap of its own in each namespace, which may reach the webhook only now.
            Value::String(name) if name == "new" => {
                json!({"allowed": true, "patchType": "JSONPatch", "patch": rename})
            }
            _ => json!({"allowed": true}),
        })
        .await;
    let made = world.ask("PATCH", &format!("{MAPS}/new?fieldManager=m"), APPLY, map("new")).await;
    assert_eq!((made.code, &made.body["metadata"]["name"]), (201, &json!("other")), "{made:?}");
    let asked = asked.lock().unwrap().iter().filter(|request| request["name"] == "new").count();
    assert_eq!(asked, 1);
    let found = world.get(&format!("{MAPS}/new")).await;
    assert_eq!(found.body["metadata"]["uid"], made.body["metadata"]["uid"]);
    let other = world.get(&format!("{MAPS}/other")).await;
    assert_ne!(other.body["metadata"]["uid"], made.body["metadata"]["uid"], "what had the name is as it was");
}

#[tokio::test]
async fn an_apply_of_nulls_is_refused_as_what_it_is() {
    let world = World::open().await;
    world.define(json!({"replicas": {"type": "integer"}, "note": {"type": "string", "nullable": true}})).await;
    let wanted = |spec: Value| json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let path = format!("{WIDGETS}/w?fieldManager=m");
    let refused = world.ask("PATCH", &path, APPLY, wanted(json!({"replicas": null}))).await;
    assert_eq!(refused.code, 422, "{refused:?}");
    assert!(refused.message().contains(r#"spec.replicas in body must be of type integer: "null""#), "{refused:?}");
    let posted = world.ask("POST", WIDGETS, JSON, wanted(json!({"replicas": null}))).await;
    assert_eq!((posted.code, &posted.body["spec"]), (201, &json!({})), "a body loses them: {posted:?}");
    let applied = world.ask("PATCH", &path, APPLY, wanted(json!({"replicas": 1, "note": null}))).await;
    assert_eq!((applied.code, &applied.body["spec"]), (200, &json!({"note": null, "replicas": 1})), "{applied:?}");
}

#[tokio::test]
async fn an_apply_that_leaves_an_object_empty_is_refused_as_a_null() {
    let world = World::open().await;
    world.define(json!({"replicas": {"type": "integer"}})).await;
    let wanted = |spec: Value| json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let path = format!("{WIDGETS}/w?fieldManager=m");
    assert_eq!(world.ask("PATCH", &path, APPLY, wanted(json!({"replicas": 1}))).await.code, 201);
    let emptied = world.ask("PATCH", &path, APPLY, wanted(json!({}))).await;
    assert_eq!(emptied.code, 422, "{emptied:?}");
    assert!(emptied.message().contains(r#"spec in body must be of type object: "null""#), "{emptied:?}");
}

#[tokio::test]
async fn nobody_stores_a_link_of_an_object_to_itself() {
    let world = World::open().await;
    let mut wanted = map("linked");
    wanted["metadata"]["selfLink"] = "x".into();
    let made = world.ask("PATCH", &format!("{MAPS}/linked?fieldManager=m"), APPLY, &wanted).await;
    assert_eq!((made.code, made.body["metadata"].get("selfLink")), (201, None), "{made:?}");
    let found = world.get(&format!("{MAPS}/linked")).await;
    assert_eq!(found.body["metadata"].get("selfLink"), None);
}

#[tokio::test]
async fn validating_webhooks_see_the_whole_scale() {
    let world = World::open().await;
    let mut widgets = definition(json!({"replicas": {"type": "integer"}}));
    widgets["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let made = world.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", JSON, widgets).await;
    assert_eq!(made.code, 201, "{made:?}");
    let widget =
        json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 1}});
    let widget = world.ask("POST", WIDGETS, JSON, widget).await.body;
    let (asked, _hook) =
        world.hook("ValidatingWebhookConfiguration", &["widgets/scale"], |_| json!({"allowed": true})).await;
    let body =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 2}});
    let path = format!("{WIDGETS}/w/scale");
    let put = world.ask("PUT", &path, JSON, body).await;
    assert_eq!(put.code, 200, "{put:?}");
    let patched = world.ask("PATCH", &path, MERGE, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(patched.code, 200, "{patched:?}");
    let asked = asked.lock().unwrap().clone();
    let scale = |version: &Value, replicas: i64| {
        let metadata = &widget["metadata"];
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale",
            "metadata": {
                "name": "w", "namespace": "default", "uid": metadata["uid"], "resourceVersion": version,
                "creationTimestamp": metadata["creationTimestamp"],
            },
            "spec": {"replicas": replicas}, "status": {"replicas": 0},
        })
    };
    let (first, second) = (&widget["metadata"]["resourceVersion"], &put.body["metadata"]["resourceVersion"]);
    let seen: Vec<_> = asked.iter().map(|request| (&request["object"], &request["oldObject"])).collect();
    assert_eq!(seen, [(&scale(first, 2), &scale(first, 1)), (&scale(second, 3), &scale(second, 2))]);
    let refused = json!({"allowed": false, "status": {"code": 403, "message": "no"}});
    let (_, _hook) = world.rehook(move |_| refused.clone());
    let denied = world.ask("PATCH", &path, MERGE, json!({"spec": {"replicas": 4}})).await;
    assert_eq!(denied.code, 403, "{denied:?}");
    assert_eq!(world.get(&path).await.body["spec"]["replicas"], 3);
}
