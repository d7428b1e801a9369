//! Tests user mistakes: each message names the cause and the fix.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::support::Product;

#[test]
fn settings_that_cannot_be_are_refused_with_what_there_is_to_choose_from() {
    let Some(product) = Product::start() else { return };
    for (words, code, said) in [
        (
            vec!["set", "kubernetes.version=9.9.9"],
            3,
            vec!["\\\"9.9.9\\\" is not supported", "hint: choose one of 1.32 (", "stable (1.34.6)"],
        ),
        (vec!["set", "kubernetes.version=beta"], 3, vec!["\\\"beta\\\" is not supported", "latest (1.35.3)"]),
        (vec!["set", "kubernetes.version=v1.35.3+k3s9"], 3, vec!["v1.35.3+k3s9", "hint: choose one of"]),
        (
            vec!["set", "kubernetes.enabled=maybe"],
            1,
            vec!["maybe", "kubernetes.enabled", "use \\\"true\\\" or \\\"false\\\""],
        ),
        (
            vec!["set", "kubernetes.port=7443"],
            1,
            vec!["unknown property \\\"port\\\"", "valid properties: enabled, version"],
        ),
        (vec!["set", "kubernetes=true"], 1, vec!["is an object", "e.g. \\\"kubernetes.enabled\\\""]),
        (vec!["reset", "--kubernetes"], 1, vec!["deletes the Kubernetes cluster", "hint: add --yes"]),
    ] {
        let output = product.rdd(&words);
        assert_eq!(output.code, Some(code), "{words:?}: {}", output.stderr);
        for one in said {
            assert!(output.stderr.contains(one), "{words:?} does not say {one:?}: {}", output.stderr);
        }
    }
    assert_eq!(product.condition("KubernetesReady").1, "NotApplicable", "and nothing was changed");
}

#[test]
fn a_kubeconfig_that_cannot_be_changed_is_named_left_alone_and_used_when_it_can() {
    let Some(product) = Product::start() else { return };
    let file = product.users_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "apiVersion: v1\nclusters: [\n").unwrap();
    product.rdd(&["set", "kubernetes.enabled=true", "--wait=false"]).expect_success();
    let message = product.until("MergeFailed");
    assert!(message.contains(&file.display().to_string()) && message.contains("line 2"), "{message}");
    let status = product.rdd(&["status"]);
    let next = format!("next: kubectl config view --kubeconfig={}\n", file.display());
    assert!(status.stdout.ends_with(&next), "{}", status.stdout);
    let shown = product.kubectl(&["config", "view", &format!("--kubeconfig={}", file.display())]);
    assert!(shown.stderr.contains("line 2"), "what the hint shows is what is wrong: {}", shown.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "apiVersion: v1\nclusters: [\n");
    fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    rdd_testkit::eventually("another word", crate::support::SOON, || {
        let message = product.condition("KubernetesReady").2;
        if message.contains("is read-only") && message.contains("chmod u+w") { Ok(()) } else { Err(message) }
    });
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    product.until("Ready");
    product.kubectl(&["--context", &product.context(), "get", "nodes"]).expect_success();
}
