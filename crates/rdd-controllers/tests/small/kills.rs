//! Each small controller converges after a kill before or after each of its steps.

use rdd_testkit::controllers::kill_everywhere;
use serde_json::json;

use crate::{
    configmap_replicaset, demo,
    hands::{APPS, DEMOS, HOSTS, MAPS, NOTARIES, SETS, delete, event, get, merge},
    hostinfo, mock, notary,
};

#[test]
fn hostinfo_survives_a_kill_at_every_step() {
    let points = kill_everywhere(
        || (),
        |()| hostinfo::controllers(),
        |stage, ()| {
            stage.settle();
            let host = get(stage, &format!("{HOSTS}/system")).unwrap();
            assert_eq!(host["status"], json!({"cpus": 8, "memory": "16Gi"}));
        },
    );
    println!("killed at {points} points");
    assert_eq!(points, 2);
}

#[test]
fn demo_survives_a_kill_at_every_step() {
    let points = kill_everywhere(
        || (),
        |()| demo::controllers(),
        |stage, ()| {
            demo::loosen(stage);
            demo::make(stage, "other", 1);
            demo::make(stage, "demo", 2);
            stage.settle();
            assert_eq!(get(stage, &format!("{DEMOS}/other")), None);
            let done = get(stage, &format!("{DEMOS}/demo")).unwrap();
            assert_eq!(done["status"]["processedCount"], 2);
            assert_eq!(demo::condition(&done, "Completed")[0], "True");
        },
    );
    println!("killed at {points} points");
    assert_eq!(points, 6);
}

#[test]
fn notary_survives_a_kill_at_every_step_and_records_nothing_twice() {
    let points = kill_everywhere(
        || (),
        |()| notary::controllers(),
        |stage, ()| {
            notary::make(stage, "a", "No Name");
            event(stage, "Notary", "ConfigMapError", "SyncValue");
            notary::set(stage, json!({"configMapName": "history"}));
            stage.settle();
            notary::set(stage, json!({"value": "b"}));
            stage.settle();
            let map = get(stage, &format!("{MAPS}/history")).unwrap();
            let keys: Vec<&String> = map["data"].as_object().unwrap().keys().collect();
            assert_eq!(keys, ["change_000", "change_001", "change_count", "latest_change"]);
            let notary = get(stage, &format!("{NOTARIES}/n")).unwrap();
            assert_eq!(notary["status"]["changeCount"], 2);
            delete(stage, &format!("{NOTARIES}/n")).unwrap();
            stage.settle();
            assert_eq!(get(stage, &format!("{NOTARIES}/n")), None);
            assert_eq!(get(stage, &format!("{MAPS}/history")), None);
        },
    );
    println!("killed at {points} points");
    assert_eq!(points, 14);
}

#[test]
fn configmap_replicaset_survives_a_kill_at_every_step() {
    let points = kill_everywhere(
        || (),
        |()| configmap_replicaset::controllers(),
        |stage, ()| {
            configmap_replicaset::make(stage, json!({"replicas": 3}));
            stage.settle();
            assert_eq!(configmap_replicaset::ready(stage), 3);
            configmap_replicaset::scale(stage, 1);
            stage.settle();
            assert_eq!(configmap_replicaset::names(stage), ["s-0"]);
            delete(stage, &format!("{SETS}/s")).unwrap();
            stage.settle();
            assert_eq!(get(stage, &format!("{SETS}/s")), None);
            assert_eq!(configmap_replicaset::names(stage).len(), 0);
        },
    );
    println!("killed at {points} points");
    assert_eq!(points, 12);
}

#[test]
fn the_mock_survives_a_kill_at_every_step() {
    let points = kill_everywhere(
        || (),
        |()| mock::controllers(),
        |stage, ()| {
            stage.settle();
            mock::make_app(stage);
            stage.settle();
            merge(stage, &format!("{APPS}/app"), &json!({"spec": {"running": true}})).unwrap();
            stage.settle();
            assert_eq!(mock::settled(stage)[1], "True");
            let list = get(stage, "/api/v1/namespaces/rancher-desktop/configmaps/k3s-versions");
            assert!(list.is_some());
        },
    );
    println!("killed at {points} points");
    assert_eq!(points, 12);
}
