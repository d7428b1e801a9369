//! Creates objects over many connections, each of which waits for the reply before its next request.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Result, bail};
use bytes::Bytes;
use rdd_stdx::task::Group;
use tokio::sync::Mutex;

use super::{
    objects,
    wire::{Connection, Endpoint, Protocol},
};
use crate::load::Put;

/// A connection that creates a new ConfigMap for each write.
#[derive(Debug)]
pub(crate) struct Creator {
    connection: Mutex<Connection>,
    number: usize,
    made: AtomicUsize,
}

impl Creator {
    /// One creator per connection; `series` makes the names differ from those of other rounds.
    pub(crate) async fn several(endpoint: &Endpoint, series: usize, count: usize) -> Result<Vec<Arc<Self>>> {
        let connections = endpoint.connect_many(Protocol::Http1, count).await?;
        let creator = |(number, connection)| {
            let number = series * count + number;
            Arc::new(Self { connection: Mutex::new(connection), number, made: AtomicUsize::new(0) })
        };
        Ok(connections.into_iter().enumerate().map(creator).collect())
    }
}

impl Put for Creator {
    async fn put(&self, _key: String, _value: Bytes) -> Result<()> {
        let name = format!("create-{}-{}", self.number, self.made.fetch_add(1, Ordering::Relaxed));
        self.connection.lock().await.create(objects::CONFIGMAPS, objects::config_map(&name)).await
    }
}

/// Creates ConfigMaps with the names [`name`] of the numbers below `count`.
pub(crate) async fn fill(endpoint: &Endpoint, count: usize, connections: usize) -> Result<()> {
    let mut group = Group::default();
    for (first, mut connection) in endpoint.connect_many(Protocol::Http1, connections).await?.into_iter().enumerate() {
        group.spawn("filler", async move {
            for number in (first..count).step_by(connections) {
                connection.create(objects::CONFIGMAPS, objects::config_map(&name(number))).await?;
            }
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(ended) = group.next().await {
        match ended.outcome {
            Ok(result) => result?,
            Err(failure) => bail!("a filler: {failure}"),
        }
    }
    Ok(())
}

/// The name of the ConfigMap of this number.
pub(crate) fn name(number: usize) -> String {
    format!("object-{number:05}")
}
