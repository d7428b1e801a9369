//! What every request goes through: a name, authentication, origin, limits, the handler, and the headers of all answers.

use std::{
    future::{Future, poll_fn, ready},
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt as _, future::Either};
use http::{HeaderMap, HeaderValue, Method, header, request::Parts, uri::PathAndQuery};
use hyper::body::Body as _;
use rdd_meta::Status;
use rdd_stdx::{
    clock::SharedClock,
    scope::{self, Subject},
    task::{Group, panic_message},
};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    body::{Guarded, Transfers},
    limits::{LARGE_BODIES_BYTES, Limits, RETRY_AFTER_SECONDS},
    pending::Visit,
};
use crate::{
    auth::{self, Authenticators, Credentials, Identity},
    metrics::{Kind, SharedMetrics},
    request::{
        Answer, AuditId, Awaited, BodyBudget, Class, Classified, Conversation, Handler, Request, timeout, verb_of,
    },
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
    /// Cancelled when connections are to take no further requests.
    pub(super) draining: CancellationToken,
    /// Cancelled when endless requests are to end.
    pub(super) ending: Arc<CancellationToken>,
    /// The requests in flight.
    pub(super) in_flight: Arc<InFlight>,
    pub(super) transfers: Arc<Transfers>,
    /// What goes on over connections that are no longer HTTP.
    conversations: Mutex<Group<()>>,
    /// One permit for each byte of the large bodies that may be worked on at the same time.
    large_bodies: Arc<Semaphore>,
}

/// The other end of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Whom its certificate names.
    pub(super) certificate: Option<Arc<Identity>>,
    /// Where it is; unknown if it is gone already.
    pub(super) address: Option<SocketAddr>,
    visit: Arc<Visit>,
}

/// Who makes a request.
pub(super) enum Caller<'a> {
    /// Whoever is at the other end of a connection.
    Peer(&'a Peer),
    /// Somebody in this process.
    Known(Arc<Identity>),
}

impl Peer {
    pub(super) fn new(certificate: Option<Arc<Identity>>, address: Option<SocketAddr>, visit: Arc<Visit>) -> Self {
        Self { certificate, address, visit }
    }

    /// Comes when it has had this much time without authenticating, and others wait for its place.
    pub(super) fn overdue(&self, time: Duration) -> impl Future<Output = ()> + Send + '_ {
        self.visit.overdue(time)
    }

    /// Records that the connection switches from HTTP to another protocol.
    pub(super) fn mark_upgraded(&self) {
        self.visit.mark_upgraded();
    }

    /// Whether any of its requests came from somebody we know.
    pub(super) fn is_authenticated(&self) -> bool {
        self.visit.is_known()
    }
}

/// How far a request comes before anything has to be waited for.
enum Begun {
    Answered(Response),
    Running(Awaited, Flying),
}

/// What is known of a request when its answer is there.
struct Ending {
    started: Duration,
    classified: Classified,
    audit_id: AuditId,
    is_head: bool,
}

/// A request as the log names it. The query is left out: it may carry what somebody mistook for a place to put a token.
struct Named {
    audit_id: AuditId,
    verb: &'static str,
    path: Option<PathAndQuery>,
    user: Option<Arc<Identity>>,
    /// Who sent it, if not that user.
    impersonator: Option<Arc<Identity>>,
}

impl Subject for Named {
    fn tell(&self, each: &mut dyn FnMut(&'static str, &str)) {
        each("audit_id", &self.audit_id.to_string());
        each("verb", self.verb);
        each("path", self.path.as_ref().map_or("/", PathAndQuery::path));
        if let Some(user) = &self.user {
            each("user", user.name());
        }
        if let Some(impersonator) = &self.impersonator {
            each("impersonator", impersonator.name());
        }
    }
}

/// The requests in flight. Whoever waits is told only when there are none, so that counting costs next to nothing.
#[derive(Debug)]
pub(super) struct InFlight {
    count: AtomicUsize,
    none_left: Notify,
    metrics: SharedMetrics,
}

impl InFlight {
    pub(super) fn new(metrics: SharedMetrics) -> Self {
        Self { count: AtomicUsize::new(0), none_left: Notify::new(), metrics }
    }

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

