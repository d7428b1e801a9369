//! Tests deleted namespaces: all of their content is deleted, whatever its kind, and finalizers delay their end.

use rdd_testkit::api::{Server, TestApi};
use serde_json::{Value, json};

use crate::support::{DEFINITIONS, customs, mk_custom, mk_definition, mk_map, until, until_gone};

const HOME: &str = "/api/v1/namespaces/home";

fn start() -> TestApi {
    let api = TestApi::start();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}});
    api.post("/api/v1/namespaces", &namespace).expect(201);
    api
}

fn condition<'a>(namespace: &'a Value, kind: &str) -> &'a Value {
    let conditions = namespace["status"]["conditions"].as_array();
    conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind)).unwrap_or(&Value::Null)
}

#[test]
fn a_namespace_goes_with_all_that_is_in_it_also_what_was_defined_by_others() {
    let api = start();
    api.post(DEFINITIONS, &mk_definition("Book", &json!({"type": "object"}))).expect(201);
    for count in 0..20 {
        api.post(&format!("{HOME}/configmaps"), &mk_map(&format!("m{count}"), "1")).expect(201);
        api.post(&customs("Book", "home"), &mk_custom("Book", &format!("b{count}"), &json!({}))).expect(201);
    }
    api.post(&customs("Book", "default"), &mk_custom("Book", "elsewhere", &json!({}))).expect(201);
    let deleted = api.delete(HOME);
    assert_eq!(deleted.expect(200)["status"]["phase"], "Terminating");
    until_gone(&api, HOME);
    assert_eq!(api.get(&customs("Book", "home")).expect(200)["items"], json!([]));
    assert_eq!(api.get(&format!("{HOME}/configmaps")).expect(200)["items"], json!([]));
    api.get(&format!("{}/elsewhere", customs("Book", "default"))).expect(200);
}

#[test]
fn a_namespace_waits_for_finalizers_says_for_which_and_takes_nothing_new() {
    let api = start();
    api.post(DEFINITIONS, &mk_definition("Book", &json!({"type": "object"}))).expect(201);
    let mut held = mk_custom("Book", "held", &json!({}));
    held["metadata"]["finalizers"] = json!(["k.example/hold"]);
    api.post(&customs("Book", "home"), &held).expect(201);
    api.delete(HOME).expect(200);
    let waiting = until(&api, HOME, "the condition that names what is left", |namespace| {
        condition(namespace, "NamespaceFinalizersRemaining")["status"] == "True"
    });
    let message = condition(&waiting, "NamespaceFinalizersRemaining")["message"].as_str().unwrap();
    assert!(message.contains("k.example/hold"), "{message}");
    let content = condition(&waiting, "NamespaceContentRemaining")["message"].as_str().unwrap_or_default();
    assert!(content.contains("books.k.example"), "{content}");
    let refused = api.post(&format!("{HOME}/configmaps"), &mk_map("late", "1"));
    assert_eq!((refused.code, refused.reason().as_str()), (403, "Forbidden"), "{}", refused.text());
    assert_eq!(refused.json()["details"]["causes"][0]["reason"], "NamespaceTerminating", "{}", refused.text());
    api.get(HOME).expect(200);
    let one = format!("{}/held", customs("Book", "home"));
    api.merge(&one, &json!({"metadata": {"finalizers": null}})).expect(200);
    until_gone(&api, HOME);
}

#[test]
fn a_namespace_that_comes_again_is_empty_but_for_what_every_one_has() {
    let api = start();
    api.post(&format!("{HOME}/configmaps"), &mk_map("old", "1")).expect(201);
    let first = api.get(HOME).expect(200);
    api.delete(HOME).expect(200);
    until_gone(&api, HOME);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "home"}});
    let second = api.post("/api/v1/namespaces", &namespace).expect(201);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    until(&api, &format!("{HOME}/configmaps/kube-root-ca.crt"), "the CA", |_| true);
    until(&api, &format!("{HOME}/serviceaccounts/default"), "the account", |_| true);
    assert_eq!(api.get(&format!("{HOME}/configmaps/old")).code, 404);
}
