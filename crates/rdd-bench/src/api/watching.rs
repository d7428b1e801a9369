//! Measures watches: how long it takes until the last of many watchers receives an event.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rdd_stdx::task::Group;
use tokio::sync::mpsc;

use super::{
    objects,
    wire::{Endpoint, Protocol},
};

/// Seconds from a point in each write until the last watcher has received its event.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    /// From just before the request was sent.
    pub(crate) from_request: Vec<f64>,
    /// From the arrival of the reply, which means that the write is committed; 0 if all watchers received the event earlier.
    pub(crate) from_answer: Vec<f64>,
}

/// Creates objects one after the other while this many watchers watch, each on its own connection. The names differ by round.
pub(crate) async fn measure(endpoint: &Endpoint, watchers: usize, writes: usize, round: usize) -> Result<Delays> {
    let (seen, mut sightings) = mpsc::channel(watchers);
    let mut group = Group::default();
    let path = format!("{}?watch=1&resourceVersion={}", objects::CONFIGMAPS, head(endpoint).await?);
    for mut connection in endpoint.connect_many(Protocol::Http1, watchers).await? {
        let response = connection.send(Method::GET, &path, Bytes::new()).await?;
        ensure!(response.status().is_success(), "a watch was refused: {}", response.status());
        let seen = seen.clone();
        group.spawn("watcher", async move {
            // The connection closes when its driver is dropped.
            let _connection = connection;
            follow(response.into_body(), &seen).await
        });
    }
    let mut writer = endpoint.connect(Protocol::Http1).await?;
    let mut delays = Delays::default();
    for number in 0..writes {
        let object = objects::config_map(&format!("watched-{round}-{number}"));
        let begun = Instant::now();
        writer.create(objects::CONFIGMAPS, object).await?;
        let answered = Instant::now();
        let mut last = begun;
        for _ in 0..watchers {
            last = last.max(sightings.recv().await.context("the watchers ended")?);
        }
        delays.from_request.push((last - begun).as_secs_f64());
        delays.from_answer.push(last.saturating_duration_since(answered).as_secs_f64());
    }
    ensure!(sightings.try_recv().is_err(), "a watcher saw more than was written");
    Ok(delays)
}

/// Sends the time of each event; an event is one line.
async fn follow(mut body: Incoming, seen: &mpsc::Sender<Instant>) {
    while let Some(Ok(frame)) = body.frame().await {
        let lines = frame.data_ref().map_or(0, |data| data.iter().filter(|byte| **byte == b'\n').count());
        for _ in 0..lines {
            if seen.send(Instant::now()).await.is_err() {
                return;
            }
        }
    }
}

/// The current resource version of the collection.
async fn head(endpoint: &Endpoint) -> Result<String> {
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let (_, list) = connection.fetch(&format!("{}?limit=1", objects::CONFIGMAPS)).await?;
    let list: serde_json::Value = serde_json::from_slice(&list).context("read a list")?;
    let revision = list.pointer("/metadata/resourceVersion").and_then(serde_json::Value::as_str);
    revision.map(str::to_owned).context("a list without a revision")
}
