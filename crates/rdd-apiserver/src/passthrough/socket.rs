//! A request to a listener of another process of our user, and the conversation that may follow it.

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

/// A listener that is well takes a connection at once.
const CONNECT: Duration = Duration::from_secs(2);

/// How often the kernel is asked whose the other end is, until it has been accepted.
const OWNER_INTERVAL: Duration = Duration::from_millis(2);

/// A client and a listener that are told goodbye may take so long to hear it.
const GOODBYE: Duration = Duration::from_secs(1);

/// What goes on between the client and the listener beside and after the answer, until the token is cancelled.
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

/// Where a listener is.
#[derive(Debug)]
pub(super) enum ListenerPlace {
    /// On this unix socket.
    Socket(PathBuf),
    /// On this port of 127.0.0.1.
    Loopback(u16),
}

/// Sends a request and returns the answer, which streams, with what has to go on for that.
pub(super) async fn send(place: &ListenerPlace, request: Request<Body>) -> Result<(Response, Conversation), Error> {
    match place {
        ListenerPlace::Socket(path) => send_over(connect_socket(path).await?, request).await,
        ListenerPlace::Loopback(port) => send_over(connect_loopback(*port).await?, request).await,
    }
}

async fn connect_socket(path: &Path) -> Result<UnixStream, Error> {
    // What another user listens at would get the requests of the administrator.
    rdd_stdx::owned::check(path)?;
    Ok(timeout(CONNECT, UnixStream::connect(path)).await.map_err(|_| Error::Timeout)??)
}

/// A connection to a process of our own user. The kernel is asked about the very socket that the connection leads to, so it does not
/// matter who listened before or does after.
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
            // A connection that nobody has accepted yet is nobody's.
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
    // It drives the answer's body too, so it outlives this call.
    let mut connection = Box::pin(connection.with_upgrades());
    let mut sending = pin!(sender.send_request(request));
    let (answered, ended) = tokio::select! {
        biased;
        answered = &mut sending => (answered, false),
        // It has nothing more to do for an answer that it read to the end, or that is another protocol.
        ended = &mut connection => (ended.and(sending.await), true),
    };
    let mut response = answered?;
    let driven = async move {
        if !ended {
            // That the listener leaves in the middle of an answer is told to the client by its broken body.
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

/// Carries what either side says to the other, once both are done with HTTP.
async fn talk(driven: impl Future<Output = ()>, client: OnUpgrade, listener: OnUpgrade, stopping: CancellationToken) {
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
            // Both learn that this is the end and no accident of the network.
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
