//! Tests `rdd delete` and `rdd reset`: they ask for confirmation, and then remove everything.

use serde_json::json;

use crate::support::{APP, Manner, Product, VMS, expect, messages_of};

const OWNED: &str = "rdd.rancherdesktop.io/owned-by-App";
const CLEANUP: &str = "rdd.rancherdesktop.io/cleanup";

fn with_app(manner: Manner) -> Product {
    let product = Product::start(Manner::Settle);
    product.rdd(&["start"]).expect_success();
    product.api().merge(APP, &json!({"metadata": {"finalizers": [CLEANUP]}}));
    product.manner(manner);
    product
}

fn with_vm(product: &Product) -> serde_json::Value {
    product.api().create(
        VMS,
        &json!({
            "apiVersion": "lima.rancherdesktop.io/v1alpha1", "kind": "LimaVM",
            "metadata": {"name": "rd", "finalizers": [OWNED, CLEANUP]},
            "spec": {"running": true, "templateRef": {"name": "rd"}},
        }),
    )
}

#[test]
fn nobody_to_ask_means_no() {
    let product = with_app(Manner::Settle);
    for command in ["delete", "reset"] {
        if command == "reset" {
            with_vm(&product);
        }
        let output = product.rdd(&[command]);
        assert_eq!(output.code, Some(1), "{}", output.stderr);
        let messages = messages_of(&output.stderr);
        assert!(messages[0].contains("every container, image and volume"), "{messages:?}");
        assert!(output.stderr.contains("hint: add --yes"), "{}", output.stderr);
        assert!(product.app().unwrap()["metadata"]["deletionTimestamp"].is_null());
    }
}

#[test]
fn the_app_is_deleted_and_waited_for() {
    let product = with_app(Manner::Settle);
    let output = product.rdd(&["delete", "--yes"]).expect_success();
    let messages = messages_of(&output.stderr);
    assert!(messages[0].starts_with("this deletes the App of"), "{messages:?}");
    assert_eq!(messages[1..], ["Waiting for App to be deleted", "App deleted"]);
    assert!(product.app().is_none());
    expect(&product.rdd(&["delete"]), 0, &["App does not exist; nothing to delete"]);
    expect(&product.rdd(&["reset"]), 0, &["App does not exist; nothing to reset"]);
}

#[test]
fn a_deletion_that_is_held_up_says_by_whom() {
    let product = with_app(Manner::Dawdle);
    let output = product.rdd(&["delete", "--yes", "--timeout=300ms"]);
    assert_eq!(output.code, Some(4), "{}", output.stderr);
    let expected = format!(
        "timed out waiting for App to be deleted: waiting for finalizers: {CLEANUP}: context deadline exceeded"
    );
    assert_eq!(messages_of(&output.stderr).pop().unwrap(), expected);
    let output = product.rdd(&["delete", "-y", "--wait=false"]).expect_success();
    assert_eq!(messages_of(&output.stderr).pop().unwrap(), "App is being deleted");
}

#[test]
fn a_reset_replaces_the_machine_and_keeps_the_app() {
    let product = with_app(Manner::Settle);
    expect(&product.rdd(&["reset"]), 0, &["App has no VM; nothing to reset"]);
    let (app, vm) = (product.app().unwrap(), with_vm(&product));
    let command = product.spawn(&["reset", "--yes"]);
    // The App's controller would create another one.
    let path = format!("{VMS}/rd");
    rdd_testkit::eventually("the machine's end", crate::support::SOON, || {
        product.api().get(&path).is_none().then_some(())
    });
    command.until_it_says("the new VM has not been created");
    let other = with_vm(&product);
    let (code, messages) = command.end();
    assert_eq!(code, Some(0), "{messages:?}");
    assert_eq!(messages.last().unwrap(), "App has been reset");
    assert_ne!(vm["metadata"]["uid"], other["metadata"]["uid"]);
    assert_eq!(product.app().unwrap()["metadata"]["uid"], app["metadata"]["uid"]);
}

#[test]
fn a_reset_that_is_held_up_says_by_whom() {
    let product = with_app(Manner::Dawdle);
    with_vm(&product);
    let output = product.rdd(&["reset", "--yes", "--timeout=300ms"]);
    assert_eq!(output.code, Some(4), "{}", output.stderr);
    let expected = format!(
        "timed out waiting for the VM to be recreated: the old VM is waiting for finalizers: {CLEANUP}: context deadline exceeded"
    );
    assert_eq!(messages_of(&output.stderr).pop().unwrap(), expected);
}
