//! What every request goes through: a name, authentication, origin, limits, the handler, and the headers of all answers.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    body::Guarded,
    limits::{Limits, RETRY_AFTER_SECONDS},
};
use crate::{
    auth::{self, Authenticators, Credentials, Identity},
    metrics::{Entered, SharedMetrics},
    request::{AuditId, Class, Classified, Handler, Request, timeout, verb_of},
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
    pub(super) in_flight: Arc<InFlight>,
}

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whom its certificate names.
    pub(super) certificate: Option<Arc<Identity>>,
    visit: Arc<Visit>,
}

/// Who makes a request.
pub(super) enum Caller<'a> {
    /// Whoever is at the other end of a connection.
    Peer(&'a Peer),
    /// Somebody in this process.
    Known(Arc<Identity>),
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
    _flying: Flying,
}

/// How many requests are in flight. Whoever waits is told only when there are none, so that counting costs next to nothing.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    count: AtomicUsize,
    none_left: Notify,
}

impl InFlight {
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until there are none.
    pub(super) async fn none(&self) {
        loop {
            // In this order: whoever leaves after we have counted tells us.
            let none_left = self.none_left.notified();
            if self.count() == 0 {
                return;
            }
            none_left.await;
        }
    }
}

/// One of those that are in flight, from now on until this is dropped.
struct Flying(Arc<InFlight>);

impl Flying {
    fn enter(all: &Arc<InFlight>) -> Self {
        all.count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(all))
    }
}

impl Drop for Flying {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.none_left.notify_waiters();
        }
    }
}

impl Frame {
    pub(super) fn new(
        authenticators: Authenticators,
        handler: Arc<dyn Handler>,
        limits: Limits,
        metrics: SharedMetrics,
        clock: SharedClock,
        port: u16,
    ) -> Self {
        Self {
            authenticators,
            handler,
            limits,
            metrics,
            clock,
            port,
            mutating: Arc::new(Semaphore::new(limits.mutating_in_flight)),
            read_only: Arc::new(Semaphore::new(limits.read_only_in_flight)),
            draining: CancellationToken::new(),
            ending: CancellationToken::new(),
            in_flight: Arc::default(),
        }
    }

    /// Answers any request. There is no failure: what goes wrong is an answer too.
    pub(super) async fn respond(&self, caller: Caller<'_>, head: Parts, body: Body) -> Response {
        let started = self.clock.steady();
        let audit_id = AuditId::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        let met = match caller {
            Caller::Known(identity) => Ok(identity),
            Caller::Peer(peer) => self.meet(peer, &head, &audit_id),
        };
        // Of a level at which a warning inside still carries the name of its request. The query is left out: it may carry what somebody mistook for a place to put a token.
        let span = tracing::info_span!(
            "request",
            audit_id = audit_id.as_str(),
            verb = verb_of(&head.method),
            path = head.uri.path(),
            user = met.as_ref().ok().map(|identity| identity.name()),
        );
        async {
            let (classified, mut response) = self.answer(met, head, body, &audit_id).await;
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

    async fn answer(
        &self,
        met: Result<Arc<Identity>, Status>,
        mut head: Parts,
        body: Body,
        audit_id: &AuditId,
    ) -> (Classified, Response) {
        let unclassified = Classified { verb: verb_of(&head.method), class: Class::Bounded };
        let identity = match met {
            Ok(identity) => identity,
            Err(status) => return (unclassified, respond::status(&status)),
        };
        // It has served its purpose. A handler that logs or forwards what it was given cannot give the token away.
        head.headers.remove(header::AUTHORIZATION);
        let classified = self.handler.classify(&mut head);
        let patience = if classified.class == Class::Bounded { timeout(head.uri.query()) } else { Ok(None) };
        let patience = match patience {
            Ok(patience) => patience,
            Err(status) => return (classified, respond::status(&status)),
        };
        let body_bytes_max = self.limits.body_bytes;
        if announced_length(&head.headers).is_some_and(|length| length > body_bytes_max as u64) {
            return (classified, respond::status(&Status::request_entity_too_large(body_bytes_max)));
        }
        let Some(admitted) = self.admit(&head.method, classified.class) else {
            let message = "Too many requests, please try again later.";
            return (classified, respond::status(&Status::too_many_requests(message, RETRY_AFTER_SECONDS)));
        };
        let stopping = self.ending.clone();
        let request = Request { head, identity, audit_id: audit_id.clone(), stopping, patience, body, body_bytes_max };
        (classified, self.run(classified.class, request, admitted).await)
    }

    /// Who is at the other end of a connection, or why they may not come in.
    fn meet(&self, peer: &Peer, head: &Parts, audit_id: &AuditId) -> Result<Arc<Identity>, Status> {
        let credentials = Credentials { certificate: peer.certificate.as_ref(), bearer: auth::bearer(&head.headers) };
        let identity = self.authenticators.authenticate(&credentials);
        let identity = identity.ok_or_else(Status::unauthorized)?;
        peer.visit.make_known();
        auth::check_origin(&head.uri, &head.headers, self.port).map_err(|refusal| {
            let (audit_id, verb, path) = (audit_id.as_str(), verb_of(&head.method), head.uri.path());
            tracing::warn!(audit_id, verb, path, user = identity.name(), %refusal, "request refused");
            Status::forbidden(refusal.to_string())
        })?;
        Ok(identity)
    }

    /// Counts a request in; `None` if there are too many.
    fn admit(&self, method: &Method, class: Class) -> Option<Admitted> {
        let (kind, semaphore) = match (class, is_read_only(method)) {
            (Class::Unbounded | Class::Endless, _) => ("longRunning", None),
            (Class::Bounded, true) => ("readOnly", Some(&self.read_only)),
            (Class::Bounded, false) => ("mutating", Some(&self.mutating)),
        };
        let permit = semaphore.map(|semaphore| semaphore.clone().try_acquire_owned()).transpose().ok()?;
        let flying = Flying::enter(&self.in_flight);
        Some(Admitted { _permit: permit, _counted: self.metrics.enter(kind), _flying: flying })
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
    // Documents that say themselves how long they hold keep their word.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// HEAD has the headers of GET and no body; over HTTP/2 nobody below us sees to that.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response.map(|_| respond::full(""))
}
