//! The connection to the engine: synchronizes everything, then follows events until the engine or the App ends it.

use std::{convert::Infallible, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use rdd_docker::{Engine, EngineTime, Event, EventKind, Skew};
use rdd_runtime::{Context, Error};
use rdd_stdx::{backoff::Backoff, chain::Chain, task::panic_message};
use rdd_types::app::App;
use tokio::time::Instant;

use super::{
    Setup, app_key,
    desk::Desk,
    link::{Link, Live, Phase},
    mirror::Mirrors,
    plan::Publication,
    queue::{Item, Look},
    tags::Tags,
    work::{self, Work},
};

/// The backoff between connections.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(15));
/// After a connection of this duration, the backoff starts again.
const STABLE: Duration = Duration::from_secs(30);
/// The clock skew from which on a warning is logged.
const SKEW_MAX: Duration = Duration::from_secs(5);
/// The interval of pings, in case a dead connection is not reported by the socket.
const PING_EVERY: Duration = Duration::from_secs(30);
/// The interval of complete synchronizations, in case an event was missed.
const RESYNC_EVERY: Duration = Duration::from_mins(15);

/// Connects while a namespace is wanted, and reconnects with backoff.
pub(super) async fn run(link: &Link, setup: &Setup, cx: Context) -> Result<(), Error> {
    // However this function ends, the phase must not stay `Live`.
    let _hung_up = HangUp { link, cx: &cx };
    let mirrors = Mirrors::of(&cx);
    mirrors.synced().await;
    cx.cached::<App>().synced().await;
    let mut wanted = link.wanted();
    let mut delays = BACKOFF.delays();
    loop {
        let namespace = wanted.borrow_and_update().clone();
        let Some(namespace) = namespace else {
            rest(link, setup, &mut wanted, &mirrors, &cx).await?;
            delays.reset();
            continue;
        };
        let began = Instant::now();
        let session = AssertUnwindSafe(session(link, setup, &namespace, &cx)).catch_unwind();
        let ended = tokio::select! {
            ended = session => Some(ended),
            _ = wanted.wait_for(|now| now.as_ref() != Some(&namespace)) => None,
        };
        // The session is over: the things that its tasks had go back into the queue.
        link.queue().recover();
        let why = match ended {
            None => continue,
            Some(Ok(Err(why))) => why,
            Some(Ok(Ok(never))) => match never {},
            Some(Err(panic)) => format!("the watcher panicked: {}", panic_message(&*panic)),
        };
        if began.elapsed() > STABLE {
            delays.reset();
        }
        let delay = delays.advance();
        tracing::warn!(error = why, ?delay, "no connection to the engine; it is tried again");
        link.set_phase(Phase::Connecting { error: Some(why) });
        cx.wake(app_key());
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            _ = wanted.wait_for(|now| now.as_ref() != Some(&namespace)) => {}
        }
    }
}

/// Sets the phase to `Off` and enqueues the App when the watcher ends.
struct HangUp<'a> {
    link: &'a Link,
    cx: &'a Context,
}

impl Drop for HangUp<'_> {
    fn drop(&mut self) {
        self.link.set_phase(Phase::Off);
        self.cx.wake(app_key());
    }
}

/// Runs while no connection is wanted: removes mirrors and a publication that belong to no App.
async fn rest(
    link: &Link,
    setup: &Setup,
    wanted: &mut tokio::sync::watch::Receiver<Option<String>>,
    mirrors: &Mirrors,
    cx: &Context,
) -> Result<(), Error> {
    // Requests of an engine that is gone are void.
    link.queue().clear();
    link.set_phase(Phase::Off);
    cx.wake(app_key());
    loop {
        let app = cx.cached::<App>().get(&app_key());
        let home = app.as_ref().map(|app| app.spec.namespace.as_str());
        // Without an App, no reconcile runs. This also removes a publication of a process that was killed.
        if app.is_none() && link.standing().1 != Publication::Withdrawn {
            match setup.publisher.withdraw().await {
                Ok(()) => link.published(false),
                Err(error) => {
                    tracing::warn!(error = %Chain(&*error), "could not withdraw what was published of the engine");
                }
            }
        }
        let cleared = mirrors.clear(cx, |namespace| home != Some(namespace)).await;
        let again = match cleared {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "mirrors without an App cannot be removed yet");
                Some(BACKOFF.longest)
            }
        };
        tokio::select! {
            _ = wanted.wait_for(Option::is_some) => return Ok(()),
            () = link.orphaned() => {}
            () = tokio::time::sleep(again.unwrap_or(BACKOFF.longest)), if again.is_some() => {}
        }
    }
}