    /// One more of a kind; `None` if there are so many already.
    fn enter(self: &Arc<Self>, kind: Kind, limit: Option<usize>) -> Option<Flying> {
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        let counted = self.metrics.in_flight(kind).inner();
        let one_more = |before| (before < limit).then_some(before + 1);
        counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(Flying { all: Arc::clone(self), kind })
    }
}

/// One of those that are in flight: from its admission to the end of its response, when this is dropped.
struct Flying {
    all: Arc<InFlight>,
    kind: Kind,
}

impl Drop for Flying {
    fn drop(&mut self) {
        self.all.metrics.in_flight(self.kind).dec();
        if self.all.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.all.none_left.notify_waiters();
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
            in_flight: Arc::new(InFlight::new(Arc::clone(&metrics))),
            transfers: Arc::default(),
            metrics,
            clock,
            port,
            draining: CancellationToken::new(),
            ending: Arc::default(),
            conversations: Mutex::default(),
            large_bodies: Arc::new(Semaphore::new(LARGE_BODIES_BYTES)),
        }
    }

    /// Answers any request. There is no failure: what goes wrong is an answer too.
    ///
    /// All that can be done at once is done before the future is made, which therefore holds little: HTTP/2 moves it several
    /// times. It comes with what kind of request it is.
    pub(super) fn respond(
        self: &Arc<Self>,
        caller: Caller<'_>,
        mut head: Parts,
        body: Body,
    ) -> (Class, impl Future<Output = Response> + use<>) {
        let started = self.clock.steady();
        let audit_id = AuditId::of(&head.headers);
        let is_head = head.method == Method::HEAD;
        let sender = match caller {
            Caller::Known(identity) => Ok(identity),
            Caller::Peer(peer) => self.meet(peer, &head, &audit_id),
        };
        let who = sender.as_ref().ok().map(Arc::clone);
        let met = sender.and_then(|sender| auth::impersonate(sender, &mut head.headers));
        let user = met.as_ref().ok().or(who.as_ref()).map(Arc::clone);
        let impersonator = who.filter(|who| user.as_ref().is_some_and(|user| !Arc::ptr_eq(who, user)));
        let named: Arc<dyn Subject> = Arc::new(Named {
            audit_id: audit_id.clone(),
            verb: verb_of(&head.method),
            path: head.uri.path_and_query().cloned(),
            user,
            impersonator,
        });
        let (ending, begun) = scope::within(&named, || {
            let (classified, begun) = self.begin(met, head, body, &audit_id);
            let ending = Ending { started, classified, audit_id, is_head };
            let begun = match begun {
                Begun::Answered(response) => Begun::Answered(self.end(response, &ending)),
                running @ Begun::Running(..) => running,
            };
            (ending, begun)
        });
        let class = ending.classified.class;
        let responding = match begun {
            Begun::Answered(response) => Either::Left(ready(response)),
            Begun::Running(answer, flying) => {
                let frame = Arc::clone(self);
                Either::Right(Box::pin(scope::about(named, async move {
                    let response = frame.run(class, answer, flying).await;
                    frame.end(response, &ending)
                })))
            }
        };
        (class, responding)
    }

    /// Counts an answer, and gives it what all have.
    fn end(&self, mut response: Response, ending: &Ending) -> Response {
        let took = self.clock.steady().saturating_sub(ending.started);
        self.tell(ending.classified, &response, took);
        set_common_headers(response.headers_mut(), &ending.audit_id);
        if ending.is_head { without_body(response) } else { response }
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
        let refuse = |status: &Status| Begun::Answered(respond::status(status));
        let identity = match met {
            Ok(identity) => identity,
            Err(status) => {
                return (Classified { verb: verb_of(&head.method), class: Class::Bounded }, refuse(&status));
            }
        };
        // It has served its purpose. A handler that logs or forwards what it was given cannot give the token away.
        head.headers.remove(header::AUTHORIZATION);
        rdd_websocket::strip_bearer_protocol(&mut head.headers);
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
        let Some(flying) = self.admit(&head.method, classified.class) else {
            let message = "Too many requests, please try again later.";
            return (classified, refuse(&Status::too_many_requests(message, RETRY_AFTER_SECONDS)));
        };
        let stopping = Arc::clone(&self.ending);
        let audit_id = audit_id.clone();
        let available = (!body.is_whole()).then(|| Arc::clone(&self.large_bodies));
        let body_budget = BodyBudget { available, taken: None };
        let request =
            Request { head, identity, audit_id, stopping, patience, found, body, body_bytes_max, body_budget };
        let begun = match catch_unwind(AssertUnwindSafe(|| self.handler.handle(request))) {
            Ok(Answer::Now(response)) => {
                Begun::Answered(self.guard(classified.class, response, flying, || self.deadline()))
            }
            Ok(Answer::Later(answer)) => Begun::Running(answer, flying),
            Err(payload) => Begun::Answered(panicked(&*payload)),
        };
        (classified, begun)
    }

