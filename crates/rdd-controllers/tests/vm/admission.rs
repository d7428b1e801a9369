//! Tests of admission: refusals with code and message, and defaulting.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rdd_types::{
    app::App,
    lima::LimaVM,
    names::{finalizer, label},
};
use serde_json::{Value, json};

use crate::stage::{NAMESPACE, Stage, TEMPLATE, mk_vm, refusal};

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn denied(hook: &str, text: &str) -> String {
    format!("admission webhook \"{hook}\" denied the request: {text}")
}

const DEFAULTER: &str = "limavm-defaulter.lima.rancherdesktop.io";
const TEMPLATES: &str = "limavm-configmap-validator.lima.rancherdesktop.io";

#[test]
fn the_name_of_a_limavm_is_unique_over_all_namespaces() {
    let stage = Stage::new();
    stage.create_vm("vm", false);
    let mut elsewhere = mk_vm("vm", false);
    elsewhere.spec.template_ref.namespace = Some("default".to_owned());
    let created = stage.block(stage.vms("kube-public").create(&PostParams::default(), &elsewhere));
    let text = "LimaVM name \"vm\" is already used in namespace \"default\"; LimaVM names must be unique across all namespaces";
    assert_eq!(refusal(created), (403, denied(DEFAULTER, text)));
    assert!(stage.block(stage.maps("kube-public").get_opt("vm-template")).unwrap().is_none());
}

#[test]
fn what_the_api_said_about_the_template_is_what_the_client_hears() {
    let stage = Stage::new();
    assert_eq!(refusal(stage.try_create_vm("vm", false)), (404, denied(DEFAULTER, "configmaps \"input\" not found")));
    stage.put_input("- no\n- mapping\n");
    let nested = denied(TEMPLATES, "failed to parse template: the template must be a mapping of fields");
    assert_eq!(refusal(stage.try_create_vm("vm", false)), (403, denied(DEFAULTER, &nested)));
    let taken: ConfigMap = from(json!({"metadata": {"name": "vm-template"}}));
    stage.block(stage.maps("default").create(&PostParams::default(), &taken)).unwrap();
    let patch = json!({"data": {"template": TEMPLATE}});
    stage.block(stage.maps("default").patch("input", &PatchParams::default(), &Patch::Merge(&patch))).unwrap();
    let text = "configmaps \"vm-template\" already exists";
    assert_eq!(refusal(stage.try_create_vm("vm", false)), (409, denied(DEFAULTER, text)));
}

#[test]
fn a_dry_run_leaves_nothing() {
    let stage = Stage::new();
    stage.put_input(TEMPLATE);
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let vm = stage.block(stage.vms("default").create(&parameters, &mk_vm("vm", true))).unwrap();
    assert_eq!(vm.finalizers(), [finalizer::CLEANUP]);
    assert!(stage.vm("vm").is_none());
    assert!(stage.block(stage.maps("default").get_opt("vm-template")).unwrap().is_none());
}

#[test]
fn a_copy_that_a_failed_create_left_is_used_by_the_next() {
    let stage = Stage::new();
    stage.put_input(TEMPLATE);
    let left: ConfigMap = from(json!({
        "metadata": {
            "name": "vm-template", "labels": {label::TEMPLATE_CONFIG_MAP: "true"},
            "finalizers": [finalizer::OWNED_BY_LIMA_VM],
        },
        "data": {"template": TEMPLATE},
    }));
    stage.block(stage.maps("default").create(&PostParams::default(), &left)).unwrap();
    stage.try_create_vm("vm", true).unwrap();
    stage.vm_until_running("vm");
}

#[test]
fn names_that_are_no_names_of_machines_are_refused() {
    let stage = Stage::new();
    stage.put_input(TEMPLATE);
    let long = "a".repeat(64);
    let (code, text) = refusal(stage.try_create_vm(&long, false));
    assert!(code == 403 && text.contains("it is longer than 63 characters"), "{code} {text}");
    let mut unnamed: LimaVM = mk_vm("", false);
    unnamed.metadata.name = None;
    unnamed.metadata.generate_name = Some("vm-".to_owned());
    let created = stage.block(stage.vms("default").create(&PostParams::default(), &unnamed));
    assert_eq!(refusal(created).0, 403);
}

