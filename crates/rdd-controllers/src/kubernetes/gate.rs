//! The published port: listens on loopback while Kubernetes is enabled, and forwards connections to the cluster.
//!
//! The process that binds the port chooses it, so the published port is always the bound one. Connections are forwarded as bytes: TLS is
//! between client and cluster, a half-close ends only that direction, and a slow reader slows down the writer.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_driver::Upstream;
use rdd_stdx::{chain::Chain, owned, task::Group};
use tokio::{
    io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes},
    net::{TcpListener, TcpStream, UnixStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// The maximum number of forwarded connections. Further ones wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 512;
/// The buffer for each direction of a connection; an idle connection costs twice this.
const BUFFER_BYTES: usize = 16 << 10;
/// The timeout for connecting to the cluster.
const CONNECT_TAKES: Duration = Duration::from_secs(5);
/// The pause after a failed `accept`, which happens when the process has too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// The published port. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate {
    held: Arc<Mutex<Option<Held>>>,
    route: Arc<Mutex<Option<Upstream>>>,
}

#[derive(Debug)]
struct Held {
    port: u16,
    /// Dropping it closes the listener and all connections.
    _serving: Group<()>,
}

impl Gate {
    /// The bound port, if there is one.
    pub(crate) fn port(&self) -> Option<u16> {
        lock(&self.held).as_ref().map(|held| held.port)
    }

    /// Binds the first free port of these, or else any free port. If a port is bound already, it stays.
    pub(crate) async fn hold(&self, wishes: impl IntoIterator<Item = u16>) -> io::Result<u16> {
        if let Some(port) = self.port() {
            return Ok(port);
        }
        let listener = bind(wishes).await?;
        let port = listener.local_addr()?.port();
        let route = Arc::clone(&self.route);
        let mut serving = Group::default();
        serving.spawn("kubernetes port", serve(listener, route));
        *lock(&self.held) = Some(Held { port, _serving: serving });
        tracing::info!(port, "holding the port of Kubernetes");
        Ok(port)
    }

    /// Closes the port and all its connections.
    pub(crate) fn release(&self) {
        if let Some(held) = lock(&self.held).take() {
            tracing::info!(port = held.port, "let go of the port of Kubernetes");
        }
        // A port that is bound later must not lead to an old cluster.
        *lock(&self.route) = None;
    }

    /// Sets the destination of new connections. Without one, they are closed at once. Open connections stay.
    pub(crate) fn connect(&self, upstream: Option<Upstream>) {
        *lock(&self.route) = upstream;
    }

