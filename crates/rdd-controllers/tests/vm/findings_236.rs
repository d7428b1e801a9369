//! Regression tests of findings about the App's life cycle, on the real kinds.

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use rdd_controllers::{app, hostinfo::Host};
use rdd_driver::{
    Drivers, Found, Health,
    fake::{Boot, Op, World},
};
use rdd_runtime::probe::{Point, Probe, Unhurt, Verdict, When};
use rdd_types::{app::AppSpec, names::finalizer};
use serde_json::json;

use crate::stage::{Cast, NAMESPACE, Stage, app_says, condition, mk_instance};

/// Deletes the LimaVM past the guard, as a client could while no controller runs.
fn delete_vm_out_of_band(stage: &Stage) {
    let guards: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    stage.block(guards.delete("limavm-validator", &DeleteParams::default())).unwrap();
    stage.block(stage.vms(NAMESPACE).delete("rd", &DeleteParams::default())).unwrap();
}

// Finding 236-C1
#[test]
fn deleting_the_app_finishes_when_its_limavm_is_already_terminating() {
    let stage = Stage::new();
    let app = stage.create_app(true);
    stage.app_until_settled(&app);
    let gate = stage.world.hold(Op::Delete);
    delete_vm_out_of_band(&stage);
    stage.delete_app();
    stage.until("the owned finalizer to be released", || {
        let held = stage.rd()?.metadata.finalizers?;
        (held == [finalizer::CLEANUP]).then_some(())
    });
    drop(gate);
    stage.until_nothing_is_left();
}

// Finding 236-T1
#[test]
fn a_limavm_deleted_out_of_band_is_let_go_and_made_anew() {
    let stage = Stage::new();
    let app = stage.create_app(true);
    stage.app_until_settled(&app);
    let before = stage.rd().unwrap().metadata.uid;
    delete_vm_out_of_band(&stage);
    stage.until("another LimaVM", || stage.rd().filter(|vm| vm.metadata.uid != before));
    stage.app_until("the App to settle again", |app| {
        app_says(app, "Settled", "True/Settled") && matches!(stage.world.found("rd"), Found::Running(_))
    });
}

// Finding 236-S1
#[test]
fn a_transient_error_around_the_input_is_retried_and_the_finalizer_stays_until_it_is_gone() {
    for method in ["GET", "DELETE"] {
        let stage = Stage::dark(Cast::AppOnly, Arc::new(Unhurt));
        install_vm_kind(&stage);
        stage.start();
        // Without a LimaVM controller there is no defaulter, and the input would disappear as soon as the LimaVM exists.
        stage.faults.plan("POST", "/limavms", u32::MAX);
        stage.create_app(true);
        stage.until("the input", || stage.block(stage.maps(NAMESPACE).get_opt("rd")).unwrap());
        stage.faults.plan(method, "/configmaps/rd", 3);
        stage.delete_app();
        // While errors are planned, the App keeps its finalizer.
        stage.until("the errors to have happened", || {
            let held = stage.app().is_some_and(|app| app.metadata.finalizers.is_some());
            let left = stage.faults.left(method);
            assert!(held || left == 0, "the App went although {left} errors were to come");
            (left == 0).then_some(())
        });
        stage.until_nothing_is_left();
    }
}

fn install_vm_kind(stage: &Stage) {
    stage.block(rdd_runtime::crds::install(&stage.client, &rdd_types::crds_of("limavm"))).unwrap();
}

