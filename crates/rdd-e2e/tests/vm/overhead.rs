//! Measures what the product adds to the time that Lima itself takes for a start, both in one run, in turn (`make bench-vm`).
//!
//! The times of two boots of one VM differ by seconds, so their difference proves little. Instead, the times within each start are
//! compared: the time until Lima's host agent runs, and the time from its report that the VM runs until the command returns. Everything in
//! between depends on the agent and the guest, whichever program started them. The product's remaining time is compared with that of
//! `limactl`.

use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use rdd_stdx::clock::SystemClock;

use crate::guest::{User, report, say};

/// The variable with the number of rounds.
const ROUNDS: &str = "RDD_BENCH_VM";
/// The maximum time that the product may add.
const OURS: Duration = Duration::from_secs(1);

#[test]
fn a_start_of_an_existing_machine_takes_hardly_longer_than_limas_own() {
    let Some(rounds) = std::env::var(ROUNDS).ok().and_then(|rounds| rounds.parse::<usize>().ok()) else {
        say("skipped: what a start takes is measured by make bench-vm");
        return;
    };
    let Some(user) = User::new() else { return };
    user.set(&["backend=lima", "virtualMachine.cpus=2", "virtualMachine.memory=2Gi", "running=true"]);
    user.verb("stop");
    // The first boot of a new disk differs from those that follow.
    user.verb("start");
    user.verb("stop");
    let (mut limas, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..rounds.max(1) {
        limas.push(by_lima_alone(&user));
        ours.push(Taken::by("rdd start", &user, || {
            user.verb("start");
        }));
        user.verb("stop");
    }
    user.rdd(&["svc", "delete"]).expect_success();
    let figure = |starts: &[Taken], of: fn(&Taken) -> Duration| median(starts.iter().map(of).collect());
    report("limactl start, median", figure(&limas, |start| start.whole));
    report("rdd start, median", figure(&ours, |start| start.whole));
    let (lima, ours) = (figure(&limas, |start| start.outside), figure(&ours, |start| start.outside));
    report("limactl start outside the host agent, median", lima);
    report("rdd start outside the host agent, median", ours);
    assert!(ours <= lima + OURS, "outside the host agent a start took us {ours:?}, and limactl {lima:?}");
}

/// The times of a start.
struct Taken {
    whole: Duration,
    /// The part in which Lima's host agent was not involved.
    outside: Duration,
}

impl Taken {
    fn by(name: &str, user: &User, start: impl FnOnce()) -> Self {
        let clock = SystemClock::shared();
        let began = clock.wall();
        start();
        let ended = clock.wall();
        // The agent's first action is to write its PID, and its last event of a start is that the VM runs.
        let events = fs::read_to_string(user.folder().join("ha.stdout.log")).unwrap();
        assert!(events.lines().last().is_some_and(|line| line.contains("\"running\":true")), "{events}");
        let (agent, running) = (written(&user.folder().join("ha.pid")), written(&user.folder().join("ha.stdout.log")));
        let whole = ended.saturating_sub(began);
        let outside = agent.saturating_sub(began) + ended.saturating_sub(running);
        report(name, whole);
        report(&format!("{name}, until the host agent is there"), agent.saturating_sub(began));
        report(&format!("{name}, since it says that the machine runs"), ended.saturating_sub(running));
        Self { whole, outside }
    }
}

/// The modification time of a file.
fn written(path: &Path) -> Duration {
    fs::metadata(path).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Starts the same VM with `limactl`, in the same environment and without a daemon.
fn by_lima_alone(user: &User) -> Taken {
    user.rdd(&["svc", "stop"]).expect_success();
    let taken = Taken::by("limactl start", user, || {
        user.limactl(&["start", "--tty=false", "rd"]).expect_success();
    });
    user.limactl(&["stop", "rd"]).expect_success();
    assert!(Path::new(&user.folder()).exists());
    user.rdd(&["svc", "start"]).expect_success();
    taken
}
