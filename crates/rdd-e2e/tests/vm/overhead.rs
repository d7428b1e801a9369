//! What the product adds to the time that Lima itself takes for a start: both in one run, in turns (`make bench-vm`).

use std::{
    path::Path,
    time::{Duration, Instant},
};

use crate::guest::{User, report, say};

/// How often each is measured.
const ROUNDS: usize = 3;
/// What the product may add.
const OURS: Duration = Duration::from_secs(1);

#[test]
fn a_start_of_an_existing_machine_takes_hardly_longer_than_limas_own() {
    if std::env::var_os("RDD_BENCH_VM").is_none() {
        say("skipped: what a start takes is measured by make bench-vm");
        return;
    }
    let Some(user) = User::new() else { return };
    user.set(&["backend=lima", "virtualMachine.cpus=2", "virtualMachine.memory=2Gi", "running=true"]);
    user.verb("stop");
    // The first boot of a new disk is another one than those that follow.
    user.verb("start");
    user.verb("stop");
    let (mut limas, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        limas.push(by_lima_alone(&user));
        whole.push(user.verb("start"));
        user.verb("stop");
    }
    user.rdd(&["svc", "delete"]).expect_success();
    let (limas, whole) = (median(limas), median(whole));
    report("limactl start, median", limas);
    report("rdd start, median", whole);
    let ours = whole.saturating_sub(limas);
    report("of which are ours", ours);
    assert!(ours <= OURS, "our own share of a start took {ours:?}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The same machine, started by `limactl` in the same environment while no daemon is there.
fn by_lima_alone(user: &User) -> Duration {
    user.rdd(&["svc", "stop"]).expect_success();
    let began = Instant::now();
    user.limactl(&["start", "--tty=false", "rd"]).expect_success();
    let took = began.elapsed();
    report("limactl start", took);
    user.limactl(&["stop", "rd"]).expect_success();
    assert!(Path::new(&user.folder()).exists());
    user.rdd(&["svc", "start"]).expect_success();
    took
}
