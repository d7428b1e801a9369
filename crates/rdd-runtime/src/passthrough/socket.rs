//! Serves the passthroughs of a separate process on a Unix socket that only its user can open.

use std::{collections::HashMap, fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{StatusCode, Uri, uri::PathAndQuery};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rdd_stdx::{file, task::Group};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::Mutex,
};

use super::{Body, Request, Response};
use crate::{Error, Registered};

/// The maximum number of connections; further ones wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 256;
/// How long the API server may take to send the head of a request.
const HEAD_BOUND: Duration = Duration::from_secs(10);

type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;
/// The handlers by controller and endpoint.
pub(crate) type Routes = HashMap<(String, String), Handler>;

/// The handlers of these controllers.
pub(crate) fn routes<'a>(controllers: impl Iterator<Item = &'a Registered>) -> Routes {
    let declared = controllers.map(Registered::declaration).flat_map(|declaration| {
        let endpoints = declaration.passthroughs().iter();
        endpoints.map(|one| ((declaration.name().to_owned(), one.endpoint.to_owned()), Arc::clone(&one.handler)))
    });
    declared.collect()
}

/// A listening Unix socket. The mutex lets a restarted task take over the socket from its predecessor.
#[derive(Clone)]
pub(crate) struct Socket {
    listener: Arc<Mutex<UnixListener>>,
    routes: Arc<Routes>,
}

impl Socket {
    /// Listens at `path`. Replaces a socket that an earlier process has left there.
    pub(crate) fn bind(path: &Path, routes: Routes) -> Result<Self, Error> {
        let told = |what: &str| format!("{what} the socket {}", path.display());
        if let Some(folder) = path.parent() {
            file::create_dir_private(folder).map_err(|error| Error::because(told("make room for"), error))?;
        }
        // The manager has claimed its name before it binds, so the file cannot belong to a living manager.
        file::remove_if_present(path).map_err(|error| Error::because(told("replace"), error))?;
        let listener = UnixListener::bind(path).map_err(|error| Error::because(told("listen on"), error))?;
        fs::set_permissions(path, fs::Permissions::from_mode(file::PRIVATE))
            .map_err(|error| Error::because(told("protect"), error))?;
        Ok(Self { listener: Arc::new(Mutex::new(listener)), routes: Arc::new(routes) })
    }

    /// Serves connections until the future is dropped, which also ends all connections.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let listener = self.listener.lock().await;
        let mut connections = Group::default();
        loop {
            tokio::select! {
                // Reap finished connections, which frees room for new ones.
                _ = connections.next(), if !connections.is_empty() => {}
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                    let (stream, _) = accepted.map_err(|error| Error::because("accept a connection", error))?;
                    connections.spawn("passthrough", talk(stream, Arc::clone(&self.routes)));
                }
            }
        }
    }
}

async fn talk(stream: UnixStream, routes: Arc<Routes>) {
    let service = service_fn(move |request: http::Request<Incoming>| {
        let routes = Arc::clone(&routes);
        async move { Ok::<_, std::convert::Infallible>(respond(&routes, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_BOUND)
        // Upgrades make WebSockets possible.
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::trace!(%error, "a passthrough ended badly");
    }
}

async fn respond(routes: &Routes, request: http::Request<Incoming>) -> Response {
    let found = split(request.uri()).and_then(|(name, rest)| Some((routes.get(&name)?, rest)));
    let Some((handler, rest)) = found else {
        let nothing: Body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
        let mut response = Response::new(nothing);
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    };
    let (mut head, body) = request.into_parts();
    // The handler sees its own path only, wherever it is served.
    head.uri = rest;
    handler(http::Request::from_parts(head, body.map_err(Into::into).boxed_unsync())).await
}

/// Splits a path into controller and endpoint, and the rest with the query.
fn split(uri: &Uri) -> Option<((String, String), Uri)> {
    let (controller, path) = uri.path().strip_prefix('/')?.split_once('/')?;
    let (endpoint, rest) = path.split_once('/').unwrap_or((path, ""));
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let rest: PathAndQuery = format!("/{rest}{query}").parse().ok()?;
    Some(((controller.to_owned(), endpoint.to_owned()), rest.into()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn the_first_two_words_of_a_path_name_who_answers() {
        let at = |path: &str| {
            let ((controller, endpoint), rest) = split(&path.parse().unwrap())?;
            Some(format!("{controller} {endpoint} {rest}"))
        };
        assert_eq!(at("/demo/hello/a/b?c=d").as_deref(), Some("demo hello /a/b?c=d"));
        assert_eq!(at("/demo/hello").as_deref(), Some("demo hello /"));
        assert_eq!(at("/demo"), None);
    }

    #[tokio::test]
    async fn a_request_on_the_socket_reaches_its_handler_and_others_get_404() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rdd.sock");
        fs::write(&path, "left behind").unwrap();
        let says: Handler = Arc::new(|request| {
            let path = request.uri().to_string();
            Box::pin(async move {
                Response::new(http_body_util::Full::from(path).map_err(|never| match never {}).boxed_unsync())
            })
        });
        let routes = HashMap::from([(("demo".to_owned(), "hello".to_owned()), says)]);
        let socket = Socket::bind(&path, routes).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut tasks = Group::default();
        tasks.spawn("socket", socket.run());
        for (asked, code, text) in [("/demo/hello/x", "200", "/x"), ("/demo/other/x", "404", "")] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            let request = format!("GET {asked} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {code}")) && answer.ends_with(text), "{answer}");
        }
    }
}
