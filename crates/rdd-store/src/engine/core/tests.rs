//! Tests of the writer's schedule: when it wakes and when it sleeps.

use rdd_stdx::clock::ManualClock;

use std::{io, path::Path};

use super::*;
use crate::{
    Expect, Reply,
    engine::row::{Between, Row, RowId},
    error::Cause,
    memory::Rows,
};

/// A log that fails on demand.
struct Failing {
    rows: Rows,
    next: Option<Failure>,
}

impl Log for Failing {
    fn write(&mut self, write: &Write<'_>) -> Result<(), Failure> {
        self.next.take().map_or_else(|| self.rows.write(write), Err)
    }

    fn read(&mut self, after: RowId, upto: RowId, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), Cause> {
        self.rows.read(after, upto, visit)
    }

    fn tidy(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }

    fn copy(&mut self, _: &Path, _: &mut Between<'_, Self>) -> Result<Revision, Error> {
        Err(Error::Closed)
    }

    fn seal(&mut self) {}

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// A writer that the test drives by hand.
fn by_hand() -> (Core, Rows, Arc<ManualClock>) {
    let clock = ManualClock::shared(Duration::from_secs(1_000));
    let index = Index::new(State::default());
    let shared = Shared::new(&Limits::default(), &index);
    let core = Core::new(Limits::default(), Arc::clone(&clock) as SharedClock, index, shared);
    (core, Rows::default(), clock)
}

fn commit(core: &mut Core, rows: &mut Rows, txn: Txn) {
    let (answer, reply) = Reply::pair();
    core.shared.queue.push(Request::Commit { txn, answer }).unwrap();
    core.round(rows, Wait::No);
    reply.wait().unwrap();
}

/// Runs the writer until it has no pending work; returns how often it woke up.
fn wakes_until_asleep(core: &mut Core, rows: &mut Rows, clock: &ManualClock) -> usize {
    for wakes in 0..1_000 {
        match core.wait() {
            Wait::Forever => return wakes,
            Wait::AtMost(time) => clock.advance(time),
            Wait::No => {}
        }
        core.round(rows, Wait::No);
    }
    panic!("it never sleeps");
}

#[test]
fn a_store_with_nothing_ahead_of_it_sleeps_until_it_is_asked() {
    let (mut core, mut rows, clock) = by_hand();
    assert!(wakes_until_asleep(&mut core, &mut rows, &clock) <= 2);
    for number in 0..1_000 {
        let key = format!("k{}", number % 100);
        commit(&mut core, &mut rows, Txn::put(key, Expect::Any, "v"));
        clock.advance(Duration::from_millis(300));
    }
    let wakes = wakes_until_asleep(&mut core, &mut rows, &clock);
    assert!((1..100).contains(&wakes), "after five busy minutes it woke {wakes} times until all was compacted");
    assert_eq!((core.index.dead_rows(), core.index.state.compacted), (0, 1_000));
}

#[test]
fn it_wakes_for_what_expires_and_then_sleeps() {
    let (mut core, mut rows, clock) = by_hand();
    commit(&mut core, &mut rows, Txn::put_for("k", Expect::Any, "v", Duration::from_hours(1)));
    let before = core.time.now();
    wakes_until_asleep(&mut core, &mut rows, &clock);
    assert!(core.index.live.is_empty());
    let passed = Duration::from_millis(core.time.now() - before);
    assert!((Duration::from_hours(1)..Duration::from_mins(70)).contains(&passed), "{passed:?}");
}

#[test]
fn a_failed_batch_fails_all_its_callers_and_leaves_nothing_behind() {
    let (mut core, rows, _) = by_hand();
    let mut log = Failing {
        rows,
        next: Some(Failure::Full { folder: "/store".into(), cause: Arc::new(io::Error::other("no space")) }),
    };
    let ask = |txn| {
        let (answer, reply) = Reply::pair();
        core.shared.queue.push(Request::Commit { txn, answer }).unwrap();
        reply
    };
    let created = ask(Txn::put("k", Expect::Absent, "1"));
    // It would conflict with the first, but that one was never committed, so the caller must not see a conflict.
    let conflicting = ask(Txn::put("k", Expect::Absent, "2"));
    let unchanged = ask(Txn::delete("gone", Expect::Any));
    let mut tail = core.hub.join();
    core.round(&mut log, Wait::No);
    for reply in [created, conflicting, unchanged] {
        assert!(matches!(reply.wait(), Err(Error::DiskFull { .. })));
    }
    assert!(core.index.live.is_empty() && core.index.head == 0 && core.index.state == State::default());
    assert!(tail.receiver.try_recv().is_err(), "nobody was told");
    let (answer, reply) = Reply::pair();
    core.shared.queue.push(Request::Commit { txn: Txn::put("k", Expect::Absent, "3"), answer }).unwrap();
    core.round(&mut log, Wait::No);
    assert_eq!(reply.wait().unwrap(), Revision(1));
    assert_eq!(tail.receiver.try_recv().unwrap().revision, Revision(1));
}

#[test]
fn many_requests_that_wait_share_one_disk_transaction() {
    let (mut core, mut rows, _) = by_hand();
    let replies: Vec<_> = (0..100)
        .map(|number| {
            let (answer, reply) = Reply::pair();
            let txn = Txn::put(format!("k{number}"), Expect::Absent, "v");
            core.shared.queue.push(Request::Commit { txn, answer }).unwrap();
            reply
        })
        .collect();
    core.round(&mut rows, Wait::No);
    for (revision, reply) in (1..).zip(replies) {
        assert_eq!(reply.wait().unwrap(), Revision(revision));
    }
    assert_eq!((core.commits.groups, core.commits.transactions), (1, 100));
}
