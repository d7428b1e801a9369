//! Decides the steps and the status of a LimaVM from the observed state. No I/O.
//!
//! Long operations (create, start, stop, delete) run in the background: a step only starts the job. While it runs, the machine is busy,
//! and the plan waits for its end, which enqueues the object. So VMs never wait for each other, and a deletion never waits for a
//! download.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_driver::template::needs_restart;
use rdd_runtime::{
    Plan,
    conditions::{find, is_true},
};
use rdd_types::{
    conditions::{CREATED, PendingCondition, RUNNING, limavm as specs},
    lima::{LimaVM, LimaVMStatus},
};

use super::observed::{Disk, Failure, Job, Machine, Observed, Phase, Template};
use crate::condition;

/// The interval of reconciles for changes that nothing reports.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The interval of progress updates of a creation, which may download an image of several hundred megabytes.
const WATCH_CREATION: Duration = Duration::from_secs(1);

/// The actions of a plan.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Makes the LimaVM the owner of its template copy.
    ClaimTemplate,
    /// Writes the status and publishes an event for each changed condition.
    WriteStatus {
        /// The complete status.
        status: Box<LimaVMStatus>,
        /// Type and message of each changed condition.
        changed: Vec<(String, String)>,
    },
    /// Removes the restart and reset requests that were handled.
    ClearRestartRequest,
    /// Writes the template for the next start.
    ApplyTemplate,
    /// Starts the creation of the instance.
    Create,
    /// Starts the takeover of a running instance.
    Adopt,
    /// Starts the instance.
    Start,
    /// Starts to stop the instance.
    Stop,
    /// Starts the deletion of the instance.
    Delete,
    /// Deletes every object that the LimaVM owns.
    Sweep,
    /// Removes the finalizer, because nothing is left to clean up.
    Release,
}

rdd_runtime::steps!(Step {
    Self::ClaimTemplate => "claim-template",
    Self::WriteStatus { .. } => "write-status",
    Self::ClearRestartRequest => "clear-restart-request",
    Self::ApplyTemplate => "apply-template",
    Self::Create => "create",
    Self::Adopt => "adopt",
    Self::Start => "start",
    Self::Stop => "stop",
    Self::Delete => "delete",
    Self::Sweep => "sweep",
    Self::Release => "release",
});

/// Plans the steps for an observation.
pub fn plan(seen: &Observed) -> Plan<Step> {
    if seen.is_gone {
        return Plan::nothing();
    }
    let status = seen.vm.status.clone().unwrap_or_default();
    let mut draft = Draft { seen, written: status.clone(), status, steps: Vec::new(), again: None };
    if seen.vm.metadata.deletion_timestamp.is_some() {
        draft.tear_down();
    } else {
        // The write afterwards covers conditions that no step in between has written.
        draft.keep();
        draft.write();
    }
    Plan { steps: draft.steps, again: draft.again }
}

/// The status to write when this step failed, if the failure concerns the state of the VM.
pub fn after_failure(failed: &Step, seen: &Observed, error: &str) -> Option<Step> {
    let pending = match failed {
        Step::ClaimTemplate => specs::CREATE_FAILED.with_message(error),
        Step::ApplyTemplate if !seen.is_alive() => specs::START_FAILED.with_message(error),
        // The VM keeps running as it was started, but not in the wanted state.
        Step::ApplyTemplate if is_true(&seen.vm.status.clone().unwrap_or_default().conditions, RUNNING) => {
            specs::STARTED_DEGRADED.with_message(&specs::degraded_message(error))
        }
        Step::Sweep => specs::STOP_FAILED.with_message(error),
        _ => return None,
    };
    let status = seen.vm.status.clone().unwrap_or_default();
    let mut draft = Draft { seen, written: status.clone(), status, steps: Vec::new(), again: None };
    draft.set(pending);
    draft.write();
    draft.steps.pop()
}

/// A plan under construction: the wanted status, the status that the steps so far write, and these steps.
struct Draft<'a> {
    seen: &'a Observed,
    status: LimaVMStatus,
    written: LimaVMStatus,
    steps: Vec<Step>,
    again: Option<Duration>,
}

