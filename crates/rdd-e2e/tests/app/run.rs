//! Tests `rdd run`: it runs a command with the environment of the instance.

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::eventually;

use crate::support::{Manner, Product, SOON, expect, messages_of, script, talkative};

#[test]
fn the_command_has_the_instance_around_it() {
    let product = Product::start_in(talkative().env("DOCKER_HOST", "tcp://elsewhere").build(), Manner::Settle);
    let path = std::env::var("PATH").unwrap();
    let short = product.home().join(format!(".rd{}", product.instance()));
    let script = "echo \"$PATH|$DOCKER_CONTEXT|$KUBECONFIG|${DOCKER_HOST-none}|$1\"";
    let output = product.rdd(&["run", "sh", "-c", script, "x", "--flag=of its own"]).expect_success();
    let name = format!("rancher-desktop-{}", product.instance());
    let (bin, config) = (short.join("bin"), short.join("kube.config"));
    assert_eq!(output.stdout, format!("{}:{path}|{name}|{}|none|--flag=of its own\n", bin.display(), config.display()));
    assert_eq!(messages_of(&output.stderr)[0], "App created");
    assert_eq!(product.app().unwrap()["spec"]["running"], true);
}

#[test]
fn the_code_of_the_command_is_ours_without_a_word() {
    let product = Product::start(Manner::Settle);
    product.rdd(&["start"]).expect_success();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 3", 3), ("kill -9 $$", 255)] {
        let mut command = product.command(&["run", "--", "sh", "-c", script]);
        command.env("RDD_LOG_LEVEL", "warn");
        let output = product.run(command);
        assert_eq!((output.code, output.stderr.as_str()), (Some(code), ""), "{script}");
    }
    let mut command = product.command(&["--log-format=json", "run", "sh", "-c", "exit 7"]);
    command.env("RDD_LOG_LEVEL", "warn");
    let output = product.run(command);
    assert!(output.stderr.contains("\"exit-code\":7") && output.code == Some(7), "{}", output.stderr);
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let product = Product::start(Manner::Settle);
    product.rdd(&["start"]).expect_success();
    let mut expected = vec!["App updated", "Waiting for App to settle"];
    expected.push("Running=True: Lima instance is running (Started)");
    expected.push("Settled=True: App has reached the desired state (Settled)");
    expected.push("run nothing-like-it: exec: \"nothing-like-it\": executable file not found in $PATH");
    expect(&product.rdd(&["run", "nothing-like-it"]), 1, &expected);
}

#[test]
fn programs_of_the_instance_come_first() {
    let product = Product::start(Manner::Settle);
    let bin = product.home().join(format!(".rd{}", product.instance())).join("bin");
    script(&bin, "docker", "echo ours");
    assert_eq!(product.rdd(&["run", "docker"]).expect_success().stdout, "ours\n");
}

#[test]
fn kubernetes_is_enabled_only_for_a_new_app_and_a_command_that_needs_it() {
    let product = Product::start(Manner::Settle);
    let output = product.rdd(&["run", "/anywhere/helm"]);
    assert_eq!(output.code, Some(3), "the definition of this test refuses it: {}", output.stderr);
    assert!(messages_of(&output.stderr)[0].ends_with("Kubernetes comes later"), "{}", output.stderr);
    product.rdd(&["start"]).expect_success();
    assert_eq!(product.rdd(&["run", "/anywhere/helm"]).code, Some(1), "an App that is there is left as it is");
    assert!(product.app().unwrap()["spec"]["kubernetes"].is_null());
}

#[test]
fn signals_reach_the_command_and_its_end_is_ours() {
    let product = Product::start(Manner::Settle);
    product.rdd(&["start"]).expect_success();
    let mark = product.home().join("up");
    let script = format!("trap 'exit 9' TERM; touch {}; while :; do sleep 0.05; done", mark.display());
    let command = product.spawn(&["run", "sh", "-c", &script]);
    eventually("the command", SOON, || mark.exists().then_some(()));
    Process::open(command.child.id()).unwrap().unwrap().signal(Signal::TERM).unwrap();
    assert_eq!(command.end().0, Some(9));
}
