//! The work queue: each item at most once, in order of arrival, never handed to two workers, never lost.
//!
//! Controllers queue the keys of their objects. A controller that works on items of another kind creates a [`Queue`] of them.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_stdx::backoff::Backoff;
use tokio::{sync::Notify, time::Instant};

use crate::Key;

/// The backoff of controllers. The maximum is short, so that an object recovers within minutes after an external repair.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_mins(3));

/// How much of an item is to be processed. When an item is added twice, the larger scope counts.
pub trait Want: Copy + Ord {
    /// The complete item: the scope after a failure or a delay.
    const WHOLE: Self;
}

impl Want for () {
    const WHOLE: Self = ();
}

/// The result of processing an item, for [`Queue::done`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Success; process it again after this time, if one is given.
    Done(Option<Duration>),
    /// Failure or conflict; process it again with backoff.
    Failed,
}

/// A queue of items for workers, like client-go's rate-limited workqueue.
///
/// # Flow
/// A producer calls [`add`](Self::add). A worker takes an item with [`next`](Self::next), processes it, and must call
/// [`done`](Self::done).
///
/// # Guarantees
/// - Items come in the order in which they were added; adding a waiting item again does not duplicate it.
/// - An item is never with two workers. An item that is added while a worker has it is handed out again after `done`, so no change is
///   lost, and many adds cause one more run.
/// - An item in backoff is handed out immediately if it is added again.
///
/// # Assumptions
/// Every item that was handed out comes back by `done`. If the workers died, [`recover`](Self::recover) puts their
/// items back.
pub struct Queue<T = Key, W = ()> {
    state: Mutex<State<T, W>>,
    changed: Notify,
    backoff: Backoff,
}

struct State<T, W> {
    ready: VecDeque<T>,
    wanted: HashMap<T, W>,
    /// Items that a worker has, each with the scope that was added meanwhile.
    running: HashMap<T, Option<W>>,
    delayed: BTreeMap<(Instant, u64), T>,
    due: HashMap<T, (Instant, u64)>,
    failures: HashMap<T, u32>,
    count: u64,
    /// How many items were handed out since the start.
    handed_out: u64,
}

impl<T, W> Default for State<T, W> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            wanted: HashMap::new(),
            running: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            count: 0,
            handed_out: 0,
        }
    }
}

impl<T, W> Default for Queue<T, W> {
    fn default() -> Self {
        Self::new(BACKOFF)
    }
}

impl<T: Clone + Eq + Hash, W: Want> fmt::Debug for Queue<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("standing", &self.standing()).finish()
    }
}

/// The sizes of a queue's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// Items that wait for a worker.
    pub(crate) ready: usize,
    /// Items that a worker has.
    pub(crate) running: usize,
    /// Items that wait for a point in time.
    pub(crate) delayed: usize,
    /// The delayed items that failed last.
    pub(crate) failing: usize,
    /// How many items were handed out since the start.
    pub(crate) handed_out: u64,
}

impl<T, W> Queue<T, W> {
    /// An empty queue with this backoff for failures.
    pub fn new(backoff: Backoff) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), backoff }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, W>> {
        // Poisoning is ignored: nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all items and failure counts.
    pub fn clear(&self) {
        *self.lock() = State::default();
    }
}

impl<T: Clone + Eq + Hash, W: Want> Queue<T, W> {
    /// Adds an item for immediate processing, also if it is in backoff.
    pub fn add(&self, item: T, scope: W) {
        self.lock().add(item, scope);
        self.changed.notify_one();
    }

