//! Tests of the life cycle of a LimaVM: created, started, stopped, restarted, edited, crashed, adopted, deleted.

use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rdd_driver::{
    Found, Health,
    fake::{Boot, Fault, Op},
};
use rdd_types::names::{annotation, finalizer, label};
use serde_json::json;

use crate::stage::{Cast, Stage, TEMPLATE, message, mk_vm, says};

const EDITED: &str = "vmType: fake\ncpus: 3\n";

fn edit_template(stage: &Stage, name: &str, text: &str) -> String {
    let patch = json!({"data": {"template": text}});
    let map = stage.block(stage.maps("default").patch(
        &format!("{name}-template"),
        &PatchParams::default(),
        &Patch::Merge(&patch),
    ));
    map.unwrap().resource_version().unwrap()
}

fn observed(vm: &rdd_types::lima::LimaVM) -> String {
    vm.status.as_ref().and_then(|status| status.observed_template_resource_version.clone()).unwrap_or_default()
}

fn restarts(vm: &rdd_types::lima::LimaVM) -> i32 {
    vm.status.as_ref().map_or(0, |status| status.restart_count)
}

#[test]
fn one_is_created_started_stopped_and_started_again() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    let vm = stage.vm_until_running("vm");
    let status = vm.status.clone().unwrap();
    assert!(says(&vm, "Created", "True/Created"), "{vm:#?}");
    assert_eq!(message(&vm, "Created"), "Lima instance created successfully");
    assert_eq!((status.restart_count, status.restart_needed), (1, false));
    assert_eq!(status.template_config_map.as_deref(), Some("vm-template"));
    assert!(status.conditions.iter().all(|one| one.observed_generation == vm.metadata.generation), "{status:#?}");
    assert_eq!(vm.finalizers(), [finalizer::CLEANUP]);

    let map = stage.block(stage.maps("default").get("vm-template")).unwrap();
    assert_eq!(map.labels()[label::TEMPLATE_CONFIG_MAP], "true");
    assert_eq!(map.finalizers(), [finalizer::OWNED_BY_LIMA_VM]);
    assert_eq!(map.owner_references()[0].uid, vm.uid().unwrap());
    assert_eq!(
        (map.data.as_ref().unwrap()["template"].as_str(), map.resource_version()),
        (TEMPLATE, Some(observed(&vm)))
    );

    stage.patch_vm("vm", &json!({"spec": {"running": false}}));
    let vm = stage.vm_until("it to stop", "vm", |vm| says(vm, "Running", "False/Stopped"));
    assert_eq!(message(&vm, "Running"), "Lima instance stopped successfully");
    assert_eq!(stage.world.found("vm"), Found::Stopped);
    stage.patch_vm("vm", &json!({"spec": {"running": true}}));
    assert_eq!(restarts(&stage.vm_until_running("vm")), 2);
    assert_eq!(stage.world.calls_of("vm"), ["create", "start", "stop", "start"]);
}

#[test]
fn conditions_that_change_are_told_as_events_and_a_start_does_not_pass_through_unknown() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    let events: Api<Event> = Api::namespaced(stage.client.clone(), "default");
    // Events of one type are counted in one object, as with every recorder, so each type shows its first message.
    let said = stage.until("both events", || {
        let mut list = stage.block(events.list(&Default::default())).unwrap().items;
        list.retain(|event| event.regarding.as_ref().is_some_and(|object| object.kind.as_deref() == Some("LimaVM")));
        let is_ours = |event: &Event| event.reporting_controller.as_deref() == Some("limavm-controller");
        assert!(list.iter().all(|event| is_ours(event) && event.reason.as_deref() == Some("ConditionChanged")));
        let mut said: Vec<_> = list.into_iter().map(|event| (event.action.unwrap(), event.note.unwrap())).collect();
        said.sort();
        (said.len() == 2).then_some(said)
    });
    let expected = [("Created", "Reconciliation in progress"), ("Running", "Lima instance is starting")];
    assert_eq!(said, expected.map(|(action, note)| (action.to_owned(), note.to_owned())));
}

