//! Tests of the fake engine's own features: faults and counters.

use std::{collections::BTreeMap, time::Duration};

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::suite::ask::Ask;

fn engine() -> (FakeEngine, tempfile::TempDir, Ask) {
    let folder = tempfile::tempdir().unwrap();
    let engine = FakeEngine::start(&folder.path().join("docker.sock")).unwrap();
    let ask = Ask::new(engine.socket());
    (engine, folder, ask)
}

#[tokio::test]
async fn faults_hit_the_requests_that_they_are_meant_for_as_often_as_they_are_meant_to() {
    let (engine, _folder, ask) = engine();
    engine.change(|world| world.create_volume("one", BTreeMap::new(), BTreeMap::new())).unwrap();
    engine.change(|world| world.create_volume("two", BTreeMap::new(), BTreeMap::new())).unwrap();
    let refusal = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "out of luck");
    engine.fault(Fault::once(Route::VolumeInspect, Effect::Refuse(refusal.clone())).about("one"));
    engine.fault(Fault::always(Route::VolumeList, Effect::Refuse(refusal)));
    ask.get("/volumes/two").await.expect(200);
    assert_eq!(ask.get("/volumes/one").await.expect(500).message(), "out of luck");
    ask.get("/volumes/one").await.expect(200);
    ask.get("/volumes").await.expect(500);
    ask.get("/volumes").await.expect(500);
    engine.heal();
    ask.get("/volumes").await.expect(200);
    assert_eq!(engine.all_requests(), BTreeMap::from([(Route::VolumeInspect, 3), (Route::VolumeList, 3)]));
    engine.forget_requests();
    assert_eq!((engine.requests(Route::VolumeList), engine.peak(Route::VolumeList)), (0, 0));
}

#[tokio::test]
async fn a_hook_is_called_between_a_list_and_an_inspect() {
    let (engine, _folder, ask) = engine();
    engine.fill(2, 1).unwrap();
    engine.before(Route::ContainerInspect, |world, id| {
        let _ = world.remove_container(id, true, false);
    });
    let list = ask.get("/containers/json?all=1").await.expect(200).json;
    let id = list[0]["Id"].as_str().unwrap();
    ask.get(&format!("/containers/{id}/json")).await.expect(404);
    assert_eq!(ask.get("/containers/json?all=1").await.expect(200).json.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn requests_that_are_under_way_at_once_are_counted() {
    let (engine, _folder, ask) = engine();
    engine.fault(Fault::always(Route::Info, Effect::Delay(Duration::from_millis(100))));
    tokio::join!(ask.get("/info"), ask.get("/info"), ask.get("/info"));
    ask.get("/info").await.expect(200);
    assert_eq!((engine.requests(Route::Info), engine.peak(Route::Info)), (4, 3));
}

#[tokio::test]
async fn streams_of_events_end_break_and_fall_silent() {
    let (engine, _folder, ask) = engine();
    let make = |name: &str| engine.change(|world| world.create_volume(name, BTreeMap::new(), BTreeMap::new()).unwrap());
    for end in [FakeEngine::end_events, FakeEngine::break_events] {
        let mut events = ask.stream("/events").await;
        make("before");
        assert_eq!(events.next().await.unwrap()["Actor"]["ID"], "before");
        end(&engine);
        make("after");
        assert_eq!(events.next().await, None);
    }
    let mut events = ask.stream("/events").await;
    engine.silence_events(true);
    make("withheld");
    let silent = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(silent.is_err(), "{silent:?}");
    engine.silence_events(false);
    assert_eq!(events.next().await.unwrap()["Actor"]["ID"], "withheld");
}

#[tokio::test]
async fn its_clock_and_its_versions_are_its_own() {
    let (engine, _folder, ask) = engine();
    engine.set_clock_ahead(SignedDuration::from_hours(5));
    let info = ask.get("/info").await.expect(200).json;
    let time: jiff::Timestamp = info["SystemTime"].as_str().unwrap().parse().unwrap();
    let ahead = time.duration_since(jiff::Timestamp::now());
    assert!(ahead > SignedDuration::from_mins(299) && ahead < SignedDuration::from_mins(301), "{ahead:?}");
    engine.set_versions(44, 47);
    ask.get("/info").await.expect(400);
    let newest = ask.speaking("/v1.47");
    newest.post_json("/volumes/create", &json!({"Name": "one"})).await.expect(201);
    let id = engine.change(|world| world.import_image(None, BTreeMap::new())).unwrap();
    let row = newest.get("/images/json").await.expect(200).json[0].clone();
    assert_eq!((&row["Id"], &row["RepoTags"], &row["VirtualSize"]), (&json!(id), &json!([]), &json!(null)));
}

#[tokio::test]
async fn one_that_crashes_hangs_up_and_comes_back_with_all_but_its_events() {
    let (mut engine, _folder, ask) = engine();
    engine.change(|world| world.create_volume("kept", BTreeMap::new(), BTreeMap::new())).unwrap();
    let mut events = ask.stream("/events?since=1").await;
    assert!(events.next().await.is_some());
    engine.crash();
    assert_eq!(events.next().await, None);
    assert!(!engine.socket().exists());
    engine.revive().unwrap();
    ask.get("/volumes/kept").await.expect(200);
    assert_eq!(engine.change(|world| world.events()), []);
    let mut events = ask.stream("/events?since=1&until=99999999999").await;
    engine.change(|world| world.remove_volume("kept", false)).unwrap();
    assert_eq!(events.next().await.unwrap()["Action"], "destroy");
}

#[test]
fn thousands_of_objects_are_made_quickly() {
    let (engine, _folder, _ask) = engine();
    engine.fill(5_000, 2_000).unwrap();
    assert_eq!(engine.change(|world| (world.containers().len(), world.images().len())), (5_000, 2_000));
}
