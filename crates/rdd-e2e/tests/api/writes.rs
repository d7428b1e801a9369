//! Tests concurrent writers: generated names never collide, resource versions are correct, preconditions hold.

use std::{collections::BTreeSet, thread};

use rdd_testkit::api::{Ask, Server, TestApi};
use serde_json::json;

use crate::support::{MAPS, mk_map, name};

#[test]
fn generated_names_never_collide_and_always_fit() {
    let api = TestApi::start();
    let generated: BTreeSet<String> = thread::scope(|scope| {
        let makers: Vec<_> = (0..4)
            .map(|_| {
                let api = &api;
                scope.spawn(move || {
                    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
                    (0..100).map(|_| name(&api.post(MAPS, &map).expect(201))).collect::<Vec<_>>()
                })
            })
            .collect();
        makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect()
    });
    assert_eq!(generated.len(), 400);
    assert!(generated.iter().all(|name| name.len() == 7 && name.starts_with("g-")), "{generated:?}");
    let long = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x".repeat(250)}});
    let made = name(&api.post(MAPS, &long).expect(201));
    assert_eq!((made.len(), &made[..58]), (63, "x".repeat(58).as_str()));
}

#[test]
fn a_counter_that_all_increment_by_version_loses_nothing() {
    let api = TestApi::start();
    api.post(MAPS, &mk_map("counter", "0")).expect(201);
    let path = format!("{MAPS}/counter");
    thread::scope(|scope| {
        for _ in 0..4 {
            let (api, path) = (&api, &path);
            scope.spawn(move || {
                for _ in 0..20 {
                    loop {
                        let mut counter = api.get(path).expect(200);
                        let value: u32 = counter["data"]["value"].as_str().unwrap().parse().unwrap();
                        counter["data"]["value"] = json!((value + 1).to_string());
                        let put = api.put(path, &counter);
                        if put.code == 200 {
                            break;
                        }
                        assert_eq!((put.code, put.reason().as_str()), (409, "Conflict"), "{}", put.text());
                    }
                }
            });
        }
    });
    assert_eq!(api.get(&path).expect(200)["data"]["value"], "80");
}

#[test]
fn of_many_who_create_one_name_one_wins() {
    let api = TestApi::start();
    let won: usize = thread::scope(|scope| {
        let makers: Vec<_> = (0..6)
            .map(|maker| {
                let api = &api;
                scope.spawn(move || {
                    let reply = api.post(MAPS, &mk_map("one", &maker.to_string()));
                    assert!(reply.code == 201 || reply.reason() == "AlreadyExists", "{}", reply.text());
                    usize::from(reply.code == 201)
                })
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn deletes_happen_only_as_their_preconditions_say() {
    let api = TestApi::start();
    let made = api.post(MAPS, &mk_map("a", "1")).expect(201);
    let path = format!("{MAPS}/a");
    let delete = |preconditions: serde_json::Value| {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        api.ask(&Ask::new("DELETE", &path).json(&options))
    };
    let version = made["metadata"]["resourceVersion"].clone();
    api.put(&path, &mk_map("a", "2")).expect(200);
    for wrong in [
        json!({"uid": "00000000-0000-0000-0000-000000000000"}),
        json!({"resourceVersion": version}),
        json!({"uid": made["metadata"]["uid"], "resourceVersion": "1"}),
    ] {
        let reply = delete(wrong);
        assert_eq!((reply.code, reply.reason().as_str()), (409, "Conflict"), "{}", reply.text());
        api.get(&path).expect(200);
    }
    delete(json!({"uid": made["metadata"]["uid"]})).expect(200);
    assert_eq!(api.get(&path).code, 404);
}
