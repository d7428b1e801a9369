//! Watches a single object until it is in the wanted state, across lost connections and restarts of the daemon.

use std::time::{Duration, Instant};

use rdd_client::http::Client;
use rdd_stdx::backoff::Backoff;
use serde::Deserialize;
use serde_json::Value;

use super::{
    api::{self, Api},
    interrupt::Interrupt,
    names,
};
use crate::{
    report::{Failure, Outcome},
    service::{ControlPlane, deadline::Deadline, readiness, state},
};

/// The delays between reconnections.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
/// How long the daemon may be down before the wait fails: a restart takes less.
const DOWN_BOUND: Duration = Duration::from_secs(30);
/// The timeout that stands for none; timers need a finite duration.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// The timeout of a list call and of the start of a watch; both are retried.
const CALL_BOUND: Duration = Duration::from_secs(15);

/// The object to watch.
#[derive(Debug, Clone)]
pub struct Target {
    /// The API path of the collection.
    pub collection: String,
    /// The object's name.
    pub name: String,
}

/// Receives the states of a watched object.
pub trait Observer {
    /// The result once the object is in the wanted state.
    type Found;

    /// Receives the current state; `None` if the object does not exist. Returns the result if this is the wanted state.
    ///
    /// May be called again with an unchanged state. An error ends the wait.
    fn see(&mut self, object: Option<&Value>) -> Outcome<Option<Self::Found>>;

    /// The daemon does not answer; the connection is retried.
    fn lost(&mut self);
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<T> {
    /// The object is in the wanted state.
    Found(T),
    /// The deadline passed.
    Deadline,
    /// The user interrupted the wait.
    Interrupted,
}

/// Watches the object until the observer has its result, the deadline passes, or the user interrupts.
///
/// # Flow
///
/// Lists the object, shows it to the observer, and watches from the list's version; starts over when the connection or the history is lost.
///
/// # Guarantees
///
/// A wanted state that has been seen takes precedence over a deadline or an interrupt at the same moment.
///
/// # Errors
///
/// The observer's error, or a failure if the daemon was stopped and does not come back.
pub fn follow<O: Observer>(
    api: &Api<'_>,
    target: &Target,
    deadline: Deadline,
    interrupt: &mut Interrupt,
    observer: &mut O,
) -> Outcome<End<O::Found>> {
    api.block_on(async {
        tokio::select! {
            // The order is the priority: a wanted state counts, whatever else has happened.
            biased;
            found = watch(api.plane, target, observer) => found.map(End::Found),
            () = interrupt.came() => Ok(End::Interrupted),
            () = tokio::time::sleep(deadline.left_up_to(FOREVER)) => Ok(End::Deadline),
        }
    })
}

async fn watch<O: Observer>(plane: &ControlPlane<'_>, target: &Target, observer: &mut O) -> Outcome<O::Found> {
    let mut delays = BACKOFF.delays();
    let mut down_since: Option<Instant> = None;
    loop {
        let (mut heard, began) = (false, Instant::now());
        if let Some(found) = watch_once(plane, target, observer, &mut heard).await? {
            return Ok(found);
        }
        if heard {
            down_since = None;
            // Only a connection that lasted resets the backoff, so that a server that closes at once is not flooded.
            if began.elapsed() > BACKOFF.longest {
                delays.reset();
            }
        } else {
            observer.lost();
            let since = *down_since.get_or_insert_with(Instant::now);
            if since.elapsed() > DOWN_BOUND && !state::daemon(plane.paths())?.is_running() {
                let message = format!("{:?} control plane stopped in the meantime", plane.name());
                return Err(Failure::message(message).hint("start it again; what was asked for is stored: rdd start"));
            }
        }
        tokio::time::sleep(delays.advance()).await;
    }
}

/// Lists and watches over one connection. `heard` is set once the daemon has answered; errors of the connection only lead to a retry.
async fn watch_once<O: Observer>(
    plane: &ControlPlane<'_>,
    target: &Target,
    observer: &mut O,
    heard: &mut bool,
) -> Outcome<Option<O::Found>> {
    // Read again each time: a restarted daemon has a new token and may have another port.
    let Ok(client) = readiness::read_config(plane).map_err(drop).and_then(|text| api::client(&text).map_err(drop))
    else {
        return Ok(None);
    };
    let client = client.with_timeout(CALL_BOUND);
    let query = names::only(&target.name);
    let Ok(list) = api::get(&client, &format!("{}?{query}", target.collection)).await else { return Ok(None) };
    *heard = true;
    let object = list["items"].as_array().and_then(|items| items.first());
    if let Some(found) = observer.see(object)? {
        return Ok(Some(found));
    }
    let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    let path = format!("{}?{query}&watch=true&allowWatchBookmarks=true&resourceVersion={version}", target.collection);
    read_events(&client, &path, observer).await
}

async fn read_events<O: Observer>(client: &Client, path: &str, observer: &mut O) -> Outcome<Option<O::Found>> {
    let Ok(mut lines) = api::watch(client, path).await else { return Ok(None) };
    while let Ok(Some(line)) = lines.next().await {
        let object = match serde_json::from_slice::<Event>(&line) {
            Ok(Event { kind, object }) if matches!(kind.as_str(), "ADDED" | "MODIFIED") => Some(object),
            Ok(Event { kind, .. }) if kind == "DELETED" => None,
            Ok(Event { kind, .. }) if kind == "BOOKMARK" => continue,
            // The history was compacted, or this is not an event: a new list shows the current state.
            _ => return Ok(None),
        };
        if let Some(found) = observer.see(object.as_ref())? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}
