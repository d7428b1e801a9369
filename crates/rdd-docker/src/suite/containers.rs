//! The contract of containers.

use serde_json::{Value, json};

use super::Room;

/// The container's entry in the list of all containers.
async fn row(room: &Room, id: &str) -> Option<Value> {
    let list = room.ask.get("/containers/json?all=1").await.expect(200).json;
    list.as_array().unwrap().iter().find(|row| row["Id"] == id).cloned()
}

pub async fn a_container_goes_through_its_states_and_list_and_inspect_agree(room: &Room) {
    let image = room.import("states:1").await;
    let more = json!({"Labels": {"a": "b"}, "ExposedPorts": {"80/tcp": {}}});
    let id = room.create_with("states", "states:1", &["sleep", "600"], more).await;
    assert!(id.len() == 64 && id.bytes().all(|digit| digit.is_ascii_hexdigit()), "{id}");
    let made = room.container(&id).await;
    assert_eq!((&made["Name"], &made["Path"], &made["Args"]), (&json!("/states"), &json!("sleep"), &json!(["600"])));
    assert_eq!((&made["Image"], &made["Config"]["Labels"]["a"]), (&json!(image), &json!("b")));
    assert_eq!(
        (&made["State"]["Pid"], &made["State"]["ExitCode"], &made["State"]["Error"]),
        (&json!(0), &json!(0), &json!(""))
    );
    // A missing time is Go's zero time, not an empty string.
    assert_eq!(made["State"]["StartedAt"], "0001-01-01T00:00:00Z");
    made["Created"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();

    let steps =
        [("start", "running"), ("pause", "paused"), ("unpause", "running"), ("restart", "running"), ("stop", "exited")];
    for (verb, status) in steps {
        room.ask.post(&format!("/containers/{id}/{verb}")).await.expect(204);
        let seen = room.container(&id).await;
        assert_eq!(seen["State"]["Status"], status, "after {verb}");
        assert_eq!(seen["State"]["Pid"] == 0, status == "exited", "after {verb}");
        let row = row(room, &id).await.unwrap();
        let same = (&row["State"], &row["ImageID"], &row["Names"], &row["Labels"]["a"]);
        assert_eq!(same, (&json!(status), &json!(image), &json!(["/states"]), &json!("b")), "after {verb}");
    }
    let ended = room.container(&id).await;
    for time in ["StartedAt", "FinishedAt"] {
        ended["State"][time].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    }
    let running = room.ask.get("/containers/json").await.expect(200).json;
    assert!(running.as_array().unwrap().iter().all(|row| row["Id"] != *id), "only what runs, unless all are asked for");
    room.clear(&[&id], &["states:1"]).await;
    assert_eq!(row(room, &id).await, None);
}

pub async fn what_fits_no_state_is_refused_and_what_is_done_already_is_not_an_error(room: &Room) {
    room.import("refused:1").await;
    let id = room.create("refused", "refused:1", &["sleep", "600"]).await;
    let post = async |verb: &str| {
        let answer = room.ask.post(&format!("/containers/{id}/{verb}")).await;
        (answer.status, answer.message().to_owned())
    };
    let quiet = |status: u16| (status, String::new());
    assert_eq!(post("stop").await, quiet(304));
    assert_eq!(post("pause").await, (409, format!("Container {id} is not running")));
    assert_eq!(post("unpause").await, (500, format!("Container {id} is not paused")));
    assert_eq!(post("kill").await, (409, format!("Cannot kill container: {id}: Container {id} is not running")));
    assert_eq!(post("start").await, quiet(204));
    assert_eq!(post("start").await, quiet(304));
    assert_eq!(post("unpause").await, (500, format!("Container {id} is not paused")));
    assert_eq!(post("pause").await, quiet(204));
    assert_eq!(post("pause").await, (409, format!("Container {id} is already paused")));
    assert_eq!(post("start").await, (409, "cannot start a paused container, try unpause instead".to_owned()));
    assert_eq!(post("stop").await, quiet(204), "a paused one can be stopped");
    assert_eq!(room.status(&id).await, "exited");
    assert_eq!(post("restart").await, quiet(204), "a stopped one can be restarted");
    assert_eq!(room.status(&id).await, "running");
    room.clear(&[&id], &["refused:1"]).await;
}

pub async fn a_container_that_ends_by_itself_leaves_its_code(room: &Room) {
    room.import("ends:1").await;
    let now = room.now().await;
    let id = room.create("ends", "ends:1", &["sh", "-c", "exit 3"]).await;
    let mut events = room.events(&now, &["container"]).await;
    room.ask.post(&format!("/containers/{id}/start")).await.expect(204);
    events.until(&id, "die").await;
    let state = room.container(&id).await["State"].clone();
    assert_eq!((&state["Status"], &state["ExitCode"], &state["Pid"]), (&json!("exited"), &json!(3), &json!(0)));
    room.clear(&[&id], &["ends:1"]).await;
}

pub async fn a_container_that_cannot_be_started_says_why(room: &Room) {
    room.import("broken:1").await;
    let now = room.now().await;
    let id = room.create("broken", "broken:1", &["nosuch"]).await;
    let refused = room.ask.post(&format!("/containers/{id}/start")).await.expect(400);
    assert!(refused.message().contains("\"nosuch\": executable file not found in $PATH"), "{}", refused.message());
    let state = room.container(&id).await["State"].clone();
    assert_eq!((&state["Status"], &state["ExitCode"]), (&json!("created"), &json!(127)));
    assert_eq!(state["Error"], refused.message());
    // No event is required: dockerd 20.10 emits none, so a client that waits for an event does not see the error.
    room.ask.delete(&format!("/containers/{id}")).await.expect(204);
    let mut events = room.events(&now, &["container"]).await;
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("destroy") {
        seen.push(events.action_of(&id).await.unwrap());
    }
    assert_eq!((seen.first().map(String::as_str), seen.contains(&"start".to_owned())), (Some("create"), false));
    room.clear(&[], &["broken:1"]).await;
}

pub async fn a_container_is_found_by_name_and_renamed(room: &Room) {
    room.import("names:1").await;
    let first = room.create("first", "names:1", &["sleep", "600"]).await;
    let other = room.create("other", "names:1", &["sleep", "600"]).await;
    let body = json!({"Image": "names:1", "Cmd": ["sleep"]});
    let taken = room.ask.post_json("/containers/create?name=first", &body).await.expect(409);
    let expected = format!("Conflict. The container name \"/first\" is already in use by container \"{first}\".");
    assert!(taken.message().starts_with(&expected), "{}", taken.message());
    let without = room.ask.post_json("/containers/create?name=none", &json!({"Image": "nosuch:1", "Cmd": ["x"]})).await;
    assert_eq!(without.expect(404).message(), "No such image: nosuch:1");
    room.ask.post("/containers/first/rename?name=second").await.expect(204);
    assert_eq!(room.container("second").await["Id"], first);
    assert_eq!(room.container(&first).await["Name"], "/second");
    assert_eq!(room.container(&first[..12]).await["Id"], first, "the beginning of an ID will do");
    room.ask.get("/containers/first/json").await.expect(404);
    room.ask.post("/containers/second/rename?name=other").await.expect(409);
    room.clear(&[&first, &other], &["names:1"]).await;
}

pub async fn removing_needs_force_while_it_runs_and_gone_is_gone(room: &Room) {
    room.import("gone:1").await;
    let id = room.sleeper("gone", "gone:1").await;
    let refused = room.ask.delete(&format!("/containers/{id}")).await.expect(409);
    assert!(refused.message().contains(&id), "{}", refused.message());
    room.ask.post(&format!("/containers/{id}/pause")).await.expect(204);
    room.ask.delete(&format!("/containers/{id}")).await.expect(409);
    room.ask.delete(&format!("/containers/{id}?force=1")).await.expect(204);
    room.ask.delete(&format!("/containers/{id}?force=1")).await.expect(404);
    room.ask.get(&format!("/containers/{id}/json")).await.expect(404);
    room.clear(&[], &["gone:1"]).await;
}
