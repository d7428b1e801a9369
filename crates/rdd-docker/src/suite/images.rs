//! The contract of images and tags.

use serde_json::{Value, json};

use super::Room;

async fn row(room: &Room, id: &str) -> Option<Value> {
    let list = room.ask.get("/images/json?all=1").await.expect(200).json;
    list.as_array().unwrap().iter().find(|row| row["Id"] == id).cloned()
}

async fn tags(room: &Room, id: &str) -> Value {
    room.ask.get(&format!("/images/{id}/json")).await.expect(200).json["RepoTags"].clone().sorted()
}

pub async fn an_image_goes_with_its_last_tag(room: &Room) {
    let now = room.now().await;
    let id = room.import("tags:1").await;
    assert!(id.starts_with("sha256:") && id.len() == 71, "{id}");
    room.ask.post("/images/tags:1/tag?repo=other/tags&tag=2").await.expect(201);
    assert_eq!(tags(room, &id).await, json!(["other/tags:2", "tags:1"]).sorted());
    let whole = room.ask.get("/images/tags:1/json").await.expect(200).json;
    assert_eq!((&whole["Id"], &whole["Architecture"], &whole["Os"]), (&json!(id), &json!("amd64"), &json!("linux")));
    assert!(whole["Size"].as_i64().unwrap() > 0, "{whole}");
    whole["Created"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let untagged = room.ask.delete("/images/tags:1?noprune=1").await.expect(200).json;
    assert_eq!(untagged, json!([{"Untagged": "tags:1"}]));
    assert_eq!(tags(room, &id).await, json!(["other/tags:2"]));
    let deleted = room.ask.delete("/images/other/tags:2?noprune=1").await.expect(200).json;
    assert_eq!((&deleted[0], &deleted[1]), (&json!({"Untagged": "other/tags:2"}), &json!({"Deleted": id})));
    assert_eq!(row(room, &id).await, None);
    // The order of the events. `untag` does not name the tag.
    let mut events = room.events(&now, &["image"]).await;
    for expected in ["tag", "import", "tag", "untag", "untag", "delete"] {
        assert_eq!(events.action_of(&id).await.unwrap(), expected);
    }
}

/// The mirror must inspect the other image by itself, because no event names it.
pub async fn an_image_loses_its_tag_to_another_without_a_word(room: &Room) {
    let now = room.now().await;
    let first = room.import("moves:1").await;
    let second = room.import("moves:1").await;
    assert_ne!(first, second);
    assert_eq!(tags(room, &first).await, json!([]));
    assert_eq!(tags(room, &second).await, json!(["moves:1"]));
    let dangling = row(room, &first).await.unwrap();
    // In 1.41 a list has placeholders; an inspect has none.
    assert_eq!(
        (&dangling["RepoTags"], &dangling["RepoDigests"]),
        (&json!(["<none>:<none>"]), &json!(["<none>@<none>"]))
    );
    // Retag the first image, which again untags the other.
    room.ask.post(&format!("/images/{first}/tag?repo=moves&tag=1")).await.expect(201);
    assert_eq!((tags(room, &first).await, tags(room, &second).await), (json!(["moves:1"]), json!([])));
    let mut events = room.events(&now, &["image"]).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let event = events.next().await.unwrap();
        seen.push((event["Actor"]["ID"] == first, event["Action"].as_str().unwrap().to_owned()));
    }
    let expected = [(true, "tag"), (true, "import"), (false, "tag"), (false, "import"), (true, "tag")];
    assert_eq!(seen, expected.map(|(is_first, action)| (is_first, action.to_owned())));
    room.clear(&[], &[&first, &second]).await;
    assert_eq!((row(room, &first).await, row(room, &second).await), (None, None));
}

/// Finding 295-T7
pub async fn an_image_in_use_stays_until_its_container_is_gone(room: &Room) {
    let id = room.import("used:1").await;
    let container = room.create("user", "used:1", &["sleep", "600"]).await;
    let (image, user) = (&id[7..19], &container[..12]);
    let refused = room.ask.delete("/images/used:1?noprune=1").await.expect(409);
    let why = format!("container {user} is using its referenced image {image}");
    assert_eq!(
        refused.message(),
        format!("conflict: unable to remove repository reference \"used:1\" (must force) - {why}")
    );
    let refused = room.ask.delete(&format!("/images/{id}?noprune=1")).await.expect(409);
    let why = format!("(must be forced) - image is being used by stopped container {user}");
    assert_eq!(refused.message(), format!("conflict: unable to delete {image} {why}"));
    room.ask.post(&format!("/containers/{container}/start")).await.expect(204);
    let refused = room.ask.delete(&format!("/images/{id}?force=1")).await.expect(409);
    let why = format!("(cannot be forced) - image is being used by running container {user}");
    assert_eq!(refused.message(), format!("conflict: unable to delete {image} {why}"));
    // Force removes the tag; the image stays as dangling.
    assert_eq!(room.ask.delete("/images/used:1?force=1").await.expect(200).json, json!([{"Untagged": "used:1"}]));
    assert_eq!(tags(room, &id).await, json!([]));
    room.clear(&[&container], &[]).await;
    room.ask.delete(&format!("/images/{id}?noprune=1")).await.expect(200);
    room.ask.get(&format!("/images/{id}/json")).await.expect(404);
}

pub async fn an_image_under_several_names_cannot_go_by_its_id(room: &Room) {
    let id = room.import("several:1").await;
    room.ask.post("/images/several:1/tag?repo=other/several&tag=1").await.expect(201);
    let refused = room.ask.delete(&format!("/images/{id}?noprune=1")).await.expect(409);
    let why = "(must be forced) - image is referenced in multiple repositories";
    assert_eq!(refused.message(), format!("conflict: unable to delete {} {why}", &id[7..19]));
    room.ask.post("/images/several:1/tag?repo=docker.io/library/several").await.expect(201);
    assert_eq!(tags(room, &id).await, json!(["other/several:1", "several:1", "several:latest"]).sorted());
    room.ask.delete("/images/several").await.expect(200);
    room.ask.delete(&format!("/images/{id}?force=1")).await.expect(200);
    assert_eq!(row(room, &id).await, None);
}

/// Engines do not guarantee the order of tags.
trait Sorted {
    fn sorted(self) -> Value;
}

impl Sorted for Value {
    fn sorted(mut self) -> Value {
        if let Some(values) = self.as_array_mut() {
            values.sort_by_key(ToString::to_string);
        }
        self
    }
}
