//! The contract of the engine itself: versions, clock and errors.

use super::Room;

/// Finding 295-S8
pub async fn the_engine_says_its_newest_version_and_speaks_the_oldest_and_the_newest(room: &Room) {
    let bare = room.ask.speaking("");
    let pong = bare.get("/_ping").await.expect(200);
    assert_eq!(&pong.bytes[..], b"OK");
    let (major, minor) = pong.api_version.split_once('.').expect("a version");
    let minor: u32 = minor.parse().unwrap();
    assert!(major == "1" && minor >= 41, "{}", pong.api_version);
    for version in ["/v1.41".to_owned(), format!("/v1.{minor}")] {
        room.ask.speaking(&version).get("/info").await.expect(200);
    }
    let too_new = room.ask.speaking(&format!("/v1.{}", minor + 1)).get("/info").await.expect(400);
    let expected = format!("client version 1.{} is too new. Maximum supported API version is 1.{minor}", minor + 1);
    assert_eq!(too_new.message(), expected);
    let said = bare.get("/version").await.expect(200).json;
    assert_eq!(said["ApiVersion"], pong.api_version);
    assert!(said["MinAPIVersion"].is_string(), "{said}");
}

/// Finding 295-S1: events are queried by the engine's clock.
pub async fn the_engine_says_how_late_it_is(room: &Room) {
    let first = room.now().await;
    let event = room.ask.post_json("/volumes/create", &serde_json::json!({"Name": "late"})).await.expect(201);
    assert_eq!(event.json["Name"], "late");
    let mut events = room.events(&first, &["volume"]).await;
    let created = events.next().await.unwrap();
    let first: f64 = first.parse().unwrap();
    let nanoseconds = created["timeNano"].as_f64().unwrap();
    assert!(nanoseconds / 1e9 >= first - 1e-6, "{created} is after {first}");
    assert_eq!(created["time"].as_i64().unwrap(), created["timeNano"].as_i64().unwrap() / 1_000_000_000);
    room.ask.delete("/volumes/late").await.expect(204);
}

pub async fn what_is_not_there_is_a_404_with_a_message(room: &Room) {
    let nothing = "0123456789abcdef";
    for path in [format!("/containers/{nothing}/json"), format!("/containers/{nothing}/logs?stdout=1")] {
        assert_eq!(room.ask.get(&path).await.expect(404).message(), format!("No such container: {nothing}"));
    }
    for verb in ["start", "stop", "restart", "pause", "unpause"] {
        let answer = room.ask.post(&format!("/containers/{nothing}/{verb}")).await.expect(404);
        assert_eq!(answer.message(), format!("No such container: {nothing}"));
    }
    room.ask.delete(&format!("/containers/{nothing}?force=1")).await.expect(404);
    let answer = room.ask.get("/images/nosuch:1/json").await.expect(404);
    assert!(answer.message().ends_with("No such image: nosuch:1"), "{}", answer.message());
    assert_eq!(room.ask.delete("/images/nosuch:1").await.expect(404).message(), "No such image: nosuch:1");
    assert_eq!(room.ask.get("/volumes/nosuch").await.expect(404).message(), "get nosuch: no such volume");
    room.ask.delete("/volumes/nosuch").await.expect(404);
    room.ask.delete("/volumes/nosuch?force=1").await.expect(204);
    assert_eq!(room.ask.get("/nosuch").await.expect(404).message(), "page not found");
}
