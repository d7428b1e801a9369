//! One object followed until it is as wanted: through lost connections, and through restarts of the daemon.

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

/// How soon a lost connection is made again, and how slow that gets.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));
/// A daemon that has been down for this long was stopped, not restarted.
const DOWN_BOUND: Duration = Duration::from_secs(30);
/// "Without end", for a clock that has one.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// How long the beginning of a call may take while others are tried again anyway.
const CALL_BOUND: Duration = Duration::from_secs(15);

/// Whose object it is.
#[derive(Debug, Clone)]
pub struct Target {
    /// The path of the objects of that kind.
    pub collection: String,
    /// The name of the one that is meant.
    pub name: String,
}

/// Looks at the object each time it may have changed.
pub trait Observer {
    /// What is known once it is as wanted.
    type Found;

    /// The object as it is now, `None` if there is none. It may be shown the same state again.
    fn see(&mut self, object: Option<&Value>) -> Outcome<Option<Self::Found>>;

    /// The daemon does not answer. It will be asked again.
    fn lost(&mut self);
}

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End<T> {
    /// It is as wanted.
    Found(T),
    /// The time was over first.
    Deadline,
    /// Somebody did not want to wait any longer.
    Interrupted,
}

/// Follows the object until the observer has what it wants, the time is over, or the user has had enough.
pub fn follow<O: Observer>(
    api: &Api<'_>,
    target: &Target,
    deadline: Deadline,
    interrupt: &mut Interrupt,
    observer: &mut O,
) -> Outcome<End<O::Found>> {
    api.block_on(async {
        tokio::select! {
            // In this order: a state that is as wanted counts, whatever else has happened.
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

/// One connection's worth. `heard` is set once the daemon has answered; errors of the connection are not ours to report.
async fn watch_once<O: Observer>(
    plane: &ControlPlane<'_>,
    target: &Target,
    observer: &mut O,
    heard: &mut bool,
) -> Outcome<Option<O::Found>> {
    // Read anew each time: a daemon that was restarted has other credentials, and perhaps another port.
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
            // History is over, or this is no watch: a new list shows how things are.
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