    /// Who is at the other end of a connection, or why they may not come in.
    fn meet(&self, peer: &Peer, head: &Parts, audit_id: &AuditId) -> Result<Arc<Identity>, Status> {
        let credentials = Credentials { certificate: peer.certificate.as_ref(), bearer: auth::bearer(&head.headers) };
        let identity = self.authenticators.authenticate(&credentials);
        let identity = identity.or_else(|| self.authenticate_websocket(&head.headers));
        let identity = identity.ok_or_else(Status::unauthorized)?;
        peer.visit.make_known();
        auth::check_origin(&head.uri, &head.headers, self.port).map_err(|refusal| {
            let (verb, path) = (verb_of(&head.method), head.uri.path());
            tracing::warn!(%audit_id, verb, path, user = identity.name(), %refusal, "request refused");
            Status::forbidden(refusal.to_string())
        })?;
        Ok(identity)
    }

    /// Who presents a token as a subprotocol, which only a WebSocket can.
    fn authenticate_websocket(&self, headers: &HeaderMap) -> Option<Arc<Identity>> {
        if !rdd_websocket::is_websocket_request(headers) {
            return None;
        }
        match rdd_websocket::bearer_token(headers) {
            Ok(token) => self.authenticators.authenticate(&Credentials { certificate: None, bearer: token.as_deref() }),
            Err(error) => {
                tracing::debug!(%error, "the token of a WebSocket was refused");
                None
            }
        }
    }

    /// Counts a request in; `None` if there are too many.
    fn admit(&self, method: &Method, class: Class) -> Option<Flying> {
        let (kind, limit) = match (class, is_read_only(method)) {
            (Class::Unbounded | Class::Endless, _) => (Kind::LongRunning, None),
            (Class::Bounded | Class::Brief, true) => (Kind::ReadOnly, Some(self.limits.read_only_in_flight)),
            (Class::Bounded | Class::Brief, false) => (Kind::Mutating, Some(self.limits.mutating_in_flight)),
        };
        self.in_flight.enter(kind, limit)
    }

    /// When a request that begins now has to be over.
    fn deadline(&self) -> Instant {
        Instant::now() + self.limits.request_timeout
    }

    async fn run(&self, class: Class, answer: Awaited, flying: Flying) -> Response {
        let deadline = self.deadline();
        let answer = contained(answer);
        let response = match class {
            Class::Bounded | Class::Brief => match tokio::time::timeout_at(deadline, answer).await {
                Ok(response) => response,
                Err(_) => respond::status(&Status::timeout("request did not complete within the allotted timeout")),
            },
            Class::Unbounded => answer.await,
            Class::Endless => tokio::select! {
                response = answer => response,
                () = self.ending.cancelled() => {
                    return respond::status(&Status::service_unavailable("the server is shutting down"));
                }
            },
        };
        self.guard(class, response, flying, || deadline)
    }

    /// What is not all there is in flight until it has been sent, and ends when its class says so.
    fn guard(
        &self,
        class: Class,
        mut response: Response,
        flying: Flying,
        deadline: impl FnOnce() -> Instant,
    ) -> Response {
        if let Some(conversation) = response.extensions_mut().remove::<Conversation>() {
            self.hold(&conversation, flying);
            return response;
        }
        let is_all_there = response.body().is_whole();
        // A client that reads slowly what needs no more of us holds no one else up.
        if is_all_there || class.is_bounded() && response.body().size_hint().exact().is_some() {
            return response;
        }
        response.map(|body| {
            let guarded = Guarded::new(body, flying);
            Body::new(match class {
                Class::Bounded | Class::Brief => guarded.until(deadline()),
                Class::Unbounded => guarded.with_transfer(&self.transfers),
                Class::Endless => guarded.until_cancelled(CancellationToken::clone(&self.ending).cancelled_owned()),
            })
        })
    }
}

impl Frame {
    /// Runs a conversation until it ends, and lets go of those that have ended.
    fn hold(&self, conversation: &Conversation, flying: Flying) {
        let Some(talk) = conversation.take() else { return };
        let mut running = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(Some(_)) = running.next().now_or_never() {}
        running.spawn("conversation", async move {
            talk.await;
            drop(flying);
        });
    }

    /// Cuts off the conversations that go on.
    pub(super) fn cut_conversations(&self) {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

/// Awaits a handler so that a panic in it is an answer and a log line.
fn contained(mut answer: Awaited) -> impl Future<Output = Response> {
    poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(context)));
        polled.unwrap_or_else(|payload| Poll::Ready(panicked(&*payload)))
    })
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
