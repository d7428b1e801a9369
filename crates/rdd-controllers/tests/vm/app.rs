//! Tests of the chain from an App through its LimaVM to Settled, and back.

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rdd_driver::{
    Found,
    fake::{Boot, Fault, Op},
};
use rdd_types::names::finalizer;
use serde_json::json;

use crate::stage::{NAMESPACE, Stage, app_says, condition, says};

fn template(stage: &Stage) -> String {
    let map = stage.block(stage.maps(NAMESPACE).get("rd-template")).unwrap();
    map.data.unwrap()["template"].clone()
}

#[test]
fn a_new_app_settles_with_a_running_vm_that_it_owns() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    let app = stage.app_until_settled(&written);
    let vm = stage.rd().unwrap();
    assert_eq!(vm.owner_references()[0].uid, app.uid().unwrap());
    assert_eq!(vm.finalizers(), [finalizer::OWNED_BY_APP, finalizer::CLEANUP]);
    assert!(matches!(stage.world.found("rd"), Found::Running(_)));
    stage.until("the input to be gone", || {
        stage.block(stage.maps(NAMESPACE).get_opt("rd")).unwrap().is_none().then_some(())
    });
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let namespace = stage.block(namespaces.get(NAMESPACE)).unwrap();
    assert_eq!(namespace.owner_references()[0].uid, app.uid().unwrap());
    // The App mirrors the VM's conditions with their times, but with the App's generation.
    let (ours, theirs) = (app.status.clone().unwrap().conditions, vm.status.unwrap().conditions);
    for kind in ["Created", "Running"] {
        let (ours, theirs) = (condition(&ours, kind).unwrap(), condition(&theirs, kind).unwrap());
        assert_eq!((&ours.status, &ours.reason, &ours.message), (&theirs.status, &theirs.reason, &theirs.message));
        assert_eq!(ours.last_transition_time, theirs.last_transition_time);
        assert_eq!(ours.observed_generation, app.metadata.generation);
    }
    assert_eq!(stage.world.calls_of("rd"), ["create", "start"]);
}

#[test]
fn an_app_stops_and_starts_its_vm() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    let written = stage.try_patch_app(&json!({"spec": {"running": false}})).unwrap();
    let app = stage.app_until_settled(&written);
    assert!(app_says(&app, "Running", "False/Stopped"));
    assert_eq!(stage.world.found("rd"), Found::Stopped);
    let written = stage.try_patch_app(&json!({"spec": {"running": true}})).unwrap();
    stage.app_until_settled(&written);
    assert!(matches!(stage.world.found("rd"), Found::Running(_)));
}

#[test]
fn a_change_of_the_settings_restarts_the_vm_once_and_settles_when_it_is_up() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    stage.world.forget_calls();
    let written = stage.try_patch_app(&json!({"spec": {"containerEngine": {"name": "containerd"}}})).unwrap();
    stage.app_until_settled(&written);
    assert!(stage.world.started_with("rd").unwrap().contains("CONTAINER_ENGINE: containerd"));
    assert_eq!(stage.world.calls_of("rd"), ["apply_template", "stop", "start"]);
}

#[test]
fn a_change_together_with_a_stop_starts_nothing() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    stage.world.forget_calls();
    let both = json!({"spec": {"running": false, "containerEngine": {"name": "containerd"}}});
    let written = stage.try_patch_app(&both).unwrap();
    stage.app_until_settled(&written);
    assert_eq!(stage.world.calls_of("rd"), ["stop", "apply_template"]);
    stage.world.forget_calls();
    let both = json!({"spec": {"running": true, "containerEngine": {"name": "moby"}}});
    let written = stage.try_patch_app(&both).unwrap();
    stage.app_until_settled(&written);
    assert_eq!(stage.world.calls_of("rd"), ["apply_template", "start"]);
}

#[test]
fn quick_toggling_ends_with_the_last_wish() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    for running in [false, true, false, true, false, true] {
        stage.try_patch_app(&json!({"spec": {"running": running}})).unwrap();
    }
    let written = stage.app().unwrap();
    stage.app_until_settled(&written);
    assert!(matches!(stage.world.found("rd"), Found::Running(_)), "{:?}", stage.world.calls_of("rd"));
    assert!(says(&stage.rd().unwrap(), "Running", "True/Started"));
}

