//! Tests of jobs and their failures, without an API.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rdd_driver::{Driver, Drivers, Error, Found, LogOptions, Pending, Run, Stopped};
use rdd_runtime::Key;
use rdd_stdx::clock::{ManualClock, SharedClock};

use super::{
    machine::{Basis, Machines, Order, Pace, Wake},
    observed::{Failure, Job, Machine},
};

const PACE: Pace =
    Pace { first: Duration::from_secs(1), most: Duration::from_secs(300), stable: Duration::from_secs(60) };

#[test]
fn delays_double_up_to_a_bound_and_the_first_crash_of_what_was_up_costs_nothing() {
    let waits =
        |had_been_up| [1, 2, 3, 4, 9, 10, 40, u32::MAX].map(|failures| PACE.wait(failures, had_been_up).as_secs());
    assert_eq!(waits(false), [1, 2, 4, 8, 256, 300, 300, 300]);
    assert_eq!(waits(true), [0, 1, 2, 4, 128, 256, 300, 300]);
}

/// A driver with creations that end as the test decides.
#[derive(Debug)]
struct Odd(fn() -> Result<(), Error>);

impl Driver for Odd {
    fn vm_types(&self) -> &'static [&'static str] {
        &["odd"]
    }

    fn validate(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }

    fn inspect<'a>(&'a self, _: &'a str) -> Pending<'a, Result<Found, Error>> {
        Box::pin(async { Ok(Found::Absent) })
    }

    fn template<'a>(&'a self, _: &'a str) -> Pending<'a, Result<Option<String>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn create<'a>(&'a self, _: &'a str, _: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async { (self.0)() })
    }

    fn start<'a>(&'a self, vm: &'a str, _: &'a LogOptions) -> Pending<'a, Result<Run, Error>> {
        Box::pin(async { Err(Error::Absent { vm: vm.to_owned() }) })
    }

    fn adopt<'a>(&'a self, _: &'a str) -> Pending<'a, Result<Option<Run>, Error>> {
        Box::pin(async { Ok(None) })
    }

    fn stop<'a>(&'a self, _: &'a str, _: Duration) -> Pending<'a, Result<Stopped, Error>> {
        Box::pin(async { Ok(Stopped::Already) })
    }

    fn apply_template<'a>(&'a self, _: &'a str, _: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, _: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async { Ok(()) })
    }
}

struct Room {
    machines: Machines,
    clock: Arc<ManualClock>,
    woken: Arc<AtomicU32>,
}

fn mk_room(create: fn() -> Result<(), Error>) -> Room {
    let clock = ManualClock::shared(Duration::from_secs(1_800_000_000));
    let drivers = Drivers::new(vec![Arc::new(Odd(create))]);
    let machines = Machines::new(drivers, LogOptions::default(), Arc::clone(&clock) as SharedClock, PACE);
    Room { machines, clock, woken: Arc::default() }
}

impl Room {
    /// Runs a creation; returns the state after it has ended.
    async fn create(&self, basis: &Basis) -> Machine {
        let (key, woken, before) = (mk_key(), Arc::clone(&self.woken), self.woken.load(Ordering::SeqCst));
        let wake: Wake = Arc::new(move || {
            woken.fetch_add(1, Ordering::SeqCst);
        });
        let template = "vmType: odd".to_owned();
        self.machines.begin(Order { key: key.clone(), job: Job::Create, basis: basis.clone(), template, wake });
        assert_eq!(self.machines.known(&key, basis), Machine::Busy(Job::Create));
        while self.woken.load(Ordering::SeqCst) == before {
            tokio::task::yield_now().await;
        }
        self.machines.known(&key, basis)
    }
}

fn mk_key() -> Key {
    Key::namespaced("ns", "vm")
}

fn mk_failed(message: &str, wait: Option<u64>) -> Machine {
    Machine::Failed(Failure { job: Job::Create, message: message.to_owned(), wait: wait.map(Duration::from_secs) })
}

#[tokio::test]
async fn failures_wait_longer_each_time_until_another_wish_comes() {
    let room = mk_room(|| Err(Error::Scripted("full".to_owned())));
    let basis = Basis { generation: 1, template: "a".to_owned() };
    assert_eq!(room.create(&basis).await, mk_failed("full", Some(1)));
    assert_eq!(room.create(&basis).await, mk_failed("full", Some(2)));
    room.clock.advance(Duration::from_millis(1500));
    let half =
        Machine::Failed(Failure { job: Job::Create, message: "full".into(), wait: Some(Duration::from_millis(500)) });
    assert_eq!(room.machines.known(&mk_key(), &basis), half);
    room.clock.advance(Duration::from_secs(1));
    assert_eq!(room.machines.known(&mk_key(), &basis), mk_failed("full", None));
    assert_eq!(room.create(&basis).await, mk_failed("full", Some(4)));
    let edited = Basis { template: "b".to_owned(), ..basis };
    assert_eq!(room.machines.known(&mk_key(), &edited), mk_failed("full", None), "at once after an edit");
    assert_eq!(room.create(&edited).await, mk_failed("full", Some(1)));
}

#[tokio::test]
async fn a_job_that_panics_is_a_failure_like_any_other() {
    let room = mk_room(|| panic!("out of luck"));
    let message = "internal error: the job panicked; the log has more";
    assert_eq!(room.create(&Basis::default()).await, mk_failed(message, Some(1)));
}

#[tokio::test]
async fn what_is_forgotten_is_forgotten_and_after_the_end_nothing_begins() {
    let room = mk_room(|| Ok(()));
    assert_eq!(room.create(&Basis::default()).await, Machine::Created);
    room.machines.forget(&Key::cluster("vm"));
    assert_eq!(room.machines.known(&mk_key(), &Basis::default()), Machine::Created, "that was somebody else");
    room.machines.forget(&mk_key());
    assert_eq!(room.machines.known(&mk_key(), &Basis::default()), Machine::Idle);
    room.machines.stop_all(Duration::ZERO).await;
    let (wake, basis, template): (Wake, _, _) = (Arc::new(|| {}), Basis::default(), "vmType: odd".to_owned());
    room.machines.begin(Order { key: mk_key(), job: Job::Create, basis, template, wake });
    assert_eq!(room.machines.known(&mk_key(), &Basis::default()), Machine::Idle);
}
