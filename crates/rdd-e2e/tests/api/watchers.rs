//! Tests watchers that stop reading, which no other client may notice, and a server shutdown, which all watchers must see.

use std::time::{Duration, Instant};

use rdd_testkit::{
    Daemon,
    api::{Events, Next, Server, Wire},
};

use crate::support::{MAPS, SOON, expect_unharmed, mk_map, name, version};

#[test]
fn a_watcher_that_stops_reading_is_cut_off_and_blocks_nobody() {
    let daemon = Daemon::start();
    let (wire, pid) = (Wire::of(&daemon), daemon.pid());
    let from = version(&wire.post(MAPS, &mk_map("large", "0")).expect(201));
    let path = format!("{MAPS}?watch=true&resourceVersion={from}&fieldSelector=metadata.name%3Dlarge");
    let mut slow = wire.try_watch(&path).unwrap();
    let mut quick = wire.watch(&path);
    let large = "x".repeat(800_000);
    let mut last = from;
    for turn in 0..60 {
        let asked = Instant::now();
        let put = wire.put(&format!("{MAPS}/large"), &mk_map("large", &format!("{turn}{large}"))).expect(200);
        assert!(asked.elapsed() < Duration::from_secs(15), "a write took {:?}", asked.elapsed());
        last = version(&put);
        assert_eq!(version(&quick.expect()["object"]), last, "the watcher that reads sees each");
    }
    // It reads again: some buffered events arrive, then an error that it is too late, or the end.
    let mut seen = 0;
    let expired = loop {
        match slow.next(SOON) {
            Next::Event(event) if event["type"] == "ERROR" => break event["object"]["code"] == 410,
            Next::Event(event) => {
                seen = version(&event["object"]);
                assert!(seen < last, "it saw everything although 48 MB were sent before it read");
            }
            Next::Ended => break true,
            Next::Quiet => panic!("it is neither served nor cut off; it saw up to {seen} of {last}"),
        }
    };
    assert!(expired, "it was told something other than that it is too late");
    expect_unharmed(&daemon, &wire, pid, 500);
}

#[test]
fn a_server_that_shuts_down_ends_its_watches_in_order() {
    let daemon = Daemon::start();
    let wire = Wire::of(&daemon);
    let made = wire.post(MAPS, &mk_map("a", "1")).expect(201);
    let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name%3Da");
    let mut watches: Vec<_> = (0..10).map(|_| wire.try_watch(&path).unwrap()).collect();
    for watch in &mut watches {
        assert_eq!(watch.expect()["object"], made);
    }
    let began = Instant::now();
    daemon.rdd(&["svc", "stop"]).expect_success();
    assert!(began.elapsed() < SOON, "watches held up the shutdown for {:?}", began.elapsed());
    for watch in &mut watches {
        assert_eq!(watch.next(SOON), Next::Ended);
        assert!(watch.ended_well(), "it was cut, not ended");
    }
    daemon.rdd(&["svc", "start"]).expect_success();
    let wire = Wire::of(&daemon);
    let changed = wire.put(&format!("{MAPS}/a"), &mk_map("a", "2")).expect(200);
    let mut resumed = wire.watch(&format!("{path}&resourceVersion={}", version(&made)));
    let event = resumed.expect();
    assert_eq!((event["type"].as_str(), name(&event["object"])), (Some("MODIFIED"), "a".to_owned()));
    assert_eq!(version(&event["object"]), version(&changed));
}