#[test]
fn a_request_for_a_restart_is_carried_out_once_and_taken_away() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    stage.patch_vm("vm", &json!({"metadata": {"annotations": {annotation::RESTART_REQUESTED: "now"}}}));
    let vm = stage.vm_until("the restart", "vm", |vm| restarts(vm) == 2 && says(vm, "Running", "True/Started"));
    assert!(!vm.annotations().contains_key(annotation::RESTART_REQUESTED));
    assert!(!vm.status.unwrap().restart_needed);
    assert_eq!(stage.world.calls_of("vm"), ["create", "start", "stop", "start"]);
}

#[test]
fn a_request_for_a_restart_of_a_stopped_one_leaves_it_stopped() {
    let stage = Stage::new();
    stage.create_vm("vm", false);
    stage.vm_until("it to be stopped", "vm", |vm| says(vm, "Running", "False/Stopped"));
    stage.patch_vm("vm", &json!({"metadata": {"annotations": {annotation::RESTART_REQUESTED: "now"}}}));
    let vm = stage.vm_until("the request to be gone", "vm", |vm| vm.annotations().is_empty());
    assert!(says(&vm, "Running", "False/Stopped") && !vm.status.unwrap().restart_needed);
    assert_eq!(stage.world.calls_of("vm"), ["create"]);
}

#[test]
fn an_edit_restarts_it_and_counts_as_applied_when_the_new_start_is_up() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    let before = stage.vm_until_running("vm");
    stage.world.boot(Boot::ByHand);
    let version = edit_template(&stage, "vm", EDITED);
    let vm = stage.vm_until("the new start", "vm", |vm| {
        says(vm, "Running", "False/Starting") && stage.world.started_with("vm").as_deref() == Some(EDITED)
    });
    assert_eq!(observed(&vm), observed(&before), "not before it is up");
    stage.world.comes_up("vm", Health::GOOD);
    let vm = stage.vm_until_running("vm");
    assert_eq!((observed(&vm), restarts(&vm)), (version, 2));
}

#[test]
fn a_burst_of_edits_ends_with_the_last() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    let version = (4..12).map(|cpus| edit_template(&stage, "vm", &format!("vmType: fake\ncpus: {cpus}\n"))).last();
    let vm = stage
        .vm_until("the last edit", "vm", |vm| Some(observed(vm)) == version && says(vm, "Running", "True/Started"));
    assert_eq!(stage.world.started_with("vm").as_deref(), Some("vmType: fake\ncpus: 11\n"));
    assert!(!vm.status.unwrap().restart_needed);
}

#[test]
fn an_edit_of_labels_alone_restarts_nothing() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    let patch = json!({"metadata": {"labels": {"colour": "blue"}}});
    let map = stage
        .block(stage.maps("default").patch("vm-template", &PatchParams::default(), &Patch::Merge(&patch)))
        .unwrap();
    stage.vm_until("the version to follow", "vm", |vm| Some(observed(vm)) == map.resource_version());
    assert_eq!(stage.world.calls_of("vm"), ["create", "start"]);
}

// Finding O-2
#[test]
fn one_that_dies_at_once_is_tried_again_with_growing_delay_and_shows_its_last_words() {
    let stage = Stage::new();
    stage.world.boot(Boot::Dies("no such device: /dev/kvm".to_owned()));
    stage.create_vm("vm", true);
    let vm = stage.vm_until("the failure", "vm", |vm| says(vm, "Running", "False/StartFailed"));
    assert_eq!(message(&vm, "Running"), "no such device: /dev/kvm");
    stage.until("further tries", || (stage.world.starts("vm") >= 3).then_some(()));
    stage.world.boot(Boot::AtOnce);
    assert_eq!(restarts(&stage.vm_until_running("vm")), 1, "only what came up counts");
}

