//! A model test: random transactions, compactions, pauses and restarts, compared with a model that keeps all history.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use proptest::{prelude::*, test_runner::TestRunner};
use rdd_stdx::clock::{ManualClock, SharedClock};

use super::{Subject, clock, until, within};
use crate::{Action, Change, Error, Expect, Limits, Revision, Store, Txn};

#[derive(Debug, Clone)]
enum Step {
    Commit(Vec<Drawn>),
    /// Compact this percentage of the history.
    Compact(u8),
    Pause(u16),
    Restart,
    Check,
}

/// A key, its expectation, and its new value with a time to live; or its deletion.
type Drawn = (u8, Guess, Option<(u8, Option<u16>)>);

/// The expectation of a drawn operation.
#[derive(Debug, Clone, Copy)]
enum Guess {
    Any,
    Absent,
    Right,
    Wrong,
}

fn step() -> impl Strategy<Value = Step> {
    let guess =
        prop_oneof![4 => Just(Guess::Any), 1 => Just(Guess::Absent), 3 => Just(Guess::Right), 1 => Just(Guess::Wrong)];
    let put = (any::<u8>(), prop::option::weighted(0.3, 1..500_u16));
    let op = (0..12_u8, guess, prop::option::weighted(0.7, put));
    prop_oneof![
        12 => prop::collection::vec(op, 1..4).prop_map(Step::Commit),
        1 => (0..=100_u8).prop_map(Step::Compact),
        2 => (1..300_u16).prop_map(Step::Pause),
        1 => Just(Step::Restart),
        2 => Just(Step::Check),
    ]
}

type Entries = BTreeMap<String, (u64, Vec<u8>)>;
type Changes = Vec<(String, Option<Vec<u8>>)>;

/// All batches so far: revision n is at index n - 1.
#[derive(Debug, Default)]
struct Model {
    history: Vec<Changes>,
    live: Entries,
    deadlines: BTreeMap<String, u64>,
    now: u64,
}

impl Model {
    fn head(&self) -> u64 {
        self.history.len() as u64
    }

    fn apply(&mut self, changes: Changes) {
        let revision = self.head() + 1;
        for (key, value) in &changes {
            match value {
                Some(value) => self.live.insert(key.clone(), (revision, value.clone())),
                None => self.live.remove(key),
            };
        }
        self.history.push(changes);
    }

    fn at(&self, revision: u64) -> Entries {
        let mut past = Self::default();
        for changes in &self.history[..revision as usize] {
            past.apply(changes.clone());
        }
        past.live
    }

    fn commit(&mut self, txn: &Txn) -> Result<u64, usize> {
        for (number, op) in txn.ops.iter().enumerate() {
            if !op.expect.holds(self.live.get(&op.key).map(|(revision, _)| Revision(*revision))) {
                return Err(number);
            }
        }
        let mut changes = Vec::new();
        for op in &txn.ops {
            match &op.action {
                Action::Put { value, ttl } => {
                    let deadline = ttl.map(|ttl| self.now + ttl.as_millis() as u64);
                    match deadline {
                        Some(deadline) => self.deadlines.insert(op.key.clone(), deadline),
                        None => self.deadlines.remove(&op.key),
                    };
                    changes.push((op.key.clone(), Some(value.to_vec())));
                }
                Action::Delete if self.live.contains_key(&op.key) => {
                    self.deadlines.remove(&op.key);
                    changes.push((op.key.clone(), None));
                }
                Action::Delete => {}
            }
        }
        if !changes.is_empty() {
            self.apply(changes);
        }
        Ok(self.head())
    }

    fn pause(&mut self, millis: u64) {
        self.now += millis;
        let mut due: Vec<_> =
            self.deadlines.iter().filter(|(_, at)| **at <= self.now).map(|(k, at)| (*at, k.clone())).collect();
        due.sort();
        if !due.is_empty() {
            self.apply(due.iter().map(|(_, key)| (key.clone(), None)).collect());
            for (_, key) in due {
                self.deadlines.remove(&key);
            }
        }
    }

