//! WebSockets for passthrough endpoints: each controller serves a bounded number in a background task of its own.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::TokioIo;
use rdd_runtime::{
    Background, Error,
    passthrough::{Request, Response},
};
use rdd_stdx::{
    chain::Chain,
    task::{Ended, Group},
};
use rdd_websocket::{LOG_PROTOCOLS, Socket, SocketError, Subprotocol, offered_protocols, select_protocol};
use tokio::sync::{Mutex, mpsc};

/// How many connections of one controller are served at a time.
const AT_ONCE: usize = 64;
/// How many more may wait; further ones get 503.
const WAITING_MAX: usize = 16;

/// The connection under a WebSocket, after the HTTP upgrade.
pub type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

type Job = BoxFuture<'static, ()>;

/// The WebSocket connections of one controller. Cheap to clone.
#[derive(Clone)]
pub struct Sockets {
    sender: mpsc::Sender<Job>,
    waiting: Arc<Mutex<mpsc::Receiver<Job>>>,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sockets").field("room", &self.sender.capacity()).finish()
    }
}

impl Default for Sockets {
    fn default() -> Self {
        let (sender, waiting) = mpsc::channel(WAITING_MAX);
        Self { sender, waiting: Arc::new(Mutex::new(waiting)) }
    }
}

impl Sockets {
    /// Answers a request for a WebSocket, and queues `serve` to run once the answer has been sent.
    ///
    /// `serve` gets the subprotocol of [`LOG_PROTOCOLS`] that the client prefers, or the first of them if the client offers only others; the answer then
    /// names none, as with the original. A request that is not a WebSocket upgrade gets 400; 503 means that too many connections wait.
    pub fn accept<F>(
        &self,
        request: Request,
        serve: impl FnOnce(Socket<Upgraded>, Subprotocol) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = Result<(), SocketError>> + Send + 'static,
    {
        let protocol = select_protocol(&offered_protocols(request.headers()), LOG_PROTOCOLS);
        let protocol = protocol.unwrap_or(LOG_PROTOCOLS[0]);
        let answer = match rdd_websocket::accept(request.headers(), protocol.name) {
            Ok(answer) => answer.map(|()| Empty::new().map_err(|never| match never {}).boxed_unsync()),
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why.to_string()),
        };
        let job = Box::pin(async move {
            let served = match hyper::upgrade::on(request).await {
                Ok(upgraded) => serve(Socket::new(TokioIo::new(upgraded)).await, protocol).await,
                Err(error) => Err(SocketError::Upgrade(Box::new(error))),
            };
            if let Err(error) = served {
                tracing::debug!(error = %Chain(&error), "a WebSocket ended");
            }
        });
        match self.sender.try_send(job) {
            Ok(()) => answer,
            Err(_) => refuse(StatusCode::SERVICE_UNAVAILABLE, "too many connections"),
        }
    }

    /// The background task that serves the connections. Without it they wait.
    pub fn background(&self) -> Background {
        let waiting = Arc::clone(&self.waiting);
        Background::new("websockets", move |_| serve(Arc::clone(&waiting)))
    }
}

/// A response with this status and a line of text.
fn refuse(code: StatusCode, why: &str) -> Response {
    let body = Full::new(Bytes::from(format!("{why}\n"))).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
impl Sockets {
    /// Serves the connections in a test that has no manager.
    pub(crate) async fn serve_all(&self) {
        let waiting = Arc::clone(&self.waiting);
        drop(serve(waiting).await);
    }
}

async fn serve(waiting: Arc<Mutex<mpsc::Receiver<Job>>>) -> Result<(), Error> {
    let mut waiting = waiting.lock().await;
    let mut serving = Group::default();
    loop {
        tokio::select! {
            job = waiting.recv(), if serving.len() < AT_ONCE => match job {
                Some(job) => serving.spawn("websocket", job),
                None => break,
            },
            Some(ended) = serving.next() => tell(ended),
        }
    }
    // Every sender is gone: no connection can arrive any more, and the running ones may finish.
    while let Some(ended) = serving.next().await {
        tell(ended);
    }
    Ok(())
}

fn tell(ended: Ended<()>) {
    if let Err(failure) = ended.outcome {
        tracing::error!(%failure, "serving a WebSocket failed");
    }
}

#[cfg(test)]
mod tests {
    use hyper::{client::conn::http1 as client, server::conn::http1 as server, service::service_fn};
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Sends a WebSocket request over an in-memory connection to a server that sends one word; returns the response, and the bytes that
    /// follow it.
    async fn ask(request: http::Request<Empty<Bytes>>) -> (u16, Option<HeaderValue>, Vec<u8>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let sockets = Sockets::default();
        let serving = serve(Arc::clone(&sockets.waiting));
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            let answer = sockets.accept(request, |mut socket, _| async move {
                socket.text("hello").await?;
                socket.close(1000, "").await
            });
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        let connection = server::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades();
        let asking = async {
            let (mut sender, connection) = client::handshake(TokioIo::new(near)).await.unwrap();
            let mut tasks = Group::default();
            tasks.spawn("client", async move { drop(connection.with_upgrades().await) });
            let response = sender.send_request(request).await.unwrap();
            let code = response.status().as_u16();
            let protocol = response.headers().get(header::SEC_WEBSOCKET_PROTOCOL).cloned();
            let mut rest = Vec::new();
            if code == 101 {
                let upgraded = hyper::upgrade::on(response).await.unwrap();
                TokioIo::new(upgraded).read_to_end(&mut rest).await.unwrap();
            }
            (code, protocol, rest)
        };
        let (answer, served, ended) = tokio::join!(asking, connection, serving);
        served.unwrap();
        ended.unwrap();
        answer
    }

    // Finding E-11
    #[tokio::test]
    async fn a_request_becomes_a_socket_of_a_subprotocol_that_is_served_to_its_end() {
        for (offered, taken) in [
            ("", None),
            ("v5.channel.k8s.io, v4.channel.k8s.io", Some("v5.channel.k8s.io")),
            ("chat", None),
            ("base64url.bearer.authorization.k8s.io.c2VjcmV0", None),
        ] {
            let request = http::Request::get("/")
                .header("connection", "Upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
                .header("sec-websocket-protocol", offered);
            let (code, protocol, rest) = ask(request.body(Empty::new()).unwrap()).await;
            assert_eq!((code, rest.as_slice()), (101, &b"\x81\x05hello\x88\x02\x03\xe8"[..]), "{offered}");
            assert_eq!(protocol.as_ref().map(|protocol| protocol.to_str().unwrap()), taken, "{offered}");
        }
    }

    #[tokio::test]
    async fn what_does_not_ask_for_a_socket_is_refused() {
        let (code, ..) = ask(http::Request::get("/").body(Empty::new()).unwrap()).await;
        assert_eq!(code, 400);
    }
}
