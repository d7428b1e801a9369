//! Kill scenarios of controllers that only write to the API.

use rdd_controllers::{configmap_replicaset, containers, demo, hostinfo, k3s_versions, notary};
use serde_json::{Value, json};

use crate::{
    Scenario,
    life::{Life, object, says},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NOTARIES: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/default/notaries";
const SETS: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/default/configmapreplicasets";
const DEMOS: &str = "/apis/app.rancherdesktop.io/v1alpha1/demos";
const DEMO_DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/demos.app.rancherdesktop.io";
const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const CONTAINERS: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/default/containers";

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "changes are written down, after a name that cannot be, and go with the Notary",
            controller: notary::NAME,
            steps: &["ensure-finalizer", "tell", "record", "report", "complain", "sweep", "release"],
            live: live_notary,
            ..Scenario::PLAIN
        },
        Scenario {
            name: "a set grows, shrinks and goes",
            controller: configmap_replicaset::NAME,
            steps: &["ensure-finalizer", "create", "remove", "report", "sweep", "release"],
            live: live_set,
            ..Scenario::PLAIN
        },
        Scenario {
            name: "a message is processed twice, and a stray Demo is deleted",
            controller: demo::NAME,
            steps: &["delete-stray", "process", "complete"],
            live: live_demo,
            ..Scenario::PLAIN
        },
        Scenario {
            name: "an App has its list of versions",
            controller: k3s_versions::NAME,
            steps: &["write"],
            live: live_versions,
            machine: Some("rd"),
            ..Scenario::PLAIN
        },
        Scenario {
            name: "the conditions of a container follow its state",
            controller: containers::CONTAINER,
            steps: &["report"],
            live: live_container,
            ..Scenario::PLAIN
        },
        Scenario {
            name: "the machine is described",
            controller: hostinfo::NAME,
            steps: &["report"],
            live: |life| {
                let path = "/apis/rdd.rancherdesktop.io/v1alpha1/hostinfos/system";
                life.until("its size", |api| {
                    let host = api.get(path)?;
                    host["status"]["cpus"].as_i64().filter(|cpus| *cpus > 0).ok_or_else(|| host.to_string())
                });
            },
            ..Scenario::PLAIN
        },
    ]
}

fn live_notary(life: &mut Life<'_>) {
    let path = format!("{NOTARIES}/n");
    let spec = json!({"value": "a", "configMapName": "No Name"});
    life.make(NOTARIES, &object("rdd.rancherdesktop.io", "Notary", "n", &spec));
    life.until("the complaint", |api| {
        let events = api.get("/apis/events.k8s.io/v1/namespaces/default/events")?;
        let mut reasons = events["items"].as_array().into_iter().flatten().map(|event| &event["reason"]);
        if reasons.any(|reason| reason == "ConfigMapError") { Ok(()) } else { Err("nobody complains".to_owned()) }
    });
    for (count, change) in [(1, json!({"configMapName": "history"})), (2, json!({"value": "b"}))] {
        life.merge(&path, &json!({ "spec": change }));
        life.until("the count of changes", |api| {
            let notary = api.get(&path)?;
            if notary["status"]["changeCount"] == count { Ok(()) } else { Err(notary["status"].to_string()) }
        });
    }
    let data = life.until("the record", |api| api.get(&format!("{MAPS}/history")))["data"].clone();
    let keys: Vec<_> = data.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["change_000", "change_001", "change_count", "latest_change"], "nothing is recorded twice");
    life.mark("recorded");
    life.delete(&path);
    life.until("the end of the record", |api| api.is_gone(&format!("{MAPS}/history")));
}

fn live_set(life: &mut Life<'_>) {
    let path = format!("{SETS}/s");
    life.make(SETS, &object("rdd.rancherdesktop.io", "ConfigMapReplicaSet", "s", &json!({"replicas": 3})));
    let ready = |life: &mut Life<'_>, count: i64| {
        life.until("the replicas", |api| {
            let set = api.get(&path)?;
            let ready = set["status"]["readyReplicas"].as_i64().unwrap_or_default();
            if ready == count { Ok(()) } else { Err(set["status"].to_string()) }
        });
    };
    ready(life, 3);
    life.mark("three");
    life.merge(&path, &json!({"spec": {"replicas": 1}}));
    ready(life, 1);
    life.mark("one");
    life.delete(&path);
}

fn live_demo(life: &mut Life<'_>) {
    let rules = |definition: &Value| {
        let mut spec = definition["spec"].clone();
        let schema = spec["versions"][0]["schema"]["openAPIV3Schema"].as_object_mut();
        let taken = schema.and_then(|schema| schema.remove("x-kubernetes-validations"));
        (json!({ "spec": spec }), taken.is_some())
    };
    let strict = life.until("the definition", |api| api.get(DEMO_DEFINITION));
    assert!(rules(&strict).1, "the definition says which name a Demo has");
    let stray = object("app.rancherdesktop.io", "Demo", "other", &json!({"message": "hi", "count": 1}));
    // Each start restores the CRD, so its rules are removed again until the object is created.
    life.until("a Demo of another name", |api| {
        api.write("PATCH", DEMO_DEFINITION, &rules(&strict).0, &[200])?;
        api.write("POST", DEMOS, &stray, &[201, 409])
    });
    life.until("the end of the stray", |api| api.is_gone(&format!("{DEMOS}/other")));
    life.merge(DEMO_DEFINITION, &json!({"spec": strict["spec"]}));
    life.make(DEMOS, &object("app.rancherdesktop.io", "Demo", "demo", &json!({"message": "hi", "count": 2})));
    life.until("all to be processed", |api| {
        let demo = api.get(&format!("{DEMOS}/demo"))?;
        says(&demo, "Completed", "True")?;
        if demo["status"]["processedCount"] == 2 { Ok(()) } else { Err(demo["status"].to_string()) }
    });
    life.mark("processed");
    life.delete(&format!("{DEMOS}/demo"));
}

fn live_versions(life: &mut Life<'_>) {
    let spec = json!({"running": false, "backend": "host", "namespace": "desk"});
    life.make(APPS, &object("app.rancherdesktop.io", "App", "app", &spec));
    life.until("the list", |api| api.get("/api/v1/namespaces/desk/configmaps/k3s-versions"));
    life.until("the App to settle", |api| says(&api.get(&format!("{APPS}/app"))?, "Settled", "True"));
    life.mark("written");
    life.delete(&format!("{APPS}/app"));
    life.until("the end of its namespace", |api| api.is_gone("/api/v1/namespaces/desk"));
}

fn live_container(life: &mut Life<'_>) {
    let path = format!("{CONTAINERS}/c");
    life.make(CONTAINERS, &object("containers.rancherdesktop.io", "Container", "c", &json!({})));
    let status = json!({"name": "web", "namespace": "moby", "path": "sh", "image": "sha256:0", "status": "running"});
    life.merge(&format!("{path}/status"), &json!({ "status": status }));
    life.until("its conditions", |api| says(&api.get(&path)?, "Running", "True"));
    life.mark("told");
    life.delete(&path);
}
