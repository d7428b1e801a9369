//! `/passthrough/<controller>/<endpoint>/…`: forwards requests to endpoints that controllers serve, after authentication.
//!
//! The [`Directory`] resolves an endpoint to its target: a function of this process, a unix socket, or a loopback port that a process
//! of our own user serves. Clients cannot name any other target. Credentials are removed before a request is forwarded; redirects are
//! passed to the client instead of being followed.

mod head;
mod socket;

use std::{
    fmt,
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::FutureExt as _;
use http::request::Parts;
use rdd_meta::Status;
use rdd_stdx::{chain::Chain, task::Group};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use self::socket::{Conversation, ListenerPlace};
use crate::{
    request::{Answer, Class, Classified, ClientAddress, Found, Handler, Request, verb_of},
    respond::{self, Body, BoxedBody, Response},
    serve::limits::RETRY_AFTER_SECONDS,
};

const PREFIX: &str = "/passthrough/";
/// The maximum number of concurrent connections to listeners. Each needs a file descriptor, beside that of its client.
pub const CONVERSATIONS: usize = 128;

/// A handler in this process for the requests under one endpoint. The path of the request starts after the endpoint. To accept a
/// WebSocket, it calls `hyper::upgrade::on`; the request's extensions contain [`Stopping`].
pub type Endpoint = Arc<dyn Fn(http::Request<BoxedBody>) -> Answering + Send + Sync>;

/// The future of an [`Endpoint`]'s response.
pub type Answering = Pin<Box<dyn Future<Output = http::Response<BoxedBody>> + Send>>;

/// A token that is cancelled when the server shuts down. A connection that outlives its response, such as a WebSocket, must end then.
#[derive(Debug, Clone)]
pub struct Stopping(pub CancellationToken);

/// The target of an endpoint.
#[derive(Clone)]
pub enum Target {
    /// A handler in this process.
    Here(Endpoint),
    /// A process that listens on this unix socket.
    Socket {
        /// The socket.
        path: PathBuf,
        /// The path prefix of the endpoint at the listener: `/<controller>/<endpoint>`.
        under: String,
    },
    /// A process of our own user that listens on this port of 127.0.0.1. For every connection the forwarder asks the kernel which
    /// user accepted it; on platforms where the kernel cannot answer this, such targets are not available.
    Loopback {
        /// The port.
        port: u16,
        /// The path prefix of the endpoint at the listener: `/<controller>/<endpoint>`.
        under: String,
    },
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(_) => f.write_str("Here"),
            Self::Socket { path, under } => f.debug_struct("Socket").field("path", path).field("under", under).finish(),
            Self::Loopback { port, under } => {
                f.debug_struct("Loopback").field("port", port).field("under", under).finish()
            }
        }
    }
}

/// The future of [`Directory::find`].
pub type Looked = Pin<Box<dyn Future<Output = Result<Option<Target>, String>> + Send>>;

/// Resolves endpoints to their current targets.
pub trait Directory: Send + Sync {
    /// Resolves an endpoint. Returns `None` if no registered, healthy controller has it. The server sends the text of an error to
    /// the client, with status 500.
    fn find(&self, controller: &str, endpoint: &str) -> Looked;
}

/// The handler of `/passthrough/`; it delegates all other paths to the next handler.
///
/// # Flow
/// It resolves the endpoint with the [`Directory`], removes credentials, forwards the request and streams the response. An upgraded
/// connection is copied in both directions until either side ends it or the server stops.
///
/// # Errors
/// 404 for an unknown endpoint or a path with `.` or `..` segments, 429 above [`CONVERSATIONS`] connections, 503 if the listener does
/// not answer.
pub struct Passthrough {
    directory: Arc<dyn Directory>,
    next: Arc<dyn Handler>,
    conversations: Conversations,
}

/// The connections to listeners. Most of them outlive the head of the response.
#[derive(Clone)]
struct Conversations {
    running: Arc<Mutex<Group<()>>>,
    places: Arc<Semaphore>,
}

impl Default for Conversations {
    fn default() -> Self {
        Self { running: Arc::default(), places: Arc::new(Semaphore::new(CONVERSATIONS)) }
    }
}

impl Conversations {
    /// Runs a connection until it or the server ends, and drops finished tasks from the group.
    fn hold(&self, place: OwnedSemaphorePermit, stopping: CancellationToken, conversation: Conversation) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(Some(_)) = running.next().now_or_never() {}
        running.spawn("passthrough", async move {
            conversation(stopping).await;
            drop(place);
        });
    }
}

impl fmt::Debug for Passthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passthrough")
    }
}

impl Passthrough {
    /// Creates the handler with this directory and the next handler.
    pub fn new(directory: Arc<dyn Directory>, next: Arc<dyn Handler>) -> Self {
        Self { directory, next, conversations: Conversations::default() }
    }
}

