//! Tests `rdd limavm …`: commands for LimaVMs by name.

use std::fs;

use rdd_testkit::{Output, eventually};
use serde_json::{Value, json};

use crate::support::{Manner, Product, SOON, VMS, expect, messages_of, script, talkative};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TEMPLATE: &str = "vmType: qemu\n";

fn template(product: &Product, text: &str) -> String {
    let path = product.home().join("t.yaml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn config_map(product: &Product, name: &str, text: &str) {
    product.api().create(
        MAPS,
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"template": text}}),
    );
}

fn vm(product: &Product, name: &str) -> Option<Value> {
    product.api().get(&format!("{VMS}/{name}"))
}

/// A LimaVM in the state in which its controller leaves it.
fn with_vm(product: &Product, name: &str, text: &str) {
    config_map(product, name, text);
    config_map(product, &format!("{name}-template"), text);
    product.rdd(&["limavm", "create", name, name]).expect_success();
    let status = json!({"status": {"templateConfigMap": format!("{name}-template")}});
    product.api().merge(&format!("{VMS}/{name}/status"), &status);
}

#[test]
fn a_machine_is_created_from_a_file_which_becomes_its_own() {
    let product = Product::start(Manner::Settle);
    let file = template(&product, TEMPLATE);
    let output = product.rdd(&["limavm", "create", "x", &file, "--start"]);
    expect(
        &output,
        0,
        &[
            &format!("ConfigMap \"x\" created in namespace \"default\" with template from file \"{file}\""),
            "LimaVM \"x\" created in namespace \"default\" with template ConfigMap \"x\"",
            "LimaVM \"x\" started in namespace \"default\"",
        ],
    );
    let made = vm(&product, "x").unwrap();
    assert_eq!(made["spec"], json!({"templateRef": {"name": "x"}, "running": true}));
    let map = product.api().get(&format!("{MAPS}/x")).unwrap();
    assert_eq!(map["data"]["template"], TEMPLATE);
    let owner = &map["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["uid"], &owner["controller"], &owner["kind"]),
        (&made["metadata"]["uid"], &true.into(), &"LimaVM".into())
    );
    let taken = "ConfigMap \"x\" already exists in namespace \"default\", will not modify existing ConfigMap";
    expect(&product.rdd(&["lima", "create", "x", &file]), 1, &[taken]);
}

#[test]
fn a_machine_is_created_from_a_config_map() {
    let product = Product::start(Manner::Settle);
    // A word that names a ConfigMap means that ConfigMap, even if it could be a file.
    config_map(&product, "x.yaml", TEMPLATE);
    let message = "LimaVM \"a\" created in namespace \"default\" with template ConfigMap \"x.yaml\"";
    expect(&product.rdd(&["limavm", "create", "a", "x.yaml"]), 0, &[message]);
    assert_eq!(vm(&product, "a").unwrap()["spec"]["running"], false);
    let output = product.rdd(&["limavm", "create", "b", "./missing.yaml"]);
    let text = "failed to read template file \"./missing.yaml\": No such file or directory (os error 2)";
    expect(&output, 1, &[text]);
}

#[test]
fn what_was_made_for_a_machine_that_cannot_be_is_removed() {
    let product = Product::start(Manner::Settle);
    let file = template(&product, TEMPLATE);
    // The CRD of this test does not allow such a long name.
    let name = "a-name-that-is-longer-than-that";
    let output = product.rdd(&["limavm", "create", name, &file]);
    assert_eq!(output.code, Some(1), "no code 3 here: {}", output.stderr);
    let messages = messages_of(&output.stderr);
    assert_eq!(messages[1], format!("Cleaning up created ConfigMap \"{name}\""));
    assert!(messages[2].starts_with("failed to create LimaVM: "), "{messages:?}");
    assert!(product.api().get(&format!("{MAPS}/{name}")).is_none());

    let output = product.rdd(&["limavm", "create", "dry", &file, "--dry-run"]).expect_success();
    assert_eq!(messages_of(&output.stderr).pop().unwrap(), "Cleaning up created ConfigMap \"dry\"");
    assert!(vm(&product, "dry").is_none() && product.api().get(&format!("{MAPS}/dry")).is_none());
}

