//! Kubernetes events that report to users what a controller did; publishing never delays the controller.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use rdd_stdx::chain::Chain;
use tokio::sync::{Mutex, mpsc};

use crate::{Error, Kind, conditions};

/// How many events may wait to be written. Further ones are dropped: events only inform users, and nothing depends on them.
const WAITING_MAX: usize = 256;
/// The maximum length of a note in the API, in bytes. [`Events::publish`] assumes four bytes per character when it truncates.
const NOTE_BYTES_MAX: usize = 1024;

/// The type of an event: Normal or Warning.
pub type Type = EventType;

/// Publishes the events of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<(ObjectReference, Event)>,
    full: Arc<AtomicBool>,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("room", &self.sender.capacity()).finish()
    }
}

/// The task that writes published events to the API.
#[derive(Clone)]
pub(crate) struct Written {
    waiting: Arc<Mutex<mpsc::Receiver<(ObjectReference, Event)>>>,
    recorder: Recorder,
}

/// Creates the publisher of `<name>-controller` and the task that writes its events.
pub(crate) fn of(client: Client, name: &str) -> (Events, Written) {
    let (sender, waiting) = mpsc::channel(WAITING_MAX);
    let controller = format!("{name}-controller");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let reporter = Reporter { instance: Some(format!("{controller}-{host}")), controller };
    let written = Written { waiting: Arc::new(Mutex::new(waiting)), recorder: Recorder::new(client, reporter) };
    (Events { sender, full: Arc::default() }, written)
}

impl Events {
    /// Publishes an event about `object`. Returns at once; if too many events wait, this one is dropped.
    pub fn publish<K: Kind>(&self, object: &K, type_: Type, reason: &str, action: &str, note: &str) {
        let note =
            if note.len() > NOTE_BYTES_MAX { conditions::cut_to(note, NOTE_BYTES_MAX / 4) } else { note.to_owned() };
        let (reason, action) = (reason.to_owned(), action.to_owned());
        let event = Event { type_, reason, action, note: Some(note), secondary: None };
        match self.sender.try_send((object.object_ref(&()), event)) {
            Ok(()) => self.full.store(false, Ordering::Relaxed),
            // Log the first dropped event only, until there is room again.
            Err(_) if self.full.swap(true, Ordering::Relaxed) => {}
            Err(_) => tracing::warn!("more events than can be written; some are left out"),
        }
    }

    /// Publishes an event of type Normal.
    pub fn normal<K: Kind>(&self, object: &K, reason: &str, action: &str, note: &str) {
        self.publish(object, EventType::Normal, reason, action, note);
    }

    /// Publishes an event of type Warning.
    pub fn warning<K: Kind>(&self, object: &K, reason: &str, action: &str, note: &str) {
        self.publish(object, EventType::Warning, reason, action, note);
    }

    /// Publishes that a condition of `object` changed.
    pub fn condition<K: Kind>(&self, object: &K, kind: &str, message: &str) {
        self.normal(object, "ConditionChanged", kind, message);
    }
}

impl Written {
    /// Writes events until the last publisher is dropped. An event that cannot be written is dropped.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let mut waiting = self.waiting.lock().await;
        while let Some((object, event)) = waiting.recv().await {
            if let Err(error) = self.recorder.publish(&event, &object).await {
                tracing::debug!(error = %Chain(&error), reason = event.reason, "an event could not be written");
            }
        }
        Ok(())
    }
}