impl Handler for Passthrough {
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        if !head.uri.path().starts_with(PREFIX) {
            return self.next.classify(head);
        }
        // Followed logs and WebSockets last as long as the client wants, so no request timeout applies.
        (Classified { verb: verb_of(&head.method), class: Class::Endless }, None)
    }

    fn paths(&self) -> Vec<String> {
        let mut paths = self.next.paths();
        paths.push(PREFIX.to_owned());
        paths
    }

    fn handle(&self, request: Request) -> Answer {
        let Some(asked) = request.head.uri.path().strip_prefix(PREFIX) else { return self.next.handle(request) };
        let Some(asked) = Asked::parse(asked) else { return Answer::Now(respond::not_found()) };
        let looked = self.directory.find(&asked.controller, &asked.endpoint);
        let conversations = self.conversations.clone();
        Answer::later(async move {
            match looked.await {
                Ok(Some(target)) => forward(request, &asked, target, &conversations).await,
                Ok(None) => respond::not_found(),
                Err(why) => respond::status(&Status::internal(why)),
            }
        })
    }
}

/// The parsed path after the prefix.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    controller: String,
    endpoint: String,
    /// The path below the endpoint; it begins with a slash.
    rest: String,
}

impl Asked {
    /// Parses a path. Returns `None` if it does not name an endpoint, or has `.` or `..` segments.
    fn parse(path: &str) -> Option<Self> {
        let (controller, path) = path.split_once('/')?;
        let (endpoint, rest) = path.split_once('/').unwrap_or((path, ""));
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        (is_word(controller) && is_word(endpoint) && !climbs(rest)).then(|| Self {
            controller: controller.to_owned(),
            endpoint: endpoint.to_owned(),
            rest: format!("/{rest}"),
        })
    }
}

/// Whether a path has `.` or `..` segments, also after percent-decoding. A listener that decodes it could resolve it to another
/// endpoint.
fn climbs(path: &str) -> bool {
    let plain = path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    plain.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."))
}

async fn forward(request: Request, asked: &Asked, target: Target, conversations: &Conversations) -> Response {
    let Request { mut head, body, stopping, .. } = request;
    head::strip_credentials(&mut head.headers);
    if let Some(ClientAddress(address)) = head.extensions.get().copied() {
        head::add_forwarded_for(&mut head.headers, address.ip());
    }
    let (place, under) = match target {
        Target::Here(endpoint) => {
            head.uri = head::uri(&asked.rest, head.uri.query());
            head.extensions.insert(Stopping(CancellationToken::clone(&stopping)));
            return endpoint(http::Request::from_parts(head, body.boxed())).await.map(Body::from);
        }
        Target::Socket { path, under } => (ListenerPlace::Socket(path), under),
        Target::Loopback { port, under } => (ListenerPlace::Loopback(port), under),
    };
    // The permit is held until the conversation ends.
    let Ok(permit) = Arc::clone(&conversations.places).try_acquire_owned() else {
        let message = "Too many conversations with controllers, please try again later.";
        return respond::status(&Status::too_many_requests(message, RETRY_AFTER_SECONDS));
    };
    head::name_host(&mut head);
    head.uri = head::uri(&format!("{under}{}", asked.rest), head.uri.query());
    match socket::send(&place, http::Request::from_parts(head, body)).await {
        Ok((response, conversation)) => {
            conversations.hold(permit, CancellationToken::clone(&stopping), conversation);
            response
        }
        Err(error) => {
            let Asked { controller, endpoint, .. } = asked;
            tracing::warn!(error = %Chain(&error), controller, endpoint, "a passthrough failed");
            let message = format!("the endpoint {endpoint:?} of the controller {controller:?} does not answer");
            respond::status(&Status::service_unavailable(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_controller_an_endpoint_and_the_rest() {
        let asked =
            |path: &str| Asked::parse(path).map(|asked| [asked.controller, asked.endpoint, asked.rest].join(" "));
        assert_eq!(asked("engine/logs/abc/def").as_deref(), Some("engine logs /abc/def"));
        assert_eq!(asked("demo/hello").as_deref(), Some("demo hello /"));
        assert_eq!(asked("demo/hello/").as_deref(), Some("demo hello /"));
        for nowhere in
            ["", "demo", "demo/", "/hello", "de%2Fmo/hello", "demo/../x", "demo/hello/../x", "demo/hello/a/.", "a.b/c"]
        {
            assert_eq!(asked(nowhere), None, "{nowhere}");
        }
        for climbing in ["%2e%2E/x", "a/.%2e", "a%2F..%2fx", "a\\..", "%5C%2e"] {
            assert_eq!(asked(&format!("demo/hello/{climbing}")), None, "{climbing}");
        }
        assert_eq!(asked("demo/hello/a..b/.hidden/%2e%2e%2e").as_deref(), Some("demo hello /a..b/.hidden/%2e%2e%2e"));
    }
}