    fn txn(&self, ops: &[Drawn]) -> Txn {
        let mut ops = ops.to_vec();
        ops.sort_by_key(|(key, ..)| *key);
        ops.dedup_by_key(|(key, ..)| *key);
        ops.into_iter().fold(Txn::default(), |txn, (key, guess, put)| {
            let key = format!("key-{key}");
            let revision = self.live.get(&key).map(|(revision, _)| *revision);
            let expect = match (guess, revision) {
                (Guess::Any, _) => Expect::Any,
                (Guess::Absent, _) | (Guess::Right, None) => Expect::Absent,
                (Guess::Right, Some(revision)) => Expect::Revision(Revision(revision)),
                (Guess::Wrong, revision) => Expect::Revision(Revision(revision.unwrap_or(0) + 1)),
            };
            let action = put.map_or(Action::Delete, |(byte, ttl)| Action::Put {
                value: vec![byte; usize::from(byte)].into(),
                ttl: ttl.map(|ttl| Duration::from_millis(ttl.into())),
            });
            txn.with(key, expect, action)
        })
    }
}

pub fn load_and_events_are_what_was_committed(subject: &dyn Subject) {
    // One store per subject: each case continues from the last one, or starts empty if the store does not persist.
    let clock = clock();
    let limits = Limits { piece_bytes: 300, ..Limits::default() };
    let open = || subject.open(limits.clone(), Arc::clone(&clock) as SharedClock);
    let state = std::cell::RefCell::new((open(), Model::default()));
    let cases = if subject.keeps() { 40 } else { 150 };
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&prop::collection::vec(step(), 1..40), |steps| {
        let (store, model) = &mut *state.borrow_mut();
        for step in steps {
            if matches!(step, Step::Restart) && subject.keeps() {
                within(store.close()).unwrap();
                *store = open();
            }
            take(&**store, model, &clock, &step);
        }
        check(&**store, model);
        Ok(())
    });
    outcome.unwrap();
}

fn take(store: &dyn Store, model: &mut Model, clock: &ManualClock, step: &Step) {
    match step {
        Step::Commit(ops) => {
            let txn = model.txn(ops);
            match (within(store.commit(txn.clone())), model.commit(&txn)) {
                (Ok(revision), Ok(expected)) => assert_eq!(revision, Revision(expected)),
                (Err(Error::Conflict { op, .. }), Err(expected)) => assert_eq!(op, expected),
                (found, expected) => panic!("{txn:?}: {found:?} instead of {expected:?}"),
            }
        }
        Step::Compact(percent) => {
            let upto = Revision(model.head() * u64::from(*percent) / 100);
            assert!(within(store.compact(upto)).unwrap() >= upto);
        }
        Step::Pause(millis) => {
            clock.advance(Duration::from_millis((*millis).into()));
            within(store.progress()).unwrap();
            model.pause((*millis).into());
            assert_eq!(within(store.progress()).unwrap(), Revision(model.head()));
        }
        Step::Restart => {}
        Step::Check => check(store, model),
    }
}

fn check(store: &dyn Store, model: &Model) {
    let mut load = within(store.load()).unwrap();
    let horizon = load.revision();
    let mut events = within(store.events(horizon)).unwrap();
    let mut base = Entries::new();
    loop {
        let entries = within(load.next()).unwrap();
        if entries.is_empty() {
            break;
        }
        base.extend(entries.into_iter().map(|entry| (entry.key.to_string(), (entry.revision.0, entry.value.to_vec()))));
    }
    assert_eq!(base, model.at(horizon.0), "at the horizon {horizon}");
    let head = within(store.progress()).unwrap();
    assert_eq!(head.0, model.head());
    let batches = until(&mut events, head);
    assert_eq!(batches.len() as u64, head.0 - horizon.0);
    for (revision, batch) in (horizon.0 + 1..).zip(batches) {
        assert_eq!(batch.revision.0, revision);
        let changes: Changes = batch.events.iter().map(|event| (event.key.to_string(), value(&event.change))).collect();
        assert_eq!(changes, model.history[revision as usize - 1], "revision {revision}");
    }
    assert_eq!(store.status().live_keys, model.live.len() as u64);
}

fn value(change: &Change) -> Option<Vec<u8>> {
    match change {
        Change::Put(value) => Some(value.to_vec()),
        Change::Delete => None,
    }
}
