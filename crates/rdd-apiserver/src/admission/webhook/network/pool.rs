//! Connections that wait for their next request.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{
    super::endpoint::Endpoint,
    connect::{Connection, Sender},
};

/// How many may wait. The one that has waited longest makes room.
const IDLE_MAX: usize = 32;
/// How long one may wait: Go's default.
const IDLE_TIME: Duration = Duration::from_secs(90);

/// What connections are told apart by. A connection is never used for a webhook that would trust somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// `host:port` to connect to.
    pub(super) place: String,
    pub(super) server_name: String,
    pub(super) http2: bool,
    ca_bundle: Arc<[u8]>,
}

impl Key {
    pub(super) fn of(endpoint: &Endpoint, place: String) -> Self {
        let Endpoint { server_name, http2, ca_bundle, .. } = endpoint;
        Self { place, server_name: server_name.clone(), http2: *http2, ca_bundle: Arc::clone(ca_bundle) }
    }
}

/// Connections that wait, the one that has waited longest first. It has no timer: who waited too long is found out when
/// somebody looks.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<Vec<(Instant, Connection)>>);

impl Pool {
    /// A connection to use. One of HTTP/2 stays here too, since any number of requests may share it.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(since, connection)| since.elapsed() < IDLE_TIME && !connection.sender.is_closed());
        let at = idle.iter().rposition(|(_, connection)| connection.key == *key)?;
        match &idle[at].1.sender {
            Sender::Http1(_) => Some(idle.remove(at).1),
            Sender::Http2(_) => idle[at].1.share(),
        }
    }

    /// Lets a connection wait for its next request.
    pub(super) fn put(&self, connection: Connection) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(connection.sender, Sender::Http2(_)) {
            idle.retain(|(_, known)| known.key != connection.key);
        }
        idle.push((Instant::now(), connection));
        let excess = idle.len().saturating_sub(IDLE_MAX);
        idle.drain(..excess);
    }
}
