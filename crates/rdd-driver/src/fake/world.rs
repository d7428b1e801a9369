//! The state of the fake host: its machines, plans and recorded calls.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    driver::Fake,
    script::{Fault, Gate, Op, Planned, Script},
};
use crate::{Found, Health, Reporter, Run, Running, State};

/// A fake host, shared by all its clones.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub(super) inner: Arc<Mutex<Inner>>,
}

/// How a machine behaves when it starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Boot {
    /// It is running and healthy at once.
    #[default]
    AtOnce,
    /// It is running at once, with these problems.
    Degraded(Vec<String>),
    /// It stays in [`State::Starting`] until [`World::comes_up`] or [`World::dies`].
    ByHand,
    /// It ends at once with these last words.
    Dies(String),
}

/// A recorded call of a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The machine.
    pub vm: String,
    /// The method.
    pub op: Op,
    /// The template argument, if the method has one.
    pub template: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) script: Script,
    pub(super) boot: Boot,
    pub(super) ignores_requests: bool,
    pub(super) calls: Vec<Call>,
    pub(super) drivers: u64,
    pub(super) clusters: super::cluster::Serves,
}

#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) template: String,
    pub(super) half_made: bool,
    pub(super) broken: Option<String>,
    pub(super) process: Option<Process>,
    pub(super) starts: u32,
    pub(super) cluster: super::cluster::Cluster,
}

/// The process of a running machine.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) started_with: String,
    pub(super) state: State,
    /// The watches, each with the number of the driver that created it.
    pub(super) watches: Vec<(u64, Reporter)>,
}

impl Process {
    pub(super) fn turn(&mut self, state: State) {
        for (_, reporter) in &self.watches {
            reporter.report(state.clone());
        }
        self.state = state;
    }

    pub(super) fn watch(&mut self, driver: u64) -> Run {
        let (reporter, run) = Run::new(self.state.clone());
        self.watches.push((driver, reporter));
        run
    }
}

impl Machine {
    pub(super) fn found(&self) -> Found {
        if let Some(why) = &self.broken {
            return Found::Broken { why: why.clone() };
        }
        match &self.process {
            // The flag takes precedence over the process.
            _ if self.half_made => Found::HalfMade,
            None => Found::Stopped,
            Some(process) => {
                let outdated = crate::template::needs_restart(&process.started_with, &self.template);
                Found::Running(Running { outdated })
            }
        }
    }

    pub(super) fn end(&mut self, last_words: &str) {
        self.broken = None;
        // A machine that stops also stops its cluster.
        self.cluster.end(last_words);
        if let Some(mut process) = self.process.take() {
            process.turn(State::Exited { last_words: last_words.to_owned() });
        }
    }
}

pub(super) fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl World {
    /// Creates an empty world without faults, in which machines run at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a driver for this world. Dropping its last clone simulates the end of a daemon: machines continue
    /// unwatched.
    pub fn driver(&self) -> Arc<Fake> {
        let number = {
            let mut inner = lock(&self.inner);
            // The number identifies the driver's watches, which end when it is dropped.
            inner.drivers += 1;
            inner.drivers
        };
        Arc::new(Fake::new(self.clone(), number))
    }

    /// Plans a fault for operations of this kind, until [`World::works`] or a limit of the plan.
    pub fn fail(&self, op: Op, fault: Fault) -> Planned {
        lock(&self.inner).script.plan(op, fault);
        Planned { world: Arc::clone(&self.inner), op }
    }

    /// Removes the planned fault for operations of this kind.
    pub fn works(&self, op: Op) {
        lock(&self.inner).script.forget(op);
    }

    /// Blocks operations of this kind, before they have any effect, until the gate is dropped.
    pub fn hold(&self, op: Op) -> Gate {
        lock(&self.inner).script.gate(op)
    }

    /// Sets the behavior of machines that are started from now on.
    pub fn boot(&self, boot: Boot) {
        lock(&self.inner).boot = boot;
    }

    /// Sets whether machines ignore shutdown requests, so that a stop has to use force.
    pub fn ignores_requests_to_stop(&self, ignores: bool) {
        lock(&self.inner).ignores_requests = ignores;
    }

    /// Sets a running machine to [`State::Running`] with this health. Returns `false` if it does not run.
    pub fn comes_up(&self, vm: &str, health: Health) -> bool {
        self.with_process(vm, |process| process.turn(State::Running(health)))
    }

    /// Ends a running machine. Returns `false` if it does not run.
    pub fn dies(&self, vm: &str, last_words: &str) -> bool {
        let mut inner = lock(&self.inner);
        let Some(machine) = inner.machines.get_mut(vm).filter(|machine| machine.process.is_some()) else {
            return false;
        };
        machine.end(last_words);
        true
    }

    /// Puts a machine into the state [`Found::Broken`]. Returns `false` if it does not exist.
    pub fn breaks(&self, vm: &str, why: &str) -> bool {
        let mut inner = lock(&self.inner);
        let Some(machine) = inner.machines.get_mut(vm) else { return false };
        // The watch of the machine ends, as when a supervised part crashes.
        machine.end(why);
        machine.broken = Some(why.to_owned());
        true
    }

    /// Creates a half-made machine, as an interrupted creation leaves it.
    pub fn half_makes(&self, vm: &str) {
        let machine = Machine { half_made: true, ..Machine::default() };
        lock(&self.inner).machines.insert(vm.to_owned(), machine);
    }

    /// Creates a stopped machine, as an earlier daemon would have.
    pub fn makes(&self, vm: &str, template: &str) {
        let machine = Machine { template: template.to_owned(), ..Machine::default() };
        lock(&self.inner).machines.insert(vm.to_owned(), machine);
    }

    /// The state of a machine, without recording a call.
    pub fn found(&self, vm: &str) -> Found {
        lock(&self.inner).machines.get(vm).map_or(Found::Absent, Machine::found)
    }

    /// The names of all machines.
    pub fn machines(&self) -> Vec<String> {
        lock(&self.inner).machines.keys().cloned().collect()
    }

    /// The template with which a running machine was started.
    pub fn started_with(&self, vm: &str) -> Option<String> {
        let inner = lock(&self.inner);
        inner.machines.get(vm)?.process.as_ref().map(|process| process.started_with.clone())
    }

    /// How many times a machine was started.
    pub fn starts(&self, vm: &str) -> u32 {
        lock(&self.inner).machines.get(vm).map_or(0, |machine| machine.starts)
    }

    /// All recorded calls in order, also those that only read.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.inner).calls.clone()
    }

    /// The names of the recorded calls for one machine in order, without those that only read.
    pub fn calls_of(&self, vm: &str) -> Vec<&'static str> {
        let inner = lock(&self.inner);
        let changes = inner.calls.iter().filter(|call| call.vm == vm && !call.op.only_looks());
        changes.map(|call| call.op.name()).collect()
    }

    /// Clears the recorded calls.
    pub fn forget_calls(&self) {
        lock(&self.inner).calls.clear();
    }

    fn with_process(&self, vm: &str, change: impl FnOnce(&mut Process)) -> bool {
        let mut inner = lock(&self.inner);
        let process = inner.machines.get_mut(vm).and_then(|machine| machine.process.as_mut());
        process.map(change).is_some()
    }
}
