//! Kills the real daemon before and after every step of every plan: it converges, and leaves nothing behind.
//!
//! The table is [`scenarios`]. A [`Scenario`] is a sequence of operations in which some steps of one controller are run. It runs once
//! without a kill, and then once for each of its kill points, with a daemon that dies there (`RDD_TEST_KILL_AT`) and is started again. At
//! every mark of the run and at its end, all objects of the API must equal those of the run without a kill, and nothing may be left on the
//! machine of what was deleted.
//!
//! **A new controller, or a new step.** `rdd_controllers::steps` lists it, so [`every_step_has_its_scenario`] fails until it is in the
//! table: add it to the `steps` of a scenario that runs it, or write a scenario. One scenario covers a step; further scenarios, in which
//! the step is run for another reason, set `is_another`. In its `live`,
//!
//! - change objects with [`Life::make`], [`Life::merge`] and [`Life::delete`], and wait with [`Life::until`]: all of them continue with the
//!   next daemon after a kill, so they describe the desired state, not events;
//! - call [`Life::mark`] where the state should be stable, and delete what you created before the end;
//! - name the VM, if there is one, so that its remains are searched for.
//!
//! A kill point that is not reached before the end fails the test. `RDD_TEST_KILL_ONLY=limavm/start` runs only some of them.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod app;
mod engine;
mod kubernetes;
mod life;
mod limavm;
mod mock;
mod moments;
mod remains;
mod small;
mod snapshot;
#[path = "../kubernetes/standin.rs"]
mod standin;
mod starts;
mod waits;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, OnceLock},
    time::Instant,
};

use rdd_runtime::manager;
use rdd_stdx::task::panic_message;
use rdd_testkit::{
    Daemon,
    api::{Server, Wire},
    capability::require,
};
use serde_json::Value;

use crate::life::{Api, Life, Marks, Program};

/// The number of scenarios that run in parallel.
const AT_ONCE: usize = 2;

/// Creates the initial objects; called until it succeeds.
type Prepare = fn(&Api) -> Result<(), String>;

/// A sequence of operations that runs some steps of a controller.
pub(crate) struct Scenario {
    /// A description.
    pub(crate) name: &'static str,
    /// The controller.
    pub(crate) controller: &'static str,
    /// The steps at which it is killed, once before and once after each.
    pub(crate) steps: &'static [&'static str],
    /// The occurrence of the step at which it is killed; more than 1 for steps that run several times at the same moment.
    pub(crate) nth: u32,
    /// Whether its steps have a scenario already, and run here for another reason.
    pub(crate) is_another: bool,
    /// The program that runs the controller and is killed.
    pub(crate) program: Program,
    /// The controllers that the daemon runs; `None` means all.
    pub(crate) controllers: Option<&'static str>,
    /// Creates the initial objects, before any controller runs.
    pub(crate) prepare: Option<Prepare>,
    /// Whether it has its own folder with Kubernetes releases.
    pub(crate) has_releases: bool,
    /// Whether it starts a container engine.
    pub(crate) needs_engine: bool,
    /// The VM that it creates and deletes.
    pub(crate) machine: Option<&'static str>,
    /// The operations and waits.
    pub(crate) live: fn(&mut Life<'_>),
}

impl Scenario {
    /// The defaults of most scenarios.
    pub(crate) const PLAIN: Self = Self {
        name: "",
        controller: "",
        steps: &[],
        nth: 1,
        is_another: false,
        program: Program::Daemon,
        controllers: None,
        prepare: None,
        has_releases: false,
        needs_engine: false,
        machine: None,
        live: |_| (),
    };

    /// The kill points in the form of the variable.
    fn points(&self) -> impl Iterator<Item = String> + use<'_> {
        self.steps.iter().flat_map(move |step| {
            ["before", "after"].map(|when| format!("{}/{step}:{when}:{}", self.controller, self.nth))
        })
    }

    /// Runs the scenario once, with this kill point or without a kill.
    fn run(&self, point: Option<&str>, unhurt: &Marks) -> Marks {
        let mut life = Life::begin(self, point, unhurt);
        (self.live)(&mut life);
        life.end()
    }

    /// Like `run`, but returns a failure as text, so that all failures are reported.
    fn try_run(&self, point: Option<&str>, unhurt: &Marks) -> Result<Marks, String> {
        catch_unwind(AssertUnwindSafe(|| self.run(point, unhurt))).map_err(|panic| panic_message(&*panic))
    }
}

/// The marks of the run without a kill, or its failure; shared by all kill points of a scenario.
type Unhurt = OnceLock<Result<Marks, String>>;

/// The slowest scenarios come first.
fn scenarios() -> Vec<Scenario> {
    let all = [
        kubernetes::scenarios(),
        limavm::scenarios(),
        app::scenarios(),
        engine::scenarios(),
        mock::scenarios(),
        small::scenarios(),
        starts::scenarios(),
    ];
    all.into_iter().flatten().collect()
}

