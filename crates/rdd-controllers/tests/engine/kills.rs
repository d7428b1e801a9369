//! The engine's controller converges after a kill before or after each of its steps.

use std::sync::Arc;

use rdd_docker::map::volume_name;
use rdd_testkit::controllers::{Stage, kill_everywhere};
use serde_json::{Value, json};

use crate::hands::{Room, ask_action, delete, get, make_app, merge, names, one, says_running, until, until_says};

fn as_wanted(stage: &mut Stage, path: &str, is_so: impl Fn(&Value) -> bool) {
    until(stage, path, |stage| get(stage, path).filter(|object| is_so(object)).map(drop));
}

#[expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]
fn scenario(stage: &mut Stage, room: &Arc<Room>) {
    let (kept, lost, deleted) = (room.running("kept"), room.container("lost"), room.container("deleted"));
    room.engine().change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    make_app(stage);
    says_running(stage, "True");
    until_says(stage, "True", "Connected");
    until(stage, "all mirrors", |stage| (names(stage, "containers").len() == 3).then_some(()));
    // One container with a request, one that is gone in the engine, one whose object is deleted.
    merge(stage, &one("containers", &kept), &json!({"spec": {"state": "created"}})).unwrap();
    as_wanted(stage, &one("containers", &kept), |object| object["status"]["status"] == "exited");
    ask_action(stage, &kept, "start");
    as_wanted(stage, &one("containers", &kept), |object| {
        let annotations = &object["metadata"]["annotations"];
        annotations["containers.rancherdesktop.io/action"].is_null()
            && annotations["engine.rancherdesktop.io/acting"].is_null()
    });
    as_wanted(stage, &one("containers", &kept), |object| object["status"]["lastAction"]["state"] == "Succeeded");
    as_wanted(stage, &one("containers", &kept), |object| object["status"]["status"] == "running");
    room.engine().change(|world| world.remove_container(&lost, true, false)).unwrap();
    delete(stage, &one("containers", &deleted));
    delete(stage, &one("volumes", &volume_name("data")));
    until(stage, "one mirror", |stage| (names(stage, "containers") == [kept.clone()]).then_some(()));
    until(stage, "no volume", |stage| names(stage, "volumes").is_empty().then_some(()));
    let left = room.engine().change(|world| (world.containers().len(), world.volumes().len()));
    assert_eq!(left, (1, 0));
    assert_eq!((room.happened(&kept, "start"), room.happened(&kept, "stop")), (2, 1), "each request is acted on once");
    says_running(stage, "False");
    until_says(stage, "False", "Stopped");
    for plural in ["containers", "images", "volumes", "containernamespaces"] {
        assert_eq!(names(stage, plural), [""; 0], "{plural}");
    }
    stage.settle();
}

#[test]
fn the_mirror_survives_a_kill_at_every_step() {
    let points = kill_everywhere(Room::new, |room| room.only_engine(), scenario);
    println!("killed at {points} points");
    assert_eq!(points, 2 * 18);
}
