//! Tests with `kube`, the Rust client and controller runtime, which the product's own controllers use too.

mod access;
mod control;
mod watching;

use std::{future::Future, time::Duration};

use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Client, Config, CustomResource,
    config::{KubeConfigOptions, Kubeconfig},
};
use rdd_testkit::Daemon;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The timeout of each scenario.
const SCENARIO_TAKES: Duration = Duration::from_secs(60);

/// A custom resource as a Rust program declares it.
#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kube.judge.example",
    version = "v1",
    kind = "Shelf",
    namespaced,
    status = "ShelfStatus",
    shortname = "sh"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShelfSpec {
    /// What the shelf is called.
    #[schemars(length(min = 2))]
    title: String,
    /// How many books it holds.
    #[serde(default)]
    books: u32,
}

/// What is known of a shelf.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ShelfStatus {
    /// Whether its sign hangs.
    ready: bool,
}

/// Runs a scenario against its own daemon.
#[track_caller]
fn scenario<F: Future<Output = ()>>(run: impl FnOnce(Client) -> F) {
    let daemon = Daemon::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let done = runtime.block_on(async {
        let client = connect(&daemon).await;
        tokio::time::timeout(SCENARIO_TAKES, run(client)).await
    });
    assert!(done.is_ok(), "the scenario did not end within {SCENARIO_TAKES:?}");
}

async fn connect(daemon: &Daemon) -> Client {
    let kubeconfig = Kubeconfig::read_from(daemon.config_path()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([("k".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// The code and the reason of an error from the server.
#[track_caller]
fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("the server was to refuse, but: {other:?}"),
    }
}
