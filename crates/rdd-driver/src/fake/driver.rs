//! The driver that operates in a fake world.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{
    script::{Op, When, pass},
    world::{Boot, Call, Inner, Machine, Process, World, lock},
};
use crate::{Driver, Error, Found, Health, LogOptions, Pending, Run, State, Stopped, Template, check_name};

/// A driver for `vmType: fake`, and for `host`, `qemu`, `vz` and `wsl2`, so that tests can use the product's templates.
#[derive(Debug)]
pub struct Fake {
    pub(super) world: World,
    pub(super) number: u64,
    /// Serializes the changes of each machine.
    turns: std::sync::Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

impl Drop for Fake {
    /// Simulates the end of a daemon: its watches end, and the machines continue to run.
    fn drop(&mut self) {
        for machine in lock(&self.world.inner).machines.values_mut() {
            if let Some(process) = &mut machine.process {
                process.watches.retain(|(driver, _)| *driver != self.number);
            }
            machine.cluster.forget_watches_of(self.number);
        }
    }
}

/// A recorded call, with the fault planned for it.
pub(super) struct Asked {
    fault: Option<(String, When)>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Asked {
    pub(super) fn is(&self, when: When) -> bool {
        self.fault.as_ref().is_some_and(|(_, planned)| *planned == when)
    }

    pub(super) fn failure(&self) -> Error {
        Error::Scripted(self.fault.as_ref().map_or_else(String::new, |(message, _)| message.clone()))
    }

    /// Ends an operation that took effect: returns the value, or the fault planned for after it.
    pub(super) fn done<T>(&self, value: T) -> Result<T, Error> {
        if self.fault.is_some() { Err(self.failure()) } else { Ok(value) }
    }
}

impl Fake {
    pub(super) fn new(world: World, number: u64) -> Self {
        Self { world, number, turns: std::sync::Mutex::default() }
    }

    /// The world of this driver.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Records the call, waits for its turn and for gates, and fails if a fault is planned before the operation.
    pub(super) async fn asked(&self, op: Op, vm: &str, template: Option<&str>) -> Result<Asked, Error> {
        check_name(vm)?;
        // Record the call before waiting, so that a test sees calls that a gate holds.
        let gates = {
            let mut inner = lock(&self.world.inner);
            inner.calls.push(Call { vm: vm.to_owned(), op, template: template.map(str::to_owned) });
            inner.script.gates(op)
        };
        // As the contract demands: methods that only read do not wait for other methods.
        let turn = if op.only_looks() { None } else { Some(self.turn(vm).lock_owned().await) };
        for gate in gates {
            pass(gate).await;
        }
        let fault = lock(&self.world.inner).script.take(op).map(|fault| (fault.message, fault.when));
        let asked = Asked { fault, _turn: turn };
        if asked.is(When::Before) { Err(asked.failure()) } else { Ok(asked) }
    }

    fn turn(&self, vm: &str) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Arc::clone(turns.entry(vm.to_owned()).or_default())
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut lock(&self.world.inner))
    }

    fn begin(&self, inner: &mut Inner, vm: &str, broken: Option<&Asked>) -> Result<Run, Error> {
        let boot = inner.boot.clone();
        let machine = whole(inner, vm)?;
        if machine.process.is_none() {
            if let Some(asked) = broken {
                machine.broken = Some("a start did not finish".to_owned());
                return Err(asked.failure());
            }
            machine.broken = None;
            machine.starts += 1;
            // An edit during the run makes the machine outdated, so the template is copied.
            let started_with = machine.template.clone();
            machine.process = Some(Process { started_with, state: State::Starting, watches: Vec::new() });
        }
        let process = machine.process.as_mut().ok_or_else(|| Error::Absent { vm: vm.to_owned() })?;
        // Watch before the state changes below, so that the caller sees every state.
        let run = process.watch(self.number);
        if process.state == State::Starting {
            match boot {
                Boot::AtOnce => process.turn(State::Running(Health::GOOD)),
                Boot::Degraded(errors) => process.turn(State::Running(Health { errors })),
                Boot::ByHand => {}
                Boot::Dies(last_words) => machine.end(&last_words),
            }
        }
        Ok(run)
    }
}