#[test]
fn edits_by_hand_of_what_the_app_owns_are_undone() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    let ours = template(&stage);
    let patch = json!({"data": {"template": "vmType: host\ncpus: 7\n"}});
    stage.block(stage.maps(NAMESPACE).patch("rd-template", &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
    stage.until("the template to be ours again", || (template(&stage) == ours).then_some(()));
    stage
        .block(stage.vms(NAMESPACE).patch(
            "rd",
            &PatchParams::default(),
            &Patch::Merge(&json!({"spec": {"running": false}})),
        ))
        .unwrap();
    stage.until("it to run again", || {
        let vm = stage.rd()?;
        (vm.spec.running && says(&vm, "Running", "True/Started") && stage.world.started_with("rd")? == ours)
            .then_some(())
    });
}

// Finding O-3
#[test]
fn a_vm_that_cannot_be_created_or_started_shows_in_settled() {
    let stage = Stage::new();
    stage.world.fail(Op::Create, Fault::halfway("no space left on device"));
    stage.create_app(true);
    let app = stage.app_until("the failure to show", |app| app_says(app, "Settled", "False/CreateFailed"));
    assert_eq!(condition(&app.status.unwrap().conditions, "Settled").unwrap().message, "no space left on device");
    stage.world.boot(Boot::Dies("no such device: /dev/kvm".to_owned()));
    stage.world.works(Op::Create);
    let app = stage.app_until("the other failure to show", |app| app_says(app, "Settled", "False/StartFailed"));
    assert_eq!(condition(&app.status.unwrap().conditions, "Settled").unwrap().message, "no such device: /dev/kvm");
    // Finding E-8: the error of a driver that cannot start appears once, with its remedy.
    let refusal = "XDG_RUNTIME_DIR is not set; log in with a session of your own";
    stage.world.fail(Op::Start, Fault::before(refusal));
    let shows = |message: Option<&str>| message == Some(refusal);
    let app = stage.app_until("the refusal in Settled", |app| {
        let status = app.status.as_ref();
        shows(status.and_then(|status| condition(&status.conditions, "Settled")).map(|found| found.message.as_str()))
    });
    assert!(app_says(&app, "Settled", "False/StartFailed"));
    let status = stage.rd().unwrap().status.unwrap();
    assert!(shows(condition(&status.conditions, "Running").map(|found| found.message.as_str())), "{status:?}");
    stage.world.works(Op::Start);
    stage.world.boot(Boot::AtOnce);
    let written = stage.app().unwrap();
    stage.app_until_settled(&written);
}

#[test]
fn what_keeps_the_vm_from_being_made_shows_in_settled() {
    let stage = Stage::new();
    // The name is taken in another namespace.
    stage.create_vm("rd", false);
    stage.create_app(true);
    let app = stage.app_until("the failure to show", |app| app_says(app, "Settled", "False/CreateFailed"));
    let message = condition(&app.status.unwrap().conditions, "Settled").unwrap().message.clone();
    assert!(message.contains("LimaVM name \"rd\" is already used in namespace \"default\""), "{message}");
    stage.block(stage.vms("default").delete("rd", &Default::default())).unwrap();
    let written = stage.app().unwrap();
    stage.app_until_settled(&written);
}

#[test]
fn deleting_a_running_app_leaves_nothing_and_the_next_one_begins_afresh() {
    let stage = Stage::new();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    stage.delete_app();
    stage.until_nothing_is_left();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    assert_eq!(stage.rd().unwrap().status.unwrap().restart_count, 1);
}

#[test]
fn a_namespace_that_was_there_before_stays() {
    let stage = Stage::new();
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    stage.block(namespaces.create(&Default::default(), &namespace)).unwrap();
    let written = stage.create_app(true);
    stage.app_until_settled(&written);
    stage.delete_app();
    stage.until("all but the namespace to be gone", || {
        (stage.remains() == [format!("Namespace {NAMESPACE}")]).then_some(())
    });
    assert!(stage.block(namespaces.get(NAMESPACE)).unwrap().metadata.deletion_timestamp.is_none());
}
