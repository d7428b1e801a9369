//! The engine is mirrored, and changes on either side reach the other.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rdd_docker::{
    fake::Route,
    map::{image_name, volume_name},
};
use rdd_runtime::probe::{Point, Probe, Verdict, When};
use rdd_testkit::{api::PATIENCE, eventually};
use serde_json::json;

use crate::hands::{APPS, Room, Scene, at, delete, one, says_running};

#[test]
fn everything_is_mirrored_at_first_and_whatever_happens_afterwards() {
    let mut scene = Scene::with(|room| {
        room.running("before");
        room.engine().change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    });
    assert_eq!((scene.names("containers").len(), scene.names("images").len()), (1, 1));
    assert_eq!(
        (scene.names("volumes"), scene.names("containernamespaces")),
        (vec![volume_name("data")], vec!["moby".to_owned()])
    );
    let id = scene.room.container("after");
    let made = scene.object(&one("containers", &id), |object| object["status"]["status"] == "created");
    assert_eq!(made["metadata"]["finalizers"], json!(["engine.rancherdesktop.io/mirror"]));
    assert_eq!((&made["spec"]["state"], &made["status"]["name"]), (&json!("unknown"), &json!("after")));
    scene.room.engine().change(|world| world.start_container(&id)).unwrap();
    scene.object(&one("containers", &id), |object| {
        object["status"]["status"] == "running" && object["status"]["conditions"][0]["status"] == "True"
    });
    scene.room.engine().change(|world| world.pause_container(&id)).unwrap();
    scene.object(&one("containers", &id), |object| object["status"]["status"] == "paused");
    scene.room.engine().change(|world| world.rename_container(&id, "later")).unwrap();
    scene.object(&one("containers", &id), |object| object["status"]["name"] == "later");
    scene.room.engine().change(|world| world.remove_container(&id, true, false)).unwrap();
    scene.gone(&one("containers", &id));
    scene.room.engine().change(|world| world.remove_volume("data", false)).unwrap();
    scene.gone(&one("volumes", &volume_name("data")));
}

#[test]
fn an_image_has_a_mirror_for_each_tag_and_one_without_when_it_has_none() {
    let mut scene = Scene::connected();
    let image = scene.room.engine().change(|world| world.find_image("box:1")).unwrap();
    let (tagged, dangling) = (image_name(&image, Some("box:1")), image_name(&image, None));
    assert_eq!(scene.names("images"), [tagged.as_str()]);
    scene.room.engine().change(|world| world.tag_image("box:1", "box:2")).unwrap();
    let second = image_name(&image, Some("box:2"));
    scene.object(&one("images", &second), |object| object["status"]["repoTag"] == "box:2");
    // The tag moves. The engine reports nothing about the image that had it.
    let other = scene.room.engine().change(|world| world.import_image(Some("box:2"), [].into())).unwrap();
    scene.gone(&one("images", &second));
    scene.object(&one("images", &image_name(&other, Some("box:2"))), |_| true);
    // It moves back: the other image has no tag left.
    scene.room.engine().change(|world| world.tag_image("box:1", "box:2")).unwrap();
    let dangling_other = image_name(&other, None);
    let made = scene.object(&one("images", &dangling_other), |object| !object["status"].is_null());
    assert_eq!((&made["status"]["repoTag"], &made["status"]["namespace"]), (&json!(null), &json!("moby")));
    scene.gone(&one("images", &image_name(&other, Some("box:2"))));
    scene.room.engine().change(|world| world.tag_image(&other, "box:3")).unwrap();
    scene.gone(&one("images", &dangling_other));
    assert!(!scene.names("images").contains(&dangling));
}

/// Moves a tag to another image just before its mirror's status is written, and delays the write until the other mirror exists.
#[derive(Debug)]
struct Thief {
    room: Arc<Room>,
    is_armed: AtomicBool,
    made: AtomicUsize,
    written: AtomicUsize,
}

impl Probe for Thief {
    fn at(&self, point: Point<'_>) -> Verdict {
        match (point.step, point.when) {
            ("create-mirror", When::After) => drop(self.made.fetch_add(1, Ordering::SeqCst)),
            ("write-mirror", When::After) => drop(self.written.fetch_add(1, Ordering::SeqCst)),
            ("write-mirror", When::Before) if self.is_armed.swap(false, Ordering::SeqCst) => {
                let made = self.made.load(Ordering::SeqCst);
                let moved = self.room.engine().change(|world| world.tag_image("other:1", "moving:1"));
                moved.expect("a tag can be moved");
                // The other threads go on meanwhile.
                let is_made = || (self.made.load(Ordering::SeqCst) > made).then_some(());
                tokio::task::block_in_place(|| eventually("the other's mirror", PATIENCE, is_made));
            }
            _ => {}
        }
        Verdict::Go
    }
}

