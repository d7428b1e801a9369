//! Tests of LimaVM's plan as a table: an observation, and the expected steps.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rdd_runtime::Plan;
use rdd_types::{
    conditions::{PendingCondition, limavm as specs},
    lima::{LimaVM, LimaVMSpec, LimaVMStatus},
    names::{annotation, finalizer},
};

use super::{
    observed::{Disk, Failure, Job, Machine, Observed, Phase, Template},
    plan::{Step, after_failure, plan},
};
use crate::condition;

const NOW: i64 = 1_800_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A LimaVM `vm` of generation 3 that shall run, with an owned template of version 7, before the first job.
struct Seen(Observed);

fn seen() -> Seen {
    let mut vm = LimaVM::new("vm", LimaVMSpec { running: true, ..LimaVMSpec::default() });
    vm.metadata.namespace = Some("ns".to_owned());
    vm.metadata.generation = Some(3);
    vm.metadata.finalizers = Some(vec![finalizer::CLEANUP.to_owned()]);
    let template = Template::Present { text: Some("a".to_owned()), resource_version: "7".to_owned(), ours: true };
    let (disk, machine, now) = (Disk::Absent, Machine::Idle, at(NOW));
    Seen(Observed { vm: Arc::new(vm), is_gone: false, template, disk, machine, progress: None, warning: None, now })
}

impl Seen {
    fn vm(mut self, change: impl FnOnce(&mut LimaVM)) -> Self {
        change(Arc::make_mut(&mut self.0.vm));
        self
    }

    fn status(self, change: impl FnOnce(&mut LimaVMStatus)) -> Self {
        self.vm(|vm| change(vm.status.get_or_insert_default()))
    }

    fn said(self, said: &PendingCondition) -> Self {
        self.status(|status| {
            condition::set(said, &mut status.conditions, 2, at(NOW - 100));
        })
    }

    /// The instance was created from template version 7 and is stopped.
    fn created(self) -> Self {
        let named = self.status(|status| {
            status.template_config_map = Some("vm-template".to_owned());
            status.observed_template_resource_version = Some("7".to_owned());
        });
        named.said(&specs::INSTANCE_CREATED.pending()).disk(mk_stopped("a"))
    }

    /// The instance is up and reported as such.
    fn running(self) -> Self {
        let up = self.created().said(&specs::STARTED.pending()).status(|status| status.restart_count = 1);
        up.disk(mk_running("a", false)).machine(Machine::Held(UP))
    }

    fn stopped_is_wanted(self) -> Self {
        self.vm(|vm| vm.spec.running = false)
    }

    fn deleting(self) -> Self {
        self.vm(|vm| vm.metadata.deletion_timestamp = Some(Time(at(NOW))))
    }

    fn restart_is_requested(self) -> Self {
        self.vm(|vm| vm.metadata.annotations = Some([(annotation::RESTART_REQUESTED.into(), "now".into())].into()))
    }

    fn reset_is_requested(self) -> Self {
        self.vm(|vm| vm.metadata.annotations = Some([(annotation::RESET_REQUESTED.into(), "now".into())].into()))
    }

    fn restart_is_needed(self) -> Self {
        self.status(|status| status.restart_needed = true)
    }

    fn template(mut self, text: Option<&str>, version: &str) -> Self {
        let text = text.map(str::to_owned);
        self.0.template = Template::Present { text, resource_version: version.to_owned(), ours: true };
        self
    }

    fn disk(mut self, disk: Disk) -> Self {
        self.0.disk = disk;
        self
    }

    fn machine(mut self, machine: Machine) -> Self {
        self.0.machine = machine;
        self
    }
}

const UP: Phase = Phase::Running { complaint: None };

fn mk_stopped(template: &str) -> Disk {
    Disk::Stopped { template: template.to_owned() }
}

fn mk_running(template: &str, outdated: bool) -> Disk {
    Disk::Running { template: template.to_owned(), outdated }
}

