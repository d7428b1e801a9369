//! The real daemon, killed before and after every step of every plan: it converges, and leaves nothing behind.
//!
//! The table is [`scenarios`]. A [`Scenario`] is a life in which some steps of one controller happen; it is lived once unhurt, and then once for each of
//! its points, with a daemon that dies there (`RDD_TEST_KILL_AT`) and is started again. At every mark of the life, and at its end, all objects of
//! the API have to be as they were in the life without a kill, and on the machine nothing may be left of what is gone.
//!
//! **A new controller, or a new step.** `rdd_controllers::steps` names it, so [`every_step_has_its_scenario`] fails until it is in the table: put it into the
//! `steps` of a scenario in whose life it happens, or write a scenario. One scenario stands for a step; others, in which it happens for another reason, say so
//! (`is_another`). In its `live`,
//! - change things with [`Life::make`], [`Life::merge`] and [`Life::delete`], and wait with [`Life::until`]: all of them go on with the next
//!   daemon when one dies, so they say what shall hold, not what happens;
//! - call [`Life::mark`] where all is as it should be, and delete what you made before the end;
//! - name the machine, if there is one, so that its remains are looked for.
//!
//! A point that is not reached before the end fails the test. `RDD_TEST_KILL_ONLY=limavm/start` is for looking at some of them alone.
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

/// How many lives are lived at the same time.
const AT_ONCE: usize = 2;

/// Makes what is there before; called until it succeeds.
type Prepare = fn(&Api) -> Result<(), String>;

/// A life in which these steps of a controller happen.
pub(crate) struct Scenario {
    /// What happens in it.
    pub(crate) name: &'static str,
    /// Whose steps they are.
    pub(crate) controller: &'static str,
    /// The steps at which it is killed, once before and once after each.
    pub(crate) steps: &'static [&'static str],
    /// At which time that a step is reached. More than once is for steps of which many happen at the same moment.
    pub(crate) nth: u32,
    /// Whether its steps have a scenario already, and are taken here for another reason.
    pub(crate) is_another: bool,
    /// Who runs the controller, and is killed.
    pub(crate) program: Program,
    /// Which controllers the daemon runs, if not all.
    pub(crate) controllers: Option<&'static str>,
    /// What is there before any controller runs.
    pub(crate) prepare: Option<Prepare>,
    /// Whether there is a folder of its own with releases of Kubernetes.
    pub(crate) has_releases: bool,
    /// Whether it starts a container engine.
    pub(crate) needs_engine: bool,
    /// The machine that is made in it, and gone at its end.
    pub(crate) machine: Option<&'static str>,
    /// What is done and awaited.
    pub(crate) live: fn(&mut Life<'_>),
}

impl Scenario {
    /// What most have in common.
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

    /// As the variable has them.
    fn points(&self) -> impl Iterator<Item = String> + use<'_> {
        self.steps.iter().flat_map(move |step| {
            ["before", "after"].map(|when| format!("{}/{step}:{when}:{}", self.controller, self.nth))
        })
    }

    /// One life, with this point or unhurt.
    fn run(&self, point: Option<&str>, unhurt: &Marks) -> Marks {
        let mut life = Life::begin(self, point, unhurt);
        (self.live)(&mut life);
        life.end()
    }

    /// As `run`, with the failure as words, so that all of them are told.
    fn try_run(&self, point: Option<&str>, unhurt: &Marks) -> Result<Marks, String> {
        catch_unwind(AssertUnwindSafe(|| self.run(point, unhurt))).map_err(|panic| panic_message(&*panic))
    }
}

/// What a life without a kill left, or why there was none; one for all points of a scenario.
type Unhurt = OnceLock<Result<Marks, String>>;

/// Those that take longest come first.
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

/// Every step there is, by controller; the start of a manager counts as one.
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
    // The mock never runs beside others.
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
    // Without the time: a step that is reached in several ways is one.
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
