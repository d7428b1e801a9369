//! The contract of a container engine that the mirror relies on, as tests for the fake and for a real engine.
//!
//! ```text
//! rdd_docker::contract!(make_subject);                 // a test of each rule, each with an engine of its own
//! rdd_docker::suite::keep_all(&MySubject::new());      // all rules, one after the other, with one engine
//! ```

#![allow(clippy::unwrap_used, reason = "these are tests, though they are compiled as a library")]

pub mod ask;
pub mod containers;
pub mod events;
pub mod images;
pub mod logs;
pub mod manners;
pub mod volumes;

use std::{future::Future, path::PathBuf, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};

use ask::Ask;

/// An engine under test. Rules create objects under their own names and remove them.
pub trait Subject: Sync {
    /// The path of the socket.
    fn socket(&self) -> PathBuf;

    /// A tar archive of a root folder with `sh`, `sleep`, `true` and `false` in `/bin`.
    fn archive(&self) -> Bytes;
}

/// Generates one test per rule of the contract. The argument is the name of a function that creates a subject.
#[macro_export]
macro_rules! contract {
    ($subject:ident) => {
        $crate::contract!(@rules tests $subject);
    };
    (@rules $how:ident $subject:tt) => {
        $crate::contract!(@$how $subject;
            manners: the_engine_says_its_newest_version_and_speaks_the_oldest_and_the_newest,
            manners: the_engine_says_how_late_it_is,
            manners: what_is_not_there_is_a_404_with_a_message,
            containers: a_container_goes_through_its_states_and_list_and_inspect_agree,
            containers: what_fits_no_state_is_refused_and_what_is_done_already_is_not_an_error,
            containers: a_container_that_ends_by_itself_leaves_its_code,
            containers: a_container_that_cannot_be_started_says_why,
            containers: a_container_is_found_by_name_and_renamed,
            containers: removing_needs_force_while_it_runs_and_gone_is_gone,
            images: an_image_goes_with_its_last_tag,
            images: an_image_loses_its_tag_to_another_without_a_word,
            images: an_image_in_use_stays_until_its_container_is_gone,
            images: an_image_under_several_names_cannot_go_by_its_id,
            volumes: a_volume_is_made_once_and_goes_unless_it_is_in_use,
            events: every_change_of_a_container_is_told_in_order,
            events: what_is_told_can_be_seen,
            events: what_happened_since_a_time_is_told_again_and_then_what_happens,
            events: filters_keep_others_out_and_until_ends_the_stream,
            events: only_the_last_256_events_are_remembered,
            logs: both_streams_are_told_apart_and_can_be_chosen,
            logs: the_tail_and_what_is_newer_than_a_time_can_be_asked_for,
            logs: a_terminal_has_one_raw_stream,
            logs: a_log_that_is_followed_ends_with_its_container,
        );
    };
    (@tests $subject:ident; $($module:ident: $name:ident,)*) => {
        $(#[test] fn $name() {
            let subject = $subject();
            $crate::suite::run(stringify!($name), $crate::suite::$module::$name(&$crate::suite::Room::of(&subject)));
        })*
    };
    (@all ($keep:ident, $room:expr); $($module:ident: $name:ident,)*) => {
        $($keep(stringify!($name), Box::pin($crate::suite::$module::$name($room)));)*
    };
}

/// Runs every rule of the contract in sequence.
///
/// # Panics
/// When a rule fails.
pub fn keep_all(subject: &dyn Subject) {
    let mut broken: Vec<&'static str> = Vec::new();
    let mut keep = |name: &'static str, rule: std::pin::Pin<Box<dyn Future<Output = ()> + '_>>| {
        // Run the other rules too: all differences of an engine are best seen at once.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(name, rule))).is_err() {
            broken.push(name);
        }
    };
    let room = Room::of(subject);
    contract!(@rules all (keep, &room));
    assert!(broken.is_empty(), "these rules are broken: {broken:#?}");
}

/// The timeout of one rule.
const RULE_TAKES: Duration = Duration::from_secs(120);