#[test]
fn a_machine_is_started_stopped_restarted_and_deleted_by_its_name() {
    let product = Product::start(Manner::Settle);
    with_vm(&product, "x", TEMPLATE);
    expect(&product.rdd(&["limavm", "start", "x"]), 0, &["LimaVM \"x\" started in namespace \"default\""]);
    assert_eq!(vm(&product, "x").unwrap()["status"]["restartCount"], 1);
    let restarted =
        ["LimaVM \"x\" restart requested in namespace \"default\"", "LimaVM \"x\" restarted in namespace \"default\""];
    expect(&product.rdd(&["limavm", "restart", "x"]), 0, &restarted);
    assert_eq!(vm(&product, "x").unwrap()["status"]["restartCount"], 2);
    expect(&product.rdd(&["limavm", "stop", "x"]), 0, &["LimaVM \"x\" stopped in namespace \"default\""]);
    assert_eq!(vm(&product, "x").unwrap()["spec"]["running"], false);
    expect(&product.rdd(&["limavm", "delete", "x"]), 0, &["LimaVM \"x\" deleted from namespace \"default\""]);
    assert!(vm(&product, "x").is_none());
    for verb in ["start", "stop", "restart", "delete", "edit", "shell"] {
        expect(&product.rdd(&["limavm", verb, "x"]), 1, &["LimaVM \"x\" not found in any namespace"]);
    }
    // `rdd shell` suggests what has to be started.
    let output = product.rdd(&["shell"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(output.stderr.contains("hint: start the App first: rdd start"), "{}", output.stderr);
}

#[test]
fn deadlines_have_their_code_and_their_words() {
    let product = Product::start(Manner::Settle);
    with_vm(&product, "x", TEMPLATE);
    product.rdd(&["limavm", "start", "x"]).expect_success();
    product.manner(Manner::Dawdle);
    let path = format!("{VMS}/x");
    product.api().merge(&path, &json!({"metadata": {"finalizers": ["rdd.rancherdesktop.io/cleanup"]}}));
    for (verb, message) in [
        ("stop", "failed waiting for LimaVM to be stopped: context deadline exceeded"),
        ("start", "failed waiting for LimaVM to be started: context deadline exceeded"),
        ("restart", "failed waiting for restart to complete: context deadline exceeded"),
        ("delete", "failed to wait for LimaVM deletion: context deadline exceeded"),
    ] {
        eventually("the machine on its way", SOON, || {
            let found = vm(&product, "x").unwrap();
            (found["status"]["conditions"][1]["reason"] == "Starting").then_some(())
        });
        let Output { code, stderr, .. } = product.rdd(&["limavm", verb, "x", "--timeout=1ms"]);
        assert_eq!((code, messages_of(&stderr).pop().unwrap().as_str()), (Some(4), message), "{stderr}");
    }
    let output = product.rdd(&["limavm", "create", "y", "x", "--start", "--timeout=50ms"]);
    let last = messages_of(&output.stderr).pop().unwrap();
    assert_eq!(
        (output.code, last.as_str()),
        (Some(4), "failed waiting for LimaVM to start: context deadline exceeded")
    );
}

#[test]
fn a_machine_that_goes_away_meanwhile_is_named() {
    let product = Product::start(Manner::Dawdle);
    with_vm(&product, "x", TEMPLATE);
    let command = product.spawn(&["limavm", "start", "x"]);
    command.until_it_says("started in namespace");
    product.api().call("DELETE", &format!("{VMS}/x"), None).unwrap();
    let (code, messages) = command.end();
    let expected = "failed waiting for LimaVM to be started: LimaVM \"x\" was deleted while waiting";
    assert_eq!((code, messages.last().unwrap().as_str()), (Some(1), expected));
}

#[test]
fn a_template_is_edited_until_it_is_right_or_given_up() {
    let product = Product::start_in(
        talkative().env("EDITOR", "not-this-one").env("KUBE_EDITOR", "./edit --now").build(),
        Manner::Settle,
    );
    config_map(&product, "x", TEMPLATE);
    product.rdd(&["limavm", "create", "x", "x"]).expect_success();
    expect(&product.rdd(&["limavm", "edit", "x"]), 1, &["LimaVM \"x\" does not have a template ConfigMap"]);
    let status = |name: &str| {
        product.api().merge(&format!("{VMS}/x/status"), &json!({"status": {"templateConfigMap": name}}));
    };
    product.api().create(
        MAPS,
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bare"}, "data": {"other": "x"}}),
    );
    status("bare");
    expect(
        &product.rdd(&["limavm", "edit", "x"]),
        1,
        &["template ConfigMap \"bare\" does not contain key \"template\""],
    );
    config_map(&product, "x-template", TEMPLATE);
    status("x-template");

    // The path is relative to the commands' working directory.
    let editor = |text: &str| {
        let program = script(
            product.home(),
            "edit",
            &format!("[ \"$1\" = --now ] || exit 3\ncase \"$2\" in */x-template-*.yaml) ;; *) exit 4 ;; esac\n{text}"),
        );
        let mut command = product.command(&["limavm", "edit", "x"]);
        command.env("KUBE_EDITOR", format!("'{}' --now", program.display()));
        product.run(command)
    };
    expect(&editor("true"), 0, &["No changes made to template, skipping update"]);
    expect(&editor(": > \"$2\""), 1, &["template data was cleared, aborting edit"]);
    expect(&editor("printf 'cpus: 3\\n\\n' >> \"$2\""), 0, &["Template ConfigMap \"x-template\" updated successfully"]);
    let text = || product.api().get(&format!("{MAPS}/x-template")).unwrap()["data"]["template"].clone();
    assert_eq!(text(), "vmType: qemu\ncpus: 3");
    let failed = editor("exit 7");
    assert_eq!(failed.code, Some(1));
    assert!(messages_of(&failed.stderr)[0].contains("problem with the editor"), "{}", failed.stderr);

    // An immutable ConfigMap: the server rejects the change, and the question gets no answer.
    product.api().merge(&format!("{MAPS}/x-template"), &json!({"immutable": true}));
    let refused = editor("echo 'cpus: 4' >> \"$2\"");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("error: failed to update template ConfigMap: "), "{}", refused.stderr);
    assert!(refused.stderr.contains("Retry editing with your previous changes? [y/N] "), "{}", refused.stderr);
    assert_eq!(messages_of(&refused.stderr), ["aborted"]);
    let kept = refused.stderr.lines().find_map(|line| line.strip_prefix("hint: your changes are in ")).unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "vmType: qemu\ncpus: 3\ncpus: 4\n");
    fs::remove_file(kept).unwrap();
}

