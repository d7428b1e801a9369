//! The load: writers of every kind of write, watchers and listers, on a built-in and on a custom resource, with their ledgers.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rdd_testkit::{
    Daemon,
    api::{
        Server, Wire,
        ledger::{LedgerCollection, LoadProgress, WatcherLedger, WriteVerb, WriterLedger, compare, list_repeatedly},
    },
    eventually,
};
use serde_json::json;

use crate::figures::Sample;

const WRITERS_PER_COLLECTION: usize = 4;
const WATCHERS_PER_COLLECTION: usize = 3;
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CUSTOM: &str = "/apis/soak.example/v1/namespaces/default/sponges";
/// The timeout for a CRD to be served.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

/// The state of the load, over all runs of the daemon.
pub(crate) struct Load {
    wire: Wire,
    parts: Vec<Part>,
    /// The number of runs; every run writes other values than those before.
    runs: u64,
}

/// The load on one collection.
struct Part {
    collection: LedgerCollection,
    writers: Vec<WriterLedger>,
    watchers: Vec<WatcherLedger>,
    lists: u64,
}

impl Part {
    fn new(wire: &Wire, collection: LedgerCollection) -> Self {
        Self {
            writers: (0..WRITERS_PER_COLLECTION).map(|number| WriterLedger::new(&collection, number)).collect(),
            watchers: vec![WatcherLedger::list(wire, &collection); WATCHERS_PER_COLLECTION],
            collection,
            lists: 0,
        }
    }
}

impl Load {
    pub(crate) fn new(daemon: &Daemon) -> Self {
        let wire = Wire::of(daemon);
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sponges.soak.example"},
            "spec": {
                "group": "soak.example", "scope": "Namespaced",
                "names": {"plural": "sponges", "singular": "sponge", "kind": "Sponge"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
                }}}],
            },
        });
        wire.post(DEFINITIONS, &definition).expect(201);
        eventually("the custom kind", SERVED_WITHIN, || {
            let reply = wire.get(CUSTOM);
            if reply.code == 200 { Ok(()) } else { Err(reply.text().into_owned()) }
        });
        let custom = LedgerCollection::custom(CUSTOM, "soak.example/v1", "Sponge");
        let parts = [LedgerCollection::config_maps(), custom].map(|collection| Part::new(&wire, collection)).into();
        Self { wire, parts, runs: 0 }
    }

    /// The number of acknowledged writes so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.writers().flat_map(|writer| writer.counts().values()).sum()
    }

    fn writers(&self) -> impl Iterator<Item = &WriterLedger> {
        self.parts.iter().flat_map(|part| &part.writers)
    }

    /// Loads the daemon while `control` runs on this thread; `control` has to end the load or the daemon.
    fn run<T>(&mut self, control: impl FnOnce(&Wire, &dyn Fn()) -> T) -> T {
        self.runs += 1;
        let (runs, wire) = (self.runs, &self.wire);
        let progress: Vec<_> = self.parts.iter().map(|_| LoadProgress::default()).collect();
        let result = thread::scope(|scope| {
            for (number, (part, progress)) in self.parts.iter_mut().zip(&progress).enumerate() {
                for (writer, ledger) in part.writers.iter_mut().enumerate() {
                    let wire = wire.clone();
                    let seed = runs * 1000 + (number * WRITERS_PER_COLLECTION + writer) as u64;
                    scope.spawn(move || ledger.write(&wire, seed, progress));
                }
                for ledger in &mut part.watchers {
                    let wire = wire.clone();
                    scope.spawn(move || ledger.follow(&wire, progress));
                }
                let (wire, collection) = (wire.clone(), &part.collection);
                scope.spawn(move || list_repeatedly(&wire, collection, progress));
            }
            control(wire, &|| progress.iter().for_each(LoadProgress::stop))
        });
        for (part, progress) in self.parts.iter_mut().zip(&progress) {
            part.lists += progress.lists();
        }
        result
    }

    /// Loads the daemon for this time, without a kill.
    pub(crate) fn run_for(&mut self, daemon: &Daemon, duration: Duration) {
        self.run_sampled(daemon, duration, duration);
    }

    /// Loads the daemon for this time and then kills it under load.
    pub(crate) fn run_and_kill(&mut self, daemon: &Daemon, duration: Duration) {
        self.run(|_, _| {
            thread::sleep(duration);
            daemon.kill();
        });
    }

    /// Loads the daemon for this time and measures it at this interval.
    pub(crate) fn run_sampled(&mut self, daemon: &Daemon, duration: Duration, interval: Duration) -> Vec<Sample> {
        let pid = daemon.pid();
        self.run(|wire, stop| {
            let began = Instant::now();
            let wire = wire.clone();
            let mut samples = Vec::new();
            while began.elapsed() < duration {
                thread::sleep(interval);
                samples.push(Sample::take(pid, &wire));
            }
            stop();
            samples
        })
    }

    /// Checks the daemon's data, and brings the watchers up to date. There are no writes meanwhile.
    pub(crate) fn settle(&mut self, daemon: &Daemon) {
        self.wire = Wire::of(daemon);
        let marker = format!("marker-{}", self.runs);
        for Part { collection, writers, watchers, .. } in &mut self.parts {
            writers.iter_mut().for_each(|writer| writer.settle(&self.wire));
            self.wire.post(collection.path(), &collection.mk_marker(&marker)).expect(201);
            watchers.iter_mut().for_each(|watcher| watcher.watch_until(&self.wire, &marker));
            compare(&self.wire, collection, writers, watchers);
            // Otherwise, one object per run would remain and the lists would grow.
            self.wire.delete(&format!("{}/{marker}", collection.path())).expect(200);
        }
    }

    /// The operations so far, as a table.
    pub(crate) fn table(&self) -> String {
        let mut verbs: BTreeMap<WriteVerb, u64> = BTreeMap::new();
        for (verb, count) in self.writers().flat_map(WriterLedger::counts) {
            *verbs.entry(*verb).or_default() += count;
        }
        let watchers = || self.parts.iter().flat_map(|part| &part.watchers);
        let mut rows = vec![("writes acknowledged, none lost".to_owned(), self.acknowledged())];
        rows.extend(verbs.into_iter().map(|(verb, count)| (format!("    {verb:?}"), count)));
        rows.push((
            "writes that a kill left unanswered".to_owned(),
            self.writers().map(WriterLedger::unanswered).sum(),
        ));
        rows.push(("events, none missed or repeated".to_owned(), watchers().map(WatcherLedger::events).sum()));
        rows.push(("watches, each resumed by the next".to_owned(), watchers().map(WatcherLedger::watches).sum()));
        rows.push(("lists, none older than a write".to_owned(), self.parts.iter().map(|part| part.lists).sum()));
        let mut table = String::from("soak:");
        for (what, count) in rows {
            write!(table, "\n  {what:<44} {count:>12}").unwrap();
        }
        table
    }

    /// Expects that no log contains a panic.
    pub(crate) fn expect_no_panic(&self, daemon: &Daemon) {
        let mut logs = 0;
        for_each_file(&daemon.path("log_dir"), &mut |path| {
            logs += 1;
            let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
            assert!(!text.contains("panicked"), "{} tells of a panic", path.display());
        });
        assert!(logs > 0, "there is no log to judge");
    }
}

fn for_each_file(folder: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { for_each_file(&path, visit) } else { visit(&path) }
    }
}
