//! What wants attention: each thing at most once, in order of arrival, never two looks at the same one, none forgotten.
//!
//! Controllers queue the keys of their objects. One whose work is about things of its own makes a [`Queue`] of them.

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

/// What controllers have. Not longer, so that what was repaired outside works again within minutes.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_mins(3));

/// How much of a thing is wanted. Of two wishes the larger counts.
pub trait Want: Copy + Ord {
    /// All of it, which is wanted after a failure or a wait.
    const WHOLE: Self;
}

impl Want for () {
    const WHOLE: Self = ();
}

/// What came of working on something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It went well; look again after this time at the latest.
    Done(Option<Duration>),
    /// It failed, or had changed meanwhile; try again later.
    Failed,
}

/// A queue.
///
/// What is added while somebody works on it is handed out again afterwards: a wake-up is a state, not a message, so
/// none is lost and a thousand are one. What waits after a failure is handed out at once if it is added again.
pub struct Queue<T = Key, W = ()> {
    state: Mutex<State<T, W>>,
    changed: Notify,
    backoff: Backoff,
}

struct State<T, W> {
    ready: VecDeque<T>,
    wanted: HashMap<T, W>,
    /// Being worked on, and what was asked for meanwhile.
    running: HashMap<T, Option<W>>,
    delayed: BTreeMap<(Instant, u64), T>,
    due: HashMap<T, (Instant, u64)>,
    failures: HashMap<T, u32>,
    count: u64,
    /// How often anything was handed out.
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

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Standing {
    /// Wait to be handed out.
    pub(crate) ready: usize,
    /// Are being worked on.
    pub(crate) running: usize,
    /// Wait for a moment in time.
    pub(crate) delayed: usize,
    /// Of those, the ones that failed.
    pub(crate) failing: usize,
    /// How often anything was handed out.
    pub(crate) handed_out: u64,
}

impl<T, W> Queue<T, W> {
    /// An empty one.
    pub fn new(backoff: Backoff) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), backoff }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, W>> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything.
    pub fn clear(&self) {
        *self.lock() = State::default();
    }
}

impl<T: Clone + Eq + Hash, W: Want> Queue<T, W> {
    /// This wants attention now, also if it waits after a failure.
    pub fn add(&self, thing: T, want: W) {
        self.lock().add(thing, want);
        self.changed.notify_one();
    }

    /// The next, as soon as there is one. It must be given back by [`done`](Self::done).
    pub async fn next(&self) -> (T, W) {
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

    /// Nobody works on this any more. Returns how often in a row it has failed now, and for how long it waits, if it does.
    pub fn done(&self, thing: &T, outcome: Outcome) -> (u32, Option<Duration>) {
        let answer = self.lock().done(thing, outcome, self.backoff, Instant::now());
        self.changed.notify_one();
        answer
    }

    /// The thing is gone: its failures no longer count.
    pub(crate) fn forget(&self, thing: &T) {
        self.lock().failures.remove(thing);
    }

    /// Whoever worked is gone: what was handed out is handed out anew.
    pub fn recover(&self) {
        let mut state = self.lock();
        let taken: Vec<T> = state.running.drain().map(|(thing, _)| thing).collect();
        taken.into_iter().for_each(|thing| state.add(thing, W::WHOLE));
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn standing(&self) -> Standing {
        let state = self.lock();
        Standing {
            ready: state.ready.len(),
            running: state.running.len(),
            delayed: state.delayed.len(),
            failing: state.failures.keys().filter(|thing| state.due.contains_key(*thing)).count(),
            handed_out: state.handed_out,
        }
    }
}

impl Queue {
    /// This object wants attention now.
    pub(crate) fn wake(&self, key: Key) {
        self.add(key, ());
    }
}

impl<T: Clone + Eq + Hash, W: Want> State<T, W> {
    fn add(&mut self, thing: T, want: W) {
        if let Some(again) = self.running.get_mut(&thing) {
            *again = (*again).max(Some(want));
            return;
        }
        if let Some(due) = self.due.remove(&thing) {
            self.delayed.remove(&due);
        }
        match self.wanted.get_mut(&thing) {
            Some(known) => *known = want.max(*known),
            None => {
                self.wanted.insert(thing.clone(), want);
                self.ready.push_back(thing);
            }
        }
    }

    fn delay(&mut self, thing: T, until: Instant) {
        self.count += 1;
        let due = (until, self.count);
        self.delayed.insert(due, thing.clone());
        self.due.insert(thing, due);
    }

    /// Moves what is due to where it is handed out.
    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let thing = entry.remove();
            self.add(thing, W::WHOLE);
        }
    }

    fn hand_out(&mut self) -> Option<(T, W)> {
        let thing = self.ready.pop_front()?;
        let want = self.wanted.remove(&thing).unwrap_or(W::WHOLE);
        self.running.insert(thing.clone(), None);
        self.handed_out += 1;
        Some((thing, want))
    }

    fn done(&mut self, thing: &T, outcome: Outcome, backoff: Backoff, now: Instant) -> (u32, Option<Duration>) {
        let again = self.running.remove(thing).flatten();
        let (failures, delay) = match outcome {
            Outcome::Done(again) => {
                self.failures.remove(thing);
                (0, again)
            }
            Outcome::Failed => {
                let failures = self.failures.entry(thing.clone()).or_default();
                *failures = failures.saturating_add(1);
                (*failures, Some(backoff.after(*failures)))
            }
        };
        if let Some(want) = again {
            self.add(thing.clone(), if outcome == Outcome::Failed { W::WHOLE } else { want });
            return (failures, None);
        }
        // A time beyond what the clock can tell is as good as never.
        if let Some(until) = delay.and_then(|delay| now.checked_add(delay)) {
            self.delay(thing.clone(), until);
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
