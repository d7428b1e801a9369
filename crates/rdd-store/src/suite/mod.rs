//! The contract that every store must pass, as tests that are run for each.
//!
//! ```text
//! rdd_store::contract!(MySubject::new());
//! ```

#![allow(clippy::unwrap_used, reason = "these are tests, though they are compiled as a library")]

pub mod commits;
pub mod compaction;
pub mod events;
pub mod model;
pub mod time;

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use rdd_stdx::clock::{ManualClock, SharedClock};

use crate::{Batch, Change, Error, Limits, Revision, Store, Subscription};

/// One place for a store, which the tests open repeatedly.
pub trait Subject {
    /// Opens the store. The tests have closed an earlier one of this subject.
    fn open(&self, limits: Limits, clock: SharedClock) -> Box<dyn Store>;

    /// Whether data persists when the store is reopened.
    fn keeps(&self) -> bool;
}

/// Generates one test per rule of the contract, for the subject that the expression creates.
#[macro_export]
macro_rules! contract {
    ($subject:expr) => {
        $crate::contract!(@tests $subject;
            commits: expectations_are_checked_and_a_conflict_tells_all,
            commits: a_transaction_is_one_revision_or_nothing,
            commits: what_changes_nothing_takes_no_revision,
            commits: concurrent_writers_never_lose_an_update,
            commits: a_closed_store_says_so,
            events: history_and_live_events_join_without_a_gap_or_a_repeat,
            events: subscribers_that_join_under_load_see_every_revision_once,
            events: the_past_is_compacted_and_the_future_is_refused,
            events: a_slow_subscriber_is_cut_off_and_can_resume,
            events: progress_follows_everything_before_it,
            events: a_subscription_survives_a_cancelled_wait,
            compaction: history_goes_by_age_also_when_nothing_happens,
            compaction: history_is_bounded_by_rows_and_bytes,
            compaction: what_is_dead_at_the_horizon_is_not_loaded,
            compaction: a_load_holds_the_horizon_until_it_is_over,
            compaction: a_load_that_is_not_read_is_given_up,
            compaction: revisions_do_not_go_back_when_everything_is_gone,
            time: a_key_goes_when_its_time_has_passed,
            time: a_later_put_decides_how_long_a_key_lives,
            time: jumps_of_the_wall_clock_change_nothing,
            time: times_to_live_and_history_survive_a_restart,
            time: a_wall_clock_set_forward_while_closed_costs_at_most_the_bound,
            model: load_and_events_are_what_was_committed,
        );
    };
    (@tests $subject:expr; $($module:ident: $name:ident,)*) => {
        $(#[test] fn $name() { $crate::suite::$module::$name(&$subject); })*
    };
}

/// The timeout for everything that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

fn within<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await }).expect("an answer in time")
}

fn clock() -> Arc<ManualClock> {
    ManualClock::shared(Duration::from_secs(1_000_000))
}

fn fresh(subject: &dyn Subject) -> (Box<dyn Store>, Arc<ManualClock>) {
    let clock = clock();
    (subject.open(Limits::default(), Arc::clone(&clock) as SharedClock), clock)
}

/// The next batch that is not a bookmark.
fn next(events: &mut Subscription) -> Result<Arc<Batch>, Error> {
    loop {
        let batch = within(events.next())?;
        if !batch.events.is_empty() {
            return Ok(batch);
        }
    }
}

/// All batches up to a revision.
fn until(events: &mut Subscription, revision: Revision) -> Vec<Arc<Batch>> {
    let mut batches = Vec::new();
    loop {
        let batch = within(events.next()).expect("a batch");
        let reached = batch.revision >= revision;
        batches.extend(Some(batch).filter(|batch| !batch.events.is_empty()));
        if reached {
            return batches;
        }
    }
}

/// All live keys and values, from a load and the events up to the newest revision.
fn contents(store: &dyn Store) -> BTreeMap<String, Vec<u8>> {
    let mut load = within(store.load()).expect("a load");
    let mut events = within(store.events(load.revision())).expect("events");
    let mut found = BTreeMap::new();
    loop {
        let entries = within(load.next()).expect("entries");
        if entries.is_empty() {
            break;
        }
        for entry in entries {
            assert!(found.insert(entry.key.to_string(), entry.value.to_vec()).is_none(), "{} twice", entry.key);
        }
    }
    let head = within(store.progress()).expect("progress");
    for batch in until(&mut events, head) {
        for event in &batch.events {
            match &event.change {
                Change::Put(value) => found.insert(event.key.to_string(), value.to_vec()),
                Change::Delete => found.remove(&*event.key),
            };
        }
    }
    found
}

/// Polls until the condition holds. Each poll wakes the writer, so that it notices a manually advanced clock.
fn eventually(store: &dyn Store, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}: {:?}", store.status());
        within(store.progress()).expect("progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}
