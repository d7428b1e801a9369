//! The server: accepts connections on one socket, and shuts down without losing responses.

mod body;
mod connection;
mod frame;
mod inproc;
pub mod limits;
mod listener;
mod pending;
mod place;
mod streams;

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use prometheus_client::collector::Collector;
use rdd_stdx::{
    clock::SharedClock,
    task::{Ended, Group},
};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, oneshot},
};
use tokio_util::sync::CancellationToken;

use self::{
    frame::Frame,
    limits::CLOSE,
    pending::{PeerUsers, PendingConnections},
    place::Placed,
};
pub use self::{
    inproc::InProcess,
    limits::Limits,
    listener::{Error as BindError, Listener, bind},
};
use crate::{
    auth::{Authenticators, Identity},
    backup::Backup,
    endpoints::Endpoints,
    health::Health,
    metrics::{Figures, Metrics},
    request::Handler,
    tls::Tls,
    version::Version,
};

/// The pause after `accept` failed, for example because no file descriptors were left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The dependencies of a [`Server`].
pub struct Parts {
    /// The serving certificate and the authority of client certificates.
    pub tls: Arc<Tls>,
    /// Authenticates requests.
    pub authenticators: Authenticators,
    /// The health checks.
    pub health: Health,
    /// The version for `/version`.
    pub version: Version,
    /// Metrics of other components for `/metrics`.
    pub figures: Vec<Figures>,
    /// Makes the copy that `/datastore/backup` serves. Without it the path does not exist.
    pub backup: Option<Arc<dyn Backup>>,
    /// Serves all paths that are not built in.
    pub handler: Arc<dyn Handler>,
    /// The limits of connections and requests.
    pub limits: Limits,
    /// The source of time.
    pub clock: SharedClock,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// A running server.
///
/// # Flow
/// [`start`](Self::start) serves a bound [`Listener`]. The owner awaits [`ended`](Self::ended) to detect a failure, and calls
/// [`shutdown`](Self::shutdown) to stop.
///
/// # Guarantees
/// - A failure of one connection or a panic of one request affects no other.
/// - Shutdown completes the requests in flight within its time limit. Dropping the server instead cancels all of them.
pub struct Server {
    address: SocketAddr,
    frame: Arc<Frame>,
    health: Arc<Health>,
    accepting: CancellationToken,
    listener_closed: oneshot::Receiver<()>,
    tasks: Group<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The result of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// The number of requests that shutdown cancelled because they outlasted the drain timeout.
    pub cut_off: usize,
    /// The duration of the shutdown.
    pub elapsed: Duration,
}

impl Server {
    /// Starts serving on `listener`. Must be called in a tokio runtime.
    pub fn start(listener: Listener, parts: Parts) -> Self {
        Self::start_with(listener, parts, Vec::new())
    }