/// Runs one rule.
///
/// # Panics
/// When the rule fails or times out.
#[allow(clippy::print_stderr, reason = "the captured output of a failing test says which rule it was")]
pub fn run(name: &str, rule: impl Future<Output = ()>) {
    eprintln!("rule: {name}");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(RULE_TAKES, rule).await });
    assert!(ended.is_ok(), "{name} takes longer than {RULE_TAKES:?}");
}

/// The test context of a rule.
#[derive(Debug)]
pub struct Room {
    /// The client.
    pub ask: Ask,
    archive: Bytes,
}

impl Room {
    /// The test context for a subject.
    pub fn of(subject: &dyn Subject) -> Self {
        Self { ask: Ask::new(&subject.socket()), archive: subject.archive() }
    }

    /// Imports an image with this tag, or untagged if it is empty; returns its ID.
    pub async fn import(&self, tag: &str) -> String {
        let (repository, tag) = tag.split_once(':').unwrap_or((tag, ""));
        let path = format!("/images/create?fromSrc=-&repo={repository}&tag={tag}");
        let answer = self.ask.post_tar(&path, &self.archive).await.expect(200);
        answer.json["status"].as_str().expect("the image's ID").to_owned()
    }

    /// Creates a container with this command.
    pub async fn create(&self, name: &str, image: &str, command: &[&str]) -> String {
        self.create_with(name, image, command, json!({})).await
    }

    /// Creates a container with more configuration.
    pub async fn create_with(&self, name: &str, image: &str, command: &[&str], more: Value) -> String {
        // The contract needs no network. A process without signal handlers ignores the usual stop signal as PID 1.
        let mut body =
            json!({"Image": image, "Cmd": command, "StopSignal": "SIGKILL", "HostConfig": {"NetworkMode": "none"}});
        for (key, value) in more.as_object().into_iter().flatten() {
            match (body[key].as_object_mut(), value) {
                (Some(object), Value::Object(more)) => object.extend(more.clone()),
                _ => body[key] = value.clone(),
            }
        }
        let answer = self.ask.post_json(&format!("/containers/create?name={name}"), &body).await.expect(201);
        answer.json["Id"].as_str().expect("the container's ID").to_owned()
    }

    /// Creates and starts a container that sleeps.
    pub async fn sleeper(&self, name: &str, image: &str) -> String {
        let id = self.create(name, image, &["sleep", "600"]).await;
        self.ask.post(&format!("/containers/{id}/start")).await.expect(204);
        id
    }

    /// Inspects a container.
    pub async fn container(&self, id: &str) -> Value {
        self.ask.get(&format!("/containers/{id}/json")).await.expect(200).json
    }

    /// The status of a container.
    pub async fn status(&self, id: &str) -> String {
        self.container(id).await["State"]["Status"].as_str().unwrap_or_default().to_owned()
    }

    /// Removes containers and images if they exist.
    pub async fn clear(&self, containers: &[&str], images: &[&str]) {
        for id in containers {
            self.ask.delete(&format!("/containers/{id}?force=1&v=1")).await;
        }
        for reference in images {
            self.ask.delete(&format!("/images/{reference}?force=1")).await;
        }
    }

    /// A time on the engine's clock that is not after any later event.
    pub async fn now(&self) -> String {
        let info = self.ask.get("/info").await.expect(200);
        let time: jiff::Timestamp = info.json["SystemTime"].as_str().unwrap().parse().unwrap();
        format!("{}.{:09}", time.as_second(), time.subsec_nanosecond())
    }

    /// Opens the stream of events of these kinds from a time on.
    pub async fn events(&self, since: &str, kinds: &[&str]) -> ask::Stream {
        self.ask.stream(&format!("/events?since={since}&filters={}", filter("type", kinds))).await
    }
}

/// A percent-encoded filter.
fn filter(name: &str, values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("%22{value}%22%3Atrue")).collect();
    format!("%7B%22{name}%22%3A%7B{}%7D%7D", quoted.join("%2C"))
}
