//! The HTTP client of passthroughs: sends a request to a listener of our user and keeps the connection running after the response head.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    pin::{Pin, pin},
    time::Duration,
};

use http::{Request, StatusCode};
use hyper::{
    client::conn::http1,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use rdd_stdx::socket::SocketOwners;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::head;
use crate::respond::{Body, Response};

/// The timeout for connecting. A healthy listener accepts at once.
const CONNECT: Duration = Duration::from_secs(2);

/// How often the kernel is asked for the owner of the other end, until the listener has accepted the connection.
const OWNER_INTERVAL: Duration = Duration::from_millis(2);

/// How long the orderly shutdown of both connections may take when the server stops.
const GOODBYE: Duration = Duration::from_secs(1);

/// The work that continues after the response head: reading the body, or copying an upgraded connection. It ends when the token is
/// cancelled.
pub(super) type Conversation = Box<dyn FnOnce(CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("connect")]
    Connect(#[from] std::io::Error),
    #[error("connect: nobody took the connection in time")]
    Timeout,
    #[error("learn whose process listens")]
    Owner(#[source] std::io::Error),
    #[error("user {user} listens on port {port}, not the user of this daemon")]
    Stranger { port: u16, user: u32 },
    #[error("talk")]
    Talk(#[from] hyper::Error),
    #[error("the answer is another protocol, which nobody asked for")]
    Unasked,
}

/// The address of a listener.
#[derive(Debug)]
pub(super) enum ListenerPlace {
    /// A unix socket.
    Socket(PathBuf),
    /// A port of 127.0.0.1.
    Loopback(u16),
}

/// Sends a request. Returns the response with a streaming body, and the future that the caller must run until the body has ended.
pub(super) async fn send(place: &ListenerPlace, request: Request<Body>) -> Result<(Response, Conversation), Error> {
    match place {
        ListenerPlace::Socket(path) => send_over(connect_socket(path).await?, request).await,
        ListenerPlace::Loopback(port) => send_over(connect_loopback(*port).await?, request).await,
    }
}

async fn connect_socket(path: &Path) -> Result<UnixStream, Error> {
    // A socket of another user would receive the administrator's requests.
    rdd_stdx::owned::check(path)?;
    Ok(timeout(CONNECT, UnixStream::connect(path)).await.map_err(|_| Error::Timeout)??)
}

/// Connects to a process of our own user. The kernel reports the owner of the accepted socket itself, so a listener that replaces
/// another one in between cannot intercept requests.
async fn connect_loopback(port: u16) -> Result<TcpStream, Error> {
    let owners = SocketOwners::open().map_err(Error::Owner)?;
    connect_to_user(port, owners.own_uid(), &owners).await
}

async fn connect_to_user(port: u16, wanted: u32, owners: &SocketOwners) -> Result<TcpStream, Error> {
    let connecting = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let stream = timeout(CONNECT, connecting).await.map_err(|_| Error::Timeout)??;
    let (there, here) = (stream.peer_addr()?, stream.local_addr()?);
    let asking = async {
        loop {
            // The kernel knows no owner until the listener has accepted the connection.
            match owners.uid(there, here) {
                Some(user) => return user,
                None => sleep(OWNER_INTERVAL).await,
            }
        }
    };
    let user = timeout(CONNECT, asking).await.map_err(|_| Error::Timeout)?;
    if user == wanted { Ok(stream) } else { Err(Error::Stranger { port, user }) }
}

async fn send_over<S>(stream: S, mut request: Request<Body>) -> Result<(Response, Conversation), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let client = request.extensions_mut().remove::<OnUpgrade>();
    head::strip_connection(request.headers_mut());
    *request.version_mut() = http::Version::HTTP_11;
    // The connection also drives the body of the response, so it outlives this call.
    let mut connection = Box::pin(connection.with_upgrades());
    let mut sending = pin!(sender.send_request(request));
    let (answered, ended) = tokio::select! {
        biased;
        answered = &mut sending => (answered, false),
        // The connection ends first if the response is complete or switches protocols; the response is available all the same.
        ended = &mut connection => (ended.and(sending.await), true),
    };
    let mut response = answered?;
    let driven = async move {
        if !ended {
            // If the listener closes the connection early, the client sees the body break off.
            let _ = connection.await;
        }
    };
    let conversation: Conversation = match (response.status(), client) {
        (StatusCode::SWITCHING_PROTOCOLS, None) => return Err(Error::Unasked),
        (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
            let listener = hyper::upgrade::on(&mut response);
            Box::new(move |stopping| Box::pin(talk(driven, client, listener, stopping)))
        }
        _ => Box::new(move |stopping| {
            Box::pin(async move {
                tokio::select! {
                    () = driven => {}
                    () = stopping.cancelled() => {}
                }
            })
        }),
    };
    let (mut answer, body) = response.into_parts();
    head::strip_connection(&mut answer.headers);
    Ok((Response::from_parts(answer, Body::new(body)), conversation))
}

/// Copies bytes between client and listener in both directions after both have upgraded.
async fn talk(driven: impl Future<Output = ()>, client: OnUpgrade, listener: OnUpgrade, stopping: CancellationToken) {
    // The connection future must be polled, because it performs the listener's upgrade.
    let upgraded = async { tokio::join!(driven, async { tokio::try_join!(client, listener) }).1 };
    let upgraded = tokio::select! {
        upgraded = upgraded => upgraded,
        () = stopping.cancelled() => return,
    };
    match upgraded {
        Ok((client, listener)) => copy(client, listener, &stopping).await,
        Err(error) => tracing::debug!(%error, "a conversation through a passthrough did not begin"),
    }
}

async fn copy(client: Upgraded, listener: Upgraded, stopping: &CancellationToken) {
    let (mut client, mut listener) = (TokioIo::new(client), TokioIo::new(listener));
    tokio::select! {
        copied = tokio::io::copy_bidirectional(&mut client, &mut listener) => {
            if let Err(error) = copied {
                tracing::debug!(%error, "a conversation through a passthrough broke off");
            }
        }
        () = stopping.cancelled() => {
            // An orderly shutdown shows both sides that the end is intended and not a network failure.
            let _ = timeout(GOODBYE, async { tokio::join!(client.shutdown(), listener.shutdown()) }).await;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    // Finding E-5
    #[tokio::test]
    async fn only_a_listener_of_the_user_who_is_wanted_gets_a_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let owners = SocketOwners::open().unwrap();
        let own = owners.own_uid();
        let (connected, accepted) = tokio::join!(connect_to_user(port, own, &owners), listener.accept());
        assert!(connected.is_ok() && accepted.is_ok());
        let (refused, accepted) = tokio::join!(connect_to_user(port, own + 1, &owners), listener.accept());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Stranger { user, .. } if user == own), "{refused:?}");
        let (mut stream, _) = accepted.unwrap();
        let mut sent = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut sent).await.unwrap();
        assert!(sent.is_empty(), "it learns nothing of the request");
    }
}
