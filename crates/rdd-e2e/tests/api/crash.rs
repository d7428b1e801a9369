//! `kill -9` under load: what was acknowledged is there, and watches go on where they were.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rdd_testkit::{
    Daemon,
    api::{Ask, Events, Next, Server, Wire},
    eventually,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{MAPS, Random, SOON, mk_map, name, version};

const WRITERS: usize = 4;
const WATCHERS: usize = 3;
const ROUNDS: u64 = 2;
/// So many acknowledged writes in a round before it is killed.
const WRITES: usize = 120;

/// What one writer knows of one of its objects.
#[derive(Debug, Clone, Default)]
struct Known {
    /// The value that was acknowledged; `None` if it is not there.
    value: Option<String>,
    /// What the last, unanswered request would have made of it.
    maybe: Option<Option<String>>,
}

/// What one writer was told.
#[derive(Debug, Default)]
struct Told {
    objects: BTreeMap<String, Known>,
    /// The versions of its writes.
    versions: Vec<u64>,
}

/// Creates, changes and deletes until the server does not answer any more.
fn write(wire: &Wire, writer: usize, seed: u64, told: &mut Told, count: &AtomicUsize) {
    let mut random = Random::new(seed);
    for turn in 0.. {
        let object = format!("w{writer}-{}", random.below(6));
        let path = format!("{MAPS}/{object}");
        let known = told.objects.entry(object.clone()).or_default();
        let value = format!("{seed}-{turn}");
        let map = mk_map(&object, &value);
        let (ask, then) = match (&known.value, random.below(3)) {
            (None, _) => (Ask::new("POST", MAPS).json(&map), Some(value)),
            (Some(_), 0) => (Ask::new("DELETE", &path), None),
            (Some(_), _) => (Ask::new("PUT", &path).json(&map), Some(value)),
        };
        known.maybe = Some(then.clone());
        let Ok(reply) = wire.try_ask(&ask) else { return };
        assert!(matches!(reply.code, 200 | 201), "{} {}: {}", ask.method, ask.path, reply.text());
        *known = Known { value: then.clone(), maybe: None };
        if then.is_some() {
            told.versions.push(version(&reply.json()));
        }
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// What one watcher has seen, over all lives of the daemon.
#[derive(Debug)]
struct Seen {
    /// Of the last event.
    version: u64,
    versions: Vec<u64>,
    objects: BTreeMap<String, Value>,
}

impl Seen {
    fn take(&mut self, event: &Value) {
        let object = &event["object"];
        assert_ne!(event["type"], "ERROR", "{event}");
        let now = version(object);
        assert!(now > self.version, "{now} after {}: an event came again or out of order", self.version);
        self.version = now;
        match event["type"].as_str() {
            Some("BOOKMARK") => return,
            Some("DELETED") => drop(self.objects.remove(&name(object))),
            _ => drop(self.objects.insert(name(object), object.clone())),
        }
        self.versions.push(now);
    }

    /// Watches from where it was until the server goes, or until it has seen an object of this name.
    fn watch(&mut self, wire: &Wire, until: Option<&str>) {
        let from = self.version;
        let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={from}");
        let Ok(mut events) = wire.try_watch(&path) else { return };
        loop {
            match events.next(SOON) {
                Next::Event(event) => {
                    self.take(&event);
                    if until.is_some_and(|until| name(&event["object"]) == until) {
                        return;
                    }
                }
                Next::Ended if until.is_none() => return,
                other => panic!("{other:?} while {until:?} was awaited"),
            }
        }
    }
}

fn kill(daemon: &Daemon) {
    let pid = daemon.pid();
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    eventually("the daemon's end", SOON, || {
        let dead = daemon.processes().iter().all(|process| process.pid != pid || process.is_zombie());
        dead.then_some(())
    });
}

#[test]
fn killed_under_load_it_keeps_what_it_acknowledged_and_watches_miss_and_repeat_nothing() {
    let daemon = Daemon::start();
    let mut wire = Wire::of(&daemon);
    let list = wire.get(MAPS).expect(200);
    let first = version(&list);
    let mut told: Vec<Told> = (0..WRITERS).map(|_| Told::default()).collect();
    let objects: BTreeMap<String, Value> =
        list["items"].as_array().unwrap().iter().map(|item| (name(item), item.clone())).collect();
    let mut seen: Vec<Seen> =
        (0..WATCHERS).map(|_| Seen { version: first, versions: Vec::new(), objects: objects.clone() }).collect();
    for round in 0..ROUNDS {
        let count = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            for (writer, told) in told.iter_mut().enumerate() {
                let (wire, count) = (wire.clone(), Arc::clone(&count));
                let seed = round * 100 + writer as u64 + 1;
                scope.spawn(move || write(&wire, writer, seed, told, &count));
            }
            for seen in &mut seen {
                let wire = wire.clone();
                scope.spawn(move || seen.watch(&wire, None));
            }
            eventually("enough writes", Duration::from_secs(120), || {
                let count = count.load(Ordering::SeqCst);
                if count >= WRITES { Ok(()) } else { Err(format!("{count} writes")) }
            });
            kill(&daemon);
        });
        daemon.rdd(&["svc", "start"]).expect_success();
        wire = Wire::of(&daemon);
        settle(&wire, &mut told);
        let marker = format!("marker-{round}");
        wire.post(MAPS, &mk_map(&marker, "1")).expect(201);
        for seen in &mut seen {
            seen.watch(&wire, Some(&marker));
        }
        compare(&wire, &told, &seen);
    }
}

/// Every acknowledged write is there; of one that was not answered, either state is right, and known from now on.
fn settle(wire: &Wire, told: &mut [Told]) {
    let newest = told.iter().flat_map(|told| &told.versions).copied().max().unwrap_or_default();
    let head = version(&wire.get(MAPS).expect(200));
    assert!(head >= newest, "the newest version is {head}, but {newest} was acknowledged");
    for told in told {
        for (object, known) in &mut told.objects {
            let reply = wire.get(&format!("{MAPS}/{object}"));
            let found = (reply.code == 200).then(|| reply.json()["data"]["value"].as_str().unwrap().to_owned());
            let maybe = known.maybe.take();
            let right = found == known.value || maybe.as_ref() == Some(&found);
            assert!(right, "{object} is {found:?}, not {:?} nor {maybe:?}", known.value);
            known.value = found;
        }
    }
}

/// Every watcher saw every acknowledged write, and what it folded is what is there.
fn compare(wire: &Wire, told: &[Told], seen: &[Seen]) {
    let list = wire.get(MAPS).expect(200);
    let items = list["items"].as_array().unwrap();
    for seen in seen {
        for version in told.iter().flat_map(|told| &told.versions) {
            assert!(seen.versions.binary_search(version).is_ok(), "a watcher missed version {version}");
        }
        let listed: BTreeMap<String, u64> = items.iter().map(|item| (name(item), version(item))).collect();
        let folded: BTreeMap<String, u64> =
            seen.objects.iter().map(|(name, object)| (name.clone(), version(object))).collect();
        assert_eq!(folded, listed);
    }
}