#[test]
fn a_tag_that_moves_while_its_mirror_is_being_written_leaves_no_mirror_that_is_wrong() {
    let mut scene = Scene::dark();
    scene.room.engine().change(|world| world.import_image(Some("other:1"), [].into())).unwrap();
    let zero = AtomicUsize::default;
    let room = Arc::clone(&scene.room);
    let thief = Arc::new(Thief { room, is_armed: AtomicBool::new(false), made: zero(), written: zero() });
    scene.stage.probe(Arc::clone(&thief) as _);
    scene.stage.start();
    says_running(&scene.stage, "True");
    scene.until_says("True", "Connected");
    let (loser, winner) =
        scene.room.engine().change(|world| (world.find_image("box:1").unwrap(), world.find_image("other:1").unwrap()));
    let before = thief.written.load(Ordering::SeqCst);
    thief.is_armed.store(true, Ordering::SeqCst);
    // One event, and none about this image afterwards.
    scene.room.engine().change(|world| world.tag_image("box:1", "moving:1")).unwrap();
    scene.until("both mirrors to be written", |_| (thief.written.load(Ordering::SeqCst) >= before + 2).then_some(()));
    scene.gone(&one("images", &image_name(&loser, Some("moving:1"))));
    scene.object(&one("images", &image_name(&winner, Some("moving:1"))), |object| !object["status"].is_null());
}

#[test]
fn what_is_deleted_here_goes_there() {
    let mut scene = Scene::connected();
    let id = scene.room.running("one");
    scene.room.engine().change(|world| world.create_volume("data", [].into(), [].into())).unwrap();
    let image = scene.room.engine().change(|world| world.import_image(Some("spare:1"), [].into())).unwrap();
    let paths = [
        one("containers", &id),
        one("volumes", &volume_name("data")),
        one("images", &image_name(&image, Some("spare:1"))),
    ];
    for path in &paths {
        scene.object(path, |object| !object["status"].is_null());
        delete(&scene.stage, path);
        scene.gone(path);
    }
    let left = scene.room.engine().change(|world| {
        (world.containers().contains_key(&id), world.volumes().len(), world.find_image("spare:1").is_ok())
    });
    assert_eq!(left, (false, 0, false));
}

#[test]
fn when_the_vm_stops_the_mirrors_go_first_and_what_others_made_stays() {
    let mut scene = Scene::with(|room| {
        room.running("one");
    });
    let foreign = json!({
        "apiVersion": "containers.rancherdesktop.io/v1alpha1", "kind": "Volume", "metadata": {"name": "theirs"},
    });
    crate::hands::ask(&scene.stage, "POST", &at("volumes"), &foreign).unwrap();
    says_running(&scene.stage, "False");
    scene.until_says("False", "Stopped");
    assert_eq!(scene.names("volumes"), ["theirs"]);
    for plural in ["containers", "images", "containernamespaces"] {
        assert_eq!(scene.names(plural), [""; 0], "{plural}");
    }
    assert_eq!(scene.room.engine().change(|world| world.containers().len()), 1, "nothing goes from the engine");
    says_running(&scene.stage, "True");
    scene.until_says("True", "Connected");
    assert_eq!(scene.names("containers").len(), 1);
}

#[test]
fn while_nobody_knows_whether_the_vm_runs_mirrors_and_requests_stay() {
    let mut scene = Scene::dark();
    let id = scene.room.container("one");
    says_running(&scene.stage, "True");
    scene.until_says("True", "Connected");
    scene.stage.stop();
    says_running(&scene.stage, "Unknown");
    scene.stage.start();
    scene.until_says("False", "Connecting");
    scene.ask_spec(&id, "running");
    assert_eq!(scene.names("containers"), [id.as_str()]);
    says_running(&scene.stage, "True");
    scene.object(&one("containers", &id), |object| object["status"]["status"] == "running");
}

#[test]
fn what_belongs_to_no_app_any_more_goes() {
    let mut scene = Scene::with(|room| {
        room.running("one");
    });
    delete(&scene.stage, &format!("{APPS}/app"));
    for plural in ["containers", "images", "containernamespaces"] {
        scene.until(plural, |stage| crate::hands::names(stage, plural).is_empty().then_some(()));
    }
    assert_eq!(scene.room.engine().change(|world| world.containers().len()), 1);
}

// Finding 295-D1
#[test]
fn one_event_costs_one_object() {
    let mut scene = Scene::with(|room| room.engine().fill(50, 20).unwrap());
    let id = scene.room.container("one");
    scene.object(&one("containers", &id), |object| !object["status"].is_null());
    scene.room.engine().forget_requests();
    scene.room.engine().change(|world| world.start_container(&id)).unwrap();
    scene.object(&one("containers", &id), |object| object["status"]["status"] == "running");
    let requests = scene.room.engine().all_requests();
    assert!(requests.keys().all(|route| *route == Route::ContainerInspect), "{requests:?}");
    assert!(requests[&Route::ContainerInspect] <= 2, "{requests:?}");
}