#[test]
fn a_shell_needs_a_machine_that_runs() {
    let product = Product::start(Manner::Settle);
    with_vm(&product, "x", TEMPLATE);
    expect(&product.rdd(&["limavm", "shell", "x"]), 1, &["instance \"x\" does not exist on disk"]);
    let folder = product.home().join(format!(".rd{}", product.instance())).join("lima/x");
    fs::create_dir_all(&folder).unwrap();
    eventually("the machine's state", SOON, || {
        vm(&product, "x").unwrap()["status"]["conditions"][1]["reason"].as_str().map(drop)
    });
    let message = "instance \"x\" is not running (status: Stopped), use 'rdd lima start x' first";
    expect(&product.rdd(&["limavm", "shell", "x"]), 1, &[message]);
    product.rdd(&["limavm", "start", "x"]).expect_success();
    let limactl = script(&product.home().join("bin"), "limactl", "echo \"$LIMA_HOME $*\"; exit 5");
    let mut command = product.command(&["limavm", "shell", "--workdir=/tmp", "x", "ls", "-l"]);
    command.env("RDD_LIMACTL", &limactl);
    let output = product.run(command);
    assert_eq!(output.code, Some(5), "the code of what ran there is not lost: {}", output.stderr);
    assert_eq!(output.stdout, format!("{} shell --workdir /tmp x ls -l\n", folder.parent().unwrap().display()));
}

#[test]
fn there_is_no_shell_in_a_machine_that_is_this_one() {
    let product = Product::start(Manner::Settle);
    with_vm(&product, "x", "vmType: host\n");
    let output = product.rdd(&["limavm", "shell", "x"]);
    expect(&output, 1, &["LimaVM \"x\" has no VM: its containers run on this host (vmType host)"]);
    assert!(output.stderr.contains("hint: to use its containers: rdd run COMMAND"), "{}", output.stderr);
}
