//! The contract of container logs.

use bytes::Bytes;
use serde_json::json;

use super::Room;

/// The frames of a log: stream number and text.
fn frames(mut bytes: &[u8]) -> Vec<(u8, String)> {
    let mut frames = Vec::new();
    while let [stream, 0, 0, 0, a, b, c, d, rest @ ..] = bytes {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        frames.push((*stream, String::from_utf8_lossy(&rest[..length]).into_owned()));
        bytes = &rest[length..];
    }
    assert_eq!(bytes, b"", "a frame that is cut off");
    frames
}

/// Creates a container that wrote this and exited.
async fn written(room: &Room, name: &str, script: &str) -> String {
    room.import(&format!("{name}:1")).await;
    let now = room.now().await;
    let id = room.create(name, &format!("{name}:1"), &["sh", "-c", script]).await;
    room.ask.post(&format!("/containers/{id}/start")).await.expect(204);
    room.events(&now, &["container"]).await.until(&id, "die").await;
    id
}

async fn log(room: &Room, id: &str, query: &str) -> Bytes {
    room.ask.get(&format!("/containers/{id}/logs?{query}")).await.expect(200).bytes
}

pub async fn both_streams_are_told_apart_and_can_be_chosen(room: &Room) {
    let id = written(room, "streams", "echo out; echo err >&2; exit 0").await;
    let mut both = frames(&log(room, &id, "stdout=1&stderr=1").await);
    // stdout and stderr are two pipes, so the order between them is random.
    both.sort();
    assert_eq!(both, [(1, "out\n".to_owned()), (2, "err\n".to_owned())]);
    assert_eq!(frames(&log(room, &id, "stdout=1").await), [(1, "out\n".to_owned())]);
    assert_eq!(frames(&log(room, &id, "stderr=1").await), [(2, "err\n".to_owned())]);
    let none = room.ask.get(&format!("/containers/{id}/logs")).await.expect(400);
    assert_eq!(none.message(), "Bad parameters: you must choose at least one stream");
    room.clear(&[&id], &["streams:1"]).await;
}

pub async fn the_tail_and_what_is_newer_than_a_time_can_be_asked_for(room: &Room) {
    let id = written(room, "tail", "echo one; echo two; echo three; exit 0").await;
    let texts = async |query: &str| -> Vec<String> {
        let bytes = log(room, &id, &format!("stdout=1&stderr=1&{query}")).await;
        frames(&bytes).into_iter().map(|(_, text)| text).collect()
    };
    assert_eq!(texts("tail=2").await, ["two\n", "three\n"]);
    assert_eq!(texts("tail=all").await.len(), 3);
    assert_eq!(texts("tail=0").await.len(), 0);
    assert_eq!(texts("since=1").await.len(), 3);
    assert_eq!(texts(&format!("since={}", room.now().await)).await.len(), 0);
    let stamped = texts("timestamps=1&tail=1").await.remove(0);
    let (time, text) = stamped.split_once(' ').unwrap();
    time.parse::<jiff::Timestamp>().unwrap();
    assert_eq!(text, "three\n");
    room.clear(&[&id], &["tail:1"]).await;
}

pub async fn a_terminal_has_one_raw_stream(room: &Room) {
    room.import("raw:1").await;
    let now = room.now().await;
    let script = ["sh", "-c", "echo out; echo err >&2; exit 0"];
    let id = room.create_with("raw", "raw:1", &script, json!({"Tty": true})).await;
    room.ask.post(&format!("/containers/{id}/start")).await.expect(204);
    room.events(&now, &["container"]).await.until(&id, "die").await;
    assert_eq!(&log(room, &id, "stdout=1&stderr=1").await[..], b"out\r\nerr\r\n");
    assert_eq!(room.container(&id).await["Config"]["Tty"], true);
    room.clear(&[&id], &["raw:1"]).await;
}

pub async fn a_log_that_is_followed_ends_with_its_container(room: &Room) {
    room.import("follow:1").await;
    let id = room.create("follow", "follow:1", &["sh", "-c", "echo out; exec sleep 600"]).await;
    room.ask.post(&format!("/containers/{id}/start")).await.expect(204);
    let followed = room.ask.stream(&format!("/containers/{id}/logs?stdout=1&stderr=1&follow=1")).await;
    let read = followed.rest();
    let (bytes, killed) = tokio::join!(read, room.ask.post_when_written(&id));
    killed.expect(204);
    assert_eq!(frames(&bytes), [(1, "out\n".to_owned())]);
    room.clear(&[&id], &["follow:1"]).await;
}

impl super::ask::Ask {
    /// Kills a container once its log is not empty.
    async fn post_when_written(&self, id: &str) -> super::ask::Answer {
        loop {
            let log = self.get(&format!("/containers/{id}/logs?stdout=1")).await.expect(200);
            if !log.bytes.is_empty() {
                return self.post(&format!("/containers/{id}/kill")).await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}
