//! Measures the time from a container's start until its mirror reports it, with a real engine.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rdd_docker::suite::ask::Ask;
use rdd_stdx::{process::background, task::Group};
use rdd_testkit::{Daemon, Sandbox};
use serde_json::{Value, json};
use tokio::{runtime::Runtime, sync::mpsc, time::timeout};

use crate::api::{Endpoint, Percentiles, Protocol};

/// The timeout of each wait for a mirror.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    /// Seconds from the engine's reply to `start` until a watcher sees the mirror as running; 0 if it was seen earlier.
    pub(crate) seen: Percentiles,
}

pub(crate) fn measure(binary: &Path, runtime: &Runtime, runs: usize) -> Result<Runs> {
    eprintln!("engine: {runs} containers of a real engine");
    let sandbox = Sandbox::builder().binary(binary).build();
    let output = sandbox.rdd(&["set", "backend=host", "running=true"]);
    ensure!(output.code == Some(0), "start an engine: {}", output.stderr);
    let daemon = Daemon::start_in(sandbox);
    let seen = runtime.block_on(seen(&daemon, runs));
    daemon.rdd(&["svc", "delete"]);
    Ok(Runs { seen: Percentiles::of(&seen?)? })
}

async fn seen(daemon: &Daemon, runs: usize) -> Result<Vec<f64>> {
    let ask = Ask::new(&daemon.path("docker_socket"));
    let imported = ask.post_tar("/images/create?fromSrc=-&repo=box&tag=1", &archive(daemon.home())?).await;
    ensure!(imported.status == 200, "import an image: {}", imported.message());
    let endpoint = Endpoint::of_daemon(&daemon.config_path())?;
    let (tell, mut told) = mpsc::channel(1024);
    let mut group = Group::default();
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let path = "/apis/containers.rancherdesktop.io/v1alpha1/containers?watch=1";
    let response = connection.send(Method::GET, path, Bytes::new()).await?;
    ensure!(response.status().is_success(), "a watch was refused: {}", response.status());
    group.spawn("watcher", async move {
        let _connection = connection;
        follow(response.into_body(), &tell).await
    });
    let mut delays = Vec::new();
    for number in 0..runs {
        let body = json!({"Image": "box:1", "Cmd": ["sleep", "600"], "StopSignal": "SIGKILL", "HostConfig": {"NetworkMode": "none"}});
        let made = ask.post_json(&format!("/containers/create?name=run-{number}"), &body).await;
        let id = made.json["Id"].as_str().context("make a container")?.to_owned();
        let started = ask.post(&format!("/containers/{id}/start")).await;
        let answered = Instant::now();
        ensure!(started.status == 204, "start a container: {}", started.message());
        let heard = timeout(PATIENCE, async {
            loop {
                let (at, running) = told.recv().await.context("the watch ended")?;
                if running == id {
                    return anyhow::Ok(at);
                }
            }
        });
        let heard: Instant = heard.await.context("wait for a mirror")??;
        delays.push(heard.saturating_duration_since(answered).as_secs_f64());
        ask.delete(&format!("/containers/{id}?force=1")).await;
    }
    Ok(delays)
}

/// Sends the ID of every container that is reported as running, with the time.
async fn follow(mut body: Incoming, tell: &mpsc::Sender<(Instant, String)>) {
    let mut rest = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = rest.split_to(end + 1);
            let event: Value = serde_json::from_slice(&line).unwrap_or_default();
            let id = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let running = event["object"]["status"]["status"] == "running";
            if running && tell.send((Instant::now(), id)).await.is_err() {
                return;
            }
        }
    }
}

/// A tar archive of a root folder with a static busybox.
fn archive(folder: &Path) -> Result<Bytes> {
    let script = "mkdir -p root/bin && cd root && cp \"$(command -v busybox)\" bin/sleep && tar -cf - bin";
    let output = background("sh", folder).args(["-c", script]).output().context("make an archive")?;
    ensure!(output.status.success(), "make an archive: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout.into())
}