impl Draft<'_> {
    fn condition(&self, of: &str) -> Option<&Condition> {
        find(&self.status.conditions, of)
    }

    fn set(&mut self, pending: PendingCondition) {
        condition::set(&pending, &mut self.status.conditions, self.seen.generation(), self.seen.now);
    }

    /// Appends a step that writes the status, if it differs from what earlier steps write.
    fn write(&mut self) {
        if self.status == self.written {
            return;
        }
        let before = &self.written.conditions;
        let news = self.status.conditions.iter().filter(|now| {
            find(before, &now.type_)
                .is_none_or(|was| (&was.status, &was.reason, &was.message) != (&now.status, &now.reason, &now.message))
        });
        let changed = news.map(|condition| (condition.type_.clone(), condition.message.clone())).collect();
        self.written = self.status.clone();
        self.steps.push(Step::WriteStatus { status: Box::new(self.status.clone()), changed });
    }

    fn begin(&mut self, step: Step) {
        self.write();
        self.steps.push(step);
    }

    fn keep(&mut self) {
        // A new object gets a condition at once, so that users see that it was noticed.
        if self.condition(CREATED).is_none() {
            self.set(specs::PENDING.pending());
        }
        if let Machine::Busy(job) = self.seen.machine {
            match (job, &self.seen.progress) {
                (Job::Start, _) => self.set(specs::STARTING.pending()),
                (Job::Create, progress) => {
                    if let Some(progress) = progress {
                        self.set(specs::PENDING.with_message(progress));
                    }
                    // Nothing reports the progress of a creation.
                    self.again = Some(WATCH_CREATION);
                }
                _ => {}
            }
            return;
        }
        if let (Disk::Unreadable { why }, false) = (&self.seen.disk, matches!(self.seen.machine, Machine::Held(_))) {
            let is_created = is_true(&self.status.conditions, CREATED);
            self.set(if is_created {
                specs::START_FAILED.with_message(why)
            } else {
                specs::CREATE_FAILED.with_message(why)
            });
            self.again = Some(LOOK_AGAIN);
            return;
        }
        // Before anything else: with the LimaVM as its owner, the copy is deleted with it.
        if matches!(self.seen.template, Template::Present { ours: false, .. }) {
            self.begin(Step::ClaimTemplate);
        }
        if self.is_in_place() && !self.is_reset() && self.is_created() {
            self.take_restart_request();
            self.follow_template();
            if self.seen.is_wanted() { self.keep_running() } else { self.keep_stopped() }
        }
    }

    /// Whether the status names the template copy. Until it does, no instance is created, so one that exists belongs to nothing and is
    /// deleted.
    fn is_in_place(&mut self) -> bool {
        if self.status.template_config_map.is_some() {
            return true;
        }
        if self.seen.template == Template::Absent {
            self.miss_template();
            return false;
        }
        if let Machine::Failed(Failure { job: Job::Delete, message, wait: Some(wait) }) = &self.seen.machine {
            self.set(specs::CREATE_FAILED.with_message(message));
            self.again = Some(*wait);
            return false;
        }
        if self.seen.disk != Disk::Absent {
            self.begin(Step::Delete);
            return false;
        }
        self.status.template_config_map = Some(LimaVM::template_config_map(self.seen.name()));
        self.write();
        true
    }

    /// Whether a requested reset is in progress. The request stays until the instance is deleted, so that a new process continues after a
    /// crash. Without a template there is no reset, because the instance could not be created again.
    fn is_reset(&mut self) -> bool {
        let can_be_made = matches!(self.seen.template, Template::Present { text: Some(_), .. });
        if self.seen.reset_request().is_none() || !can_be_made {
            return false;
        }
        if self.seen.disk == Disk::Absent {
            self.status.restart_needed = false;
            self.begin(Step::ClearRestartRequest);
            return false;
        }
        self.set(specs::PENDING.pending());
        self.say_stopped_for_good();
        if let Machine::Failed(Failure { job: Job::Delete, message, .. }) = &self.seen.machine {
            self.set(specs::STOP_FAILED.with_message(message));
        }
        self.unless_waiting(Job::Delete, Step::Delete);
        true
    }

    fn miss_template(&mut self) {
        let missing = format!("template ConfigMap {:?} not found", LimaVM::template_config_map(self.seen.name()));
        self.set(specs::CREATE_FAILED.with_message(&missing));
        self.again = Some(LOOK_AGAIN);
    }

    /// Whether there is a complete instance; otherwise appends the step that creates one.
    fn is_created(&mut self) -> bool {
        match (&self.seen.disk, &self.seen.template) {
            (Disk::Stopped { .. } | Disk::Running { .. }, _) => {
                self.confirm_created();
                true
            }
            // A VM that runs exists, even if its disk cannot be read.
            (Disk::Unreadable { .. }, _) => true,
            // A complete instance that broke is repaired by a stop. A deletion would lose its data.
            (Disk::Broken { .. }, _) if is_true(&self.status.conditions, CREATED) => true,
            (Disk::Broken { why }, _) => {
                self.set(specs::CREATE_FAILED.with_message(why));
                self.unless_waiting(Job::Delete, Step::Delete);
                false
            }
            (_, Template::Absent) => {
                self.miss_template();
                false
            }
            (_, Template::Present { text: None, .. }) => {
                self.set(specs::CREATE_FAILED.with_message("template ConfigMap missing template data"));
                false
            }
            (_, Template::Present { .. }) => {
                match &self.seen.machine {
                    Machine::Failed(Failure { job: Job::Create, message, .. }) => {
                        self.set(specs::CREATE_FAILED.with_message(message));
                    }
                    _ if is_true(&self.status.conditions, CREATED) => self.set(specs::PENDING.pending()),
                    _ => {}
                }
                self.unless_waiting(Job::Create, Step::Create);
                false
            }
        }
    }

    /// Appends the step, unless the last such job failed and its retry is not due yet.
    fn unless_waiting(&mut self, job: Job, step: Step) {
        match &self.seen.machine {
            Machine::Failed(failure) if failure.job == job && failure.wait.is_some() => self.again = failure.wait,
            _ => self.begin(step),
        }
    }

    fn confirm_created(&mut self) {
        let is_new = !is_true(&self.status.conditions, CREATED);
        if !is_new {
            let message = self.condition(CREATED).map(|condition| condition.message.clone()).unwrap_or_default();
            self.set(specs::INSTANCE_CREATED.with_message(&message));
            return;
        }
        let made_now = self.seen.machine == Machine::Created;
        self.set(if made_now { specs::INSTANCE_CREATED.pending() } else { specs::INSTANCE_EXISTS.pending() });
        // The instance was just created from this text, so the text is in effect before the first start.
        if let Template::Present { text: Some(text), resource_version, .. } = &self.seen.template
            && self.seen.disk.template() == Some(text)
        {
            self.status.observed_template_resource_version = Some(resource_version.clone());
        }
        self.write();
    }

    fn take_restart_request(&mut self) {
        if self.seen.restart_request().is_none() {
            return;
        }
        if self.seen.is_wanted() && self.seen.is_alive() {
            self.status.restart_needed = true;
        }
        self.begin(Step::ClearRestartRequest);
    }

    /// Writes a changed template to disk. The status gets `restartNeeded` first: if the texts are equal and no restart is needed, the
    /// running VM was started with this text.
    fn follow_template(&mut self) {
        let (Template::Present { text: Some(text), resource_version, .. }, Some(on_disk)) =
            (&self.seen.template, self.seen.disk.template())
        else {
            return;
        };
        if text != on_disk {
            if self.seen.is_alive() && !self.seen.is_wanted() {
                // The VM is about to be stopped; the text is written afterwards.
                return;
            }
            if self.seen.is_alive() && needs_restart(on_disk, text) {
                self.status.restart_needed = true;
            }
            self.begin(Step::ApplyTemplate);
        } else if self.seen.is_wanted() && matches!(self.seen.disk, Disk::Running { outdated: true, .. }) {
            self.status.restart_needed = true;
        }
        // The observed version may only name a template that is in effect.
        let up = matches!(self.seen.machine, Machine::Held(Phase::Running { .. }));
        let in_effect = if self.seen.is_wanted() { up } else { !self.seen.is_alive() };
        if in_effect && !self.status.restart_needed {
            self.status.observed_template_resource_version = Some(resource_version.clone());
        }
    }

    fn keep_stopped(&mut self) {
        self.status.restart_needed = false;
        if self.seen.is_alive() || matches!(self.seen.disk, Disk::Broken { .. }) {
            if let Machine::Failed(Failure { job: Job::Stop, message, .. }) = &self.seen.machine {
                self.set(specs::STOP_FAILED.with_message(message));
            }
            self.unless_waiting(Job::Stop, Step::Stop);
            return;
        }
        let already = self.condition(RUNNING).filter(|condition| specs::STOPPED.matches(condition));
        let pending = match already {
            Some(condition) => specs::STOPPED.with_message(&condition.message.clone()),
            None if self.seen.machine == Machine::Stopped => specs::STOPPED_ON_REQUEST.pending(),
            None => specs::STOPPED.pending(),
        };
        self.set(pending);
    }

    fn keep_running(&mut self) {
        match &self.seen.machine {
            Machine::Held(Phase::Starting) => self.say_starting(),
            Machine::Held(Phase::Running { complaint }) => {
                self.say_started(complaint.as_deref());
                if self.status.restart_needed {
                    self.begin(Step::Stop);
                }
            }
            Machine::Failed(Failure { job: Job::Start | Job::Adopt, message, wait: Some(wait) }) => {
                self.set(specs::START_FAILED.with_message(message));
                self.again = Some(*wait);
            }
            Machine::Failed(Failure { job: Job::Stop, message, .. }) if self.must_stop() => {
                self.set(specs::STOP_FAILED.with_message(message));
                self.unless_waiting(Job::Stop, Step::Stop);
            }
            _ => self.bring_up(),
        }
    }

    /// Whether the instance must be stopped before it can start.
    fn must_stop(&self) -> bool {
        match self.seen.disk {
            Disk::Broken { .. } => true,
            // An instance that is left of a failed run is not adopted.
            Disk::Running { .. } => self.status.restart_needed || matches!(self.seen.machine, Machine::Failed(_)),
            _ => false,
        }
    }

    fn bring_up(&mut self) {
        // A status that this process cannot confirm is corrected before any other step.
        if self.seen.machine == Machine::Idle && is_true(&self.status.conditions, RUNNING) {
            self.set(specs::RECONCILING.pending());
            self.write();
        }
        if self.must_stop() {
            self.begin(Step::Stop);
        } else if matches!(self.seen.disk, Disk::Running { .. }) {
            self.begin(Step::Adopt);
        } else {
            if self.status.restart_needed && self.seen.machine == Machine::Stopped {
                self.set(specs::STOPPED_FOR_RESTART.pending());
            }
            self.status.restart_needed = false;
            self.write();
            self.set(specs::STARTING.pending());
            self.begin(Step::Start);
        }
    }

    /// Reports the phase of a VM that is not up yet. A VM that was adopted is still being verified and does not count as a new start.
    fn say_starting(&mut self) {
        let is_verified_now = self.condition(RUNNING).is_some_and(|was| specs::RECONCILING.matches(was));
        self.set(if is_verified_now { specs::RECONCILING.pending() } else { specs::STARTING.pending() });
    }

    fn say_started(&mut self, complaint: Option<&str>) {
        // A VM that is being verified was counted when it started.
        let counts = self.condition(RUNNING).is_none_or(|was| was.status != "True" && !specs::RECONCILING.matches(was));
        if counts {
            self.status.restart_count = self.status.restart_count.saturating_add(1);
        }
        self.set(match (complaint, &self.seen.warning) {
            (Some(complaint), _) => specs::STARTED_DEGRADED.with_message(&specs::degraded_message(complaint)),
            (None, Some(warning)) => specs::STARTED_WITH_WARNING.with_message(&specs::warning_message(warning)),
            (None, None) => specs::STARTED.pending(),
        });
    }

    fn tear_down(&mut self) {
        if !self.seen.holds_cleanup() {
            return;
        }
        if let Machine::Failed(Failure { job: Job::Delete, message, .. }) = &self.seen.machine {
            self.set(specs::STOP_FAILED.with_message(message));
            self.write();
        }
        match (&self.seen.machine, &self.seen.disk) {
            (Machine::Busy(Job::Delete), _) => {}
            (_, Disk::Unreadable { why }) => {
                self.set(specs::STOP_FAILED.with_message(why));
                self.write();
                self.again = Some(LOOK_AGAIN);
            }
            (_, Disk::Absent) => {
                self.say_stopped_for_good();
                self.write();
                // The finalizer goes last: without it, a new process would not continue the cleanup.
                self.steps.extend([Step::Sweep, Step::Release]);
            }
            _ => self.unless_waiting(Job::Delete, Step::Delete),
        }
    }

    /// Reports the VM as stopped before it is deleted, so that its followers (the App, the engine's mirror) see it.
    fn say_stopped_for_good(&mut self) {
        if self.condition(RUNNING).is_some_and(|condition| !specs::STOPPED.matches(condition)) {
            self.set(specs::STOPPED_ON_REQUEST.pending());
        }
    }
}