    /// Waits for the next item. The caller must give it back by [`done`](Self::done).
    pub async fn next(&self) -> (T, W) {
        loop {
            let notified = self.changed.notified();
            let due = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                if let Some(next) = state.hand_out() {
                    // An `add` between this check and the await below is not missed: `notify_one` stores a permit.
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

    /// Gives an item back. Returns how often in a row it has failed, and the delay until it is handed out again, if it is delayed.
    pub fn done(&self, item: &T, outcome: Outcome) -> (u32, Option<Duration>) {
        let answer = self.lock().done(item, outcome, self.backoff, Instant::now());
        self.changed.notify_one();
        answer
    }

    /// Clears the failure count of an item that no longer exists.
    pub(crate) fn forget(&self, item: &T) {
        self.lock().failures.remove(item);
    }

    /// Puts back all items that workers have, after these workers died.
    pub fn recover(&self) {
        let mut state = self.lock();
        let taken: Vec<T> = state.running.drain().map(|(item, _)| item).collect();
        taken.into_iter().for_each(|item| state.add(item, W::WHOLE));
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn standing(&self) -> Standing {
        let state = self.lock();
        Standing {
            ready: state.ready.len(),
            running: state.running.len(),
            delayed: state.delayed.len(),
            failing: state.failures.keys().filter(|item| state.due.contains_key(*item)).count(),
            handed_out: state.handed_out,
        }
    }
}

impl Queue {
    /// Adds an object for immediate reconciliation.
    pub(crate) fn wake(&self, key: Key) {
        self.add(key, ());
    }
}

impl<T: Clone + Eq + Hash, W: Want> State<T, W> {
    fn add(&mut self, item: T, scope: W) {
        // A worker has it: it is handed out again after `done`, so that no two workers get the same item.
        if let Some(again) = self.running.get_mut(&item) {
            *again = (*again).max(Some(scope));
            return;
        }
        if let Some(due) = self.due.remove(&item) {
            self.delayed.remove(&due);
        }
        match self.wanted.get_mut(&item) {
            Some(known) => *known = scope.max(*known),
            None => {
                self.wanted.insert(item.clone(), scope);
                self.ready.push_back(item);
            }
        }
    }

    fn delay(&mut self, item: T, until: Instant) {
        self.count += 1;
        let due = (until, self.count);
        self.delayed.insert(due, item.clone());
        self.due.insert(item, due);
    }

    /// Moves delayed items that are due to the ready list.
    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let item = entry.remove();
            self.add(item, W::WHOLE);
        }
    }

    fn hand_out(&mut self) -> Option<(T, W)> {
        let item = self.ready.pop_front()?;
        let scope = self.wanted.remove(&item).unwrap_or(W::WHOLE);
        self.running.insert(item.clone(), None);
        self.handed_out += 1;
        Some((item, scope))
    }

    fn done(&mut self, item: &T, outcome: Outcome, backoff: Backoff, now: Instant) -> (u32, Option<Duration>) {
        let again = self.running.remove(item).flatten();
        let (failures, delay) = match outcome {
            Outcome::Done(again) => {
                self.failures.remove(item);
                (0, again)
            }
            Outcome::Failed => {
                let failures = self.failures.entry(item.clone()).or_default();
                *failures = failures.saturating_add(1);
                (*failures, Some(backoff.after(*failures)))
            }
        };
        if let Some(scope) = again {
            // The item changed while the worker had it: it is handed out at once, without the backoff.
            self.add(item.clone(), if outcome == Outcome::Failed { W::WHOLE } else { scope });
            return (failures, None);
        }
        // A delay beyond the range of the clock means never.
        if let Some(until) = delay.and_then(|delay| now.checked_add(delay)) {
            self.delay(item.clone(), until);
        }
        (failures, delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::cluster(name)
    }

    #[tokio::test(start_paused = true)]
    async fn objects_come_in_order_each_once_and_never_two_at_a_time() {
        let queue = Queue::default();
        for name in ["a", "b", "a", "c", "b"] {
            queue.wake(key(name));
        }
        assert_eq!(queue.next().await.0, key("a"));
        queue.wake(key("a"));
        assert_eq!((queue.next().await.0, queue.next().await.0), (key("b"), key("c")));
        let again = tokio::time::timeout(Duration::from_secs(9), queue.next()).await;
        assert!(again.is_err(), "nobody gets what another works on");
        queue.done(&key("a"), Outcome::Done(None));
        assert_eq!(queue.next().await.0, key("a"), "what was added meanwhile is not lost");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_waits_longer_each_time_and_delays_no_other() {
        let queue = Queue::default();
        queue.wake(key("poisoned"));
        let began = Instant::now();
        for expected in [0, 5, 15, 35] {
            assert_eq!(queue.next().await.0, key("poisoned"));
            assert_eq!(began.elapsed().as_millis(), expected);
            queue.done(&key("poisoned"), Outcome::Failed);
            queue.wake(key("fine"));
            assert_eq!(queue.next().await.0, key("fine"));
            assert_eq!(began.elapsed().as_millis(), expected, "the other one did not wait");
            queue.done(&key("fine"), Outcome::Done(None));
        }
        queue.wake(key("poisoned"));
        assert_eq!(queue.next().await.0, key("poisoned"));
        assert_eq!(began.elapsed().as_millis(), 35, "news end the wait");
        queue.done(&key("poisoned"), Outcome::Done(None));
        queue.wake(key("poisoned"));
        queue.next().await;
        assert_eq!(
            queue.done(&key("poisoned"), Outcome::Failed),
            (1, Some(BACKOFF.first)),
            "success forgets the failures"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_asked_for_it_is_looked_at_again() {
        let queue = Queue::default();
        queue.wake(key("a"));
        queue.next().await;
        queue.done(&key("a"), Outcome::Done(Some(Duration::from_secs(7))));
        let began = Instant::now();
        queue.next().await;
        assert_eq!(began.elapsed().as_secs(), 7);
        let standing = queue.standing();
        assert_eq!((standing.ready, standing.running, standing.delayed, standing.handed_out), (0, 1, 0, 2));
    }
}
