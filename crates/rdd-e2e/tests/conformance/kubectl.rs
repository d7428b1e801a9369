//! Tests with kubectl: the pinned version and all other versions on this machine.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::process::background;
use rdd_testkit::{Daemon, capability::require};

use crate::support::{build_go, command, judge, pinned_kubectl};

const STEPS_TAKE: Duration = Duration::from_secs(300);

#[track_caller]
fn take_all_steps(kubectl: &Path) {
    let steps = build_go(".", "./kubectl", "kubectl-steps");
    let daemon = Daemon::start();
    let mut take = command(steps, "kubectl");
    take.arg("-kubectl").arg(kubectl).arg("-kubeconfig").arg(daemon.config_path());
    judge(take, STEPS_TAKE);
}

/// Every kubectl on PATH, and those next to the target of a link on PATH, by version.
fn others() -> BTreeMap<String, PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join("kubectl")).filter(|file| file.is_file());
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in on_path {
        let real = file.canonicalize().unwrap();
        folders.extend([file.parent().unwrap().to_owned(), real.parent().unwrap().to_owned()]);
    }
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let named = files.filter(|file| {
        let name = file.file_name();
        name == "kubectl"
            || name.to_str().is_some_and(|name| name.starts_with("kubectl.") || name.starts_with("kubectl-1."))
    });
    named.filter_map(|file| Some((version(&file.path())?, file.path()))).collect()
}

/// The version that a kubectl reports; `None` for a dispatcher, which runs one of the others.
fn version(kubectl: &Path) -> Option<String> {
    let output = background(kubectl, Path::new("/")).args(["version", "--client", "-o", "json"]).output().ok()?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let version = told["clientVersion"]["gitVersion"].as_str()?;
    (!version.contains("dispatcher")).then(|| version.to_owned())
}

#[test]
fn the_pinned_kubectl_does_all_that_it_does_with_kube_apiserver() {
    if !require("go") {
        return;
    }
    take_all_steps(&pinned_kubectl());
}

#[test]
fn every_other_kubectl_does_what_it_does_with_kube_apiserver() {
    if !require("go") || !require("kubectl") {
        return;
    }
    let others = others();
    assert!(!others.is_empty(), "there is a kubectl on the path, but none says its version");
    for kubectl in others.values() {
        take_all_steps(kubectl);
    }
}
