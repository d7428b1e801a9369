//! The queue of the server's own controllers: each item at most once, with backoff after failures.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

const DELAY_MIN: Duration = Duration::from_millis(20);
const DELAY_MAX: Duration = Duration::from_secs(30);

/// A queue of items for workers, like client-go's rate-limited workqueue.
///
/// # Flow
/// [`add`](Self::add) and its variants enqueue an item. A worker takes it with [`next`](Self::next) and must give it back with
/// [`done`](Self::done) or [`retry`](Self::retry).
///
/// # Guarantees
/// - An item is in the queue at most once, however often it is added.
/// - An item is never with two workers. If it is added while a worker has it, it is handed out again after it was given back.
#[derive(Debug)]
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    added: Notify,
}

#[derive(Debug)]
struct Inner<T> {
    ready: BTreeSet<T>,
    /// Items that a worker has. An item is in `ready` too if it was added since.
    active: BTreeSet<T>,
    later: BTreeMap<T, Instant>,
    /// The entries of `later`, ordered by time.
    due: BTreeSet<(Instant, T)>,
    failures: BTreeMap<T, u32>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let inner = Inner {
            ready: BTreeSet::new(),
            active: BTreeSet::new(),
            later: BTreeMap::new(),
            due: BTreeSet::new(),
            failures: BTreeMap::new(),
        };
        Self { inner: Mutex::new(inner), added: Notify::new() }
    }
}

impl<T: Ord + Clone> Inner<T> {
    fn put_now(&mut self, item: T) {
        if let Some((item, at)) = self.later.remove_entry(&item) {
            self.due.remove(&(at, item));
        }
        self.ready.insert(item);
    }

    fn put_later(&mut self, item: T, at: Instant) {
        if !self.ready.contains(&item) && !self.later.contains_key(&item) {
            self.due.insert((at, item.clone()));
            self.later.insert(item, at);
        }
    }

    /// Takes the next item that no worker has. The error is the time of the next delayed item, if there is one.
    fn take(&mut self, now: Instant) -> Result<T, Option<Instant>> {
        while let Some((at, _)) = self.due.first()
            && *at <= now
            && let Some((_, item)) = self.due.pop_first()
        {
            self.put_now(item);
        }
        let next = self.ready.iter().find(|item| !self.active.contains(item)).cloned();
        let Some(item) = next else { return Err(self.due.first().map(|(at, _)| *at)) };
        self.ready.remove(&item);
        self.active.insert(item.clone());
        Ok(item)
    }
}

impl<T: Ord + Clone> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues an item for immediate processing, also if it was delayed.
    pub(super) fn add(&self, item: T) {
        self.lock().put_now(item);
        self.added.notify_one();
    }

    /// Enqueues many items for immediate processing.
    pub(super) fn add_all(&self, items: impl IntoIterator<Item = T>) {
        let mut inner = self.lock();
        items.into_iter().for_each(|item| inner.put_now(item));
        drop(inner);
        self.added.notify_one();
    }

    /// Enqueues an item after a delay, unless it is already queued or delayed.
    pub(super) fn add_later(&self, item: T, delay: Duration) {
        self.lock().put_later(item, Instant::now() + delay);
        self.added.notify_one();
    }

    /// Gives back an item that failed; it is handed out again after a backoff that doubles with each failure in a row.
    pub(super) fn retry(&self, item: T) {
        let mut inner = self.lock();
        inner.active.remove(&item);
        let failures = inner.failures.entry(item.clone()).or_default();
        *failures = failures.saturating_add(1);
        // The shift is bounded so that it cannot overflow; the maximum is reached long before.
        let delay = DELAY_MIN.saturating_mul(1 << (*failures - 1).min(16)).min(DELAY_MAX);
        inner.put_later(item, Instant::now() + delay);
        drop(inner);
        self.added.notify_one();
    }

    /// Gives back an item that succeeded and resets its backoff.
    pub(super) fn done(&self, item: &T) {
        let mut inner = self.lock();
        inner.active.remove(item);
        inner.failures.remove(item);
        drop(inner);
        self.added.notify_one();
    }

    /// Waits for the next item. The caller must give it back with [`done`](Self::done) or [`retry`](Self::retry).
    pub(super) async fn next(&self) -> T {
        loop {
            let due = match self.lock().take(Instant::now()) {
                Ok(item) => {
                    // `add_all` notifies only one worker, so each worker wakes the next.
                    self.added.notify_one();
                    return item;
                }
                Err(due) => due,
            };
            match due {
                Some(at) => {
                    // The timeout and the notification have the same effect: the loop checks the queue again.
                    let _ = tokio::time::timeout_at(at, self.added.notified()).await;
                }
                None => self.added.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_added_twice_comes_once_and_what_failed_comes_back() {
        let queue = Queue::default();
        queue.add("b");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        queue.retry("a");
        let began = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert!(began.elapsed() >= DELAY_MIN);
        queue.retry("a");
        let began = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert!(began.elapsed() >= DELAY_MIN * 2, "the second time takes longer");
        queue.done(&"a");
        queue.done(&"b");
        assert!(tokio::time::timeout(Duration::from_secs(60), queue.next()).await.is_err(), "nothing is left");
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_looks_at_is_given_to_nobody_else_and_comes_again_if_it_was_added_since() {
        let queue = Queue::default();
        queue.add_all(["a", "b"]);
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert_eq!(queue.next().await, "b");
        assert!(tokio::time::timeout(DELAY_MAX, queue.next()).await.is_err(), "both are being looked at");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_for_later_is_not_put_off_and_not_needed_if_it_comes_sooner() {
        let queue = Queue::default();
        let began = Instant::now();
        queue.add_later("a", Duration::from_secs(1));
        queue.add_later("a", Duration::from_secs(9));
        assert_eq!(queue.next().await, "a");
        assert_eq!(began.elapsed().as_secs(), 1);
        queue.done(&"a");
        queue.add_later("a", Duration::from_secs(1));
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.done(&"a");
        assert!(tokio::time::timeout(DELAY_MAX, queue.next()).await.is_err(), "it came once");
    }
}