fn mk_broken() -> Disk {
    Disk::Broken { why: "half of it is dead".to_owned() }
}

fn mk_failed(job: Job, wait: Option<u64>) -> Machine {
    Machine::Failed(Failure { job, message: "no luck".to_owned(), wait: wait.map(Duration::from_secs) })
}

/// The plan in one line; a status is shown as the changes that it makes.
fn show(seen: &Observed, plan: &Plan<Step>) -> String {
    let mut before = seen.vm.status.clone().unwrap_or_default();
    let mut words = Vec::new();
    for step in &plan.steps {
        words.push(match step {
            Step::WriteStatus { status, changed } => {
                let text = show_change(&before, status, changed, seen.generation());
                before.clone_from(status);
                text
            }
            other => rdd_runtime::Step::name(other).to_owned(),
        });
    }
    if let Some(after) = plan.again {
        words.push(format!("again {after:?}"));
    }
    words.join("; ")
}

fn show_change(before: &LimaVMStatus, after: &LimaVMStatus, changed: &[(String, String)], generation: i64) -> String {
    let mut text = String::from("say");
    for condition in &after.conditions {
        let message = changed.iter().find(|(kind, _)| *kind == condition.type_).map(|(_, message)| message.as_str());
        if let Some(message) = message {
            let (kind, status, reason) = (&condition.type_, &condition.status, &condition.reason);
            write!(text, " {kind}={status}/{reason} {message:?}").unwrap();
            assert_eq!(condition.observed_generation, Some(generation), "every condition carries its generation");
        }
    }
    if before.template_config_map != after.template_config_map {
        write!(text, " template={}", after.template_config_map.as_deref().unwrap_or("none")).unwrap();
    }
    if before.observed_template_resource_version != after.observed_template_resource_version {
        write!(text, " version={}", after.observed_template_resource_version.as_deref().unwrap_or("none")).unwrap();
    }
    if before.restart_needed != after.restart_needed {
        write!(text, " restartNeeded={}", after.restart_needed).unwrap();
    }
    if before.restart_count != after.restart_count {
        write!(text, " restartCount={}", after.restart_count).unwrap();
    }
    text
}

fn check(seen: Seen, expected: &str) {
    let made = show(&seen.0, &plan(&seen.0));
    // Every plan reports the observed generation; the rows below are about other changes.
    let made: Vec<&str> = made.split("; ").filter(|word| *word != "say" && !word.is_empty()).collect();
    assert_eq!(made.join("; "), expected, "{:#?}", seen.0);
}

#[test]
fn a_new_one_is_told_of_and_created() {
    check(seen(), "say Created=Unknown/Pending \"Reconciliation in progress\" template=vm-template; create");
}

#[test]
fn the_copy_of_the_template_is_claimed_before_anything_is_made_from_it() {
    let mut unclaimed = seen();
    unclaimed.0.template = Template::Present { text: Some("a".into()), resource_version: "7".into(), ours: false };
    check(
        unclaimed,
        "say Created=Unknown/Pending \"Reconciliation in progress\"; claim-template; say template=vm-template; create",
    );
}

#[test]
fn without_a_template_nothing_is_created_and_that_is_said() {
    let mut absent = seen();
    absent.0.template = Template::Absent;
    check(absent, "say Created=False/CreateFailed \"template ConfigMap \\\"vm-template\\\" not found\"; again 5s");
    check(
        seen().template(None, "7"),
        "say Created=Unknown/Pending \"Reconciliation in progress\" template=vm-template; \
         say Created=False/CreateFailed \"template ConfigMap missing template data\"",
    );
}

#[test]
fn what_an_earlier_vm_of_the_same_name_left_is_removed_first() {
    check(seen().disk(mk_running("old", false)), "say Created=Unknown/Pending \"Reconciliation in progress\"; delete");
}

