//! Tests `rdd set`, `start` and `stop`: what they write and print, and their exit codes.

use serde_json::json;

use crate::support::{APP, Manner, Product, expect, messages_of, talkative};

const SETTLED: &str = "Settled=True: App has reached the desired state (Settled)";
const STARTED: &str = "Running=True: Lima instance is running (Started)";
const STOPPED: &str = "Running=False: Lima instance is stopped (Stopped)";
const WAITING: &str = "Waiting for App to settle";

#[test]
fn syntax_is_judged_before_anything_is_started() {
    let sandbox = talkative().build();
    for (words, message) in [
        (&["running"][..], "invalid argument \"running\": expected PROPERTY=VALUE format"),
        (&["running=true", "=v"], "invalid argument \"=v\": property name must not be empty"),
        (&[], "requires at least 1 arg(s), only received 0"),
    ] {
        let output = sandbox.rdd(&[&["set"], words].concat());
        expect(&output, 1, &[message]);
    }
    assert_eq!(std::fs::read_dir(sandbox.home()).unwrap().count(), 0);
}

#[test]
fn the_app_is_created_and_waited_for_and_then_updated() {
    let product = Product::start(Manner::Idle);
    product.rdd(&["svc", "stop"]).expect_success();
    product.manner(Manner::Settle);
    // It starts the service.
    let output = product.rdd(&["set", "virtualMachine.memory=4Gi", "running=true"]).expect_success();
    let messages = messages_of(&output.stderr);
    let name = format!("rancher-desktop-{}", product.instance());
    assert!(output.stderr.contains("waiting for API server"), "{}", output.stderr);
    let started = format!("starting {name:?} control plane");
    assert_eq!(messages, [&started, "App created", WAITING, STARTED, SETTLED]);
    assert_eq!(output.stdout, "");
    let mut spec = json!({
        "application": {"updates": {"enabled": true}},
        "backend": "auto",
        "containerEngine": {"name": "moby"},
        "namespace": "default",
        "running": true,
        "virtualMachine": {"memory": "4Gi"},
    });
    assert_eq!(product.app().unwrap()["spec"], spec);

    expect(
        &product.rdd(&["set", "running=false", "virtualMachine.memory="]),
        0,
        &["App updated", WAITING, STOPPED, SETTLED],
    );
    (spec["running"], spec["virtualMachine"]) = (false.into(), json!({}));
    assert_eq!(product.app().unwrap()["spec"], spec);
    let fields = product.app().unwrap()["metadata"]["managedFields"].to_string();
    assert!(fields.contains("\"manager\":\"rdd\",\"operation\":\"Update\""), "{fields}");
}

// Finding 295-T8: a change without effect returns at once.
#[test]
fn a_change_that_changes_nothing_returns_at_once() {
    let product = Product::start(Manner::Settle);
    product.rdd(&["set", "running=false"]).expect_success();
    product.manner(Manner::Idle);
    expect(&product.rdd(&["set", "running=false"]), 0, &["App updated", WAITING, STOPPED, SETTLED]);
    expect(&product.rdd(&["stop"]), 0, &["App updated", WAITING, STOPPED, SETTLED]);
    expect(&product.rdd(&["set", "running=false", "--wait=false"]), 0, &["App updated"]);
    product.manner(Manner::Settle);
    let output = product.rdd(&["set", "containerEngine.name=containerd", "running=true"]);
    expect(&output, 0, &["App updated", WAITING, STARTED, SETTLED]);
}

#[test]
fn what_the_definition_does_not_allow_is_refused_here() {
    let product = Product::start(Manner::Idle);
    let all = "application.updates.enabled, backend, containerEngine.name, kubernetes.enabled, kubernetes.version, \
               running, virtualMachine.cpus, virtualMachine.memory";
    for (word, message) in [
        ("x=1", format!("x: unknown property \"x\"; valid properties: {all}")),
        ("namespace=y", format!("namespace: unknown property \"namespace\"; valid properties: {all}")),
        (
            "kubernetes.x=1",
            "kubernetes.x: unknown property \"x\" under \"kubernetes\"; valid properties: enabled, version".to_owned(),
        ),
        ("running.x=1", "running.x: \"running\" is not an object and has no sub-properties".to_owned()),
        (
            "kubernetes=1",
            "kubernetes: \"kubernetes\" is an object; set its fields, e.g. \"kubernetes.enabled\"".to_owned(),
        ),
        (
            "containerEngine.name=docker",
            "invalid value \"docker\" for \"containerEngine.name\": valid values: moby, containerd".to_owned(),
        ),
        (
            "running=yes",
            "invalid value \"yes\" for \"running\": expected boolean; use \"true\" or \"false\"".to_owned(),
        ),
        ("virtualMachine.cpus=many", "invalid value \"many\" for \"virtualMachine.cpus\": expected integer".to_owned()),
    ] {
        expect(&product.rdd(&["set", word]), 1, &[&message]);
    }
    assert!(product.app().is_none());
}

#[test]
fn a_new_property_needs_no_new_command() {
    let product = Product::start(Manner::Settle);
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/apps.app.rancherdesktop.io";
    let mut object = product.api().get(definition).unwrap();
    object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"] =
        json!({"type": "string", "description": "colour of everything. Mostly green."});
    assert_eq!(product.api().call("PUT", definition, Some(&object)).unwrap().0, 200);
    product.rdd(&["set", "colour=green"]).expect_success();
    assert_eq!(product.app().unwrap()["spec"]["colour"], "green");
    assert_eq!(product.app().unwrap()["spec"]["running"], false, "what must be there is there");
    let help = product.rdd(&["set", "--help"]).expect_success().stdout;
    assert!(help.contains("\n  colour                       (string)           Colour of everything.\n"), "{help}");
}

