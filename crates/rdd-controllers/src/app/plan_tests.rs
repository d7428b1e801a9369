//! Tests of the App's plan as a table: an observation, and the expected steps.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use rdd_runtime::{Plan, Step as _};
use rdd_types::{
    app::{App, AppSpec, AppStatus},
    conditions::{CONTAINER_ENGINE_READY, KUBERNETES_READY, PendingCondition, RUNNING, SETTLED, limavm as vm_specs},
    lima::{LimaVM, LimaVMSpec, LimaVMStatus},
    names::finalizer,
};

use super::plan::{Copy, Input, Namespace, Observed, Peers, Step, after_failure, plan};
use crate::condition;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An App of generation 5 that shall run; only its namespace exists.
struct Seen(Observed);

fn seen() -> Seen {
    let mut app = App::new("app", AppSpec { running: true, ..AppSpec::default() });
    app.metadata.uid = Some("app-uid".to_owned());
    app.metadata.generation = Some(5);
    app.metadata.finalizers = Some(vec![finalizer::CLEANUP.to_owned()]);
    Seen(Observed {
        app: Arc::new(app),
        is_gone: false,
        namespace: Namespace::Present { ours: false },
        vm: None,
        input: Input::Absent,
        template: None,
        rendered: "a".to_owned(),
        peers: Peers { engine: false, kubernetes: false },
        now: at(2000),
    })
}

impl Seen {
    fn app(mut self, change: impl FnOnce(&mut App)) -> Self {
        change(Arc::make_mut(&mut self.0.app));
        self
    }

    /// The App's LimaVM, generation 2, running with the template that is rendered now.
    fn vm(mut self) -> Self {
        let mut vm = LimaVM::new("rd", LimaVMSpec { running: true, ..LimaVMSpec::default() });
        vm.metadata.generation = Some(2);
        vm.metadata.finalizers = Some(vec![finalizer::OWNED_BY_APP.to_owned(), finalizer::CLEANUP.to_owned()]);
        vm.metadata.owner_references =
            Some(vec![OwnerReference { uid: "app-uid".to_owned(), ..OwnerReference::default() }]);
        let observed_template_resource_version = Some("7".to_owned());
        vm.status = Some(LimaVMStatus { observed_template_resource_version, ..LimaVMStatus::default() });
        self.0.vm = Some(Arc::new(vm));
        self.0.template = Some(Copy { text: "a".to_owned(), resource_version: "7".to_owned() });
        self.said(&vm_specs::INSTANCE_CREATED.pending()).said(&vm_specs::STARTED.pending())
    }

    fn change_vm(mut self, change: impl FnOnce(&mut LimaVM)) -> Self {
        change(Arc::make_mut(self.0.vm.as_mut().unwrap()));
        self
    }

    fn said(self, said: &PendingCondition) -> Self {
        self.change_vm(|vm| {
            condition::set(said, &mut vm.status.get_or_insert_default().conditions, 2, at(1000));
        })
    }

    fn stop_is_wanted(self) -> Self {
        self.app(|app| app.spec.running = false)
    }

    fn deleting(self) -> Self {
        self.app(|app| app.metadata.deletion_timestamp = Some(Time(at(2000))))
    }

    fn with(mut self, change: impl FnOnce(&mut Observed)) -> Self {
        change(&mut self.0);
        self
    }
}

fn show(plan: &Plan<Step>) -> String {
    let mut words: Vec<String> = Vec::new();
    for step in &plan.steps {
        words.push(match step {
            Step::WriteStatus(status) => show_status(status),
            other => other.name().to_owned(),
        });
    }
    words.extend(plan.again.map(|after| format!("again {after:?}")));
    words.join("; ")
}

fn show_status(status: &AppStatus) -> String {
    let said: BTreeMap<_, _> = status.conditions.iter().map(|one| (one.type_.as_str(), one)).collect();
    let said = said.values().map(|one| {
        assert_eq!(one.observed_generation, Some(5), "every condition carries its generation");
        format!("{}={}/{}", one.type_, one.status, one.reason)
    });
    format!("say {}", said.collect::<Vec<_>>().join(" "))
}

fn check(seen: &Seen, expected: &str) {
    assert_eq!(show(&plan(&seen.0)), expected, "{:#?}", seen.0);
}

