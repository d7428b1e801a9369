//! A request to a listener on a unix socket, and the conversation that may follow it.

use std::{path::Path, pin::Pin, time::Duration};

use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::{
    client::conn::http1,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::timeout};

use super::head;
use crate::respond::{Body, Response};

/// A listener that is well takes a connection at once.
const CONNECT: Duration = Duration::from_secs(2);

/// What goes on between the client and the listener beside and after the answer.
pub(super) type Conversation = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("connect: {0}")]
    Connect(#[from] std::io::Error),
    #[error("connect: nobody took the connection in time")]
    Timeout,
    #[error("talk: {0}")]
    Talk(#[from] hyper::Error),
}

/// Sends a request and returns the answer, which streams, with what has to go on for that.
pub(super) async fn send(path: &Path, mut request: Request<Body>) -> Result<(Response, Option<Conversation>), Error> {
    let stream = timeout(CONNECT, UnixStream::connect(path)).await.map_err(|_| Error::Timeout)??;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let client = request.extensions_mut().remove::<OnUpgrade>();
    head::strip_connection(request.headers_mut());
    *request.version_mut() = http::Version::HTTP_11;
    // It drives the answer's body too, so it outlives this call.
    let mut connection = Box::pin(connection.with_upgrades());
    let sending = sender.send_request(request);
    let mut response = tokio::select! {
        biased;
        answered = sending => answered?,
        ended = &mut connection => return Err(ended.err().map_or(Error::Timeout, Error::Talk)),
    };
    let driven = async move {
        // That the listener leaves in the middle of an answer is told to the client by its broken body.
        let _ = connection.await;
    };
    let conversation: Conversation = match (response.status(), client) {
        (StatusCode::SWITCHING_PROTOCOLS, Some(client)) => {
            let listener = hyper::upgrade::on(&mut response);
            Box::pin(async move {
                tokio::join!(driven, async {
                    if let Ok((client, listener)) = tokio::try_join!(client, listener) {
                        copy(client, listener).await;
                    }
                });
            })
        }
        _ => Box::pin(driven),
    };
    let (mut answer, body) = response.into_parts();
    head::strip_connection(&mut answer.headers);
    Ok((Response::from_parts(answer, body.map_err(Into::into).boxed_unsync()), Some(conversation)))
}

async fn copy(client: Upgraded, listener: Upgraded) {
    let (mut client, mut listener) = (TokioIo::new(client), TokioIo::new(listener));
    if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut listener).await {
        tracing::debug!(%error, "a conversation through a passthrough broke off");
    }
}
