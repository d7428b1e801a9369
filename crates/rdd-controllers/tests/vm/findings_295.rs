//! Regression tests of findings about several controllers that write the status of one App.

use std::sync::Arc;

use rdd_driver::Upstream;
use rdd_runtime::probe::Unhurt;
use serde_json::{Value, json};

use crate::{
    conditions::announce,
    stage::{Cast, Stage, app_says},
    town::kubeconfig,
};

/// The controllers that write conditions of the App, and their conditions.
const WRITERS: [(&str, &[&str]); 3] = [
    ("app", &["Created", "Running", "Settled"]),
    ("engine", &["ContainerEngineReady"]),
    ("kubernetes", &["KubernetesReady"]),
];

// Finding 295-S3, 295-T4
#[test]
fn rapid_toggling_with_every_writer_of_the_status_meets_no_conflict() {
    let stage = Stage::dark(Cast::Whole, Arc::new(Unhurt));
    stage.world.cluster_serves(Some(&kubeconfig(365)), Some(Upstream::unix("/nonexistent/k3s.sock")));
    stage.start();
    announce(&stage, &["engine", "kubernetes"]);
    stage.create_app(true);
    stage.try_patch_app(&json!({"spec": {"kubernetes": {"enabled": true}}})).unwrap();
    stage.app_until("everything to be ready", |app| {
        app_says(app, "KubernetesReady", "True/Ready") && app_says(app, "ContainerEngineReady", "True/Connected")
    });
    // No wait between the toggles: every writer works on an App that others have changed meanwhile.
    let mut last = stage.app().unwrap();
    for round in 0..30 {
        let spec = json!({"running": round % 2 == 1, "kubernetes": {"enabled": round % 3 != 0}});
        last = stage.try_patch_app(&json!({"spec": spec})).unwrap();
    }
    let app = stage.app_until_settled(&last);
    let on_status = |request: &String| request.ends_with("/apps/app/status");
    let conflicts: Vec<String> = stage.faults.conflicts().into_iter().filter(on_status).collect();
    assert_eq!(conflicts, Vec::<String>::new(), "writers of the status never conflict");

    // Each controller owns its own conditions, and no others.
    let owners = serde_json::to_value(app.metadata.managed_fields.unwrap()).unwrap();
    for (writer, kinds) in WRITERS {
        let owned = owners.as_array().unwrap().iter().filter(|owner| is_status_of(owner, writer));
        let mut found: Vec<String> = owned.flat_map(|owner| condition_types(&owner["fieldsV1"])).collect();
        found.sort();
        assert_eq!(found, kinds, "of {writer}");
    }
}

fn is_status_of(owner: &Value, writer: &str) -> bool {
    owner["subresource"] == "status" && owner["manager"].as_str().is_some_and(|name| name.starts_with(writer))
}

/// The types of the conditions in a set of owned fields.
fn condition_types(fields: &Value) -> Vec<String> {
    let conditions = &fields["f:status"]["f:conditions"];
    let keys = conditions.as_object().into_iter().flat_map(serde_json::Map::keys);
    let keys = keys.filter_map(|key| serde_json::from_str::<Value>(key.strip_prefix("k:")?).ok());
    keys.filter_map(|key| key["type"].as_str().map(str::to_owned)).collect()
}