    /// As [`start`](Self::start), with collectors of other components for metrics with labels.
    pub fn start_with(listener: Listener, parts: Parts, collectors: Vec<Box<dyn Collector>>) -> Self {
        let Parts { tls, authenticators, health, version, figures, backup, handler, limits, clock } = parts;
        let health = Arc::new(health);
        let metrics = Arc::new(Metrics::new(&version, clock.wall(), figures).with(collectors));
        let endpoints = Endpoints { health: health.clone(), metrics: metrics.clone(), version, backup, next: handler };
        let address = listener.address();
        let port = address.port();
        let frame = Arc::new(Frame::new(authenticators, Arc::new(endpoints), limits, metrics, clock, port));
        let accepting = CancellationToken::new();
        let (closed, listener_closed) = oneshot::channel();
        let mut tasks = Group::default();
        tasks.spawn("apiserver", accept_all(listener.socket, tls, frame.clone(), accepting.clone(), closed));
        Self { address, frame, health, accepting, listener_closed, tasks }
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client for code in this process. Its requests are authenticated as `identity`.
    pub fn in_process(&self, identity: Identity) -> InProcess {
        InProcess { frame: Arc::clone(&self.frame), identity: Arc::new(identity) }
    }

    /// Waits until the server has ended. It ends by itself only if something is broken.
    pub async fn ended(&mut self) -> Option<Ended<()>> {
        self.tasks.next().await
    }

    /// Shuts the server down.
    ///
    /// # Flow
    /// 1. `/readyz` fails.
    /// 2. The server closes the listener.
    /// 3. Connections take no further requests.
    /// 4. Watches and other endless requests end.
    /// 5. The requests in flight complete, for at most `drain`; what is left is cancelled.
    ///
    /// # Guarantees
    /// When this returns, nothing of the server runs any more, so the owner may close what the handlers use.
    pub async fn shutdown(mut self, drain: Duration) -> Drained {
        let began = self.frame.clock.steady();
        self.health.begin_shutdown();
        tracing::info!("shutdown: readiness ended");
        self.accepting.cancel();
        // An error means that the accepting task has ended, and with it the listener.
        let _ = (&mut self.listener_closed).await;
        tracing::info!("shutdown: no new connections");
        self.frame.draining.cancel();
        tracing::info!("shutdown: connections take no further requests");
        self.frame.ending.cancel();
        tracing::info!("shutdown: watches ended");
        let cut_off = self.drain(drain).await;
        // Wait for what is cancelled, so that nothing uses the store after its owner has closed it.
        self.tasks.cancel();
        self.frame.cut_conversations();
        while self.tasks.next().await.is_some() {}
        // Requests of an HTTP/2 connection run in tasks of their own, which notice the end of the connection when they are next
        // polled.
        if tokio::time::timeout(CLOSE, self.frame.in_flight.none()).await.is_err() {
            tracing::error!("shutdown: a request does not let itself be cut off");
        }
        let elapsed = self.frame.clock.steady().saturating_sub(began);
        if cut_off > 0 {
            tracing::warn!(cut_off, ?elapsed, "shutdown: requests were cut off");
        } else {
            tracing::info!(?elapsed, "shutdown: drained");
        }
        Drained { cut_off, elapsed }
    }

    /// Waits for the requests in flight, and returns how many are left when it stops waiting.
    async fn drain(&mut self, at_most: Duration) -> usize {
        let in_flight = Arc::clone(&self.frame.in_flight);
        let idle = async {
            in_flight.none().await;
            // Nothing is in flight: do not wait longer for a client that ignores the GOAWAY.
            tokio::time::sleep(CLOSE).await;
        };
        let tasks = &mut self.tasks;
        let last = async {
            tasks.next().await;
            // The group of connection tasks does not contain upgraded connections, so wait for these too.
            in_flight.none().await;
        };
        tokio::select! {
            () = last => {}
            () = idle => {}
            () = only_stalled(&self.frame) => tracing::info!("shutdown: all that is left are clients that do not read"),
            () = tokio::time::sleep(at_most) => {}
        }
        self.frame.in_flight.count()
    }
}

/// Waits until only transfers are in flight and none of them makes progress. A client that does not read its backup must not
/// delay shutdown; it detects the truncation by the Content-Length.
async fn only_stalled(frame: &Frame) {
    let mut before = None;
    loop {
        let (open, frames) = frame.transfers.observe();
        let now = (frame.in_flight.count() == open && open > 0).then_some((open, frames));
        if now.is_some() && now == before {
            return;
        }
        before = now;
        tokio::time::sleep(frame.limits.transfer_stall_time).await;
    }
}

/// Accepts connections until `accepting` is cancelled, then waits for the connections to end.
async fn accept_all(
    listener: TcpListener,
    tls: Arc<Tls>,
    frame: Arc<Frame>,
    accepting: CancellationToken,
    closed: oneshot::Sender<()>,
) {
    let mut connections = Group::default();
    let users = PeerUsers::open();
    let mut pending = PendingConnections::new(frame.limits.pending_connections);
    let places = Arc::new(Semaphore::new(frame.limits.connections));
    let mut refused = false;
    loop {
        let next = async {
            // The permit comes first: over the limit, new connections wait in the kernel's backlog.
            let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        tokio::select! {
            () = accepting.cancelled() => break,
            Some(ended) = connections.next(), if !connections.is_empty() => note_end(&ended),
            (place, accepted) = next => match accepted {
                Ok((stream, peer)) => {
                    refused = false;
                    let Some(visit) = pending.enter(users.identify(&stream, peer)) else {
                        tracing::debug!("a connection was refused: too many have not authenticated");
                        continue;
                    };
                    let stream = Placed::new(stream, visit.clone(), place, frame.metrics.connected());
                    connections.spawn("connection", connection::serve(stream, tls.clone(), frame.clone(), visit));
                }
                Err(error) => {
                    // Log the first of consecutive failures only.
                    if !std::mem::replace(&mut refused, true) {
                        tracing::warn!(%error, "connections cannot be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    // Without a shutdown there is no receiver.
    let _ = closed.send(());
    while let Some(ended) = connections.next().await {
        note_end(&ended);
    }
}

fn note_end(ended: &Ended<()>) {
    if let Err(failure) = &ended.outcome {
        tracing::error!(task = ended.name, error = %failure, "a connection's task failed");
    }
}

#[cfg(test)]
mod tests {
    use rdd_stdx::clock::SystemClock;

    use super::*;
    use crate::{auth::Tokens, request::Nothing};

    #[tokio::test]
    async fn readiness_ends_with_shutdown() {
        let folder = tempfile::tempdir().unwrap();
        let clock = SystemClock::shared();
        let text = || "test".to_owned();
        let parts = Parts {
            tls: Arc::new(Tls::open(folder.path(), clock.clone(), Box::new(|_| {})).unwrap()),
            authenticators: Authenticators::standard(Tokens::new([])),
            health: Health::default(),
            version: Version {
                major: text(),
                minor: text(),
                git_version: text(),
                git_commit: text(),
                git_tree_state: text(),
                build_date: text(),
                go_version: text(),
                compiler: text(),
                platform: text(),
            },
            figures: Vec::new(),
            backup: None,
            handler: Arc::new(Nothing),
            limits: Limits::default(),
            clock,
        };
        let server = Server::start(bind(0).await.unwrap(), parts);
        let health = server.health.clone();
        let code = |path| health.answer(path, "").unwrap().status().as_u16();
        assert_eq!((code("/readyz"), code("/livez")), (200, 200));
        server.shutdown(Duration::from_secs(1)).await;
        assert_eq!((code("/readyz"), code("/livez")), (500, 200));
    }
}
