//! The queue of engine things to synchronize: like a controller's queue, but of things instead of objects.
//!
//! It outlives connections: requests that arrive without a connection wait here. Its size is bounded by the number of things in the
//! engine and the mirror.

use std::{
    collections::HashSet,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_runtime::queue::{self, Want};
use rdd_stdx::backoff::Backoff;
use tokio::sync::Notify;

/// The maximum is short, because the engine does not report every change that a failed image waits for.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(30));

/// A thing to synchronize.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// The container with this ID, and its mirror.
    Container(String),
    /// The image with this ID, and its mirrors; or the reference of a pull.
    Image(String),
    /// The volume with this name, and its mirror.
    Volume(String),
    /// The container namespace of the engine.
    Namespace,
    /// A mirror of this kind and name without the name of its thing.
    Nameless(Kind, String),
}

/// A kind whose mirrors can lack the name of their thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Image.
    Image,
    /// Volume.
    Volume,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(id) => write!(f, "container {id}"),
            Self::Image(id) => write!(f, "image {id}"),
            Self::Volume(name) => write!(f, "volume {name}"),
            Self::Namespace => write!(f, "container namespace {}", rdd_types::containers::MOBY),
            Self::Nameless(Kind::Image, name) => write!(f, "Image {name}"),
            Self::Nameless(Kind::Volume, name) => write!(f, "Volume {name}"),
        }
    }
}

/// The scope of a synchronization. `Engine` includes `Object`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// The object changed; the engine is asked only if needed.
    Object,
    /// The thing changed in the engine.
    Engine,
}

impl Want for Look {
    const WHOLE: Self = Self::Engine;
}

/// The outcome of a synchronization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It succeeded.
    Done,
    /// It failed: retry with backoff.
    Failed,
    /// Another thing uses this one: retry with backoff, or when another thing was deleted.
    InUse,
}

/// The queue of a link.
#[derive(Debug)]
pub(super) struct Queue {
    things: queue::Queue<Item, Look>,
    notes: Mutex<Notes>,
    attempted: Notify,
}

/// Additional state of items.
#[derive(Debug, Default)]
struct Notes {
    /// Items that another thing uses.
    in_use: HashSet<Item>,
    /// Items of [`Queue::add_all`] that have not been attempted yet.
    unseen: HashSet<Item>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { things: queue::Queue::new(BACKOFF), notes: Mutex::default(), attempted: Notify::new() }
    }
}

impl Queue {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // Nothing that can panic runs under the lock.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item for immediate synchronization, also if it is in backoff.
    pub(super) fn add(&self, item: Item, look: Look) {
        self.things.add(item, look);
    }

    /// Adds items with the scope [`Look::Engine`]. [`attempted`](Self::attempted) returns when all of them were attempted.
    pub(super) fn add_all(&self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.notes().unseen.insert(item.clone());
            self.add(item, Look::Engine);
        }
        self.attempted.notify_waiters();
    }

    /// Returns when every item of [`add_all`](Self::add_all) has been attempted once, successfully or not.
    pub(super) async fn attempted(&self) {
        loop {
            let notified = self.attempted.notified();
            if self.notes().unseen.is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// Adds all items that were in use, because another thing was deleted.
    pub(super) fn retry_in_use(&self) {
        let waiting = std::mem::take(&mut self.notes().in_use);
        waiting.into_iter().for_each(|item| self.add(item, Look::Engine));
    }

    /// Waits for the next item. The caller must give it back by [`done`](Self::done).
    pub(super) async fn next(&self) -> (Item, Look) {
        self.things.next().await
    }

    /// Gives an item back. Returns how often in a row it has failed.
    pub(super) fn done(&self, item: &Item, outcome: Outcome) -> u32 {
        // The notes change while the item still counts as running, so a concurrent `add` is not lost.
        {
            let mut notes = self.notes();
            notes.unseen.remove(item);
            match outcome {
                Outcome::InUse => notes.in_use.insert(item.clone()),
                Outcome::Done | Outcome::Failed => notes.in_use.remove(item),
            };
        }
        let outcome = match outcome {
            Outcome::Done => queue::Outcome::Done(None),
            Outcome::Failed | Outcome::InUse => queue::Outcome::Failed,
        };
        let (failures, _) = self.things.done(item, outcome);
        self.attempted.notify_waiters();
        failures
    }

    /// Puts back the items that workers had, after these workers died.
    pub(super) fn recover(&self) {
        self.things.recover();
        self.notes().unseen.clear();
    }

    /// Removes everything, because there is no engine any more.
    pub(super) fn clear(&self) {
        self.things.clear();
        *self.notes() = Notes::default();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::Instant;

    use super::*;

    fn container(id: &str) -> Item {
        Item::Container(id.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_thing_is_looked_at_by_one_and_never_forgotten() {
        let queue = Queue::default();
        queue.add(container("a"), Look::Object);
        queue.add(container("a"), Look::Engine);
        queue.add(container("b"), Look::Object);
        assert_eq!(queue.next().await, (container("a"), Look::Engine));
        queue.add(container("a"), Look::Object);
        assert_eq!(queue.next().await, (container("b"), Look::Object));
        assert!(queue.next().now_or_never().is_none(), "a is being looked at");
        queue.done(&container("a"), Outcome::Done);
        assert_eq!(queue.next().await, (container("a"), Look::Object));
        queue.done(&container("a"), Outcome::Done);
        assert!(queue.next().now_or_never().is_none());
        queue.recover();
        assert_eq!(queue.next().await, (container("b"), Look::Engine), "whoever looked at b is gone");
    }

    // Finding 295-I2
    #[tokio::test(start_paused = true)]
    async fn what_fails_waits_longer_and_longer_while_others_go_on() {
        let queue = Queue::default();
        let stuck = Item::Image("sha256:1".to_owned());
        queue.add(stuck.clone(), Look::Engine);
        let began = Instant::now();
        for failure in 1..=20 {
            assert_eq!(queue.next().await.0, stuck);
            assert_eq!(queue.done(&stuck, Outcome::InUse), failure);
            queue.add(Item::Volume("v".to_owned()), Look::Object);
            assert_eq!(queue.next().now_or_never().map(|(item, _)| item), Some(Item::Volume("v".to_owned())));
            queue.done(&Item::Volume("v".to_owned()), Outcome::Done);
        }
        assert!(began.elapsed() > Duration::from_mins(3) && began.elapsed() < Duration::from_mins(10));
        queue.retry_in_use();
        assert_eq!(queue.next().now_or_never(), Some((stuck.clone(), Look::Engine)), "something has gone");
        assert_eq!(queue.done(&stuck, Outcome::Done), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_is_over_when_all_had_their_look_well_or_not() {
        let queue = Queue::default();
        queue.attempted().await;
        queue.add_all([container("a"), container("b")]);
        assert!(queue.attempted().now_or_never().is_none());
        let (first, _) = queue.next().await;
        queue.done(&first, Outcome::Failed);
        assert!(queue.attempted().now_or_never().is_none());
        let (second, _) = queue.next().await;
        assert_ne!(first, second);
        queue.done(&second, Outcome::Done);
        queue.attempted().await;
        assert_eq!(queue.next().await.0, first, "what failed is tried again");
    }
}