    /// The destination of new connections.
    pub(crate) fn route(&self) -> Option<Upstream> {
        lock(&self.route).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn bind(wishes: impl IntoIterator<Item = u16>) -> io::Result<TcpListener> {
    for port in wishes.into_iter().filter(|port| *port != 0) {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => tracing::info!(port, error = %Chain(&error), "a port for Kubernetes is taken"),
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await
}

async fn serve(listener: TcpListener, route: Arc<Mutex<Option<Upstream>>>) {
    let room = Arc::new(Semaphore::new(connections_max(rdd_stdx::open_files::limit())));
    let mut connections = Group::default();
    loop {
        // The permit comes before `accept`, so that connections beyond the limit wait in the backlog.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, from)) => {
                    // Each connection keeps the destination that it started with.
                    let upstream = lock(&route).clone();
                    connections.spawn("kubernetes connection", pass(client, from, upstream, permit));
                }
                Err(error) => {
                    tracing::debug!(error = %Chain(&error), "could not accept a connection to Kubernetes");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.next() => {}
        }
    }
}

/// The maximum number of connections: each uses two file descriptors, and they may use a quarter of the limit together.
fn connections_max(open_files: u64) -> usize {
    usize::try_from(open_files / 8).unwrap_or(usize::MAX).clamp(1, CONNECTIONS_MAX)
}

async fn pass(client: TcpStream, from: SocketAddr, upstream: Option<Upstream>, _room: OwnedSemaphorePermit) {
    let Some(upstream) = upstream else { return };
    let passed = match &upstream {
        Upstream::Tcp(address) => match within(TcpStream::connect(address)).await {
            Ok(server) => {
                // Best effort: it only affects latency.
                let _ = server.set_nodelay(true);
                splice(client, server).await
            }
            Err(error) => Err(error),
        },
        Upstream::Unix(path) => match within(connect_own(path)).await {
            Ok(server) => splice(client, server).await,
            Err(error) => Err(error),
        },
    };
    if let Err(error) = passed {
        tracing::debug!(%from, to = %upstream, error = %Chain(&error), "a connection to Kubernetes broke");
    }
}

/// Connects to a socket that the effective user owns, because clients send their credentials through it.
async fn connect_own(path: &Path) -> io::Result<UnixStream> {
    owned::check(path)?;
    UnixStream::connect(path).await
}

async fn within<T>(connecting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(CONNECT_TAKES, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn splice(mut client: TcpStream, mut server: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let _ = client.set_nodelay(true);
    copy_bidirectional_with_sizes(&mut client, &mut server, BUFFER_BYTES, BUFFER_BYTES).await.map(drop)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn client(gate: &Gate) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, gate.port().unwrap())).await.unwrap()
    }

    // Finding 355-I2
    #[tokio::test]
    async fn a_taken_port_is_passed_over_and_what_is_told_is_what_is_bound() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let wish = taken.local_addr().unwrap().port();
        let gate = Gate::default();
        let port = gate.hold([wish]).await.unwrap();
        assert_ne!(port, wish);
        assert_eq!((gate.port(), gate.hold([wish]).await.unwrap()), (Some(port), port), "one that is held is kept");
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.is_err(), "nobody else can have it");
    }

    // Finding 355-S2
    #[tokio::test]
    async fn a_port_that_was_let_go_is_closed_and_can_be_had_again() {
        let gate = Gate::default();
        let port = gate.hold([]).await.unwrap();
        let mut open = client(&gate).await;
        gate.release();
        assert_eq!(gate.port(), None);
        assert_eq!(open.read(&mut [0; 1]).await.unwrap_or(0), 0, "connections end with it");
        tokio::time::timeout(Duration::from_secs(10), async {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("a port that is closed");
        assert_eq!(gate.hold([port]).await.unwrap(), port);
    }

    #[tokio::test]
    async fn each_side_can_end_its_half_and_the_other_goes_on() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let gate = Gate::default();
        gate.hold([]).await.unwrap();
        gate.connect(Some(Upstream::Tcp(server.local_addr().unwrap())));
        let mut asking = client(&gate).await;
        asking.write_all(b"question").await.unwrap();
        asking.shutdown().await.unwrap();
        let (mut answering, _) = server.accept().await.unwrap();
        let mut heard = String::new();
        answering.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "question", "the end of the question arrives as an end");
        answering.write_all(b"answer").await.unwrap();
        drop(answering);
        heard.clear();
        asking.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "answer");
    }

    #[tokio::test]
    async fn a_socket_is_an_upstream_too_and_a_large_answer_survives_a_slow_reader() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.sock");
        let server = tokio::net::UnixListener::bind(&path).unwrap();
        let gate = Gate::default();
        gate.hold([]).await.unwrap();
        gate.connect(Some(Upstream::unix(&path)));
        let mut reader = client(&gate).await;
        let (mut writer, _) = server.accept().await.unwrap();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let (written, read) = tokio::join!(
            async {
                writer.write_all(&sent).await.unwrap();
                drop(writer);
            },
            async {
                let (mut all, mut piece) = (Vec::new(), vec![0; 1000]);
                loop {
                    let count = reader.read(&mut piece).await.unwrap();
                    if count == 0 {
                        return all;
                    }
                    all.extend_from_slice(&piece[..count]);
                    tokio::task::yield_now().await;
                }
            }
        );
        let () = written;
        assert!(read == sent, "{} bytes of {}", read.len(), sent.len());
    }

    #[tokio::test]
    async fn without_a_cluster_connections_are_closed_as_they_come() {
        let gate = Gate::default();
        gate.hold([]).await.unwrap();
        assert_eq!(client(&gate).await.read(&mut [0; 1]).await.unwrap_or(0), 0);
        gate.connect(Some(Upstream::unix("/nonexistent/k.sock")));
        assert_eq!(client(&gate).await.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
}