// Finding O-3
#[test]
fn a_half_made_instance_is_made_anew_and_never_said_to_be_created() {
    let named = || {
        seen().said(&specs::PENDING.pending()).status(|status| status.template_config_map = Some("vm-template".into()))
    };
    check(named().disk(Disk::HalfMade), "create");
    check(
        named().disk(Disk::HalfMade).machine(mk_failed(Job::Create, Some(4))),
        "say Created=False/CreateFailed \"no luck\"; again 4s",
    );
    check(
        named().disk(Disk::HalfMade).machine(mk_failed(Job::Create, None)),
        "say Created=False/CreateFailed \"no luck\"; create",
    );
    check(seen().created().disk(Disk::HalfMade), "say Created=Unknown/Pending \"Reconciliation in progress\"; create");
}

#[test]
fn what_was_created_is_said_to_be_and_started() {
    let named = || {
        seen().said(&specs::PENDING.pending()).status(|status| status.template_config_map = Some("vm-template".into()))
    };
    check(
        named().disk(mk_stopped("a")).machine(Machine::Created),
        "say Created=True/Created \"Lima instance created successfully\" version=7; \
         say Running=False/Starting \"Lima instance is starting\"; start",
    );
    check(
        named().disk(mk_stopped("a")).stopped_is_wanted(),
        "say Created=True/Created \"Lima instance exists\" version=7; say Running=False/Stopped \"Lima instance is stopped\"",
    );
}

#[test]
fn a_start_is_said_to_be_one_without_a_step_through_unknown() {
    check(
        seen().created().said(&specs::STOPPED.pending()),
        "say Running=False/Starting \"Lima instance is starting\"; start",
    );
    check(
        seen().created().said(&specs::STARTING.pending()).machine(Machine::Busy(Job::Start)).disk(Disk::NotLooked),
        "",
    );
    check(
        seen()
            .created()
            .said(&specs::STARTING.pending())
            .machine(Machine::Held(Phase::Starting))
            .disk(mk_running("a", false)),
        "",
    );
}

#[test]
fn that_it_is_up_is_said_and_counted_in_one_write() {
    check(
        seen().created().said(&specs::STARTING.pending()).machine(Machine::Held(UP)).disk(mk_running("a", false)),
        "say Running=True/Started \"Lima instance is running\" restartCount=1",
    );
    check(seen().running(), "");
}

// Finding A-9
#[test]
fn a_known_flaw_of_what_it_runs_on_is_a_warning_and_no_refusal() {
    let mut seen =
        seen().created().said(&specs::STARTING.pending()).machine(Machine::Held(UP)).disk(mk_running("a", false));
    seen.0.warning = Some("limactl is old".to_owned());
    check(seen, "say Running=True/Started \"Lima instance is running; warning: limactl is old\" restartCount=1");
}

// Finding O-4
#[test]
fn a_degraded_vm_says_so() {
    let degraded = || Machine::Held(Phase::Running { complaint: Some("no network".to_owned()) });
    let message = "say Running=True/Started \"Lima instance is running, but degraded: no network\"";
    check(seen().running().machine(degraded()), message);
    check(
        seen().created().said(&specs::STARTING.pending()).machine(degraded()).disk(mk_running("a", false)),
        &format!("{message} restartCount=1"),
    );
}

// Finding O-2
#[test]
fn one_that_does_not_come_up_says_why_and_is_tried_again_after_a_while() {
    let starting = || seen().created().said(&specs::STARTING.pending());
    check(starting().machine(mk_failed(Job::Start, Some(8))), "say Running=False/StartFailed \"no luck\"; again 8s");
    check(
        starting().said(&specs::START_FAILED.with_message("no luck")).machine(mk_failed(Job::Start, None)),
        "say Running=False/Starting \"Lima instance is starting\"; start",
    );
}

#[test]
fn one_that_crashed_is_started_again_at_once_and_its_remains_go_first() {
    let crashed = || seen().running().machine(mk_failed(Job::Start, None));
    check(crashed().disk(mk_stopped("a")), "say Running=False/Starting \"Lima instance is starting\"; start");
    check(crashed().disk(mk_running("a", false)), "stop");
    check(crashed().disk(mk_broken()), "stop");
}

