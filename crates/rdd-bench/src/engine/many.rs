//! Measures a first sync of 5,000 containers and 2,000 images against a bare loop of the same writes, and the cost of one event afterwards.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use rdd_docker::fake::{FakeEngine, Route};
use rdd_testkit::{Daemon, Sandbox};
use rdd_types::{CustomResourceExt, app::App};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::bare;
use crate::{
    api::{Connection, Endpoint, Protocol, process},
    statistics::median,
};

const CONTAINERS: usize = 5_000;
const IMAGES: usize = 2_000;
const SETTLES: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(300);

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const GROUP: &str = "/apis/containers.rancherdesktop.io/v1alpha1/namespaces/mirrored";

/// The results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Many {
    /// The time from the App's `Running` until everything is mirrored.
    pub(crate) first_sync: Duration,
    /// The time of the same writes in a bare loop ([`bare`]).
    pub(crate) bare_loop: Duration,
    /// The resident memory of the daemon afterwards.
    pub(crate) bytes: u64,
    /// The cost of one event: requests to the engine, and writes to the API.
    pub(crate) event_requests: usize,
    pub(crate) event_writes: u64,
}

pub(crate) fn measure(binary: &Path, runtime: &Runtime, rounds: usize) -> Result<Many> {
    let (mut syncs, mut loops, mut last) = (Vec::new(), Vec::new(), None);
    for number in 1..=rounds {
        eprintln!("engine: {CONTAINERS} containers and {IMAGES} images, {number} of {rounds}");
        let synced = sync(binary, runtime)?;
        syncs.push(synced.took.as_secs_f64());
        // In a home folder like the daemon's, so that both use the same disk.
        let yardstick = Sandbox::builder().binary(binary).build();
        loops.push(bare::measure(&yardstick.home().join("bare"), &synced.objects)?.as_secs_f64());
        last = Some(synced);
    }
    let last = last.context("nothing was measured")?;
    let middle = |times: &[f64]| median(times).map(Duration::from_secs_f64).context("nothing was measured");
    Ok(Many {
        first_sync: middle(&syncs)?,
        bare_loop: middle(&loops)?,
        bytes: last.bytes,
        event_requests: last.event_requests,
        event_writes: last.event_writes,
    })
}

/// Starts a daemon with the mirror, and with an App that does not report that it runs.
fn start(binary: &Path, runtime: &Runtime) -> Result<Daemon> {
    let bare = Daemon::start_bare_in(Sandbox::builder().binary(binary).build());
    let endpoint = Endpoint::of_daemon(&bare.config_path())?;
    runtime.block_on(async {
        let mut connection = endpoint.connect(Protocol::Http1).await?;
        let definition = serde_json::to_vec(&App::crd()).context("write a definition")?;
        connection.create(DEFINITIONS, definition.into()).await?;
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mirrored"}});
        connection.create("/api/v1/namespaces", space.to_string().into()).await?;
        let app = json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": "app"},
                         "spec": {"namespace": "mirrored", "running": true}});
        connection.create(APPS, app.to_string().into()).await
    })?;
    let sandbox = bare.stop();
    let output = sandbox.rdd(&["svc", "start", "--controllers=containers"]);
    ensure!(output.code == Some(0), "start the daemon: {}", output.stderr);
    Ok(Daemon::start_in(sandbox))
}

struct Synced {
    took: Duration,
    objects: Vec<Value>,
    bytes: u64,
    event_requests: usize,
    event_writes: u64,
}

