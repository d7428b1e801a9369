//! Runs the real kubectl against the real server, with the kubeconfig that the daemon writes.

use std::process::Output;

use rdd_stdx::process;
use rdd_testkit::capability::require;

use crate::support::TestServer;

async fn kubectl(server: &TestServer, arguments: &'static [&'static str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, server.kubeconfig().render().unwrap()).unwrap();
    let run = move || {
        let mut command = process::background("kubectl", folder.path());
        command.env("KUBECONFIG", &config).env("HOME", folder.path()).args(arguments);
        command.arg("--request-timeout=20s").output()
    };
    tokio::task::spawn_blocking(run).await.unwrap().unwrap()
}

async fn check(server: &TestServer, arguments: &'static [&'static str], expected: impl FnOnce(&str) -> bool) {
    let output = kubectl(server, arguments).await;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && expected(&out), "kubectl {arguments:?}: {out}{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reads_health_version_and_metrics() {
    // Finding A-12: under CI a machine without kubectl is a failure.
    if !require("kubectl") {
        return;
    }
    let server = TestServer::start().await;
    check(&server, &["get", "--raw", "/readyz"], |out| out == "ok").await;
    check(&server, &["get", "--raw", "/readyz?verbose"], |out| out.ends_with("readyz check passed\n")).await;
    check(&server, &["version"], |out| out.contains("Server Version: v1.35.4+rdd-0.0.0")).await;
    check(&server, &["get", "--raw", "/metrics"], |out| out.contains("apiserver_request_total{")).await;
    check(&server, &["--context=user", "get", "--raw", "/whoami"], |out| out == "user system:authenticated").await;
    check(&server, &["config", "current-context"], |out| out == "root\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_the_message_of_a_refusal() {
    // Finding A-12: under CI a machine without kubectl is a failure.
    if !require("kubectl") {
        return;
    }
    let server = TestServer::start().await;
    let output = kubectl(&server, &["get", "--raw", "/panic"]).await;
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(err.contains("this request caused the server to panic"), "{err}");
}