#[test]
fn after_a_restart_of_the_controller_a_claim_is_verified_and_what_runs_is_taken_over() {
    let verifying = "say Running=Unknown/Reconciling \"Verifying instance state after controller restart\"";
    let restarted = || seen().running().machine(Machine::Idle);
    check(restarted(), &format!("{verifying}; adopt"));
    check(
        restarted().disk(mk_stopped("a")),
        &format!("{verifying}; say Running=False/Starting \"Lima instance is starting\"; start"),
    );
    check(restarted().disk(mk_broken()), &format!("{verifying}; stop"));
    check(
        restarted().said(&specs::RECONCILING.pending()).machine(Machine::Held(UP)),
        "say Running=True/Started \"Lima instance is running\"",
    );
    check(restarted().said(&specs::RECONCILING.pending()).machine(Machine::Held(Phase::Starting)), "");
    // The controller ended before it reported the VM as up: this start must still be counted.
    check(restarted().said(&specs::STARTING.pending()), "adopt");
    check(
        restarted().said(&specs::STARTING.pending()).machine(Machine::Held(UP)),
        "say Running=True/Started \"Lima instance is running\" restartCount=2",
    );
}

#[test]
fn one_that_shall_not_run_is_stopped_whoever_started_it() {
    check(seen().running().stopped_is_wanted(), "stop");
    check(seen().running().stopped_is_wanted().machine(Machine::Idle), "stop");
    check(seen().running().stopped_is_wanted().machine(Machine::Busy(Job::Stop)).disk(Disk::NotLooked), "");
    check(
        seen().running().stopped_is_wanted().machine(Machine::Stopped).disk(mk_stopped("a")),
        "say Running=False/Stopped \"Lima instance stopped successfully\"",
    );
    check(seen().created().said(&specs::STOPPED_ON_REQUEST.pending()).stopped_is_wanted(), "");
    check(
        seen()
            .created()
            .said(&specs::START_FAILED.with_message("x"))
            .stopped_is_wanted()
            .machine(mk_failed(Job::Start, Some(8))),
        "say Running=False/Stopped \"Lima instance is stopped\"",
    );
}

#[test]
fn one_that_cannot_be_stopped_says_so_and_is_tried_again() {
    let stuck = || seen().running().stopped_is_wanted();
    check(stuck().machine(mk_failed(Job::Stop, Some(2))), "say Running=False/StopFailed \"no luck\"; again 2s");
    check(stuck().machine(mk_failed(Job::Stop, None)), "say Running=False/StopFailed \"no luck\"; stop");
    check(
        seen().running().restart_is_needed().machine(mk_failed(Job::Stop, Some(2))),
        "say Running=False/StopFailed \"no luck\"; again 2s",
    );
}

#[test]
fn a_request_for_a_restart_is_noted_taken_away_and_carried_out() {
    check(seen().running().restart_is_requested(), "say restartNeeded=true; clear-restart-request; stop");
    let stopped = seen().running().restart_is_needed().machine(Machine::Stopped).disk(mk_stopped("a"));
    check(
        stopped,
        "say Running=False/Stopped \"Stopped for restart\" restartNeeded=false; \
         say Running=False/Starting \"Lima instance is starting\"; start",
    );
    let booting = seen()
        .created()
        .said(&specs::STARTING.pending())
        .machine(Machine::Held(Phase::Starting))
        .disk(mk_running("a", false));
    check(booting.restart_is_requested(), "say restartNeeded=true; clear-restart-request");
    check(
        seen().created().said(&specs::STOPPED.pending()).stopped_is_wanted().restart_is_requested(),
        "clear-restart-request",
    );
    check(
        seen().created().said(&specs::STOPPED.pending()).stopped_is_wanted().restart_is_needed(),
        "say restartNeeded=false",
    );
}