fn message(seen: &Seen) -> String {
    let steps = plan(&seen.0).steps;
    let status = steps.iter().find_map(|step| match step {
        Step::WriteStatus(status) => Some(status),
        _ => None,
    });
    let conditions = &status.expect("a status is written").conditions;
    conditions.iter().find(|one| one.type_ == SETTLED).unwrap().message.clone()
}

const MIRRORED: &str = "say Created=True/Created Running=True/Started";

#[test]
fn a_new_app_makes_its_namespace_its_input_and_its_vm() {
    let waiting = "say Settled=False/WaitingForLimaVM; apply-input; create-vm";
    check(&seen(), waiting);
    check(&seen().with(|seen| seen.namespace = Namespace::Absent), &format!("create-namespace; {waiting}"));
    // Finding 236-T2: the rest of an interrupted create is used and updated.
    check(&seen().with(|seen| seen.input = Input::Ours), waiting);
}

#[test]
fn what_has_the_name_and_is_not_the_apps_is_left_alone_and_told_of() {
    let foreign = seen().with(|seen| seen.input = Input::Foreign);
    check(&foreign, "say Settled=False/CreateFailed; again 2s");
    assert_eq!(message(&foreign), "ConfigMap \"rd\" in namespace \"default\" does not belong to the App");
    let foreign = seen().vm().change_vm(|vm| vm.metadata.owner_references = None);
    check(&foreign, "say Settled=False/CreateFailed; again 2s");
    assert_eq!(message(&foreign), "LimaVM \"rd\" in namespace \"default\" does not belong to the App");
    check(&foreign.deleting(), "sweep; release");
}

#[test]
fn nothing_is_made_in_a_namespace_that_is_going_away() {
    let going = seen().with(|seen| seen.namespace = Namespace::Terminating { ours: true });
    check(&going, "say Settled=False/CreateFailed; again 2s");
    assert_eq!(message(&going), "namespace \"default\" is being deleted");
}

#[test]
fn once_the_vm_is_there_the_input_goes() {
    check(
        &seen().vm().with(|seen| seen.input = Input::Ours),
        &format!("delete-input; {MIRRORED} Settled=True/Settled"),
    );
    check(&seen().vm().with(|seen| seen.input = Input::Foreign), &format!("{MIRRORED} Settled=True/Settled"));
}

#[test]
fn a_stop_goes_before_a_change_of_the_template_and_a_start_after_it() {
    let changed = |seen: &mut Observed| seen.rendered = "b".to_owned();
    check(
        &seen().vm().stop_is_wanted().with(changed),
        &format!("stop-vm; patch-template; {MIRRORED} Settled=False/ApplyingTemplate"),
    );
    let stopped = || seen().vm().said(&vm_specs::STOPPED.pending()).change_vm(|vm| vm.spec.running = false);
    check(
        &stopped().with(changed),
        "patch-template; start-vm; say Created=True/Created Running=False/Stopped Settled=False/ApplyingTemplate",
    );
    check(&stopped(), "start-vm; say Created=True/Created Running=False/Stopped Settled=False/Stopped");
    check(&stopped().stop_is_wanted(), "say Created=True/Created Running=False/Stopped Settled=True/Settled");
    check(&seen().vm().stop_is_wanted(), &format!("stop-vm; {MIRRORED} Settled=False/Started"));
}

#[test]
fn settled_waits_until_the_vm_runs_with_the_template_that_was_written() {
    let behind = seen().vm().with(|seen| seen.template = Some(Copy { text: "a".into(), resource_version: "8".into() }));
    check(&behind, &format!("{MIRRORED} Settled=False/ApplyingTemplate"));
    let unnamed = seen().vm().with(|seen| seen.template = None);
    check(&unnamed, &format!("{MIRRORED} Settled=True/Settled"));
}

#[test]
fn a_vm_that_was_just_told_to_run_is_not_taken_by_its_word_of_before() {
    // Started is about the generation before the one that stopped the VM.
    let toggled = seen().vm().change_vm(|vm| vm.metadata.generation = Some(4));
    check(&toggled, &format!("{MIRRORED} Settled=False/WaitingForLimaVM"));
}

