//! What every request goes through: a name, authentication, origin, limits, the handler, and the headers of all answers.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use rdd_meta::Status;
use rdd_stdx::{clock::SharedClock, task::panic_message};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field};

use super::{
    body::Guarded,
    limits::{Limits, RETRY_AFTER_SECONDS},
};
use crate::{
    auth::{self, Authenticators, Credentials, Identity},
    metrics::{Entered, SharedMetrics},
    request::{AuditId, Class, Classified, Handler, Request, verb_of},
    respond::{self, Body, Response},
};

/// What the connections of one server share.
pub(super) struct Frame {
    pub(super) authenticators: Authenticators,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: Limits,
    pub(super) metrics: SharedMetrics,
    pub(super) clock: SharedClock,
    pub(super) port: u16,
    pub(super) mutating: Arc<Semaphore>,
    pub(super) read_only: Arc<Semaphore>,
    /// Cancelled when connections are to take no further requests.
    pub(super) draining: CancellationToken,
    /// Cancelled when endless requests are to end.
    pub(super) ending: CancellationToken,
    /// How many requests are in flight.
    pub(super) in_flight: watch::Sender<usize>,
}

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whom its certificate names.
    pub(super) certificate: Option<Arc<Identity>>,
    visit: Arc<Visit>,
}

/// A connection as the accepting side sees it: a stranger's until one of its requests comes from somebody we know.
#[derive(Debug, Default)]
pub(super) struct Visit {
    known: AtomicBool,
    /// Cancelled when a stranger has to make room.
    pub(super) evicted: CancellationToken,
}

impl Visit {
    pub(super) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    pub(super) fn make_known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }
}

impl Peer {
    pub(super) fn new(certificate: Option<Arc<Identity>>, visit: Arc<Visit>) -> Self {
        Self { certificate, visit }
    }

    /// Whether any of its requests came from somebody we know.
    pub(super) fn is_authenticated(&self) -> bool {
        self.visit.is_known()
    }
}

/// What a request holds from its admission to the end of its response.
struct Admitted {
    _permit: Option<OwnedSemaphorePermit>,
    _counted: Entered,
    _in_flight: InFlight,
}

struct InFlight(watch::Sender<usize>);

