//! Which things of the engine want to be looked at: a queue as controllers have it, of things instead of objects.
//!
//! It outlives connections: what is asked while there is none waits here. It holds no more than the engine and its mirror have things.

use std::{
    collections::HashSet,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_runtime::queue::{self, Want};
use rdd_stdx::backoff::Backoff;
use tokio::sync::Notify;

/// Not longer: what an image waits for is not always told.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(30));

/// A thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Item {
    /// The container of this ID, and its mirror.
    Container(String),
    /// The image of this ID, and its mirrors; for a pull, the reference that was pulled.
    Image(String),
    /// The volume of this name, and its mirror.
    Volume(String),
    /// The one namespace of the engine.
    Namespace,
    /// A mirror of this kind and name that does not say what it stands for.
    Nameless(Kind, String),
}

/// A kind that can be without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    /// An Image.
    Image,
    /// A Volume.
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

/// Where to look. The larger includes the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Look {
    /// The object changed; the engine is asked only if that is needed.
    Object,
    /// The thing changed.
    Engine,
}

impl Want for Look {
    const WHOLE: Self = Self::Engine;
}

/// What came of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All is as it should be.
    Done,
    /// Try again later.
    Failed,
    /// Something else has to go first: try again later, or when it has.
    InUse,
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    things: queue::Queue<Item, Look>,
    notes: Mutex<Notes>,
    attempted: Notify,
}

/// What is known of things beside that they are in the queue.
#[derive(Debug, Default)]
struct Notes {
    /// Something else has to go first.
    in_use: HashSet<Item>,
    /// What nobody has looked at since it was put here.
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

    /// This thing wants a look now, also if it waits after a failure.
    pub(super) fn add(&self, item: Item, look: Look) {
        self.things.add(item, look);
    }

    /// All of these want a look at the engine; [`attempted`](Self::attempted) tells when all have had one.
    pub(super) fn add_all(&self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.notes().unseen.insert(item.clone());
            self.add(item, Look::Engine);
        }
        self.attempted.notify_waiters();
    }

    /// Returns when everything that [`add_all`](Self::add_all) put in was looked at once, well or not.
    pub(super) async fn attempted(&self) {
        loop {
            let notified = self.attempted.notified();
            if self.notes().unseen.is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// What waits for something else to go is looked at again: something has gone.
    pub(super) fn retry_in_use(&self) {
        let waiting = std::mem::take(&mut self.notes().in_use);
        waiting.into_iter().for_each(|item| self.add(item, Look::Engine));
    }

    /// The next thing, as soon as there is one. It must be given back by [`done`](Self::done).
    pub(super) async fn next(&self) -> (Item, Look) {
        self.things.next().await
    }

    /// Nobody looks at this thing any more. Returns how often in a row it has failed now.
    pub(super) fn done(&self, item: &Item, outcome: Outcome) -> u32 {
        // Noted while the thing still counts as being looked at: whoever asks for another look in between is heard.
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

    /// Whoever looked is gone: what was taken is handed out anew.
    pub(super) fn recover(&self) {
        self.things.recover();
        self.notes().unseen.clear();
    }

    /// There is no engine any more: what was asked of it is void.
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
