//! What happened, in order: the last of it for those who ask late, all of it for those who listen.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// How many events the engine remembers, as dockerd does: who asks for older ones does not get them, and is not told.
pub const REMEMBERED: usize = 256;
/// How many events may wait for one listener. A slower one loses the oldest, and is not told.
const WAITING: usize = 1024;

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `container`, `image` or `volume`.
    pub kind: &'static str,
    /// What happened.
    pub action: &'static str,
    /// The object's ID, or the volume's name.
    pub id: String,
    /// What else is said of it.
    pub attributes: BTreeMap<String, String>,
    /// When, on the engine's clock.
    pub at: Timestamp,
}

impl Event {
    /// As it is sent to a client that speaks this minor version of API 1.
    pub(super) fn to_wire(&self, minor: u32) -> Value {
        let mut wire = json!({
            "Type": self.kind, "Action": self.action, "scope": "local",
            "Actor": {"ID": self.id, "Attributes": self.attributes},
            "time": self.at.as_second(), "timeNano": nanoseconds(self.at),
        });
        // Until 1.52 the old names were there as well, but not for volumes.
        if minor < 52 && self.kind != "volume" {
            wire["status"] = self.action.into();
            wire["id"] = self.id.clone().into();
            if let Some(image) = self.attributes.get("image").filter(|_| self.kind == "container") {
                wire["from"] = image.clone().into();
            }
        }
        wire
    }
}

fn nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

/// What a listener hears.
#[derive(Debug, Clone)]
pub(super) enum Heard {
    Event(Arc<Event>),
    /// The stream ends as if the engine had closed it.
    End,
    /// The stream ends in the middle of nowhere.
    Break,
}

/// The engine's memory of events, and its listeners.
#[derive(Debug)]
pub(super) struct Journal {
    remembered: VecDeque<Arc<Event>>,
    listeners: broadcast::Sender<Heard>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { remembered: VecDeque::new(), listeners: broadcast::channel(WAITING).0 }
    }
}

impl Journal {
    pub(super) fn write(&mut self, event: Event) {
        if self.remembered.len() == REMEMBERED {
            self.remembered.pop_front();
        }
        let event = Arc::new(event);
        self.remembered.push_back(Arc::clone(&event));
        self.tell(Heard::Event(event));
    }

    pub(super) fn tell(&self, heard: Heard) {
        // Nobody listening is fine.
        let _ = self.listeners.send(heard);
    }

    /// What is remembered since a time, and what happens from now on, without a gap between them.
    pub(super) fn since(&self, since: Option<Timestamp>) -> (Vec<Arc<Event>>, broadcast::Receiver<Heard>) {
        let past = since.map_or_else(Vec::new, |since| {
            self.remembered.iter().filter(|event| event.at >= since).map(Arc::clone).collect()
        });
        (past, self.listeners.subscribe())
    }

    pub(super) fn forget(&mut self) {
        self.remembered.clear();
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.remembered.iter()
    }
}