impl InFlight {
    fn enter(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Frame {
    /// Answers any request. There is no failure: what goes wrong is an answer too.
    pub(super) async fn respond(&self, peer: &Peer, head: Parts, body: Body) -> Response {
        let started = self.clock.steady();
        let audit_id = AuditId::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        // Of a level at which a warning inside still carries the name of its request. The query is left out: it may carry what somebody mistook for a place to put a token.
        let span = tracing::info_span!(
            "request",
            audit_id = audit_id.as_str(),
            verb = verb_of(&head.method),
            path = head.uri.path(),
            user = field::Empty,
        );
        async {
            let (classified, mut response) = self.answer(peer, head, body, &audit_id).await;
            let took = self.clock.steady().saturating_sub(started);
            self.tell(classified, &response, took);
            set_common_headers(response.headers_mut(), &audit_id);
            if is_head { without_body(response) } else { response }
        }
        .instrument(span)
        .await
    }

    fn tell(&self, classified: Classified, response: &Response, took: Duration) {
        let code = response.status().as_u16();
        let timed = (classified.class != Class::Endless).then_some(took);
        self.metrics.answered(classified.verb, code, timed);
        tracing::debug!(verb = classified.verb, code, elapsed = ?took, "answered");
    }

    async fn answer(&self, peer: &Peer, mut head: Parts, body: Body, audit_id: &AuditId) -> (Classified, Response) {
        let unclassified = Classified { verb: verb_of(&head.method), class: Class::Bounded };
        let credentials = Credentials { certificate: peer.certificate.as_ref(), bearer: auth::bearer(&head.headers) };
        let Some(identity) = self.authenticators.authenticate(&credentials) else {
            return (unclassified, respond::status(&Status::unauthorized()));
        };
        peer.visit.make_known();
        // It has served its purpose. A handler that logs or forwards what it was given cannot give the token away.
        head.headers.remove(header::AUTHORIZATION);
        tracing::Span::current().record("user", identity.name());
        if let Err(refusal) = auth::check_origin(&head.uri, &head.headers, self.port) {
            tracing::warn!(path = head.uri.path(), %refusal, "request refused");
            return (unclassified, respond::status(&Status::forbidden(refusal.to_string())));
        }
        let classified = self.handler.classify(&head);
        let body_bytes_max = self.limits.body_bytes;
        if announced_length(&head.headers).is_some_and(|length| length > body_bytes_max as u64) {
            return (classified, respond::status(&Status::request_entity_too_large(body_bytes_max)));
        }
        let Some(admitted) = self.admit(&head.method, classified.class) else {
            let message = "Too many requests, please try again later.";
            return (classified, respond::status(&Status::too_many_requests(message, RETRY_AFTER_SECONDS)));
        };
        let stopping = self.ending.clone();
        let request = Request { head, identity, audit_id: audit_id.clone(), stopping, body, body_bytes_max };
        (classified, self.run(classified.class, request, admitted).await)
    }

    /// Counts a request in; `None` if there are too many.
    fn admit(&self, method: &Method, class: Class) -> Option<Admitted> {
        let (kind, semaphore) = match (class, is_read_only(method)) {
            (Class::Unbounded | Class::Endless, _) => ("longRunning", None),
            (Class::Bounded, true) => ("readOnly", Some(&self.read_only)),
            (Class::Bounded, false) => ("mutating", Some(&self.mutating)),
        };
        let permit = semaphore.map(|semaphore| semaphore.clone().try_acquire_owned()).transpose().ok()?;
        let in_flight = InFlight::enter(&self.in_flight);
        Some(Admitted { _permit: permit, _counted: self.metrics.enter(kind), _in_flight: in_flight })
    }

    async fn run(&self, class: Class, request: Request, admitted: Admitted) -> Response {
        let deadline = Instant::now() + self.limits.request_timeout;
        let answer = contained(|| self.handler.handle(request));
        match class {
            Class::Bounded => match tokio::time::timeout_at(deadline, answer).await {
                // What is all there needs no more of us: a client that reads slowly holds no one else up.
                Ok(response) if response.body().size_hint().exact().is_some() => response,
                Ok(response) => response.map(|body| Guarded::new(body, admitted).until(deadline).boxed_unsync()),
                Err(_) => respond::status(&Status::timeout("request did not complete within the allotted timeout")),
            },
            Class::Unbounded => answer.await.map(|body| Guarded::new(body, admitted).boxed_unsync()),
            Class::Endless => tokio::select! {
                response = answer => response.map(|body| {
                    Guarded::new(body, admitted).until_cancelled(self.ending.clone().cancelled_owned()).boxed_unsync()
                }),
                () = self.ending.cancelled() => {
                    respond::status(&Status::service_unavailable("the server is shutting down"))
                }
            },
        }
    }
}

/// Runs a handler so that a panic in it is an answer and a log line.
async fn contained<F: Future<Output = Response> + Unpin>(start: impl FnOnce() -> F) -> Response {
    let panicked = |payload: Box<dyn std::any::Any + Send>| {
        tracing::error!(panic = panic_message(&*payload), "a handler panicked");
        let message = "this request caused the server to panic; its log has the details";
        respond::status(&Status::internal(message))
    };
    let mut answer = match catch_unwind(AssertUnwindSafe(start)) {
        Ok(answer) => answer,
        Err(payload) => return panicked(payload),
    };
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| std::pin::Pin::new(&mut answer).poll(context)));
        polled.unwrap_or_else(|payload| Poll::Ready(panicked(payload)))
    })
    .await
}

fn is_read_only(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn set_common_headers(headers: &mut HeaderMap, audit_id: &AuditId) {
    headers.insert(AuditId::HEADER, audit_id.to_header());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// HEAD has the headers of GET and no body; over HTTP/2 nobody below us sees to that.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response.map(|_| respond::full(""))
}
