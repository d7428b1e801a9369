//! Compares the engine with its mirrors. It relies on the documented names and fields, not on the product's code.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rdd_testkit::eventually;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{docker::Docker, product::Api, product::mirrors};

/// The known state of objects, by kind and name.
type Snapshot = BTreeMap<String, Value>;

fn hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn image_name(id: &str, tag: Option<&str>) -> String {
    let text = tag.map_or_else(|| id.to_owned(), |tag| format!("{id}\0{tag}"));
    format!("img-{}", hash(&text))
}

pub(crate) fn volume_name(name: &str) -> String {
    format!("vol-{}", hash(name))
}

/// Mirrors have times in whole seconds; the year 1 means never.
fn seconds(time: &Value) -> Value {
    let text = time.as_str().unwrap_or_default();
    match text.split(['.', 'Z', '+']).next() {
        Some(whole) if !whole.is_empty() && !whole.starts_with("0001-") => json!(format!("{whole}Z")),
        _ => Value::Null,
    }
}

/// Mirrors omit empty maps and lists.
fn or_null(value: &Value) -> Value {
    let is_empty =
        value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if is_empty { Value::Null } else { value.clone() }
}

/// The state of the engine.
fn of_engine(docker: &Docker) -> Result<Snapshot, String> {
    let get = |path: &str| match docker.try_send("GET", path, None)? {
        answer if answer.status == 200 => Ok(answer.json),
        answer => Err(format!("{path}: {} {}", answer.status, answer.message())),
    };
    let mut seen = Snapshot::new();
    for row in get("/containers/json?all=1")?.as_array().into_iter().flatten() {
        let id = row["Id"].as_str().unwrap_or_default();
        let found = get(&format!("/containers/{id}/json"))?;
        let state = &found["State"];
        let said = json!({
            "name": found["Name"].as_str().unwrap_or_default().trim_start_matches('/'), "namespace": "moby",
            "path": found["Path"], "args": or_null(&found["Args"]), "image": found["Image"],
            "labels": or_null(&found["Config"]["Labels"]), "status": state["Status"], "pid": state["Pid"],
            "exitCode": state["ExitCode"], "createdAt": seconds(&found["Created"]),
            "startedAt": seconds(&state["StartedAt"]), "finishedAt": seconds(&state["FinishedAt"]),
            "Running": state["Status"] == "running", "Paused": state["Status"] == "paused",
        });
        seen.insert(format!("containers/{id}"), said);
    }
    for row in get("/images/json?all=1")?.as_array().into_iter().flatten() {
        let id = row["Id"].as_str().unwrap_or_default();
        let tags: Vec<&str> = row["RepoTags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let tags: Vec<&str> = tags.into_iter().filter(|tag| *tag != "<none>:<none>").collect();
        let some = tags.iter().map(|tag| Some(*tag));
        for tag in some.chain(tags.is_empty().then_some(None)) {
            let said = json!({"id": id, "namespace": "moby", "repoTag": tag, "size": row["Size"], "labels": or_null(&row["Labels"])});
            seen.insert(format!("images/{}", image_name(id, tag)), said);
        }
    }
    for row in get("/volumes")?["Volumes"].as_array().into_iter().flatten() {
        let name = row["Name"].as_str().unwrap_or_default();
        let said = json!({"name": name, "namespace": "moby", "driver": row["Driver"], "mountpoint": row["Mountpoint"],
                          "scope": row["Scope"], "labels": or_null(&row["Labels"])});
        seen.insert(format!("volumes/{}", volume_name(name)), said);
    }
    Ok(seen)
}

/// The state of the mirrors, without fields that do not come from the engine.
fn of_mirrors(api: &Api, namespace: &str, like: &Snapshot) -> Result<Snapshot, String> {
    let mut seen = Snapshot::new();
    for kind in ["containers", "images", "volumes"] {
        let list = api.list(&mirrors(namespace, kind)).ok_or("the API does not answer")?;
        for object in list {
            let name = format!("{kind}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
            let status = &object["status"];
            let condition = |wanted: &str| {
                let all = status["conditions"].as_array().into_iter().flatten();
                all.clone().any(|one| one["type"] == wanted && one["status"] == "True")
            };
            let fields = like.get(&name).and_then(Value::as_object).into_iter().flat_map(|map| map.keys());
            let said = fields.map(|field| {
                let value = match field.as_str() {
                    "Running" | "Paused" => json!(condition(field)),
                    field => status[field].clone(),
                };
                (field.clone(), value)
            });
            seen.insert(name, Value::Object(said.collect()));
        }
    }
    Ok(seen)
}

/// The differences between the two, as text.
fn differences(engine: &Snapshot, mirrors: &Snapshot) -> Vec<String> {
    let names: BTreeSet<&String> = engine.keys().chain(mirrors.keys()).collect();
    let difference = |name: &String| match (engine.get(name), mirrors.get(name)) {
        (Some(thing), Some(mirror)) if thing == mirror => None,
        (Some(thing), Some(mirror)) => Some(format!("{name}: the engine says {thing}, the mirror {mirror}")),
        (Some(thing), None) => Some(format!("{name} has no mirror: {thing}")),
        (None, _) => Some(format!("{name} is an orphan")),
    };
    names.into_iter().filter_map(difference).collect()
}

/// Waits until the engine and its mirrors agree exactly, in both directions.
#[track_caller]
pub(crate) fn until_they_agree(docker: &Docker, api: &Api, namespace: &str, within: Duration) {
    eventually("the engine and its mirrors to agree", within, || {
        let engine = of_engine(docker)?;
        let mirrors = of_mirrors(api, namespace, &engine)?;
        let differences = differences(&engine, &mirrors);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    });
}

/// Waits until every mirror that is still being deleted is needed by a container.
#[track_caller]
pub(crate) fn until_only_what_is_in_use_lingers(docker: &Docker, api: &Api, namespace: &str, within: Duration) {
    eventually("only what is in use to linger", within, || {
        let used = in_use(docker)?;
        let mut idle = Vec::new();
        for kind in ["containers", "images", "volumes"] {
            let list = api.list(&mirrors(namespace, kind)).ok_or("the API does not answer")?;
            for object in list.iter().filter(|object| object["metadata"]["deletionTimestamp"].is_string()) {
                let thing = object["status"]["id"].as_str().or(object["status"]["name"].as_str()).unwrap_or_default();
                if kind == "containers" || !used.contains(thing) {
                    idle.push(format!("{kind}/{} of {thing}", object["metadata"]["name"]));
                }
            }
        }
        if idle.is_empty() { Ok(()) } else { Err(idle.join(", ")) }
    });
}

/// The images and volumes that containers need.
fn in_use(docker: &Docker) -> Result<BTreeSet<String>, String> {
    let list = docker.try_send("GET", "/containers/json?all=1", None)?.json;
    let mut used = BTreeSet::new();
    for row in list.as_array().into_iter().flatten() {
        used.extend(row["ImageID"].as_str().map(str::to_owned));
        let mounts = row["Mounts"].as_array().into_iter().flatten();
        used.extend(mounts.filter_map(|mount| Some(mount["Name"].as_str()?.to_owned())));
    }
    Ok(used)
}
