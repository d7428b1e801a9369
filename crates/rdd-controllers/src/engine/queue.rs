//! Which things of the engine want to be looked at: each at most once, never two looks at the same one, none forgotten.
//!
//! It outlives connections: what is asked while there is none waits here. It holds no more than the engine and its mirror have things.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// The delay after the first failure; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// It never grows beyond this: what an image waits for is not always told.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

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
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
    attempted: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Item>,
    wanted: HashMap<Item, Look>,
    /// Being looked at, and what was asked for meanwhile.
    running: HashMap<Item, (Look, Option<Look>)>,
    delayed: BTreeMap<(Instant, u64), Item>,
    due: HashMap<Item, (Instant, u64)>,
    failures: HashMap<Item, u32>,
    in_use: HashSet<Item>,
    /// What nobody has looked at since it was put here.
    unseen: HashSet<Item>,
    count: u64,
}

/// The delay after this many failures in a row.
fn backoff(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_DELAY.saturating_mul(factor).min(LONGEST_DELAY)
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thing wants a look now, also if it waits after a failure.
    pub(super) fn add(&self, item: Item, look: Look) {
        self.lock().add(item, look);
        self.changed.notify_one();
    }

    /// All of these want a look at the engine; [`attempted`](Self::attempted) tells when all have had one.
    pub(super) fn add_all(&self, items: impl IntoIterator<Item = Item>) {
        let mut state = self.lock();
        for item in items {
            state.unseen.insert(item.clone());
            state.add(item, Look::Engine);
        }
        drop(state);
        self.changed.notify_one();
        self.attempted.notify_waiters();
    }

    /// Returns when everything that [`add_all`](Self::add_all) put in was looked at once, well or not.
    pub(super) async fn attempted(&self) {
        loop {
            let notified = self.attempted.notified();
            if self.lock().unseen.is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// What waits for something else to go is looked at again: something has gone.
    pub(super) fn retry_in_use(&self) {
        let mut state = self.lock();
        for item in std::mem::take(&mut state.in_use) {
            state.add(item, Look::Engine);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The next thing, as soon as there is one. It must be given back by [`done`](Self::done).
    pub(super) async fn next(&self) -> (Item, Look) {
        loop {
            let notified = self.changed.notified();
            let due = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                if let Some(next) = state.hand_out() {
                    return next;
                }
                state.delayed.keys().next().map(|(due, _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    () = notified => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => notified.await,
            }
        }
    }

    /// Nobody looks at this thing any more. Returns how often in a row it has failed now.
    pub(super) fn done(&self, item: &Item, outcome: Outcome) -> u32 {
        let failures = self.lock().done(item, outcome, Instant::now());
        self.changed.notify_one();
        self.attempted.notify_waiters();
        failures
    }

    /// Whoever looked is gone: what was taken is handed out anew.
    pub(super) fn recover(&self) {
        let mut state = self.lock();
        let taken: Vec<Item> = state.running.drain().map(|(item, _)| item).collect();
        taken.into_iter().for_each(|item| state.add(item, Look::Engine));
        state.unseen.clear();
    }

    /// There is no engine any more: what was asked of it is void.
    pub(super) fn clear(&self) {
        *self.lock() = State::default();
    }
}

impl State {
    fn add(&mut self, item: Item, look: Look) {
        if let Some((_, again)) = self.running.get_mut(&item) {
            *again = Some(again.map_or(look, |known| known.max(look)));
            return;
        }
        if let Some(due) = self.due.remove(&item) {
            self.delayed.remove(&due);
        }
        if let Some(known) = self.wanted.get_mut(&item) {
            *known = (*known).max(look);
            return;
        }
        self.wanted.insert(item.clone(), look);
        self.ready.push_back(item);
    }

    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let item = entry.remove();
            self.add(item, Look::Engine);
        }
    }

    fn hand_out(&mut self) -> Option<(Item, Look)> {
        let item = self.ready.pop_front()?;
        let look = self.wanted.remove(&item).unwrap_or(Look::Engine);
        self.running.insert(item.clone(), (look, None));
        Some((item, look))
    }

    fn done(&mut self, item: &Item, outcome: Outcome, now: Instant) -> u32 {
        let again = self.running.remove(item).and_then(|(_, again)| again);
        self.unseen.remove(item);
        self.in_use.remove(item);
        if outcome == Outcome::Done {
            self.failures.remove(item);
            if let Some(look) = again {
                self.add(item.clone(), look);
            }
            return 0;
        }
        let failures = self.failures.entry(item.clone()).or_default();
        *failures = failures.saturating_add(1);
        let failures = *failures;
        if outcome == Outcome::InUse {
            self.in_use.insert(item.clone());
        }
        if again.is_some() {
            self.add(item.clone(), Look::Engine);
            return failures;
        }
        self.count += 1;
        let due = (now + backoff(failures), self.count);
        self.delayed.insert(due, item.clone());
        self.due.insert(item.clone(), due);
        failures
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

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
