//! Which objects want attention: each at most once, in order of arrival, never two at a time, never forgotten.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::Key;

/// The delay after the first failure; it doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_millis(5);
/// It never grows beyond this, so that what was repaired outside works again within minutes.
const LONGEST_DELAY: Duration = Duration::from_mins(3);

/// The delay after this many failures in a row.
pub(crate) fn backoff(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_DELAY.saturating_mul(factor).min(LONGEST_DELAY)
}

/// What came of working on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It went well; look again after this time at the latest.
    Done(Option<Duration>),
    /// It failed; try again later.
    Failed,
    /// The object had changed meanwhile; look at the newer one.
    Changed,
}

/// The queue of one controller.
///
/// An object that is added while somebody works on it is handed out again afterwards: a wake-up is a state, not a message, so
/// none is lost and a thousand are one. An object that waits after a failure is handed out at once if it is added again.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Key>,
    queued: HashSet<Key>,
    /// Being worked on, and whether it was added meanwhile.
    running: HashMap<Key, bool>,
    delayed: BTreeMap<(Instant, u64), Key>,
    due: HashMap<Key, (Instant, u64)>,
    failures: HashMap<Key, u32>,
    count: u64,
    /// How often anything was handed out.
    handed_out: u64,
}

impl fmt::Debug for Queue {
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

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This object wants attention now.
    pub(crate) fn add(&self, key: Key) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    /// The next object, as soon as there is one. It must be given back by [`done`](Self::done).
    pub(crate) async fn next(&self) -> Key {
        loop {
            let notified = self.changed.notified();
            let due = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                if let Some(key) = state.hand_out() {
                    return key;
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

    /// Nobody works on this object any more. Returns how often in a row it has failed now, and for how long it waits, if it does.
    pub(crate) fn done(&self, key: &Key, outcome: Outcome) -> (u32, Option<Duration>) {
        let answer = self.lock().done(key, outcome, Instant::now());
        self.changed.notify_one();
        answer
    }

    /// The object is gone: its failures no longer count.
    pub(crate) fn forget(&self, key: &Key) {
        self.lock().failures.remove(key);
    }

    /// Whoever worked on objects is gone: they are handed out anew.
    pub(crate) fn recover(&self) {
        let mut state = self.lock();
        let taken: Vec<Key> = state.running.drain().map(|(key, _)| key).collect();
        taken.into_iter().for_each(|key| state.add(key));
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn standing(&self) -> Standing {
        let state = self.lock();
        Standing {
            ready: state.ready.len(),
            running: state.running.len(),
            delayed: state.delayed.len(),
            failing: state.failures.keys().filter(|key| state.due.contains_key(*key)).count(),
            handed_out: state.handed_out,
        }
    }
}

impl State {
    fn add(&mut self, key: Key) {
        if let Some(again) = self.running.get_mut(&key) {
            *again = true;
            return;
        }
        if let Some(due) = self.due.remove(&key) {
            self.delayed.remove(&due);
        }
        if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn delay(&mut self, key: Key, until: Instant) {
        self.count += 1;
        let due = (until, self.count);
        self.delayed.insert(due, key.clone());
        self.due.insert(key, due);
    }

    /// Moves what is due to where it is handed out.
    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            self.add(key);
        }
    }

    fn hand_out(&mut self) -> Option<Key> {
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.running.insert(key.clone(), false);
        self.handed_out += 1;
        Some(key)
    }

    fn done(&mut self, key: &Key, outcome: Outcome, now: Instant) -> (u32, Option<Duration>) {
        let added = self.running.remove(key).unwrap_or(false);
        let failures = match outcome {
            Outcome::Done(_) => {
                self.failures.remove(key);
                0
            }
            Outcome::Failed | Outcome::Changed => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                *failures
            }
        };
        let delay = match outcome {
            Outcome::Done(again) => again,
            Outcome::Failed | Outcome::Changed => Some(backoff(failures)),
        };
        if added {
            self.add(key.clone());
            return (failures, None);
        }
        if let Some(delay) = delay {
            // A time beyond what the clock can tell is as good as never.
            if let Some(until) = now.checked_add(delay) {
                self.delay(key.clone(), until);
            }
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

    #[test]
    fn the_delay_doubles_from_five_milliseconds_up_to_a_bound() {
        let millis: Vec<_> = (1..=5).map(|failures| backoff(failures).as_millis()).collect();
        assert_eq!(millis, [5, 10, 20, 40, 80]);
        assert_eq!(
            (backoff(16), backoff(17), backoff(u32::MAX)),
            (Duration::from_millis(163_840), LONGEST_DELAY, LONGEST_DELAY)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn objects_come_in_order_each_once_and_never_two_at_a_time() {
        let queue = Queue::default();
        for name in ["a", "b", "a", "c", "b"] {
            queue.add(key(name));
        }
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        assert_eq!((queue.next().await, queue.next().await), (key("b"), key("c")));
        let again = tokio::time::timeout(Duration::from_secs(9), queue.next()).await;
        assert!(again.is_err(), "nobody gets what another works on");
        queue.done(&key("a"), Outcome::Done(None));
        assert_eq!(queue.next().await, key("a"), "what was added meanwhile is not lost");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_waits_longer_each_time_and_delays_no_other() {
        let queue = Queue::default();
        queue.add(key("poisoned"));
        let began = Instant::now();
        for expected in [0, 5, 15, 35] {
            assert_eq!(queue.next().await, key("poisoned"));
            assert_eq!(began.elapsed().as_millis(), expected);
            queue.done(&key("poisoned"), Outcome::Failed);
            queue.add(key("fine"));
            assert_eq!(queue.next().await, key("fine"));
            assert_eq!(began.elapsed().as_millis(), expected, "the other one did not wait");
            queue.done(&key("fine"), Outcome::Done(None));
        }
        queue.add(key("poisoned"));
        assert_eq!(queue.next().await, key("poisoned"));
        assert_eq!(began.elapsed().as_millis(), 35, "news end the wait");
        queue.done(&key("poisoned"), Outcome::Done(None));
        queue.add(key("poisoned"));
        queue.next().await;
        assert_eq!(
            queue.done(&key("poisoned"), Outcome::Failed),
            (1, Some(FIRST_DELAY)),
            "success forgets the failures"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_asked_for_it_is_looked_at_again() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        queue.done(&key("a"), Outcome::Done(Some(Duration::from_secs(7))));
        let began = Instant::now();
        queue.next().await;
        assert_eq!(began.elapsed().as_secs(), 7);
        let standing = queue.standing();
        assert_eq!((standing.ready, standing.running, standing.delayed, standing.handed_out), (0, 1, 0, 2));
    }
}
