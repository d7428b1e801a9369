//! `/passthrough/<controller>/<endpoint>/…`: what controllers answer themselves, behind the API's authentication.
//!
//! A request goes to a function of this process, to a unix socket, or to a port of loopback that a process of our own user
//! serves, as the [`Directory`] says; nothing that a client sends can name another target. Credentials stay here, and a
//! redirect is the client's to follow, never ours.

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
/// Conversations with listeners of other processes at once. Each has a file descriptor of ours, beside that of its client.
pub const CONVERSATIONS: usize = 128;

/// Answers requests under one endpoint. The path begins with what follows the endpoint; a WebSocket is reached by
/// `hyper::upgrade::on`, and [`Stopping`] is among the extensions.
pub type Endpoint = Arc<dyn Fn(http::Request<BoxedBody>) -> Answering + Send + Sync>;

/// What an endpoint's answer is awaited as.
pub type Answering = Pin<Box<dyn Future<Output = http::Response<BoxedBody>> + Send>>;

/// Cancelled when the server shuts down: a conversation that goes on after its answer must end then.
#[derive(Debug, Clone)]
pub struct Stopping(pub CancellationToken);

/// Where an endpoint is answered.
#[derive(Clone)]
pub enum Target {
    /// In this process.
    Here(Endpoint),
    /// By whoever listens on this unix socket, under this path.
    Socket {
        /// The socket.
        path: PathBuf,
        /// What its listener knows the endpoint by: `/<controller>/<endpoint>`.
        under: String,
    },
    /// By a process of our own user that listens on this port of 127.0.0.1, under this path. Every request asks the kernel whose
    /// process took its connection; where the kernel does not say, there are no such targets.
    Loopback {
        /// The port.
        port: u16,
        /// What its listener knows the endpoint by: `/<controller>/<endpoint>`.
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

/// What a directory answers.
pub type Looked = Pin<Box<dyn Future<Output = Result<Option<Target>, String>> + Send>>;

/// Knows who answers what at the moment.
pub trait Directory: Send + Sync {
    /// The target of an endpoint; none if no controller that is registered and well has it. The error is for the client.
    fn find(&self, controller: &str, endpoint: &str) -> Looked;
}

/// Serves the passthroughs; what is not theirs goes to the next handler.
pub struct Passthrough {
    directory: Arc<dyn Directory>,
    next: Arc<dyn Handler>,
    conversations: Conversations,
}

/// Conversations with listeners on sockets, most of which go on after their answer has begun.
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
    /// Keeps a conversation going until it ends or the server does, and lets go of those that have ended.
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
    /// Asks this directory who answers.
    pub fn new(directory: Arc<dyn Directory>, next: Arc<dyn Handler>) -> Self {
        Self { directory, next, conversations: Conversations::default() }
    }
}

impl Handler for Passthrough {
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        if !head.uri.path().starts_with(PREFIX) {
            return self.next.classify(head);
        }
        // Logs are followed and conversations held for as long as the client likes.
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

/// What follows the prefix.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    controller: String,
    endpoint: String,
    /// Begins with a slash.
    rest: String,
}

impl Asked {
    /// None for what names no endpoint, or climbs.
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

/// Whether somebody who undoes the percent signs would find a way up in it.
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
