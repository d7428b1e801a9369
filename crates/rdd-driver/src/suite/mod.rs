//! The contract of [`Driver`] as tests, which every driver must pass.
//!
//! ```text
//! rdd_driver::contract!(|_name: &str| Some(MySubject::new()));
//! ```

#![allow(clippy::unwrap_used, reason = "these are tests, though they are compiled as a library")]

pub mod cluster;
pub mod faults;
pub mod life;
pub mod templates;

use std::{future::Future, sync::Arc, time::Duration};

use crate::{Driver, Found, Health, LogOptions, Run, Running, State};

/// A test environment in which machines run. It outlives the drivers that operate in it.
pub trait Subject {
    /// Creates a driver, as a new daemon would. Earlier drivers of the subject may still exist.
    fn driver(&self) -> Arc<dyn Driver>;

    /// A valid template; different numbers give different templates.
    fn template(&self, number: u32) -> String;

    /// A well-formed template that this driver refuses.
    fn bad_template(&self) -> String;

    /// Kills the processes of a machine from outside.
    fn crash(&self, vm: &str);

    /// Makes the processes of a machine ignore shutdown requests.
    fn hang(&self, vm: &str);

    /// Creates the leftovers of an interrupted creation.
    fn half_make(&self, vm: &str);

    /// Kills a part of a running machine, so that the rest cannot continue.
    fn maim(&self, vm: &str);

    /// The leftovers of a machine: files, processes, devices. Empty if there are none.
    fn leftovers(&self, vm: &str) -> Vec<String>;

    /// The timeout of a start.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// The grace period of a stop.
    fn grace(&self) -> Duration {
        Duration::from_secs(30)
    }
}

/// Generates a test for each rule of the contract. The argument is a function from the name of a test to its subject.
/// It returns `None` if this host cannot run the test (and it has reported that), or if the test runs elsewhere.
#[macro_export]
macro_rules! contract {
    ($subject:expr) => {
        $crate::contract!(@tests $subject;
            life: a_machine_is_made_started_stopped_and_deleted_and_leaves_nothing,
            life: every_operation_can_be_repeated,
            life: a_restart_finds_the_machine_as_it_was,
            life: two_machines_run_side_by_side,
            life: what_is_absent_can_be_stopped_and_deleted_but_not_started,
            life: a_name_that_is_no_name_is_refused_everywhere,
            faults: a_crash_is_told_and_the_machine_can_be_started_again,
            faults: what_ignores_a_request_is_stopped_by_force,
            faults: what_runs_outlives_its_driver_and_is_adopted_by_the_next,
            faults: the_next_driver_can_stop_and_delete_what_the_last_one_started,
            faults: remains_that_cannot_go_on_are_ended_by_adoption,
            faults: a_half_made_machine_is_known_and_made_anew,
            templates: a_bad_template_is_refused_with_reasons_and_changes_nothing,
            templates: an_edit_is_written_at_once_and_takes_effect_at_the_next_start,
        );
    };
    (@tests $subject:expr; $($module:ident: $name:ident,)*) => {
        $(#[test] fn $name() {
            if let Some(subject) = $subject(stringify!($name)) {
                $crate::suite::run($crate::suite::$module::$name(&subject));
            }
        })*
    };
}

/// The timeout of one test.
const RULE_TAKES: Duration = Duration::from_secs(300);
const VM: &str = "rd";

/// Runs one test to its end.
///
/// # Panics
/// If the test fails or times out.
pub fn run(rule: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(RULE_TAKES, rule).await }).expect("a rule that ends in time");
}

fn log() -> LogOptions {
    LogOptions::default()
}

const UP: Found = Found::Running(Running { outdated: false });

/// Waits until a started machine is running, and returns its health.
async fn up(subject: &dyn Subject, run: &mut Run) -> Health {
    let answered = tokio::time::timeout(subject.patience(), async {
        loop {
            match run.next().await {
                Some(State::Starting) => {}
                Some(State::Running(health)) => return health,
                other => panic!("it should have come up: {other:?}"),
            }
        }
    });
    answered.await.expect("a machine that comes up in time")
}

/// Creates a machine, starts it and waits until it is running and healthy.
async fn running(subject: &dyn Subject, driver: &dyn Driver, vm: &str) -> Run {
    driver.create(vm, &subject.template(1)).await.unwrap();
    let mut run = driver.start(vm, &log()).await.unwrap();
    assert_eq!(up(subject, &mut run).await, Health::GOOD);
    run
}

async fn exited(subject: &dyn Subject, run: &mut Run) -> String {
    let exited = tokio::time::timeout(subject.patience(), run.exited()).await.expect("an end in time");
    exited.expect("an end that is told")
}

async fn delete(subject: &dyn Subject, driver: &dyn Driver, vm: &str) {
    driver.delete(vm).await.unwrap();
    assert_eq!(driver.inspect(vm).await.unwrap(), Found::Absent);
    assert_eq!(subject.leftovers(vm), Vec::<String>::new());
}
