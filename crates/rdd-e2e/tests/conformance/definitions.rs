//! Tests CRDs as real projects ship them, one project per test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rdd_testkit::{Daemon, Output, capability::require};

use crate::support::{build_go, command, conformance, judge, pinned_kubectl};

const APPLYING_TAKES: Duration = Duration::from_secs(120);

/// The CRDs of one project, with objects for them in `conformance/definitions/<name>`.
struct Corpus {
    name: &'static str,
    module: &'static str,
    /// The folders of the module that contain the CRDs.
    folders: &'static [&'static str],
    /// The number of CRDs, so that a moved path is noticed.
    count: usize,
    /// A field to explain, and text that its explanation must contain.
    explain: (&'static str, &'static str),
}

fn download(module: &str) -> PathBuf {
    let mut download = command("go", ".");
    download.args(["mod", "download", "-json", module]).env("GOTOOLCHAIN", "local").env("GOFLAGS", "-mod=mod");
    let output = judge(download, Duration::from_secs(300));
    let told: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    PathBuf::from(told["Dir"].as_str().unwrap())
}

/// The files in these folders that contain CRDs.
fn definitions(root: &Path, folders: &[&str]) -> Vec<PathBuf> {
    let files = folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap().flatten());
    let mut found: Vec<PathBuf> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter(|path| fs::read_to_string(path).unwrap().contains("\nkind: CustomResourceDefinition\n"))
        .collect();
    found.sort();
    found
}

/// A kubectl with a daemon.
struct Kubectl {
    program: PathBuf,
    daemon: Daemon,
}

impl Kubectl {
    fn command<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Command {
        let mut kubectl = command(&self.program, "definitions");
        kubectl.args(arguments).env("KUBECONFIG", self.daemon.config_path()).env("HOME", self.daemon.home());
        kubectl
    }

    #[track_caller]
    fn run<S: AsRef<std::ffi::OsStr>>(&self, arguments: &[S]) -> Output {
        judge(self.command(arguments), APPLYING_TAKES)
    }
}

#[track_caller]
fn use_corpus(corpus: &Corpus) {
    if !require("go") {
        return;
    }
    let kubectl = Kubectl { program: pinned_kubectl(), daemon: Daemon::start() };
    let files = definitions(&download(corpus.module), corpus.folders);
    assert_eq!(files.len(), corpus.count, "definitions of {}: {files:?}", corpus.module);
    let mut apply: Vec<String> = ["apply", "--server-side"].map(str::to_owned).into();
    for file in &files {
        apply.extend(["-f".to_owned(), file.display().to_string()]);
    }
    kubectl.run(&apply);
    kubectl.run(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]);
    // A second apply changes nothing, since what was stored is what was sent.
    let versions = kubectl.run(&["get", "crd", "-o", "jsonpath={.items[*].metadata.resourceVersion}"]);
    kubectl.run(&apply);
    assert_eq!(versions, kubectl.run(&["get", "crd", "-o", "jsonpath={.items[*].metadata.resourceVersion}"]));

    use_objects(&kubectl, corpus.name);
    let (field, words) = corpus.explain;
    let explained = kubectl.run(&["explain", field]).stdout;
    assert!(explained.contains(words), "{explained}");
    let mut documents = command(build_go("client-go", ".", "client-go"), "client-go");
    documents.arg("-kubeconfig").arg(kubectl.daemon.config_path()).args(["-only", "OpenAPI document"]);
    judge(documents, APPLYING_TAKES);
    kubectl.run(&["delete", "crd", "--all", "--timeout=60s"]);
}

/// Expects that every object in `valid/` is stored, by client-side and server-side apply, and that every object in `invalid/` is rejected
/// for the reason in its first line.
#[track_caller]
fn use_objects(kubectl: &Kubectl, name: &str) {
    let objects = conformance().join("definitions").join(name);
    let valid = objects.join("valid.yaml").display().to_string();
    kubectl.run(&["apply", "--server-side", "-f", &valid]);
    kubectl.run(&["apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", &valid]);
    kubectl.run(&["get", "-f", &valid]);
    kubectl.run(&["delete", "-f", &valid]);
    kubectl.run(&["apply", "-f", &valid]);
    kubectl.run(&["apply", "-f", &valid]);
    let invalid = fs::read_to_string(objects.join("invalid.yaml")).unwrap();
    for object in invalid.split("\n---\n") {
        let reason = object.lines().find_map(|line| line.strip_prefix("# ")).unwrap();
        let file = kubectl.daemon.home().join("invalid.yaml");
        fs::write(&file, object).unwrap();
        let mut apply = kubectl.command(&["apply", "--server-side", "-f"]);
        let refused = apply.arg(&file).output().unwrap();
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && words.contains(reason), "{reason:?} was expected, not: {words}");
    }
}

#[test]
fn cert_manager_can_be_used() {
    use_corpus(&Corpus {
        name: "cert-manager",
        module: "github.com/cert-manager/cert-manager@v1.21.2",
        folders: &["deploy/crds"],
        count: 6,
        explain: ("certificate.spec.secretName", "FIELD: secretName"),
    });
}

#[test]
fn cluster_api_can_be_used() {
    use_corpus(&Corpus {
        name: "cluster-api",
        module: "sigs.k8s.io/cluster-api@v1.14.2",
        folders: &[
            "core/config/crd/bases",
            "bootstrap/kubeadm/config/crd/bases",
            "controlplane/kubeadm/config/crd/bases",
            "cmd/clusterctl/config/crd/bases",
        ],
        count: 19,
        explain: ("cluster.spec.clusterNetwork", "FIELD: clusterNetwork"),
    });
}

#[test]
fn the_gateway_api_can_be_used() {
    use_corpus(&Corpus {
        name: "gateway-api",
        module: "sigs.k8s.io/gateway-api@v1.4.1",
        folders: &["config/crd/experimental"],
        count: 12,
        explain: ("httproute.spec.rules.matches", "FIELD: matches"),
    });
}

#[test]
fn the_prometheus_operator_can_be_used() {
    use_corpus(&Corpus {
        name: "prometheus-operator",
        module: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        folders: &["example/prometheus-operator-crd"],
        count: 10,
        explain: ("servicemonitor.spec.endpoints", "FIELD: endpoints"),
    });
}
