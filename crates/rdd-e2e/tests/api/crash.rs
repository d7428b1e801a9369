//! Tests `kill -9` under load: acknowledged writes survive, and watches resume where they were.

use std::{thread, time::Duration};

use rdd_testkit::{
    Daemon,
    api::{
        Server, Wire,
        ledger::{LedgerCollection, LoadProgress, WatcherLedger, WriterLedger, compare, list_repeatedly},
    },
    eventually,
};

const WRITERS: usize = 4;
const WATCHERS: usize = 3;
const ROUNDS: u64 = 2;
/// The number of acknowledged writes in a round before the daemon is killed.
const WRITES: u64 = 120;

// Finding A-10
#[test]
fn killed_under_load_it_keeps_what_it_acknowledged_and_watches_miss_and_repeat_nothing() {
    let daemon = Daemon::start();
    let mut wire = Wire::of(&daemon);
    let maps = LedgerCollection::config_maps();
    let mut writers: Vec<_> = (0..WRITERS).map(|number| WriterLedger::new(&maps, number)).collect();
    let mut watchers = vec![WatcherLedger::list(&wire, &maps); WATCHERS];
    for round in 0..ROUNDS {
        let progress = LoadProgress::default();
        thread::scope(|scope| {
            for (number, writer) in writers.iter_mut().enumerate() {
                let (wire, progress) = (wire.clone(), &progress);
                let seed = round * 100 + number as u64 + 1;
                scope.spawn(move || writer.write(&wire, seed, progress));
            }
            for watcher in &mut watchers {
                let (wire, progress) = (wire.clone(), &progress);
                scope.spawn(move || watcher.follow(&wire, progress));
            }
            scope.spawn(|| list_repeatedly(&wire.clone(), &maps, &progress));
            eventually("enough writes", Duration::from_secs(120), || {
                let count = progress.acknowledged();
                if count >= WRITES { Ok(()) } else { Err(format!("{count} writes")) }
            });
            daemon.kill();
        });
        daemon.rdd(&["svc", "start"]).expect_success();
        wire = Wire::of(&daemon);
        writers.iter_mut().for_each(|writer| writer.settle(&wire));
        let marker = format!("marker-{round}");
        wire.post(maps.path(), &maps.mk_marker(&marker)).expect(201);
        watchers.iter_mut().for_each(|watcher| watcher.watch_until(&wire, &marker));
        compare(&wire, &maps, &mut writers, &mut watchers);
    }
}