/// Runs one connection until it ends; returns why it ended.
async fn session(link: &Link, setup: &Setup, namespace: &str, cx: &Context) -> Result<Infallible, String> {
    if let Phase::Off = link.phase() {
        link.set_phase(Phase::Connecting { error: None });
        cx.wake(app_key());
    }
    let (engine, now) = cx.step("listen", listen(setup, cx)).await.map_err(|error| told(&error))?;
    // Subscribe to events before the first synchronization, so that no change is missed however long that takes. The stream starts at a
    // time of the engine's clock, because it may deliver its first event later than the engine answers.
    let mut events = engine.events(now).await.map_err(|error| Chain(&error).to_string())?;
    let (cx, link) = (cx.clone(), link.clone());
    let mirrors = Mirrors::of(&cx);
    let desk = Arc::new(Desk { engine, namespace: namespace.to_owned(), cx, link, mirrors, tags: Tags::default() });
    let mut work = Work::default();
    let mut looking = Some(Box::pin(everything(Arc::clone(&desk))));
    let mut ping = tokio::time::interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    let mut resync = Instant::now() + RESYNC_EVERY;
    loop {
        let queue = desk.link.queue();
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => route(&desk, event),
                Some(Err(error)) => return Err(Chain(&error).to_string()),
                None => return Err("the engine ended the stream of its events".to_owned()),
            },
            Some(ended) = work.next(), if !work.is_idle() => work.note(&desk, ended),
            (item, look) = queue.next(), if work.has_room() => work.begin(&desk, item, look),
            looked = async { looking.as_mut().expect("it is polled only if it is there").await }, if looking.is_some() => {
                looked.map_err(|error| told(&error))?;
                looking = None;
                resync = Instant::now() + RESYNC_EVERY;
                go_live(&desk);
            }
            _ = ping.tick() => desk.engine.ping().await.map_err(|error| Chain(&error).to_string())?,
            () = tokio::time::sleep_until(resync), if looking.is_none() => {
                looking = Some(Box::pin(everything(Arc::clone(&desk))));
            }
        }
    }
}

/// Connects, and reads the engine's time, from which on events are followed.
async fn listen(setup: &Setup, cx: &Context) -> Result<(Engine, EngineTime), Error> {
    let failed = |error| Error::because("failed to ping Docker", error);
    let engine = Engine::connect(&setup.socket, Arc::clone(&cx.clock)).await.map_err(failed)?;
    let now = engine.now().await.map_err(failed)?;
    tell_skew(engine.skew(now));
    Ok((engine, now))
}

async fn everything(desk: Arc<Desk>) -> Result<(), Error> {
    let looked = desk.cx.step("sync", work::everything(&desk)).await;
    looked.map_err(|error| Error::because("failed to perform initial sync", inner(error)))
}

/// The error without the name of the step, which does not help users.
fn inner(error: Error) -> Error {
    match error {
        Error::Step { source, .. } => *source,
        other => other,
    }
}

fn told(error: &Error) -> String {
    match error {
        Error::Step { source, .. } => Chain(source).to_string(),
        other => Chain(other).to_string(),
    }
}

fn go_live(desk: &Desk) {
    if desk.link.live().is_some() {
        return;
    }
    tracing::info!(version = %desk.engine.version(), "the container engine is mirrored");
    // The socket may have been recreated, so the publication is repeated.
    desk.link.unpublish();
    let live = Live { engine: desk.engine.clone(), namespace: desk.namespace.clone() };
    desk.link.set_phase(Phase::Live(Box::new(live)));
    desk.cx.wake(app_key());
}

/// Warns if the engine's clock and this machine's differ.
// Finding 295-D2
fn tell_skew(skew: Skew) {
    if skew.size() <= SKEW_MAX {
        return;
    }
    let direction = if matches!(skew, Skew::Ahead(_)) { "ahead" } else { "behind" };
    tracing::warn!(skew = ?skew.size(), direction, "the engine's clock and this machine's are apart");
}

/// Enqueues the thing that an event is about. Events that change nothing in a mirror are ignored.
fn route(desk: &Desk, event: Event) {
    let queue = desk.link.queue();
    let Event { kind, action, id, .. } = event;
    match (kind, action.as_str()) {
        (EventKind::Container, "create" | "start" | "stop" | "die" | "pause" | "unpause" | "restart" | "rename") => {
            queue.add(Item::Container(id), Look::Engine)
        }
        (EventKind::Container, "destroy") => {
            queue.add(Item::Container(id), Look::Engine);
            queue.retry_in_use();
        }
        (EventKind::Image, "pull" | "import" | "load" | "tag" | "untag" | "delete") => {
            queue.add(Item::Image(id), Look::Engine);
        }
        (EventKind::Volume, "create" | "destroy") => queue.add(Item::Volume(id), Look::Engine),
        _ => {}
    }
}
