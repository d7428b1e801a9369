//! Requests for containers are executed once.

use std::sync::Arc;

use rdd_docker::fake::{Effect, Fault, Refusal, Route};
use rdd_runtime::probe::{KillAt, When};
use serde_json::{Value, json};

use crate::hands::{ACTION, Scene, one};

fn is_answered(object: &Value) -> bool {
    let annotations = &object["metadata"]["annotations"];
    annotations[ACTION].is_null() && annotations["engine.rancherdesktop.io/acting"].is_null()
}

fn answered(scene: &mut Scene, id: &str) -> Value {
    let object = scene.object(&one("containers", id), is_answered);
    object["status"]["lastAction"].clone()
}

#[test]
fn each_action_is_done_once_and_its_result_is_written() {
    let mut scene = Scene::connected();
    let id = scene.room.container("one");
    scene.object(&one("containers", &id), |object| !object["status"].is_null());
    let mut seen = Value::Null;
    for (action, state) in [
        ("start", "running"),
        ("pause", "paused"),
        ("pause", "paused"),
        ("unpause", "running"),
        ("restart", "running"),
        ("stop", "exited"),
    ] {
        scene.ask(&id, action);
        let last = answered(&mut scene, &id);
        assert_eq!(
            (&last["action"], &last["state"], &last["error"]),
            (&json!(action), &json!("Succeeded"), &json!(null))
        );
        assert!(last["observedAt"].as_str() > seen["observedAt"].as_str(), "{last} is not after {seen}");
        assert!(last["completedAt"].as_str() >= last["observedAt"].as_str());
        seen = last;
        scene.object(&one("containers", &id), |object| object["status"]["status"] == state);
    }
    let counts = ["start", "pause", "unpause", "restart"].map(|action| scene.room.happened(&id, action));
    // A restart counts as a start too.
    assert_eq!(counts, [2, 1, 1, 1]);
}

#[test]
fn what_the_engine_refuses_is_told_in_its_words_and_not_tried_again() {
    let mut scene = Scene::connected();
    let id = scene.room.container("one");
    scene.object(&one("containers", &id), |object| !object["status"].is_null());
    scene.room.engine().fault(Fault::once(
        Route::ContainerStart,
        Effect::Refuse(Refusal::new(http::StatusCode::CONFLICT, "no room for it")),
    ));
    scene.ask(&id, "start");
    let last = answered(&mut scene, &id);
    assert_eq!(last["state"], "Failed");
    assert_eq!(last["error"], "Error response from daemon: no room for it");
    scene.ask(&id, "unpause");
    scene.object(&one("containers", &id), |object| {
        object["status"]["lastAction"]["error"] == format!("cannot unpause container {id}: not running")
    });
    assert_eq!(scene.room.engine().requests(Route::ContainerStart), 1);
}

#[test]
fn a_wish_in_the_spec_is_acted_on_once_and_not_again_when_the_container_ends() {
    let mut scene = Scene::connected();
    let id = scene.room.container("one");
    scene.object(&one("containers", &id), |object| !object["status"].is_null());
    scene.ask_spec(&id, "running");
    let object = scene.object(&one("containers", &id), |object| {
        object["status"]["status"] == "running" && object["status"]["observedGeneration"] == 2 && is_answered(object)
    });
    assert_eq!(object["status"]["lastAction"]["action"], "start");
    scene.room.engine().change(|world| world.exit_container(&id, 3)).unwrap();
    scene.object(&one("containers", &id), |object| object["status"]["exitCode"] == 3);
    scene.room.engine().change(|world| world.rename_container(&id, "other")).unwrap();
    scene.object(&one("containers", &id), |object| object["status"]["name"] == "other");
    assert_eq!(scene.room.happened(&id, "start"), 1);
    scene.ask_spec(&id, "created");
    let object = scene.object(&one("containers", &id), |object| object["status"]["observedGeneration"] == 3);
    assert_eq!(object["status"]["lastAction"]["action"], "start", "there was nothing to be stopped");
    scene.ask_spec(&id, "running");
    scene.object(&one("containers", &id), |object| object["status"]["observedGeneration"] == 4 && is_answered(object));
    assert_eq!(scene.room.happened(&id, "start"), 2);
}

/// Kills the controllers at a step of a restart; returns how often the container was restarted, and the recorded result.
fn restart_killed_at(step: &str, when: When) -> (usize, Value) {
    let mut scene = Scene::with(|room| {
        room.running("one");
    });
    let id = scene.names("containers").remove(0);
    scene.stage.probe(Arc::new(KillAt::first("engine", step, when)));
    scene.stage.start();
    scene.until_says("True", "Connected");
    scene.ask(&id, "restart");
    let last = answered(&mut scene, &id);
    (scene.room.happened(&id, "restart"), last)
}

#[test]
fn a_restart_is_never_done_twice_whenever_the_daemon_dies() {
    for (step, when, times, state) in [
        ("claim", When::Before, 1, "Succeeded"),
        ("claim", When::After, 0, "Failed"),
        ("act", When::Before, 0, "Failed"),
        ("act", When::After, 1, "Succeeded"),
        ("record", When::Before, 1, "Succeeded"),
        ("record", When::After, 1, "Succeeded"),
        ("unclaim", When::Before, 1, "Succeeded"),
        ("unclaim", When::After, 1, "Succeeded"),
    ] {
        let (restarts, last) = restart_killed_at(step, when);
        assert_eq!((restarts, &last["state"]), (times, &json!(state)), "{when:?} {step}: {last}");
        if times == 0 {
            assert!(last["error"].as_str().is_some_and(|error| error.starts_with("interrupted")), "{last}");
        }
    }
}

#[test]
fn an_answer_that_got_lost_is_not_asked_for_again() {
    let mut scene = Scene::with(|room| {
        room.running("one");
    });
    let id = scene.names("containers").remove(0);
    scene.room.engine().fault(Fault::once(Route::ContainerRestart, Effect::DoAndHangUp));
    scene.ask(&id, "restart");
    let last = answered(&mut scene, &id);
    assert_eq!((last["state"].as_str(), scene.room.happened(&id, "restart")), (Some("Failed"), 1));
}

#[test]
fn an_action_that_was_written_past_the_webhook_and_is_none_is_dropped() {
    let mut scene = Scene::connected();
    let id = scene.room.container("one");
    let path = one("containers", &id);
    scene.object(&path, |object| !object["status"].is_null());
    scene.stage.stop();
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    crate::hands::ask(&scene.stage, "DELETE", configurations, &Value::Null).unwrap();
    scene.ask(&id, "explode");
    scene.stage.start();
    let object = scene.object(&path, is_answered);
    assert_eq!(object["status"]["lastAction"], Value::Null);
}