#[test]
fn a_restart_goes_on_after_a_restart_of_the_controller() {
    check(
        seen().running().restart_is_needed().machine(Machine::Idle),
        "say Running=Unknown/Reconciling \"Verifying instance state after controller restart\"; stop",
    );
}

#[test]
fn an_edit_of_the_template_restarts_what_runs_and_counts_when_the_new_start_is_up() {
    let edited = || seen().running().template(Some("b"), "9");
    check(edited(), "say restartNeeded=true; apply-template; stop");
    check(
        edited().restart_is_needed().disk(mk_stopped("b")).machine(Machine::Stopped),
        "say Running=False/Stopped \"Stopped for restart\" restartNeeded=false; \
         say Running=False/Starting \"Lima instance is starting\"; start",
    );
    check(
        edited().said(&specs::STARTING.pending()).disk(mk_running("b", false)),
        "say Running=True/Started \"Lima instance is running\" version=9 restartCount=2",
    );
    // Once more while the VM starts: this start does not use the newest text.
    check(
        edited().said(&specs::STARTING.pending()).disk(mk_running("x", false)).machine(Machine::Held(Phase::Starting)),
        "say restartNeeded=true; apply-template",
    );
    check(
        edited().said(&specs::STARTING.pending()).restart_is_needed().disk(mk_running("b", true)),
        "say Running=True/Started \"Lima instance is running\" restartCount=2; stop",
    );
}

#[test]
fn what_was_started_with_another_text_is_restarted_also_if_nobody_noted_it() {
    check(seen().running().disk(mk_running("a", true)), "say restartNeeded=true; stop");
}

#[test]
fn an_edit_of_a_stopped_vm_is_written_and_counts_at_once() {
    let stopped = || seen().created().said(&specs::STOPPED.pending()).template(Some("b"), "9");
    check(stopped().stopped_is_wanted(), "apply-template; say version=9");
    check(stopped(), "apply-template; say Running=False/Starting \"Lima instance is starting\"; start");
    check(
        stopped().said(&specs::START_FAILED.with_message("x")).machine(mk_failed(Job::Start, None)),
        "apply-template; say Running=False/Starting \"Lima instance is starting\"; start",
    );
}

#[test]
fn a_stop_goes_before_an_edit() {
    check(seen().running().stopped_is_wanted().template(Some("b"), "9"), "stop");
}

#[test]
fn an_edit_that_leaves_the_text_alone_restarts_nothing() {
    check(seen().running().template(Some("a"), "9"), "say version=9");
}

#[test]
fn nothing_is_done_beside_what_is_under_way() {
    for job in [Job::Create, Job::Adopt, Job::Stop, Job::Delete] {
        let busy = seen().running().restart_is_requested().template(Some("b"), "9");
        // Nothing reports the progress of a creation, so it is polled.
        let expected = if job == Job::Create { "again 1s" } else { "" };
        check(busy.machine(Machine::Busy(job)).disk(Disk::NotLooked), expected);
    }
}

#[test]
fn a_disk_that_cannot_be_read_is_said() {
    let unreadable = || Disk::Unreadable { why: "input/output error".to_owned() };
    check(
        seen().created().said(&specs::STOPPED.pending()).disk(unreadable()),
        "say Running=False/StartFailed \"input/output error\"; again 5s",
    );
    check(seen().disk(unreadable()), "say Created=False/CreateFailed \"input/output error\"; again 5s");
    check(seen().running().disk(unreadable()), "");
}

