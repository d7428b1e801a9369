//! Tests the published kubeconfig context, and failures to publish it.

use std::fs;

use crate::support::Product;

const OTHERS: &str = "# mine\napiVersion: v1\nkind: Config\nclusters:\n- name: work\n  cluster: {server: \"https://work.example.com\"}\nusers:\n- name: ann\n  user:\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: login}\ncontexts:\n- name: work\n  context: {cluster: work, user: ann}\ncurrent-context: work   # do not touch\n";

// Finding 361-T2
#[test]
fn the_users_own_context_stays_current_and_every_other_byte_stays() {
    let Some(product) = Product::start() else { return };
    fs::create_dir_all(product.home().join(".kube")).unwrap();
    fs::write(product.users_file(), OTHERS).unwrap();
    product.enable().expect_success();
    let merged = fs::read_to_string(product.users_file()).unwrap();
    assert!(merged.contains("current-context: work   # do not touch") && merged.starts_with("# mine\n"), "{merged}");
    let nodes = product.kubectl(&["--context", &product.context(), "get", "nodes", "-o", "name"]).expect_success();
    assert!(nodes.stdout.contains("node/"));
    product.disable().expect_success();
    assert_eq!(fs::read_to_string(product.users_file()).unwrap(), OTHERS);
}

#[test]
fn where_there_is_no_current_context_ours_becomes_it() {
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    let current = || product.kubectl(&["config", "current-context"]).stdout.trim().to_owned();
    rdd_testkit::eventually("our context", crate::support::SOON, || {
        let found = current();
        if found == product.context() { Ok(()) } else { Err(found) }
    });
    product.kubectl(&["get", "nodes"]).expect_success();
    product.disable().expect_success();
    assert_eq!(current(), "");
}

// Finding 361-S2, 361-S3, 361-S5
#[test]
fn a_context_that_cannot_be_published_is_told_retried_and_not_repeated_in_the_log() {
    // Repetitions are logged at the level debug only.
    let Some(product) = Product::stopped(&[]) else { return };
    product.rdd(&["--log-level=debug", "svc", "start"]).expect_success();
    product.rdd(&["set", "backend=host", "running=true"]).expect_success();
    fs::write(product.home().join(".kube"), "in the way").unwrap();
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    let message = product.until("MergeFailed");
    assert!(message.starts_with("Failed to publish Kubernetes context: "), "{message}");
    assert_eq!(product.until_condition("Settled", "MergeFailed"), message);
    let log = || product.rdd(&["svc", "log"]).expect_success().stdout;
    let lines =
        |words: &str| log().lines().filter(|line| line.contains("step publish") && line.contains(words)).count();
    rdd_testkit::eventually("more attempts", crate::support::SOON, || {
        if lines("attempt=\"4\"") > 0 { Ok(()) } else { Err(lines("").to_string()) }
    });
    assert_eq!(lines("failed, and is tried again"), 1, "{}", log());
    fs::remove_file(product.home().join(".kube")).unwrap();
    product.until("Ready");
    product.until_condition("Settled", "Settled");
}

#[test]
fn a_context_that_somebody_removed_comes_back() {
    let Some(product) = Product::start() else { return };
    product.enable().expect_success();
    product.kubectl(&["config", "delete-context", &product.context()]).expect_success();
    rdd_testkit::eventually("the context", crate::support::SOON, || {
        fs::read_to_string(product.users_file()).unwrap().contains("contexts:\n- ").then_some(())
    });
}
