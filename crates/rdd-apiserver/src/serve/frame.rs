//! The path of every request: audit ID, authentication, origin check, impersonation, limits, the handler, and the common headers.

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

/// The state that all connections of a server share.
pub(super) struct Frame {
    pub(super) authenticators: Authenticators,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) limits: Limits,
    pub(super) metrics: SharedMetrics,
    pub(super) clock: SharedClock,
    pub(super) port: u16,
    /// Cancelled when connections should take no further requests.
    pub(super) draining: CancellationToken,
    /// Cancelled when endless requests should end.
    pub(super) ending: Arc<CancellationToken>,
    /// The count of requests in flight.
    pub(super) in_flight: Arc<InFlight>,
    pub(super) transfers: Arc<Transfers>,
    /// The tasks of upgraded connections.
    conversations: Mutex<Group<()>>,
    /// One permit per byte of the large bodies that may be processed at the same time.
    large_bodies: Arc<Semaphore>,
}

/// The client of a connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// The identity in the client certificate.
    pub(super) certificate: Option<Arc<Identity>>,
    /// The client's address; `None` if the connection is already closed.
    pub(super) address: Option<SocketAddr>,
    visit: Arc<Visit>,
}

/// The origin of a request.
pub(super) enum Caller<'a> {
    /// A connection, whose requests must authenticate.
    Peer(&'a Peer),
    /// Code in this process, with this identity.
    Known(Arc<Identity>),
}

impl Peer {
    pub(super) fn new(certificate: Option<Arc<Identity>>, address: Option<SocketAddr>, visit: Arc<Visit>) -> Self {
        Self { certificate, address, visit }
    }

    /// Completes when the connection has had its place for `time` and others wait for one.
    pub(super) fn overdue(&self, time: Duration) -> impl Future<Output = ()> + Send + '_ {
        self.visit.overdue(time)
    }

    /// Records that the connection switches from HTTP to another protocol.
    pub(super) fn mark_upgraded(&self) {
        self.visit.mark_upgraded();
    }

    /// Whether any request of the connection has authenticated.
    pub(super) fn is_authenticated(&self) -> bool {
        self.visit.is_known()
    }
}

/// The state of a request after everything that needs no waiting.
enum Begun {
    Answered(Response),
    Running(Awaited, Flying),
}

/// The facts about a request that are needed when its response is ready.
struct Ending {
    started: Duration,
    classified: Classified,
    audit_id: AuditId,
    is_head: bool,
}

/// A request's identification in the log. It has no query, because a client may have put a token there by mistake.
struct Named {
    audit_id: AuditId,
    verb: &'static str,
    path: Option<PathAndQuery>,
    user: Option<Arc<Identity>>,
    /// The user who sent the request, if `user` is impersonated.
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

/// Counts the requests in flight. It notifies only when the count becomes zero, so that counting is cheap.
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

    /// Waits until no requests are in flight.
    pub(super) async fn none(&self) {
        loop {
            // The order matters: a request that ends after the check notifies this future, because it exists already.
            let none_left = self.none_left.notified();
            if self.count() == 0 {
                return;
            }
            none_left.await;
        }
    }

    /// Counts one more request of this kind; `None` if that would exceed the limit.
    fn enter(self: &Arc<Self>, kind: Kind, limit: Option<usize>) -> Option<Flying> {
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        let counted = self.metrics.in_flight(kind).inner();
        // The gauge of the metrics is also the counter: check and increment it in one atomic step.
        let one_more = |before| (before < limit).then_some(before + 1);
        counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        self.count.fetch_add(1, Ordering::SeqCst);
        Some(Flying { all: Arc::clone(self), kind })
    }
}