fn whole<'a>(inner: &'a mut Inner, vm: &str) -> Result<&'a mut Machine, Error> {
    match inner.machines.get_mut(vm) {
        None => Err(Error::Absent { vm: vm.to_owned() }),
        Some(machine) if machine.half_made => Err(Error::HalfMade { vm: vm.to_owned() }),
        Some(machine) => Ok(machine),
    }
}

impl Driver for Fake {
    fn vm_types(&self) -> &'static [&'static str] {
        &["fake", "host", "qemu", "vz", "wsl2"]
    }

    fn validate(&self, template: &str) -> Result<(), Vec<String>> {
        Template::parse(template).map(|_| ())
    }

    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Found, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Inspect, vm, None).await?;
            asked.done(self.world.found(vm))
        })
    }

    fn template<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Template, vm, None).await?;
            let template = self.change(|inner| whole(inner, vm).ok().map(|machine| machine.template.clone()));
            asked.done(template)
        })
    }

    fn create<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Create, vm, Some(template)).await?;
            self.validate(template).map_err(|problems| Error::InvalidTemplate { vm: vm.to_owned(), problems })?;
            match self.world.found(vm) {
                // A complete machine stays unchanged, whatever fault is planned.
                Found::Absent | Found::HalfMade if asked.is(When::Halfway) => self.world.half_makes(vm),
                Found::Absent | Found::HalfMade => self.world.makes(vm, template),
                _ => {}
            }
            asked.done(())
        })
    }

    fn start<'a>(&'a self, vm: &'a str, _log: &'a LogOptions) -> Pending<'a, Result<Run, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Start, vm, None).await?;
            let broken = asked.is(When::Halfway).then_some(&asked);
            let run = self.change(|inner| self.begin(inner, vm, broken))?;
            asked.done(run)
        })
    }

    fn adopt<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Run>, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Adopt, vm, None).await?;
            let run = self.change(|inner| {
                let machine = inner.machines.get_mut(vm)?;
                machine.broken = None;
                machine.process.as_mut().map(|process| process.watch(self.number))
            });
            asked.done(run)
        })
    }

    fn stop<'a>(&'a self, vm: &'a str, _grace: Duration) -> Pending<'a, Result<Stopped, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Stop, vm, None).await?;
            if asked.is(When::Halfway) {
                return Err(asked.failure());
            }
            let stopped = self.change(|inner| {
                let forced = inner.ignores_requests;
                let Some(machine) = inner.machines.get_mut(vm) else { return Stopped::Already };
                let (running, broken) = (machine.process.is_some(), machine.broken.is_some());
                machine.end("stopped");
                match (running, broken || forced) {
                    (false, false) => Stopped::Already,
                    (false, true) if !broken => Stopped::Already,
                    (_, true) => Stopped::Forced,
                    (true, false) => Stopped::Graceful,
                }
            });
            asked.done(stopped)
        })
    }

    fn apply_template<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ApplyTemplate, vm, Some(template)).await?;
            self.validate(template).map_err(|problems| Error::InvalidTemplate { vm: vm.to_owned(), problems })?;
            if asked.is(When::Halfway) {
                return Err(asked.failure());
            }
            self.change(|inner| whole(inner, vm).map(|machine| template.clone_into(&mut machine.template)))?;
            asked.done(())
        })
    }

    fn delete<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::Delete, vm, None).await?;
            self.change(|inner| {
                if let Some(mut machine) = inner.machines.remove(vm) {
                    machine.end("deleted");
                    if asked.is(When::Halfway) {
                        inner.machines.insert(vm.to_owned(), Machine { half_made: true, ..Machine::default() });
                    }
                }
            });
            asked.done(())
        })
    }

    fn kubernetes(&self) -> Option<&dyn crate::Cluster> {
        Some(self)
    }
}
