//! Tests garbage collection: dependents are deleted, waited for or orphaned, as the owner's propagation policy requires.

use std::thread;

use rdd_testkit::{
    api::{Ask, Server, TestApi},
    eventually,
};
use serde_json::{Value, json};

use crate::support::{MAPS, SOON, mk_map, name, until, until_gone};

fn owner_reference(owner: &Value, blocks: bool) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocks,
    })
}

fn mk_owned(name: &str, owners: &[Value]) -> Value {
    let mut map = mk_map(name, "1");
    map["metadata"]["ownerReferences"] = json!(owners);
    map
}

fn delete(api: &TestApi, name: &str, policy: &str) {
    let reply = api.ask(&Ask::new("DELETE", &format!("{MAPS}/{name}?propagationPolicy={policy}")));
    assert!(matches!(reply.code, 200 | 202), "{}", reply.text());
}

fn at(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[test]
fn in_the_background_the_owner_goes_at_once_and_all_below_it_follow() {
    let api = TestApi::start();
    let mut owner = api.post(MAPS, &mk_map("top", "1")).expect(201);
    for level in ["below", "deeper", "deepest"] {
        owner = api.post(MAPS, &mk_owned(level, &[owner_reference(&owner, true)])).expect(201);
    }
    delete(&api, "top", "Background");
    assert_eq!(api.get(&at("top")).code, 404);
    for level in ["below", "deeper", "deepest"] {
        until_gone(&api, &at(level));
    }
}

#[test]
fn in_the_foreground_the_owner_waits_for_those_who_block_and_for_nobody_else() {
    let api = TestApi::start();
    let owner = api.post(MAPS, &mk_map("owner", "1")).expect(201);
    let mut held = mk_owned("held", &[owner_reference(&owner, true)]);
    held["metadata"]["finalizers"] = json!(["k.example/hold"]);
    api.post(MAPS, &held).expect(201);
    let mut free = mk_owned("free", &[owner_reference(&owner, false)]);
    free["metadata"]["finalizers"] = json!(["k.example/hold"]);
    api.post(MAPS, &free).expect(201);
    delete(&api, "owner", "Foreground");
    for dependent in ["held", "free"] {
        until(&api, &at(dependent), "the dependent's deletion", |map| map["metadata"]["deletionTimestamp"].is_string());
    }
    let waiting = api.get(&at("owner")).expect(200);
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    api.merge(&at("held"), &json!({"metadata": {"finalizers": null}})).expect(200);
    until_gone(&api, &at("held"));
    until_gone(&api, &at("owner"));
    // It did not block the owner, and its own finalizer still holds it.
    api.get(&at("free")).expect(200);
    api.merge(&at("free"), &json!({"metadata": {"finalizers": null}})).expect(200);
    until_gone(&api, &at("free"));
}

#[test]
fn orphans_forget_their_owner_and_stay() {
    let api = TestApi::start();
    let owner = api.post(MAPS, &mk_map("owner", "1")).expect(201);
    let other = api.post(MAPS, &mk_map("other", "1")).expect(201);
    api.post(MAPS, &mk_owned("one", &[owner_reference(&owner, true)])).expect(201);
    api.post(MAPS, &mk_owned("both", &[owner_reference(&owner, true), owner_reference(&other, true)])).expect(201);
    delete(&api, "owner", "Orphan");
    until_gone(&api, &at("owner"));
    let one = until(&api, &at("one"), "an orphan", |map| map["metadata"].get("ownerReferences").is_none());
    assert!(one["metadata"].get("deletionTimestamp").is_none());
    let both = api.get(&at("both")).expect(200);
    assert_eq!(both["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1), "{both}");
    delete(&api, "other", "Background");
    until_gone(&api, &at("both"));
    api.get(&at("one")).expect(200);
}

#[test]
fn one_of_several_owners_is_not_enough_to_go() {
    let api = TestApi::start();
    let first = api.post(MAPS, &mk_map("first", "1")).expect(201);
    let second = api.post(MAPS, &mk_map("second", "1")).expect(201);
    api.post(MAPS, &mk_owned("both", &[owner_reference(&first, true), owner_reference(&second, true)])).expect(201);
    delete(&api, "first", "Foreground");
    until_gone(&api, &at("first"));
    let kept = api.get(&at("both")).expect(200);
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "second", "{kept}");
    delete(&api, "second", "Foreground");
    until_gone(&api, &at("second"));
    until_gone(&api, &at("both"));
}

#[test]
fn an_owner_that_waits_goes_when_the_one_it_waits_for_is_set_free() {
    let api = TestApi::start();
    for freed in [json!({"ownerReferences": null}), json!("unblock")] {
        let owner = api.post(MAPS, &mk_map("owner", "1")).expect(201);
        let mut held = mk_owned("held", &[owner_reference(&owner, true)]);
        held["metadata"]["finalizers"] = json!(["k.example/hold"]);
        api.post(MAPS, &held).expect(201);
        delete(&api, "owner", "Foreground");
        until(&api, &at("held"), "its deletion", |map| map["metadata"]["deletionTimestamp"].is_string());
        api.get(&at("owner")).expect(200);
        let metadata =
            if freed.is_object() { freed } else { json!({"ownerReferences": [owner_reference(&owner, false)]}) };
        api.merge(&at("held"), &json!({"metadata": metadata})).expect(200);
        until_gone(&api, &at("owner"));
        api.merge(&at("held"), &json!({"metadata": {"finalizers": null}})).expect(200);
        until_gone(&api, &at("held"));
    }
}

#[test]
fn circles_go_whole_however_they_are_deleted() {
    for policy in ["Foreground", "Background"] {
        let api = TestApi::start();
        let mut circle: Vec<Value> =
            ["a", "b", "c"].iter().map(|name| api.post(MAPS, &mk_map(name, "1")).expect(201)).collect();
        for index in 0..3 {
            let owner = owner_reference(&circle[(index + 2) % 3], true);
            let path = at(&name(&circle[index]));
            circle[index] = api.merge(&path, &json!({"metadata": {"ownerReferences": [owner]}})).expect(200);
        }
        delete(&api, "b", policy);
        for name in ["a", "b", "c"] {
            until_gone(&api, &at(name));
        }
    }
}

#[test]
fn an_owner_of_another_namespace_is_no_owner() {
    let api = TestApi::start();
    let owner = api.post("/api/v1/namespaces/kube-public/configmaps", &mk_map("far", "1")).expect(201);
    api.post(MAPS, &mk_owned("near", &[owner_reference(&owner, true)])).expect(201);
    until_gone(&api, &at("near"));
    api.get("/api/v1/namespaces/kube-public/configmaps/far").expect(200);
}

#[test]
fn an_object_without_a_namespace_is_not_collected_for_an_owner_that_has_one() {
    let api = TestApi::start();
    let owner = api.post(MAPS, &mk_map("owner", "1")).expect(201);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "wide", "ownerReferences": [owner_reference(&owner, true)]}, "rules": [],
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    api.post(roles, &role).expect(201);
    delete(&api, "owner", "Background");
    // An event explains to users why it stays.
    eventually("an event about it", SOON, || {
        let events = api.get("/api/v1/namespaces/default/events").json();
        let told = events["items"].as_array().is_some_and(|events| {
            events
                .iter()
                .any(|event| event["reason"] == "OwnerRefInvalidNamespace" && event["involvedObject"]["name"] == "wide")
        });
        told.then_some(())
    });
    api.get(&format!("{roles}/wide")).expect(200);
}

#[test]
fn an_owner_that_goes_while_dependents_are_made_leaves_none_behind() {
    let api = TestApi::start();
    let owner = api.post(MAPS, &mk_map("owner", "1")).expect(201);
    thread::scope(|scope| {
        for maker in 0..3 {
            let (api, owner) = (&api, &owner);
            scope.spawn(move || {
                for count in 0..40 {
                    let name = format!("d{maker}-{count}");
                    api.post(MAPS, &mk_owned(&name, &[owner_reference(owner, count % 2 == 0)])).expect(201);
                }
            });
        }
        eventually("the first dependents", SOON, || {
            let list = api.get(MAPS).json();
            (list["items"].as_array().is_some_and(|items| items.len() > 10)).then_some(())
        });
        delete(&api, "owner", "Foreground");
    });
    until_gone(&api, &at("owner"));
    eventually("the end of all dependents", SOON, || {
        let list = api.get(MAPS).json();
        let left: Vec<String> =
            list["items"].as_array().unwrap().iter().map(name).filter(|name| name.starts_with('d')).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

#[test]
fn a_namesake_of_the_owner_is_not_the_owner() {
    let api = TestApi::start();
    let owner = api.post(MAPS, &mk_map("owner", "1")).expect(201);
    api.post(MAPS, &mk_owned("of-old", &[owner_reference(&owner, true)])).expect(201);
    delete(&api, "owner", "Background");
    let second = api.post(MAPS, &mk_map("owner", "2")).expect(201);
    api.post(MAPS, &mk_owned("of-new", &[owner_reference(&second, true)])).expect(201);
    until_gone(&api, &at("of-old"));
    api.get(&at("of-new")).expect(200);
}
