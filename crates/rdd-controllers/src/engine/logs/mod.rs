//! `engine/logs/<id>`: the logs of a container over a WebSocket.
//!
//! `docs/reference/logs.md` describes the protocol. The order of the checks and their messages are those of the original.

mod query;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::{BodyExt, Full};
use kube::{Api, Client};
use rdd_docker::{Chunk, Engine, Logs, Output};
use rdd_runtime::passthrough::{Passthrough, Request, Response};
use rdd_stdx::chain::Chain;
use rdd_types::{
    app::{APP, App},
    containers::Container,
};
use rdd_websocket::{STDERR_CHANNEL, STDOUT_CHANNEL, StreamPiece, Subprotocol, pour};

use self::query::Query;
use crate::websocket::Sockets;

/// The name of the endpoint in the path.
pub const ENDPOINT: &str = "logs";

/// The response if there is no log to send.
type Refusal = (StatusCode, &'static str);

const NOT_FOUND: Refusal = (StatusCode::NOT_FOUND, "Container not found");

/// Opens logs: checks in the API that the container exists, then asks the engine, if it is connected.
#[derive(Clone)]
pub struct Source {
    client: Client,
    engine: Arc<dyn Fn() -> Option<Engine> + Send + Sync>,
}

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").finish_non_exhaustive()
    }
}

impl Source {
    /// A source with this API and a function that returns the connected engine.
    pub fn new(client: Client, engine: impl Fn() -> Option<Engine> + Send + Sync + 'static) -> Self {
        Self { client, engine: Arc::new(engine) }
    }

    /// Opens the requested log. All checks come before the connection becomes a WebSocket, so a refusal has an HTTP status.
    async fn open(&self, id: &str, query: &str) -> Result<(Logs, Query), Refusal> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err((StatusCode::BAD_REQUEST, "Invalid container ID"));
        }
        // The API decides before the engine is asked, so that other containers stay hidden.
        self.find(id).await?;
        let query = Query::parse(query).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
        let engine = (self.engine)().ok_or((StatusCode::SERVICE_UNAVAILABLE, "Docker watcher not running"))?;
        let refused = |what: &'static str| move |error: rdd_docker::Error| refusal(&error, what);
        let container = engine.container(id).await.map_err(refused("Failed to inspect container"))?.ok_or(NOT_FOUND)?;
        let logs = engine.logs(&container, &query.options).await.map_err(refused("Failed to get container logs"))?;
        Ok((logs.ok_or(NOT_FOUND)?, query))
    }

    /// Checks that the Container exists in the App's namespace: clients can only read logs of containers that the API shows.
    async fn find(&self, id: &str) -> Result<(), Refusal> {
        let failed = |error: kube::Error| {
            tracing::warn!(error = %Chain(&error), container = id, "could not ask for a container whose log is wanted");
            (StatusCode::INTERNAL_SERVER_ERROR, "Failed to get container")
        };
        let app = Api::<App>::all(self.client.clone()).get_opt(APP).await.map_err(failed)?.ok_or(NOT_FOUND)?;
        let containers = Api::<Container>::namespaced(self.client.clone(), &app.spec.namespace);
        containers.get_opt(id).await.map_err(failed)?.map(drop).ok_or(NOT_FOUND)
    }
}

/// The response for an error of the engine.
fn refusal(error: &rdd_docker::Error, what: &'static str) -> Refusal {
    match error.status() {
        Some(404) => NOT_FOUND,
        Some(400) => (StatusCode::BAD_REQUEST, "Invalid argument"),
        _ => {
            tracing::warn!(error = %Chain(error), "{what}");
            (StatusCode::INTERNAL_SERVER_ERROR, what)
        }
    }
}

/// The passthrough endpoint.
pub fn passthrough(source: Source, sockets: &Sockets) -> Passthrough {
    let sockets = sockets.clone();
    Passthrough::new(ENDPOINT, move |request| {
        let (source, sockets) = (source.clone(), sockets.clone());
        async move { answer(&source, &sockets, request).await }
    })
}

async fn answer(source: &Source, sockets: &Sockets, request: Request) -> Response {
    let id = request.uri().path().trim_matches('/').to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    match source.open(&id, &query).await {
        Err((code, text)) => plain(code, text),
        // The origin is checked last, as in the original.
        Ok(_) if !is_from_here(request.headers()) => plain(StatusCode::FORBIDDEN, "Origin not allowed"),
        Ok((logs, query)) => {
            let pieces = pieces(logs);
            sockets.accept(request, move |mut socket, protocol| async move {
                // Clients can ask for channels by subprotocol or by query.
                let channels = protocol.channels || query.separate;
                pour(&mut socket, Subprotocol { channels, ..protocol }, pieces).await
            })
        }
    }
}

/// Whether the request does not come from a web page of another origin. Such a page must not read logs with the user's credentials.
fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    let Some(origin) = text(header::ORIGIN) else { return true };
    let origin = origin.split_once("://").map_or("", |(_, host)| host);
    text(header::HOST).is_some_and(|host| !host.is_empty() && host.eq_ignore_ascii_case(origin))
}

/// The chunks of the log, each with the channel of its stream. The output of a terminal counts as standard output.
fn pieces(
    logs: impl Stream<Item = Result<Chunk, rdd_docker::Error>> + Send,
) -> impl Stream<Item = Result<StreamPiece, String>> + Send {
    logs.map(move |piece| match piece {
        Ok(chunk) => {
            let channel = if chunk.output == Output::Error { STDERR_CHANNEL } else { STDOUT_CHANNEL };
            Ok(StreamPiece { channel, bytes: chunk.bytes })
        }
        Err(error) => Err(format!("failed to copy container logs: {}", Chain(&error))),
    })
}

fn plain(code: StatusCode, text: &str) -> Response {
    let body = Full::new(Bytes::from(format!("{text}\n"))).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests;