#[test]
fn what_the_server_refuses_has_a_code_of_its_own() {
    let product = Product::start(Manner::Settle);
    let refused = "The App \"app\" is invalid: spec.kubernetes: Invalid value: Kubernetes comes later";
    let output = product.rdd(&["set", "kubernetes.enabled=true"]);
    assert_eq!(output.code, Some(3), "{}", output.stderr);
    let messages = messages_of(&output.stderr);
    assert!(
        messages[0].starts_with(
            "failed to create App: App.app.rancherdesktop.io \"app\" is invalid: spec.kubernetes: Invalid value:"
        ),
        "{messages:?} {refused}"
    );
    assert!(messages[0].ends_with("Kubernetes comes later"), "{messages:?}");
    assert!(product.app().is_none());
    product.rdd(&["start"]).expect_success();
    let output = product.rdd(&["set", "kubernetes.enabled=true", "--log-format=json"]);
    assert_eq!(output.code, Some(3));
    // On a busy machine, a record about waiting comes first.
    let record: serde_json::Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&record["exit-code"], &record["level"]), (&3.into(), &"error".into()));
    assert!(record["msg"].as_str().unwrap().starts_with("failed to update App: "), "{record}");
}

#[test]
fn a_dry_run_is_judged_by_the_server_and_leaves_nothing() {
    let product = Product::start(Manner::Settle);
    expect(&product.rdd(&["set", "running=true", "--dry-run"]), 0, &["App validated (dry run)"]);
    assert!(product.app().is_none(), "unlike the original, which creates it");
    assert_eq!(product.rdd(&["set", "kubernetes.enabled=true", "--dry-run"]).code, Some(3));
    product.rdd(&["start"]).expect_success();
    let before = product.app().unwrap()["metadata"]["resourceVersion"].clone();
    expect(&product.rdd(&["set", "running=false", "--dry-run"]), 0, &["App validated (dry run)"]);
    assert_eq!(product.app().unwrap()["metadata"]["resourceVersion"], before);
}

#[test]
fn without_the_definition_there_is_nothing_to_set() {
    let product = Product::without_definitions(talkative().build(), Manner::Idle);
    let missing = "app CRD is not installed; make sure the control plane is running with the app controller enabled";
    expect(&product.rdd(&["set", "running=true"]), 1, &[missing]);
    expect(&product.rdd(&["start"]), 1, &[missing]);
    for line in [&["stop"][..], &["run", "true"]] {
        expect(&product.rdd(line), 1, &["failed to get App: the server could not find the requested resource"]);
    }
    let help = product.rdd(&["set", "--help"]).expect_success().stdout;
    assert!(help.contains("PROPERTY=VALUE") && !help.contains("Available properties"), "{help}");
}

#[test]
fn start_and_stop_are_settings_but_stop_makes_nothing() {
    let product = Product::start(Manner::Settle);
    expect(&product.rdd(&["stop"]), 0, &["App does not exist; nothing to stop"]);
    assert!(product.app().is_none());
    expect(&product.rdd(&["start"]), 0, &["App created", WAITING, STARTED, SETTLED]);
    expect(&product.rdd(&["start", "--wait=false"]), 0, &["App updated"]);
    expect(&product.rdd(&["stop"]), 0, &["App updated", WAITING, STOPPED, SETTLED]);
    assert_eq!(product.app().unwrap()["spec"]["running"], false);
}

#[test]
fn help_lists_what_can_be_set() {
    let product = Product::start(Manner::Idle);
    product.rdd(&["svc", "stop"]).expect_success();
    for line in [&["set", "--help"][..], &["help", "set"]] {
        let output = product.rdd(line).expect_success();
        let help = output.stdout;
        for part in [
            "PROPERTY=VALUE",
            "Available properties:\n",
            "\n  containerEngine              (object)           ",
            "\n  containerEngine.name         (moby|containerd)  ",
            "\n  running                      (boolean)          Whether the container engine\n",
            "\n  virtualMachine.cpus          (integer)          ",
            "\n  virtualMachine.memory        (quantity)         ",
        ] {
            assert!(help.contains(part), "{part:?} is missing in {help}");
        }
        assert!(!help.contains("namespace"), "{help}");
    }
}

#[test]
fn many_writers_at_once_all_succeed() {
    let product = Product::start(Manner::Settle);
    let words =
        ["running=true", "virtualMachine.cpus=3", "containerEngine.name=containerd", "virtualMachine.memory=3Gi"];
    let running: Vec<_> = words.iter().map(|word| product.spawn(&["set", word])).collect();
    for command in running {
        let (code, messages) = command.end();
        assert_eq!(code, Some(0), "{messages:?}");
    }
    let spec = &product.app().unwrap()["spec"];
    assert_eq!((&spec["virtualMachine"]["cpus"], &spec["virtualMachine"]["memory"]), (&3.into(), &"3Gi".into()));
    assert_eq!((&spec["containerEngine"]["name"], &spec["running"]), (&"containerd".into(), &true.into()));
}

#[test]
fn an_app_that_is_being_deleted_is_not_written_to() {
    let product = Product::start(Manner::Idle);
    let apps = "/apis/app.rancherdesktop.io/v1alpha1/apps";
    let app = json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App",
                     "metadata": {"name": "app", "finalizers": ["rdd.rancherdesktop.io/cleanup"]}, "spec": {"running": true}});
    product.api().create(apps, &app);
    product.api().call("DELETE", APP, None).unwrap();
    expect(&product.rdd(&["start"]), 1, &["App is being deleted"]);
}
