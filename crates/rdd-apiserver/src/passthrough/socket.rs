//! A request to a listener on a unix socket, and the conversation that may follow it.

use std::{
    path::Path,
    pin::{Pin, pin},
    time::Duration,
};

use http::{Request, StatusCode};
use hyper::{
    client::conn::http1,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::{io::AsyncWriteExt as _, net::UnixStream, time::timeout};
use tokio_util::sync::CancellationToken;

use super::head;
use crate::respond::{Body, Response};

/// A listener that is well takes a connection at once.
const CONNECT: Duration = Duration::from_secs(2);

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
    #[error("talk")]
    Talk(#[from] hyper::Error),
    #[error("the answer is another protocol, which nobody asked for")]
    Unasked,
}

/// Sends a request and returns the answer, which streams, with what has to go on for that.
pub(super) async fn send(path: &Path, mut request: Request<Body>) -> Result<(Response, Conversation), Error> {
    // What another user listens at would get the requests of the administrator.
    rdd_stdx::owned::check(path)?;
    let stream = timeout(CONNECT, UnixStream::connect(path)).await.map_err(|_| Error::Timeout)??;
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