#[test]
fn a_template_is_checked_before_it_is_stored_and_kept_while_it_is_owned() {
    let stage = Stage::new();
    stage.create_vm("vm", true);
    stage.vm_until_running("vm");
    let maps = stage.maps("default");
    let patch = |patch: Value| stage.block(maps.patch("vm-template", &PatchParams::default(), &Patch::Merge(&patch)));
    for (data, text) in [
        (json!({"template": null}), "template ConfigMap must have a \"template\" data entry"),
        (json!({"template": ""}), "\"template\" data cannot be empty"),
        (json!({"template": "a: ["}), "failed to parse template: "),
        (json!({"template": "vmType: none\n"}), "failed to validate template: no driver runs vmType \"none\""),
    ] {
        let (code, said) = refusal(patch(json!({ "data": data })));
        assert!(code == 403 && said.starts_with(&denied(TEMPLATES, text)), "{code} {said}");
    }
    let unlabelled = patch(json!({"metadata": {"labels": {label::TEMPLATE_CONFIG_MAP: null}}}));
    let text = "cannot remove lima.rancherdesktop.io/template-configmap label: resource is owned";
    assert_eq!(refusal(unlabelled), (403, denied(TEMPLATES, text)));
    let deleted = stage.block(maps.delete("vm-template", &DeleteParams::default()));
    let text = "cannot delete \"vm-template\": owned by LimaVM; delete the LimaVM resource instead";
    assert_eq!(refusal(deleted.map(|_| ())), (403, denied(TEMPLATES, text)));
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    assert_eq!(refusal(stage.block(maps.delete("vm-template", &dry)).map(|_| ())).0, 403);
}

// Finding 236-I1
#[test]
fn a_limavm_that_the_app_owns_cannot_be_deleted_directly_and_the_owner_is_named() {
    let stage = Stage::new();
    let app = stage.create_app(false);
    stage.app_until_settled(&app);
    let deleted = stage.block(stage.vms(NAMESPACE).delete("rd", &DeleteParams::default())).map(|_| ());
    let text = "cannot delete \"rd\": owned by App; delete the App resource instead";
    assert_eq!(refusal(deleted), (403, denied("limavm-validator.lima.rancherdesktop.io", text)));
    assert!(stage.rd().unwrap().metadata.deletion_timestamp.is_none());
}

#[test]
fn an_app_is_filled_in_and_judged() {
    let stage = Stage::new();
    let app = stage.create_app(false);
    let spec = serde_json::to_value(&app.spec).unwrap();
    assert_eq!(spec["backend"], "host");
    assert_eq!(spec["virtualMachine"], json!({"cpus": 2, "memory": "4Gi"}));
    assert_eq!(spec["kubernetes"], json!({"enabled": false}));
    let validator = "app-validator.app.rancherdesktop.io";
    for (spec, text) in [
        (json!({"virtualMachine": {"cpus": -1}}), "spec.virtualMachine.cpus -1 must not be negative"),
        (json!({"virtualMachine": {"cpus": 9}}), "spec.virtualMachine.cpus 9 exceeds the host CPU count of 8"),
        (
            json!({"virtualMachine": {"memory": "1Gi"}}),
            "spec.virtualMachine.memory 1Gi is less than the minimum of 2Gi",
        ),
        (
            json!({"kubernetes": {"version": "9.9"}}),
            "spec.kubernetes.version \"9.9\" is not supported; see the bundled k3s-versions.json for valid versions",
        ),
    ] {
        assert_eq!(refusal(stage.try_patch_app(&json!({ "spec": spec }))), (403, denied(validator, text)));
    }
    // `auto` is the current choice; anything else is a change.
    stage.try_patch_app(&json!({"spec": {"backend": "auto"}})).unwrap();
    assert_eq!(refusal(stage.try_patch_app(&json!({"spec": {"backend": "lima"}}))).0, 422);
    assert_eq!(refusal(stage.try_patch_app(&json!({"spec": {"namespace": "other"}}))).0, 422);
    let other: App = from(json!({"metadata": {"name": "other"}, "spec": {"running": false}}));
    assert_eq!(refusal(stage.block(stage.apps().create(&PostParams::default(), &other))).0, 422);
}

#[test]
fn an_app_that_todays_rules_would_refuse_can_still_be_changed_in_its_metadata_and_deleted() {
    let stage = Stage::new();
    // Written while no webhook reviewed it.
    stage.kill();
    stage.remove_hooks();
    let app: App = from(json!({
        "metadata": {"name": "app"},
        "spec": {"running": false, "namespace": NAMESPACE, "backend": "host", "kubernetes": {"enabled": false, "version": "0.0.1"}},
    }));
    stage.block(stage.apps().create(&PostParams::default(), &app)).unwrap();
    stage.start();
    let app = stage.app().unwrap();
    stage.app_until_settled(&app);
    stage.delete_app();
    stage.until_nothing_is_left();
}