/// A guard that counts a request from its admission to the end of its response.
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

    /// Responds to a request.
    ///
    /// # Flow
    /// 1. Assign an audit ID.
    /// 2. Authenticate, check the origin, and apply impersonation.
    /// 3. Classify the request, and check its timeout, its length and the limits of requests in flight.
    /// 4. Call the handler.
    /// 5. Count the response, and set the headers that all responses have.
    ///
    /// Everything that needs no waiting happens before the future is created. The future is therefore small, which matters
    /// because HTTP/2 moves it several times.
    ///
    /// Returns the class of the request, and the response. There are no errors: every failure is a response too.
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
        // When impersonation is refused, the log names the sender.
        let user = met.as_ref().ok().or(who.as_ref()).map(Arc::clone);
        // Without impersonation, both are the same `Arc`.
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

    /// Counts a response, and sets the headers that all responses have.
    fn end(&self, mut response: Response, ending: &Ending) -> Response {
        let took = self.clock.steady().saturating_sub(ending.started);
        self.tell(ending.classified, &response, took);
        set_common_headers(response.headers_mut(), &ending.audit_id);
        if ending.is_head { without_body(response) } else { response }
    }

    /// Records a response in the metrics and the log. The duration of endless requests is not recorded.
    fn tell(&self, classified: Classified, response: &Response, took: Duration) {
        let code = response.status().as_u16();
        let timed = (classified.class != Class::Endless).then_some(took);
        self.metrics.answered(classified.verb, code, timed);
        tracing::debug!(verb = classified.verb, code, elapsed = ?took, "answered");
    }

    /// Classifies and admits a request, and passes it to the handler.
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
        // Authentication is done. Without the tokens, a handler that logs or forwards the headers cannot leak them.
        head.headers.remove(header::AUTHORIZATION);
        rdd_websocket::strip_bearer_protocol(&mut head.headers);
        let (classified, found) = self.handler.classify(&head);
        // Watches have the parameter `timeoutSeconds` instead.
        let patience = if classified.class.is_bounded() { timeout(head.uri.query()) } else { Ok(None) };
        let patience = match patience {
            Ok(patience) => patience,
            Err(status) => return (classified, refuse(&status)),
        };
        let body_bytes_max = self.limits.body_bytes;
        // Refuse early, so that the client need not send the body.
        if announced_length(&head.headers).is_some_and(|length| length > body_bytes_max as u64) {
            return (classified, refuse(&Status::request_entity_too_large(body_bytes_max)));
        }
        let Some(flying) = self.admit(&head.method, classified.class) else {
            let message = "Too many requests, please try again later.";
            return (classified, refuse(&Status::too_many_requests(message, RETRY_AFTER_SECONDS)));
        };
        let stopping = Arc::clone(&self.ending);
        let audit_id = audit_id.clone();
        // A body in memory is an empty one, which needs no budget.
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

    /// Authenticates a request and checks its origin. An error is the 401 or 403 to respond with.
    fn meet(&self, peer: &Peer, head: &Parts, audit_id: &AuditId) -> Result<Arc<Identity>, Status> {
        let credentials = Credentials { certificate: peer.certificate.as_ref(), bearer: auth::bearer(&head.headers) };
        let identity = self.authenticators.authenticate(&credentials);
        let identity = identity.or_else(|| self.authenticate_websocket(&head.headers));
        let identity = identity.ok_or_else(Status::unauthorized)?;
        // Before the origin check: valid credentials are enough to give up the pending place.
        peer.visit.make_known();
        auth::check_origin(&head.uri, &head.headers, self.port).map_err(|refusal| {
            let (verb, path) = (verb_of(&head.method), head.uri.path());
            tracing::warn!(%audit_id, verb, path, user = identity.name(), %refusal, "request refused");
            Status::forbidden(refusal.to_string())
        })?;
        Ok(identity)
    }

    /// Authenticates a WebSocket by a token among its subprotocols, which browsers use because they cannot set headers.
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

    /// Counts a request as in flight; `None` if its kind has reached the limit.
    fn admit(&self, method: &Method, class: Class) -> Option<Flying> {
        let (kind, limit) = match (class, is_read_only(method)) {
            (Class::Unbounded | Class::Endless, _) => (Kind::LongRunning, None),
            (Class::Bounded | Class::Brief, true) => (Kind::ReadOnly, Some(self.limits.read_only_in_flight)),
            (Class::Bounded | Class::Brief, false) => (Kind::Mutating, Some(self.limits.mutating_in_flight)),
        };
        self.in_flight.enter(kind, limit)
    }

    /// The deadline of a request that begins now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.limits.request_timeout
    }

    /// Awaits the handler's response as long as the class of the request allows.
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

    /// Keeps a request in flight until its streamed body or its conversation ends, and ends the body as its class requires.
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
        // The response needs no more work of the handler, so a client that reads it slowly delays nothing else.
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
    /// Runs a conversation in a task, and removes the tasks of those that have ended.
    fn hold(&self, conversation: &Conversation, flying: Flying) {
        let Some(talk) = conversation.take() else { return };
        let mut running = self.conversations.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(Some(_)) = running.next().now_or_never() {}
        running.spawn("conversation", async move {
            talk.await;
            drop(flying);
        });
    }

    /// Cancels the conversations that still run.
    pub(super) fn cut_conversations(&self) {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }
}

/// Awaits a handler's response. A panic becomes a response 500 and a log line.
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
    // A handler may set its own caching rules, as the OpenAPI and OpenID documents do.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Removes the body and keeps its length: HEAD has the headers of GET. Over HTTP/2, hyper does not do this.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    response.map(|_| respond::full(""))
}