// Finding 236-S2
#[test]
fn a_condition_that_vanished_from_the_vm_vanishes_from_the_app_and_others_stay() {
    let gone = |app: &mut App| {
        let known = &mut app.status.get_or_insert_default().conditions;
        condition::set(&vm_specs::STARTED.pending(), known, 4, at(1));
        let mut engine = known[0].clone();
        engine.type_ = CONTAINER_ENGINE_READY.to_owned();
        known.push(engine);
        let mut odd = known[0].clone();
        odd.type_ = "Odd".to_owned();
        known.push(odd);
    };
    let seen = seen().vm().app(gone).change_vm(|vm| {
        vm.status.as_mut().unwrap().conditions.retain(|one| one.type_ != RUNNING);
    });
    // The apply leaves out conditions of other writers, so that they keep them.
    check(&seen, "say Created=True/Created Settled=False/WaitingForLimaVM");
}

#[test]
fn a_vm_cannot_speak_for_the_app_or_for_other_controllers() {
    let loud = seen().vm().change_vm(|vm| {
        let known = &mut vm.status.as_mut().unwrap().conditions;
        for kind in [SETTLED, CONTAINER_ENGINE_READY, KUBERNETES_READY] {
            let mut copy = known[0].clone();
            copy.type_ = kind.to_owned();
            known.push(copy);
        }
    });
    check(&loud, &format!("{MIRRORED} Settled=True/Settled"));
}

#[test]
fn times_of_transition_are_those_of_the_vm() {
    let steps = plan(&seen().vm().0).steps;
    let Some(Step::WriteStatus(status)) = steps.first() else { panic!("{steps:?}") };
    let running = status.conditions.iter().find(|one| one.type_ == RUNNING).unwrap();
    assert_eq!(running.last_transition_time.0, at(1000));
}

// Finding 236-S5
#[test]
fn nothing_new_writes_nothing() {
    let first = seen().vm();
    let Some(Step::WriteStatus(status)) = plan(&first.0).steps.first().cloned() else { panic!("a first status") };
    let again = first.app(|app| app.status = Some(*status)).with(|seen| seen.now = at(3000));
    assert_eq!(plan(&again.0), Plan::nothing());
}

// Finding 236-C1, 236-T1
#[test]
fn a_vm_that_is_deleted_out_of_band_is_let_go_whether_the_app_stays_or_goes() {
    let terminating = || seen().vm().change_vm(|vm| vm.metadata.deletion_timestamp = Some(Time(at(1))));
    check(&terminating(), &format!("release-vm; {MIRRORED} Settled=False/WaitingForLimaVM; again 2s"));
    check(&terminating().deleting(), &format!("release-vm; {MIRRORED} Settled=False/WaitingForLimaVM; again 2s"));
    let released = terminating().change_vm(|vm| vm.metadata.finalizers = Some(vec![finalizer::CLEANUP.to_owned()]));
    check(&released.deleting(), &format!("{MIRRORED} Settled=False/WaitingForLimaVM; again 2s"));
}

#[test]
fn a_deleted_app_goes_in_order_and_from_wherever_an_earlier_attempt_ended() {
    check(
        &seen().vm().deleting(),
        &format!("release-vm; delete-vm; {MIRRORED} Settled=False/WaitingForLimaVM; again 2s"),
    );
    check(&seen().deleting(), "sweep; release");
    check(&seen().deleting().with(|seen| seen.input = Input::Ours), "delete-input; sweep; release");
    check(&seen().deleting().with(|seen| seen.input = Input::Foreign), "sweep; release");
    let ours = |seen: &mut Observed| seen.namespace = Namespace::Present { ours: true };
    check(&seen().deleting().with(ours), "sweep; delete-namespace; release");
    let going = |seen: &mut Observed| seen.namespace = Namespace::Terminating { ours: true };
    check(&seen().deleting().with(going), "sweep; release");
    check(&seen().deleting().with(|seen| seen.namespace = Namespace::Absent), "release");
    check(&seen().deleting().app(|app| app.metadata.finalizers = None), "");
    check(&seen().with(|seen| seen.is_gone = true), "");
}

#[test]
fn a_failed_step_is_told_where_people_look() {
    let told = |failed: &Step, seen: Seen| show(&Plan::of(after_failure(failed, &seen.0, "no luck")));
    assert_eq!(told(&Step::CreateVM, seen()), "say Settled=False/CreateFailed");
    assert_eq!(told(&Step::PatchTemplate, seen().vm()), format!("{MIRRORED} Settled=False/ApplyingTemplate"));
    assert_eq!(told(&Step::DeleteInput, seen().deleting()), "say Settled=False/WaitingForLimaVM");
    assert_eq!(told(&Step::Release, seen().deleting()), "");
}