// Finding O-3
#[test]
fn a_creation_that_fails_half_way_is_said_and_redone_and_never_taken_for_done() {
    let stage = Stage::new();
    stage.world.fail(Op::Create, Fault::halfway("no space left on device"));
    stage.create_vm("vm", true);
    let vm = stage.vm_until("the failure", "vm", |vm| says(vm, "Created", "False/CreateFailed"));
    assert_eq!(message(&vm, "Created"), "no space left on device");
    stage.until("further tries", || (stage.world.calls_of("vm").len() >= 3).then_some(()));
    assert!(says(&stage.vm("vm").unwrap(), "Created", "False/CreateFailed"));
    // Also with a controller that has just started and remembers nothing.
    stage.restart();
    stage.until("it to be tried again", || (stage.world.calls_of("vm").len() >= 6).then_some(()));
    assert!(stage.world.calls_of("vm").iter().all(|call| *call == "create"), "{:?}", stage.world.calls_of("vm"));
    stage.world.works(Op::Create);
    stage.vm_until_running("vm");
}

// Finding O-4
#[test]
fn a_degraded_one_says_so_and_says_when_it_is_better() {
    let stage = Stage::new();
    stage.world.boot(Boot::Degraded(vec!["provisioning failed".to_owned(), "no DNS".to_owned()]));
    stage.create_vm("vm", true);
    let vm = stage.vm_until_running("vm");
    assert_eq!(message(&vm, "Running"), "Lima instance is running, but degraded: provisioning failed; no DNS");
    stage.world.comes_up("vm", Health::GOOD);
    let vm = stage.vm_until("it to be better", "vm", |vm| message(vm, "Running") == "Lima instance is running");
    assert_eq!(restarts(&vm), 1);
}

#[test]
fn one_that_crashes_is_started_again() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    assert!(stage.world.dies("vm", "kernel panic"));
    stage.vm_until("the next start", "vm", |vm| restarts(vm) == 2 && says(vm, "Running", "True/Started"));
}

#[test]
fn what_is_left_of_a_crash_is_cleared_away_before_the_next_start() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    assert!(stage.world.breaks("vm", "only the monitor is left"));
    stage.vm_until("the next start", "vm", |vm| restarts(vm) == 2 && says(vm, "Running", "True/Started"));
    assert_eq!(stage.world.calls_of("vm"), ["create", "start", "stop", "start"]);
}

#[test]
fn what_a_killed_daemon_left_running_is_taken_over_as_it_runs() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    stage.kill();
    assert!(matches!(stage.world.found("vm"), Found::Running(_)));
    stage.start();
    stage.until("it to be taken over", || stage.world.calls_of("vm").contains(&"adopt").then_some(()));
    let vm = stage.vm_until_running("vm");
    assert_eq!((restarts(&vm), stage.world.starts("vm")), (1, 1), "that is no start");
    // The VM is watched again.
    stage.world.dies("vm", "gone");
    stage.vm_until("the next start", "vm", |vm| restarts(vm) == 2);
}

#[test]
fn what_was_starting_when_the_daemon_was_killed_is_taken_over_and_its_start_counts() {
    let stage = Stage::new();
    stage.world.boot(Boot::ByHand);
    stage.create_vm("vm", true);
    stage.vm_until("it to be starting", "vm", |vm| says(vm, "Running", "False/Starting"));
    stage.until("it to run", || matches!(stage.world.found("vm"), Found::Running(_)).then_some(()));
    stage.restart();
    stage.until("it to be taken over", || stage.world.calls_of("vm").contains(&"adopt").then_some(()));
    stage.world.comes_up("vm", Health::GOOD);
    assert_eq!((restarts(&stage.vm_until_running("vm")), stage.world.starts("vm")), (1, 1));
}

#[test]
fn what_a_killed_daemon_left_running_is_stopped_if_it_shall_not_run() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    stage.kill();
    // Without controllers there is no webhook to approve the write: updates of LimaVMs are not reviewed.
    stage.patch_vm("vm", &json!({"spec": {"running": false}}));
    stage.start();
    stage.vm_until("it to be stopped", "vm", |vm| says(vm, "Running", "False/Stopped"));
    assert_eq!(stage.world.found("vm"), Found::Stopped);
}

