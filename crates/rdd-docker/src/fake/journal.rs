//! The fake engine's event journal: the latest events for late clients, live events for listeners.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// How many events the engine remembers, like dockerd. Clients that ask for older events do not get them, without any notice.
pub const REMEMBERED: usize = 256;
/// How many events may be queued for one listener. A slower listener loses the oldest, without any notice.
const WAITING: usize = 1024;

/// An event of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `container`, `image` or `volume`.
    pub kind: &'static str,
    /// The action.
    pub action: &'static str,
    /// The object's ID, or the volume's name.
    pub id: String,
    /// The other attributes.
    pub attributes: BTreeMap<String, String>,
    /// The time on the engine's clock.
    pub at: Timestamp,
}

impl Event {
    /// The event in the format of this minor API version.
    pub(super) fn to_wire(&self, minor: u32) -> Value {
        let mut wire = json!({
            "Type": self.kind, "Action": self.action, "scope": "local",
            "Actor": {"ID": self.id, "Attributes": self.attributes},
            "time": self.at.as_second(), "timeNano": nanoseconds(self.at),
        });
        // Versions before 1.52 have the old field names too, but not for volumes.
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

/// A message to the listeners.
#[derive(Debug, Clone)]
pub(super) enum Heard {
    Event(Arc<Event>),
    /// The stream ends cleanly.
    End,
    /// The connection breaks.
    Break,
}

/// The remembered events and the listeners.
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
        // Sending fails without listeners, which is fine.
        let _ = self.listeners.send(heard);
    }

    /// The remembered events since a time, and a receiver of live ones, without a gap in between.
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
