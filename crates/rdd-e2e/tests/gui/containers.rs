//! Tests containers in the GUI: listing, actions, deletion.

use rdd_testkit::{api::Server, eventually};
use serde_json::{Value, json};

use crate::{
    client::{Gui, SOON, mirrors},
    engine,
};

fn is(state: &'static str) -> impl Fn(&Value) -> bool {
    move |container| container["status"]["status"] == state
}

/// Whether the last action is this one and has ended.
fn ended(action: &'static str) -> impl Fn(&Value) -> bool {
    move |container| {
        let last = &container["status"]["lastAction"];
        last["action"] == action && (last["state"] == "Succeeded" || last["state"] == "Failed")
    }
}

/// Requests an action, like a button of the GUI.
#[track_caller]
fn press(gui: &Gui, path: &str, action: &str) {
    let patch = json!({"metadata": {"annotations": {"containers.rancherdesktop.io/action": action}}});
    gui.merge(path, &patch).expect(200);
}

#[test]
fn containers_are_listed_watched_acted_on_and_deleted() {
    let Some(gui) = engine::running() else { return };
    let (none, mut followed) = gui.follow(&mirrors("containers"), "");
    assert_eq!(none, Vec::<Value>::new());
    let options = ["--name=web", "--label=com.docker.compose.project=shop", "--expose=80"];
    let id = gui.run(&options, "trap 'exit 0' TERM; while :; do sleep 1; done");
    let shown = followed.until("ADDED", |container| container["metadata"]["name"] == json!(id));
    let path = format!("{}/{id}", mirrors("containers"));
    let shown = if is("running")(&shown) { shown } else { gui.until(&path, "running", is("running")) };
    let status = &shown["status"];
    assert_eq!((&status["name"], &status["labels"]["com.docker.compose.project"]), (&json!("web"), &json!("shop")));
    assert_eq!(status["namespace"], "moby");
    assert!(status["startedAt"].is_string() && status["image"].as_str().unwrap().starts_with("sha256:"), "{status}");
    let images = gui.list(&mirrors("images"));
    assert!(images.iter().any(|image| image["status"]["id"] == status["image"]), "its image is found by its ID");

    for (action, state) in [("pause", "paused"), ("unpause", "running"), ("stop", "exited"), ("start", "running")] {
        press(&gui, &path, action);
        let done = gui.until(&path, action, |container| {
            is(state)(container) && container["status"]["lastAction"]["action"] == action
        });
        assert_eq!(done["status"]["lastAction"]["state"], "Succeeded", "{done}");
        assert_eq!(gui.docker(&["inspect", "-f", "{{.State.Status}}", &id]), state);
    }
    let started = gui.docker(&["inspect", "-f", "{{.State.StartedAt}}", &id]);
    press(&gui, &path, "restart");
    eventually("another start", SOON, || {
        let now = gui.docker(&["inspect", "-f", "{{.State.StartedAt}}", &id]);
        if now == started { Err(now) } else { Ok(()) }
    });
    // Finding A-12: a running container needs no unpause, so the action succeeds without effect.
    press(&gui, &path, "unpause");
    let done = gui.until(&path, "the end of unpause", ended("unpause"));
    assert_eq!(
        (&done["status"]["lastAction"]["state"], &done["status"]["status"]),
        (&json!("Succeeded"), &json!("running"))
    );
    press(&gui, &path, "stop");
    gui.until(&path, "the end of stop", |container| is("exited")(container) && ended("stop")(container));
    press(&gui, &path, "unpause");
    let done = gui.until(&path, "the failure of unpause", ended("unpause"));
    assert_eq!(
        (&done["status"]["lastAction"]["state"], &done["status"]["status"]),
        (&json!("Failed"), &json!("exited"))
    );
    let error = done["status"]["lastAction"]["error"].as_str().unwrap();
    assert_eq!(error, format!("cannot unpause container {id}: not running"));
    let wrong = json!({"metadata": {"annotations": {"containers.rancherdesktop.io/action": "explode"}}});
    let refused = gui.merge(&path, &wrong);
    let invalid = "invalid containers.rancherdesktop.io/action annotation \\\"explode\\\"";
    assert!(refused.code == 403 && refused.text().contains(invalid), "{} {}", refused.code, refused.text());

    delete(&gui, &path);
    followed.until("DELETED", |container| container["metadata"]["name"] == json!(id));
    assert_ne!(gui.try_docker(&["inspect", &id]).code, Some(0));
}

/// Deletes a mirror. While a finalizer holds it, the reply is the object with a deletion timestamp, as in kube-apiserver: ADR 18.
#[track_caller]
pub(crate) fn delete(gui: &Gui, path: &str) {
    let answer = gui.wire.delete(path).expect(200);
    let is_success = answer["kind"] == "Status" && answer["status"] == "Success";
    assert!(is_success || answer["metadata"]["deletionTimestamp"].is_string(), "{answer}");
    gui.until_gone(path);
}

#[test]
fn an_action_that_fails_says_so() {
    let Some(gui) = engine::running() else { return };
    let id = gui.docker(&["create", "--network=none", engine::IMAGE, "no-such-program"]);
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "its mirror", is("created"));
    press(&gui, &path, "start");
    let done = gui.until(&path, "the failure", |container| container["status"]["lastAction"]["state"] == "Failed");
    assert!(done["status"]["lastAction"]["error"].as_str().is_some_and(|why| !why.is_empty()), "{done}");
}

#[test]
fn a_table_of_containers_can_be_read() {
    let Some(gui) = engine::running() else { return };
    let id = gui.run(&["--name=web"], "sleep 1000");
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "Running", |container| {
        let conditions = container["status"]["conditions"].as_array().into_iter().flatten();
        conditions.clone().any(|condition| condition["type"] == "Running" && condition["status"] == "True")
    });
    let table = gui.daemon.rdd(&["ctl", "get", "containers", "-n", "rancher-desktop"]).expect_success().stdout;
    let line = table.lines().find(|line| line.starts_with(&id)).unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains("True"), "{table}");
    let status = gui.daemon.rdd(&["status"]).expect_success().stdout;
    let mirrors = status.lines().find(|line| line.trim().starts_with("mirrors")).unwrap();
    assert!(mirrors.contains("1 container, 1 image, 0 volumes"), "{status}");
}
