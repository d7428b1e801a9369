//! What this process remembers of the cluster. It may be lost: a new process determines it again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_driver::{Run, State};
use rdd_runtime::Trigger;
use rdd_stdx::{backoff::Backoff, clock::SharedClock, task::Group};

use super::{access::Access, plan::Failure};

/// The backoff after failures of a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay.
    pub most: Duration,
    /// After a run of this duration, the next failure counts as the first.
    pub stable: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), most: Duration::from_mins(2), stable: Duration::from_mins(1) }
    }
}

impl Pace {
    fn wait(&self, failures: u32) -> Duration {
        Backoff::new(self.first, self.most).after(failures)
    }
}

/// What this process remembers.
#[derive(Debug)]
pub(crate) struct Memory {
    clock: SharedClock,
    pace: Pace,
    inner: Arc<Mutex<Inner>>,
    watch: Mutex<Option<Group<()>>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Since when this process watches the cluster's run.
    watched_since: Option<Duration>,
    failures: u32,
    failed: Option<(String, Duration)>,
    /// The last end of the cluster, and how often in a row it ended like that.
    ends: Option<(End, u32)>,
    renewed_for: Option<Duration>,
    chosen_for: Option<Access>,
    /// The access that was published last, and when.
    published: Option<(Access, Duration)>,
}

/// How a release ended, reduced to what is equal for equal causes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    version: String,
    outline: String,
}

impl End {
    fn new(version: &str, last_words: &str) -> Self {
        Self { version: version.to_owned(), outline: outline(last_words) }
    }
}

/// The text with each number replaced, because ports, process IDs and times differ between ends with the same cause.
fn outline(text: &str) -> String {
    let mut outline = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_ascii_digit() {
            // One mark for all digits of a number, because numbers differ in length too.
            true if outline.ends_with('#') => {}
            true => outline.push('#'),
            false => outline.push(character),
        }
    }
    outline
}

/// Counts an end; the count starts again if it differs from the previous one.
fn count_end(ends: &mut Option<(End, u32)>, end: End) {
    let count = ends.take().filter(|(before, _)| *before == end).map_or(0, |(_, count)| count);
    *ends = Some((end, count.saturating_add(1)));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub(crate) fn new(clock: SharedClock, pace: Pace) -> Self {
        Self { clock, pace, inner: Arc::default(), watch: Mutex::default() }
    }

    /// Watches a run until it ends or [`Memory::let_go`]. An end counts as a failure.
    pub(crate) fn watch(&self, mut run: Run, version: &str, wake: Trigger) {
        let version = version.to_owned();
        let (clock, pace, inner) = (Arc::clone(&self.clock), self.pace, Arc::clone(&self.inner));
        lock(&inner).watched_since = Some(clock.steady());
        let mut group = Group::default();
        group.spawn("kubernetes watch", async move {
            while let Some(state) = run.next().await {
                if let State::Exited { last_words } = state {
                    tracing::warn!(last_words, "Kubernetes ended by itself");
                    let mut inner = lock(&inner);
                    let ran = inner.watched_since.take().map_or(Duration::ZERO, |since| clock.steady() - since);
                    // A long run shows that the earlier failures are over.
                    inner.failures = if ran >= pace.stable { 1 } else { inner.failures + 1 };
                    let wait = pace.wait(inner.failures);
                    count_end(&mut inner.ends, End::new(&version, &last_words));
                    inner.failed = Some((last_words, clock.steady() + wait));
                }
                wake.wake();
            }
            // The driver reports no more: the next reconcile inspects the cluster again.
            lock(&inner).watched_since = None;
            wake.wake();
        });
        *lock(&self.watch) = Some(group);
    }

    /// Stops watching: the end that follows is no failure.
    pub(crate) fn let_go(&self) {
        *lock(&self.watch) = None;
        lock(&self.inner).watched_since = None;
    }

    pub(crate) fn is_watched(&self) -> bool {
        lock(&self.inner).watched_since.is_some()
    }

    /// The last failure, if no success has followed.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let inner = lock(&self.inner);
        let (message, until) = inner.failed.clone()?;
        let alike = inner.ends.as_ref().map_or(0, |(_, count)| *count);
        Some(Failure { message, wait: until.saturating_sub(self.clock.steady()), alike })
    }

    /// Records the failure of a cluster that ran but was unusable; it is retried with backoff.
    pub(crate) fn note_failure(&self, message: &str) {
        let mut inner = lock(&self.inner);
        inner.failures += 1;
        let until = self.clock.steady() + self.pace.wait(inner.failures);
        inner.failed = Some((message.to_owned(), until));
    }

    /// Clears the last failure, because the API answers. The count of equal ends stays: a cluster may answer for a moment before each
    /// end.
    pub(crate) fn clear_last_failure(&self) {
        lock(&self.inner).failed = None;
    }

    /// Clears the count of equal ends, because the cluster was ready.
    pub(crate) fn clear_ends(&self) {
        lock(&self.inner).ends = None;
    }

    /// Clears all failures, so that a changed wish is tried at once.
    pub(crate) fn forget(&self) {
        let mut inner = lock(&self.inner);
        (inner.failures, inner.failed, inner.ends) = (0, None, None);
    }

    pub(crate) fn renewed_for(&self) -> Option<Duration> {
        lock(&self.inner).renewed_for
    }

    pub(crate) fn note_renewal(&self, end: Option<Duration>) {
        // A restart for another reason does not count as a renewal.
        if end.is_some() {
            lock(&self.inner).renewed_for = end;
        }
    }

    pub(crate) fn is_chosen_for(&self, access: &Access) -> bool {
        lock(&self.inner).chosen_for.as_ref() == Some(access)
    }

    /// Whether this access was published within this time. After that, another program may have changed it.
    pub(crate) fn has_published(&self, access: &Access, within: Duration) -> bool {
        let inner = lock(&self.inner);
        inner.published.as_ref().is_some_and(|(last, at)| last == access && self.clock.steady() < *at + within)
    }

    pub(crate) fn note_publication(&self, access: Option<&Access>) {
        lock(&self.inner).published = access.map(|access| (access.clone(), self.clock.steady()));
    }

    /// Whether this process has published any access to the cluster that runs.
    pub(crate) fn has_published_any(&self) -> bool {
        lock(&self.inner).published.is_some()
    }

    pub(crate) fn note_choice(&self, access: Option<&Access>) {
        lock(&self.inner).chosen_for = access.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding E-22
    #[test]
    fn ends_are_alike_but_for_their_numbers_and_another_end_or_release_begins_anew() {
        let mut ends = None;
        let mut counts = Vec::new();
        for (version, words) in [
            ("v1", "kubelet exited: port 10250 is taken by 4711"),
            ("v1", "kubelet exited: port 10251 is taken by 9"),
            ("v1", "kubelet exited: port 10250 is taken by 1"),
            ("v1", "no space left on device"),
            ("v1", "kubelet exited: port 10250 is taken by 1"),
            ("v2", "kubelet exited: port 10250 is taken by 1"),
            ("v2", "kubelet exited: port 10250 is taken by 2"),
        ] {
            count_end(&mut ends, End::new(version, words));
            counts.push(ends.as_ref().unwrap().1);
        }
        assert_eq!(counts, [1, 2, 3, 1, 1, 1, 2]);
    }

    #[test]
    fn the_wait_grows_and_has_an_end() {
        let pace = Pace::default();
        let waits: Vec<u64> = [1, 2, 3, 4, 7, 8, 100].map(|failures| pace.wait(failures).as_secs()).to_vec();
        assert_eq!(waits, [1, 2, 4, 8, 64, 120, 120]);
    }
}