fn sync(binary: &Path, runtime: &Runtime) -> Result<Synced> {
    let daemon = start(binary, runtime)?;
    let socket = daemon.path("docker_socket");
    std::fs::create_dir_all(socket.parent().context("a socket lies in a folder")?).context("make a folder")?;
    let engine = FakeEngine::start(&socket).context("start a fake engine")?;
    engine.fill(CONTAINERS, IMAGES).context("fill the fake engine")?;
    let endpoint = Endpoint::of_daemon(&daemon.config_path())?;
    let synced = runtime.block_on(async {
        let mut connection = endpoint.connect(Protocol::Http1).await?;
        let begun = Instant::now();
        say_it_runs(&mut connection).await?;
        until_mirrored(&mut connection, begun).await?;
        let took = begun.elapsed();
        let mut objects = list(&mut connection, "containers").await?;
        objects.extend(list(&mut connection, "images").await?);
        ensure!(objects.len() == CONTAINERS + IMAGES, "{} objects are mirrored", objects.len());
        tokio::time::sleep(SETTLES).await;
        let bytes = process::resident_bytes(daemon.pid())?;
        let (event_requests, event_writes) = one_event(&engine, &mut connection).await?;
        anyhow::Ok(Synced { took, objects, bytes, event_requests, event_writes })
    });
    // The daemon is stopped first, so that it does not see its engine disappear.
    drop(daemon);
    synced
}

async fn say_it_runs(connection: &mut Connection) -> Result<()> {
    let running = json!({"type": "Running", "status": "True", "reason": "Started", "message": "It runs",
                         "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1});
    let said = json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": "app"},
                      "status": {"conditions": [running]}});
    connection.apply(&format!("{APPS}/app/status?fieldManager=bench"), said.to_string().into()).await
}

async fn until_mirrored(connection: &mut Connection, begun: Instant) -> Result<()> {
    loop {
        let (_, app) = connection.fetch(&format!("{APPS}/app")).await?;
        let app: Value = serde_json::from_slice(&app).context("read the App")?;
        let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if all.iter().any(|one| one["type"] == "ContainerEngineReady" && one["status"] == "True") {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "not mirrored within {PATIENCE:?}: {}", app["status"]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn list(connection: &mut Connection, kind: &str) -> Result<Vec<Value>> {
    let (_, body) = connection.fetch(&format!("{GROUP}/{kind}")).await?;
    let list: Value = serde_json::from_slice(&body).context("read a list")?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

async fn revision(connection: &mut Connection) -> Result<u64> {
    let (_, body) = connection.fetch(&format!("{GROUP}/volumes?limit=1")).await?;
    let list: Value = serde_json::from_slice(&body).context("read a list")?;
    let revision = list["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    revision.context("a list without a revision")
}

/// Starts one container and counts the requests and writes that follow.
async fn one_event(engine: &FakeEngine, connection: &mut Connection) -> Result<(usize, u64)> {
    engine.forget_requests();
    let before = revision(connection).await?;
    let id = engine.change(|world| world.start_container("filled-7").and_then(|_| world.find_container("filled-7")));
    let id = id.context("start a container")?;
    let begun = Instant::now();
    loop {
        let (_, body) = connection.fetch(&format!("{GROUP}/containers/{id}")).await?;
        let object: Value = serde_json::from_slice(&body).context("read a container")?;
        if object["status"]["status"] == "running" {
            break;
        }
        ensure!(begun.elapsed() < PATIENCE, "the event was not seen within {PATIENCE:?}");
    }
    tokio::time::sleep(SETTLES).await;
    // The daemon's periodic checks of the engine are not part of the event.
    let kept_alive = engine.requests(Route::Ping) + engine.requests(Route::Info);
    let requests = engine.all_requests().values().sum::<usize>() - kept_alive;
    Ok((requests, revision(connection).await? - before))
}

impl Connection {
    /// Applies an object, which must succeed.
    async fn apply(&mut self, path: &str, object: Bytes) -> Result<()> {
        let response = self.send(Method::PATCH, path, object).await?;
        let status = response.status();
        let body = response.into_body().collect().await.context("read an answer")?.to_bytes();
        ensure!(status.is_success(), "PATCH {path}: {status}: {}", String::from_utf8_lossy(&body));
        Ok(())
    }
}
