//! What every request goes through: a name, authentication, origin, limits, the handler, and the headers of all answers.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Method, Uri, header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use rdd_meta::Status;
use rdd_stdx::{
    clock::SharedClock,
    scope::{self, Subject},
    task::panic_message,
};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::{
    body::Guarded,
    limits::{Limits, RETRY_AFTER_SECONDS},
};
use crate::{
    auth::{self, Authenticators, Credentials, Identity},
    metrics::{Entered, Kind, SharedMetrics},
    request::{Answer, AuditId, Class, Classified, Handler, Request, timeout, verb_of},
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

    /// Comes when it has to make room.
    pub(super) fn evicted(&self) -> WaitForCancellationFuture<'_> {
        self.visit.evicted.cancelled()
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

/// How far a request comes before anything has to be waited for.
enum Begun {
    Answered(Box<Response>),
    Running(Answer, Admitted),
}

/// A request as the log names it. The query is left out: it may carry what somebody mistook for a place to put a token.
struct Named {
    audit_id: AuditId,
    verb: &'static str,
    uri: Uri,
    user: Option<Arc<Identity>>,
}

impl Subject for Named {
    fn tell(&self, each: &mut dyn FnMut(&'static str, &str)) {
        each("audit_id", self.audit_id.as_str());
        each("verb", self.verb);
        each("path", self.uri.path());
        if let Some(user) = &self.user {
            each("user", user.name());
        }
    }
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
    ///
    /// All that can be done at once is done before the future is made, which therefore holds little: HTTP/2 makes a task of
    /// each and moves it several times. It comes with what kind of request it is.
    pub(super) fn respond(
        self: &Arc<Self>,
        caller: Caller<'_>,
        head: Parts,
        body: Body,
    ) -> (Class, impl Future<Output = Response> + use<>) {
        let started = self.clock.steady();
        let audit_id = AuditId::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        let met = match caller {
            Caller::Known(identity) => Ok(identity),
            Caller::Peer(peer) => self.meet(peer, &head, &audit_id),
        };
        let named: Arc<dyn Subject> = Arc::new(Named {
            audit_id: audit_id.clone(),
            verb: verb_of(&head.method),
            uri: head.uri.clone(),
            user: met.as_ref().ok().map(Arc::clone),
        });
        let (classified, begun) = scope::within(&named, || self.begin(met, head, body, &audit_id));
        let frame = Arc::clone(self);
        let responding = scope::about(named, async move {
            let mut response = match begun {
                Begun::Answered(response) => *response,
                Begun::Running(answer, admitted) => frame.run(classified.class, answer, admitted).await,
            };
            let took = frame.clock.steady().saturating_sub(started);
            frame.tell(classified, &response, took);
            set_common_headers(response.headers_mut(), &audit_id);
            if is_head { without_body(response) } else { response }
        });
        (classified.class, responding)
    }

    fn tell(&self, classified: Classified, response: &Response, took: Duration) {
        let code = response.status().as_u16();
        let timed = (classified.class != Class::Endless).then_some(took);
        self.metrics.answered(classified.verb, code, timed);
        tracing::debug!(verb = classified.verb, code, elapsed = ?took, "answered");
    }

    /// Judges a request, counts it in and hands it over.
    fn begin(
        &self,
        met: Result<Arc<Identity>, Status>,
        mut head: Parts,
        body: Body,
        audit_id: &AuditId,
    ) -> (Classified, Begun) {
        let refuse = |status: &Status| Begun::Answered(Box::new(respond::status(status)));
        let identity = match met {
            Ok(identity) => identity,
            Err(status) => {
                return (Classified { verb: verb_of(&head.method), class: Class::Bounded }, refuse(&status));
            }
        };
        // It has served its purpose. A handler that logs or forwards what it was given cannot give the token away.
        head.headers.remove(header::AUTHORIZATION);
        let (classified, found) = self.handler.classify(&head);
        let patience = if classified.class.is_bounded() { timeout(head.uri.query()) } else { Ok(None) };
        let patience = match patience {
            Ok(patience) => patience,
            Err(status) => return (classified, refuse(&status)),
        };
        let body_bytes_max = self.limits.body_bytes;
        if announced_length(&head.headers).is_some_and(|length| length > body_bytes_max as u64) {
            return (classified, refuse(&Status::request_entity_too_large(body_bytes_max)));
        }
        let Some(admitted) = self.admit(&head.method, classified.class) else {
            let message = "Too many requests, please try again later.";
            return (classified, refuse(&Status::too_many_requests(message, RETRY_AFTER_SECONDS)));
        };
        let stopping = self.ending.clone();
        let audit_id = audit_id.clone();
        let request = Request { head, identity, audit_id, stopping, patience, found, body, body_bytes_max };
        let begun = match catch_unwind(AssertUnwindSafe(|| self.handler.handle(request))) {
            Ok(answer) => Begun::Running(answer, admitted),
            Err(payload) => Begun::Answered(Box::new(panicked(&*payload))),
        };
        (classified, begun)
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
            (Class::Unbounded | Class::Endless, _) => (Kind::LongRunning, None),
            (Class::Bounded | Class::Brief, true) => (Kind::ReadOnly, Some(&self.read_only)),
            (Class::Bounded | Class::Brief, false) => (Kind::Mutating, Some(&self.mutating)),
        };
        let permit = semaphore.map(|semaphore| semaphore.clone().try_acquire_owned()).transpose().ok()?;
        let flying = Flying::enter(&self.in_flight);
        Some(Admitted { _permit: permit, _counted: self.metrics.enter(kind), _flying: flying })
    }

    async fn run(&self, class: Class, answer: Answer, admitted: Admitted) -> Response {
        let deadline = Instant::now() + self.limits.request_timeout;
        let mut answer = pin!(contained(answer));
        match class {
            Class::Bounded | Class::Brief => {
                // Most are answered at once, and need no alarm.
                let answered = match answer.as_mut().now_or_never() {
                    Some(response) => Ok(response),
                    None => tokio::time::timeout_at(deadline, answer).await,
                };
                match answered {
                    // What is all there needs no more of us: a client that reads slowly holds no one else up.
                    Ok(response) if response.body().size_hint().exact().is_some() => response,
                    Ok(response) => response.map(|body| Guarded::new(body, admitted).until(deadline).boxed_unsync()),
                    Err(_) => respond::status(&Status::timeout("request did not complete within the allotted timeout")),
                }
            }
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

/// Awaits a handler so that a panic in it is an answer and a log line.
async fn contained(mut answer: Answer) -> Response {
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        polled.unwrap_or_else(|payload| Poll::Ready(panicked(&*payload)))
    })
    .await
}

fn panicked(payload: &(dyn std::any::Any + Send)) -> Response {
    tracing::error!(panic = panic_message(payload), "a handler panicked");
    respond::status(&Status::internal("this request caused the server to panic; its log has the details"))
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