// Finding O-5
#[test]
fn an_orderly_end_of_the_daemon_stops_every_vm() {
    let stage = Stage::new();
    stage.create_vm("one", true);
    stage.try_create_vm("two", true).unwrap();
    stage.vm_until_running("one");
    stage.vm_until_running("two");
    stage.stop();
    for vm in ["one", "two"] {
        assert_eq!(
            (stage.world.found(vm), stage.world.calls_of(vm)),
            (Found::Stopped, vec!["create", "start", "stop"])
        );
    }
    stage.start();
    assert_eq!(restarts(&stage.vm_until("the next start", "one", |vm| restarts(vm) == 2)), 2);
}

#[test]
fn a_stop_that_hangs_holds_up_no_other_vm_and_a_stop_that_fails_is_told() {
    let stage = Stage::new();
    stage.create_vm("slow", true);
    stage.vm_until_running("slow");
    let gate = stage.world.hold(Op::Stop);
    stage.patch_vm("slow", &json!({"spec": {"running": false}}));
    stage.until("the stop to begin", || stage.world.calls_of("slow").contains(&"stop").then_some(()));
    stage.try_create_vm("other", true).unwrap();
    stage.vm_until_running("other");
    assert!(says(&stage.vm("slow").unwrap(), "Running", "True/Started"), "it runs until it does not");
    stage.world.fail(Op::Stop, Fault::before("it does not listen")).times(2);
    drop(gate);
    let vm = stage.vm_until("it to stop", "slow", |vm| says(vm, "Running", "False/Stopped"));
    assert_eq!(stage.world.calls_of("slow"), ["create", "start", "stop", "stop", "stop"], "{vm:#?}");
}

#[test]
fn a_delete_leaves_nothing_and_does_not_wait_for_a_creation_that_hangs() {
    let stage = Stage::new();
    let gate = stage.world.hold(Op::Create);
    stage.create_vm("vm", true);
    stage.until("the creation to begin", || stage.world.calls_of("vm").contains(&"create").then_some(()));
    stage.block(stage.vms("default").delete("vm", &DeleteParams::default())).unwrap();
    stage.until("it to be gone", || stage.vm("vm").is_none().then_some(()));
    assert!(stage.world.machines().is_empty());
    assert!(stage.block(stage.maps("default").get_opt("vm-template")).unwrap().is_none());
    assert!(stage.block(stage.maps("default").get_opt("input")).unwrap().is_some(), "what it does not own stays");
    drop(gate);

    stage.try_create_vm("vm", true).unwrap();
    stage.vm_until_running("vm");
    stage.block(stage.vms("default").delete("vm", &DeleteParams::default())).unwrap();
    stage.until("it to be gone again", || stage.vm("vm").is_none().then_some(()));
    assert!(stage.world.machines().is_empty());
}

#[test]
fn a_delete_that_fails_is_told_and_tried_again() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    stage.world.fail(Op::Delete, Fault::halfway("device is busy"));
    stage.block(stage.vms("default").delete("vm", &DeleteParams::default())).unwrap();
    let vm = stage.vm_until("the failure", "vm", |vm| says(vm, "Running", "False/StopFailed"));
    assert_eq!(message(&vm, "Running"), "device is busy");
    stage.world.works(Op::Delete);
    stage.until("it to be gone", || stage.vm("vm").is_none().then_some(()));
    assert!(stage.world.machines().is_empty());
}

#[test]
fn what_an_earlier_vm_of_the_same_name_left_is_not_taken_for_the_new_one() {
    let stage = Stage::dark(Cast::LimaVMOnly, std::sync::Arc::new(rdd_runtime::probe::Unhurt));
    stage.world.makes("vm", "vmType: fake\ncpus: 7\n");
    stage.start();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    assert_eq!(stage.world.started_with("vm").as_deref(), Some(TEMPLATE));
    assert_eq!(stage.world.calls_of("vm"), ["stop", "delete", "create", "start"]);
}