// Finding 236-S2
#[test]
fn a_condition_that_vanishes_from_the_limavm_vanishes_from_the_app() {
    let stage = Stage::dark(Cast::AppOnly, Arc::new(Unhurt));
    install_vm_kind(&stage);
    stage.start();
    stage.create_app(true);
    stage.until("the LimaVM", || stage.rd());
    let say = |kinds: &[&str]| {
        let conditions: Vec<_> = kinds.iter().map(|kind| json!({
            "type": kind, "status": "True", "reason": "Because", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })).collect();
        let patch = json!({"status": {"conditions": conditions}});
        stage.block(stage.vms(NAMESPACE).patch_status("rd", &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
    };
    let kinds = |app: &rdd_types::app::App| {
        let conditions = app.status.iter().flat_map(|status| status.conditions.iter());
        let mut kinds: Vec<_> = conditions.map(|one| one.type_.clone()).collect();
        kinds.sort();
        kinds
    };
    say(&["Created", "Running", "Odd"]);
    stage.app_until("all of them", |app| kinds(app) == ["Created", "Odd", "Running", "Settled"]);
    say(&["Created"]);
    stage.app_until("what is left of them", |app| kinds(app) == ["Created", "Settled"]);
}

// Finding 236-S3
#[test]
fn a_message_that_is_too_long_is_cut_where_a_character_ends() {
    let stage = Stage::new();
    stage.world.boot(Boot::Dies("🚢".repeat(40_000)));
    stage.create_app(true);
    for kind in ["Running", "Settled"] {
        let app = stage.app_until("it to be told", |app| app_says(app, kind, "False/StartFailed"));
        let message = &condition(&app.status.as_ref().unwrap().conditions, kind).unwrap().message;
        assert_eq!(message.chars().count(), 32_768, "{kind}");
        assert!(message.ends_with("🚢… (truncated)"), "{kind}");
    }
}

// Finding 236-S4
#[test]
fn two_instances_share_nothing_that_is_in_their_templates() {
    let rendered = |name: &str| {
        let (instance, environment) = mk_instance(name);
        let drivers = Drivers::new(vec![World::new().driver()]);
        app::Setup::of(&instance, &environment, &drivers, Host::default()).render(&AppSpec::default(), None)
    };
    let (one, two) = (rendered("2"), rendered("bats"));
    let values = |text: &str| {
        let param = rdd_driver::Template::parse(text).unwrap().param;
        param.into_values().filter(|value| value.starts_with('/')).collect::<Vec<_>>()
    };
    assert!(!values(&one).is_empty());
    assert!(values(&one).iter().all(|path| !values(&two).contains(path)), "{one}\n{two}");
}

/// Dies once, at this kill point.
#[derive(Debug)]
struct Once(&'static str, When, std::sync::atomic::AtomicBool);

impl Probe for Once {
    fn at(&self, point: Point<'_>) -> Verdict {
        let is_here = point.step == self.0 && point.when == self.1;
        let dies = is_here && !self.2.swap(true, std::sync::atomic::Ordering::Relaxed);
        if dies { Verdict::Die } else { Verdict::Go }
    }
}

// Finding 236-T2
#[test]
fn after_a_crash_between_the_input_and_the_limavm_the_input_is_brought_up_to_date_and_used() {
    let probe = Once("apply-input", When::After, false.into());
    let stage = Stage::dark(Cast::Both, Arc::new(probe));
    stage.start();
    stage.create_app(true);
    stage.until("the crash", || stage.is_dead().then_some(()));
    assert!(stage.rd().is_none() && stage.block(stage.maps(NAMESPACE).get_opt("rd")).unwrap().is_some());
    stage.kill();
    stage.remove_hooks();
    let written = stage.try_patch_app(&json!({"spec": {"containerEngine": {"name": "containerd"}}})).unwrap();
    stage.start();
    stage.app_until_settled(&written);
    let created = stage.world.calls().into_iter().find(|call| call.op == Op::Create).and_then(|call| call.template);
    assert!(
        created.unwrap().contains("CONTAINER_ENGINE: containerd"),
        "the VM was made from what the input said before"
    );
    stage.until("the input to be gone", || {
        stage.block(stage.maps(NAMESPACE).get_opt("rd")).unwrap().is_none().then_some(())
    });
}

// Finding 236-T3
#[test]
fn an_app_deleted_while_its_limavm_is_starting_goes_and_can_be_made_anew() {
    let stage = Stage::new();
    stage.world.boot(Boot::ByHand);
    stage.create_app(true);
    stage.app_until("it to be starting", |app| app_says(app, "Running", "False/Starting"));
    stage.until("it to run", || matches!(stage.world.found("rd"), Found::Running(_)).then_some(()));
    stage.delete_app();
    stage.until_nothing_is_left();
    let written = stage.create_app(true);
    stage.until("it to run", || matches!(stage.world.found("rd"), Found::Running(_)).then_some(()));
    stage.world.comes_up("rd", Health::GOOD);
    stage.app_until_settled(&written);
}