/// All steps, by controller; the start of a manager counts as a controller.
fn enumerated() -> BTreeSet<(&'static str, &'static str)> {
    let of_managers = (manager::MANAGER, manager::STEPS.to_vec());
    let all = rdd_controllers::steps().into_iter().chain([of_managers]);
    all.flat_map(|(controller, steps)| steps.into_iter().map(move |step| (controller, step))).collect()
}

#[test]
fn every_step_has_its_scenario() {
    let mut found: BTreeMap<_, usize> = enumerated().into_iter().map(|step| (step, 0)).collect();
    for scenario in scenarios().into_iter().filter(|scenario| !scenario.is_another) {
        for step in scenario.steps {
            *found.entry((scenario.controller, step)).or_default() += 1;
        }
    }
    let wrong: Vec<_> = found.iter().filter(|(_, scenarios)| **scenarios != 1).collect();
    assert!(wrong.is_empty(), "each has one scenario, but for these, with the number they have: {wrong:?}");
    let unknown: Vec<_> = found.keys().filter(|step| !enumerated().contains(*step)).collect();
    assert!(unknown.is_empty(), "there are no such steps: {unknown:?}");
    let others = scenarios().into_iter().filter(|scenario| scenario.is_another);
    for (scenario, step) in others.flat_map(|one| one.steps.iter().map(move |step| (one.name, (one.controller, *step))))
    {
        assert!(found.contains_key(&step), "{scenario}: there is no such step: {step:?}");
    }
}

#[test]
fn every_controller_that_a_daemon_registers_is_enumerated() {
    let daemon = Daemon::start();
    let path = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";
    let managers = Wire::of(&daemon).get(path).expect(200);
    let embedded: Value = serde_json::from_str(managers["data"]["embedded"].as_str().unwrap()).unwrap();
    let names = embedded["enabledControllers"].as_array().unwrap().iter().filter_map(Value::as_str);
    let registered: BTreeSet<_> = names.collect();
    let enumerated = rdd_controllers::steps().into_iter().map(|(controller, _)| controller);
    // The mock never runs together with other controllers.
    let expected: BTreeSet<_> = enumerated.filter(|name| *name != rdd_controllers::mock::NAME).collect();
    assert_eq!(registered, expected);
}

#[test]
fn killed_before_and_after_every_step_of_every_plan_the_daemon_converges_and_leaves_nothing_behind() {
    let begun = Instant::now();
    let has_engine = require("own-engine");
    let scenarios: Vec<_> = scenarios().into_iter().filter(|one| has_engine || !one.needs_engine).collect();
    let chosen = std::env::var("RDD_TEST_KILL_ONLY").unwrap_or_default();
    let points = |scenario: &Scenario| scenario.points().filter(|point| point.contains(&chosen)).collect::<Vec<_>>();
    let total: usize = scenarios.iter().map(|scenario| points(scenario).len()).sum();
    let unhurt: Vec<Unhurt> = scenarios.iter().map(|_| OnceLock::new()).collect();
    let jobs = scenarios
        .iter()
        .zip(&unhurt)
        .flat_map(|(scenario, unhurt)| points(scenario).into_iter().map(move |point| (scenario, unhurt, point)));
    let jobs: Mutex<VecDeque<_>> = Mutex::new(jobs.collect());
    let (killed, failures) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some((scenario, unhurt, point)) = { jobs.lock().unwrap().pop_front() } {
            let began = Instant::now();
            let unhurt = unhurt.get_or_init(|| scenario.try_run(None, &Marks::new()));
            match unhurt.as_ref().map_err(Clone::clone).and_then(|unhurt| scenario.try_run(Some(&point), unhurt)) {
                Ok(_) => killed.lock().unwrap().push(point.clone()),
                Err(why) => failures.lock().unwrap().push(format!("{point} ({}): {why}", scenario.name)),
            }
            println!("{point}: {:.1} s", began.elapsed().as_secs_f64());
        }
    };
    std::thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let named = std::thread::Builder::new().name(format!("kill-{number}"));
            named.spawn_scoped(scope, work).unwrap();
        }
    });
    let (killed, failures) = (killed.into_inner().unwrap(), failures.into_inner().unwrap());
    // Without the occurrence: a step that is reached in several ways counts once.
    let points: BTreeSet<_> =
        killed.iter().filter_map(|point| point.rsplit_once(':')).map(|(point, _)| point).collect();
    let seconds = begun.elapsed().as_secs_f64();
    println!("kill points: {}, in {} of {total} lives, in {seconds:.0} s", points.len(), killed.len());
    assert!(failures.is_empty(), "{} of {total} lives:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(killed.len(), total);
    if has_engine && chosen.is_empty() {
        assert_eq!(points.len(), 2 * enumerated().len(), "before and after every step that there is");
    }
}