#[test]
fn an_instance_that_vanishes_under_a_stopped_one_is_said_to_and_made_anew() {
    let stage = Stage::new();
    stage.create_vm("vm", false);
    stage.vm_until("it to be stopped", "vm", |vm| says(vm, "Running", "False/Stopped"));
    stage.world.half_makes("vm");
    stage.patch_vm("vm", &json!({"spec": {"running": true}}));
    stage.vm_until_running("vm");
    assert_eq!(stage.world.calls_of("vm"), ["create", "create", "start"]);
}

#[test]
fn a_namespace_with_a_limavm_in_it_vanishes_with_it() {
    let stage = Stage::new();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(stage.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": "short-lived"}})).unwrap();
    stage.block(namespaces.create(&Default::default(), &namespace)).unwrap();
    stage.put_input(TEMPLATE);
    let mut vm = mk_vm("vm", true);
    vm.spec.template_ref.namespace = Some("default".to_owned());
    stage.block(stage.vms("short-lived").create(&Default::default(), &vm)).unwrap();
    stage.until("it to run", || matches!(stage.world.found("vm"), Found::Running(_)).then_some(()));
    stage.block(namespaces.delete("short-lived", &DeleteParams::default())).unwrap();
    stage.until("the namespace to be gone", || {
        stage.block(namespaces.get_opt("short-lived")).unwrap().is_none().then_some(())
    });
    assert!(stage.world.machines().is_empty());
}

#[test]
fn one_with_a_name_that_no_machine_can_have_says_so_and_can_be_deleted() {
    let stage = Stage::new();
    stage.put_input(TEMPLATE);
    // Written while no webhook reviewed it.
    stage.kill();
    stage.remove_hooks();
    let name = "a".repeat(70);
    stage.try_create_vm(&name, true).unwrap();
    let copy = json!({"metadata": {"name": format!("{name}-template")}, "data": {"template": TEMPLATE}});
    stage.block(stage.maps("default").create(&Default::default(), &serde_json::from_value(copy).unwrap())).unwrap();
    stage.start();
    let vm = stage.vm_until("the failure", &name, |vm| says(vm, "Created", "False/CreateFailed"));
    assert!(message(&vm, "Created").contains("cannot be the name of a machine"), "{}", message(&vm, "Created"));
    stage.block(stage.vms("default").delete(&name, &DeleteParams::default())).unwrap();
    stage.until("it to be gone", || stage.vm(&name).is_none().then_some(()));
}

#[test]
fn params_take_precedence_over_the_template_and_a_change_restarts() {
    let stage = Stage::new();
    stage.put_input("vmType: fake\nparam:\n  CITY: Rome\n  COLOUR: red\n");
    let mut vm = mk_vm("vm", true);
    vm.spec.params = Some([("CITY".to_owned(), "Oslo".to_owned())].into());
    stage.block(stage.vms("default").create(&Default::default(), &vm)).unwrap();
    stage.vm_until_running("vm");
    let param = |name: &str| {
        let text = stage.world.started_with("vm").unwrap_or_default();
        rdd_driver::Template::parse(&text).ok().and_then(|template| template.param.get(name).cloned())
    };
    assert_eq!((param("CITY").as_deref(), param("COLOUR").as_deref()), (Some("Oslo"), Some("red")));
    stage.patch_vm("vm", &json!({"spec": {"params": {"CITY": null, "COLOUR": "blue"}}}));
    stage.until("another start", || (param("COLOUR").as_deref() == Some("blue")).then_some(()));
    let vm = stage.vm_until("it to be up", "vm", |vm| restarts(vm) == 2 && says(vm, "Running", "True/Started"));
    assert_eq!(param("CITY").as_deref(), Some("Rome"), "what is no longer given is the template's own again");
    let map = stage.block(stage.maps("default").get("vm-template")).unwrap();
    assert!(!map.data.unwrap()["template"].contains("blue"), "the template is the author's");
    assert_eq!(vm.status.unwrap().observed_template_resource_version, map.metadata.resource_version);
}