#[test]
fn a_deleted_one_is_removed_then_what_it_owns_then_it_is_let_go() {
    check(seen().running().deleting(), "delete");
    check(seen().running().deleting().machine(Machine::Busy(Job::Create)).disk(Disk::NotLooked), "delete");
    check(seen().running().deleting().machine(Machine::Busy(Job::Delete)).disk(Disk::NotLooked), "");
    check(
        seen().running().deleting().machine(Machine::Idle).disk(Disk::Absent),
        "say Running=False/Stopped \"Lima instance stopped successfully\"; sweep; release",
    );
    check(seen().deleting(), "sweep; release");
    check(
        seen().running().deleting().machine(mk_failed(Job::Delete, Some(4))),
        "say Running=False/StopFailed \"no luck\"; again 4s",
    );
    check(
        seen().running().deleting().machine(mk_failed(Job::Delete, None)),
        "say Running=False/StopFailed \"no luck\"; delete",
    );
    check(seen().running().deleting().vm(|vm| vm.metadata.finalizers = None), "");
}

#[test]
fn one_that_is_gone_needs_nothing() {
    let mut gone = seen();
    gone.0.is_gone = true;
    check(gone, "");
}

#[test]
fn a_failed_step_is_told_where_people_look() {
    let shown = |failed: &Step, seen: Seen| {
        let told = after_failure(failed, &seen.0, "no luck");
        show(&seen.0, &Plan { steps: told.into_iter().collect(), again: None })
    };
    assert_eq!(shown(&Step::ClaimTemplate, seen()), "say Created=False/CreateFailed \"no luck\"");
    assert_eq!(shown(&Step::ApplyTemplate, seen().created()), "say Running=False/StartFailed \"no luck\"");
    let told = shown(&Step::ApplyTemplate, seen().running());
    assert!(
        told.contains("but degraded: no luck"),
        "what runs goes on running, and says that it is not as it shall be: {told}"
    );
    assert_eq!(shown(&Step::Sweep, seen().running()), "say Running=False/StopFailed \"no luck\"");
}

// Finding 236-S5
#[test]
fn the_same_observation_twice_gives_the_same_plan_and_nothing_new_writes_nothing() {
    let steady = seen().running();
    let first = plan(&steady.0);
    let Some(Step::WriteStatus { status, .. }) = first.steps.last().cloned() else {
        panic!("the generation has to be written once: {first:?}")
    };
    let settled = steady.status(|known| known.clone_from(&status));
    assert_eq!(plan(&settled.0), Plan::nothing());
}

#[test]
fn a_reset_throws_the_machine_away_and_makes_a_new_one_from_the_same_template() {
    let steps = |seen: Seen| {
        let plan = plan(&seen.0);
        plan.steps.iter().map(rdd_runtime::Step::name).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(steps(seen().running().reset_is_requested()), "write-status; delete");
    assert_eq!(steps(seen().created().reset_is_requested()), "write-status; delete");
    assert_eq!(steps(seen().created().disk(mk_broken()).reset_is_requested()), "write-status; delete");
    let deleted = seen().created().said(&specs::PENDING.pending()).disk(Disk::Absent).reset_is_requested();
    assert_eq!(steps(deleted), "clear-restart-request; create");
    let failed = seen().created().machine(mk_failed(Job::Delete, Some(5))).reset_is_requested();
    assert_eq!(steps(failed), "write-status", "what cannot be removed is told, and tried again later");
    let without = seen().created().template(None, "8").reset_is_requested();
    assert!(!steps(without).contains("delete"), "what could not be made anew is kept");
}

#[test]
fn what_a_creation_waits_for_is_said_while_it_waits() {
    let mut seen = seen().said(&specs::PENDING.pending()).disk(Disk::NotLooked).machine(Machine::Busy(Job::Create));
    let quiet = plan(&seen.0);
    assert!(quiet.again.is_some(), "nobody tells when there is more to say");
    seen.0.progress = Some("Downloading a.img: 7 % of 9 MiB".to_owned());
    let told = plan(&seen.0);
    let [Step::WriteStatus { status, .. }] = told.steps.as_slice() else { panic!("{:?}", told.steps) };
    let created = status.conditions.iter().find(|condition| condition.type_ == "Created").unwrap();
    assert_eq!((created.status.as_str(), created.message.as_str()), ("Unknown", "Downloading a.img: 7 % of 9 MiB"));
}
