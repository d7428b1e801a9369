//! The [`Handler`] trait and the types around it: authenticated requests, their classes, and answers.

use std::{
    any::Any,
    borrow::Cow,
    fmt,
    future::Future,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, request::Parts};
use http_body_util::BodyExt;
use rdd_meta::Status;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    auth::Identity,
    offload,
    respond::{self, Body, Response},
    serve::limits::{LARGE_BODIES_BYTES, LARGE_BODY_BYTES},
};

/// A request that is authenticated and within all limits.
#[derive(Debug)]
pub struct Request {
    /// Method, URI and headers. The server has removed the `Authorization` header, so that handlers cannot leak tokens.
    pub head: Parts,
    /// The user who makes the request, after impersonation.
    pub identity: Arc<Identity>,
    /// Identifies this request in the log and in the response.
    pub audit_id: AuditId,
    /// Cancelled when the server shuts down and requests of [`Class::Endless`] should end. Shared in an `Arc`, because cloning a
    /// token takes a lock.
    pub stopping: Arc<CancellationToken>,
    /// The query parameter `timeout`, if the client sent one. `None` for classes other than bounded ones: watches have a
    /// parameter of their own.
    pub patience: Option<Duration>,
    /// The result of the handler's [`classify`](Handler::classify) for this request.
    pub found: Found,
    pub(crate) body: Body,
    pub(crate) body_bytes_max: usize,
    pub(crate) body_budget: BodyBudget,
}

/// A request's share of the bytes of large bodies that the server works on at the same time.
///
/// A body of 1.5 MB takes about a hundred times its size in memory while the server parses, merges and encodes it, so a few of
/// them at the same time would exhaust a small machine. Small bodies take no share.
#[derive(Debug, Default)]
pub(crate) struct BodyBudget {
    /// One permit per byte; `None` for a request without a body.
    pub(crate) available: Option<Arc<Semaphore>>,
    /// The permits that this request holds until it is dropped.
    pub(crate) taken: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// Waits until the budget has room for a body of this size. The request's own timeout bounds the wait.
    async fn take(&mut self, bytes: usize) {
        let Some(available) = self.available.take().filter(|_| bytes >= LARGE_BODY_BYTES) else { return };
        // A body larger than the whole budget takes all of it, instead of waiting forever.
        let bytes = u32::try_from(bytes.min(LARGE_BODIES_BYTES)).unwrap_or(u32::MAX);
        self.taken = available.acquire_many_owned(bytes).await.ok();
    }
}

impl Request {
    /// Reads the whole body. After a large one the caller continues off the async workers.
    ///
    /// # Errors
    /// A `Status` to respond with: 413 if the body is too large, 400 if the transfer failed.
    pub async fn read_body(&mut self) -> Result<Bytes, Status> {
        let limit = self.body_bytes_max;
        let mut read = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| Status::bad_request("the request body could not be read"))?;
            // Frames without data are trailers, which have no meaning here.
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - read.len() {
                return Err(Status::request_entity_too_large(limit));
            }
            read.extend_from_slice(&data);
        }
        // Only now that the body is complete: a client that sends slowly must not keep others from the budget.
        self.body_budget.take(read.len()).await;
        offload::announce(read.len()).await;
        Ok(read.freeze())
    }

    /// The decoded values of a query parameter, in order of appearance.
    pub fn query<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
        let pairs = query_pairs(self.head.uri.query().unwrap_or_default());
        pairs.filter(move |(found, _)| found == name).map(|(_, value)| value)
    }
}

/// Which limits apply to a request, and what shutdown does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An ordinary request: the server counts it against the limits of requests in flight, and ends it by the request timeout.
    Bounded,
    /// A request that only looks something up. As [`Bounded`](Self::Bounded), but the connection's own task runs it, because it
    /// is done sooner than a new task would start.
    Brief,
    /// A request that may take as long as it needs, such as a download: neither limited nor timed. Shutdown waits for it.
    Unbounded,
    /// A request that does not end by itself, such as a watch. As [`Unbounded`](Self::Unbounded), but shutdown ends it.
    Endless,
}

impl Class {
    /// Whether the request counts against the limits of requests in flight and has a timeout.
    pub fn is_bounded(self) -> bool {
        matches!(self, Self::Bounded | Self::Brief)
    }
}

/// A request's verb and class, which the server needs before the handler runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The verb for metrics, in capitals: `GET`, `LIST`, `WATCH`. It must come from a fixed set, because every new value creates
    /// a time series.
    pub verb: &'static str,
    /// The limits that apply.
    pub class: Class,
}

/// Data that a handler computes in [`Handler::classify`] and uses again in [`Handler::handle`].
pub type Found = Option<Box<dyn Any + Send>>;

/// The future of a response.
pub type Awaited = Pin<Box<dyn Future<Output = Response> + Send>>;

/// The future that uses a connection after a response 101 has upgraded it to another protocol. A handler puts it into the
/// extensions of the response. The server runs it until it ends, counts it among the requests in flight, and waits for it during
/// shutdown.
#[derive(Clone)]
pub struct Conversation(Arc<Mutex<Option<Talk>>>);

type Talk = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Conversation {
    /// A conversation that runs this future.
    pub fn new(talk: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(talk)))))
    }

    /// Takes the future out, for the server to run it. `None` if it was taken before.
    pub(crate) fn take(&self) -> Option<Talk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}

/// The address of the client, in the extensions of a request. Absent for requests from this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

/// The result of [`Handler::handle`].
pub enum Answer {
    /// A response that is ready, and needs no allocation for a future.
    Now(Response),
    /// A response that has to be awaited.
    Later(Awaited),
}

impl Answer {
    /// An answer that has to be awaited.
    pub fn later(response: impl Future<Output = Response> + Send + 'static) -> Self {
        Self::Later(Box::pin(response))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now(_) => "Now",
            Self::Later(_) => "Later",
        })
    }
}

/// Serves requests behind authentication, limits and the built-in paths.
///
/// # Flow
/// The server authenticates a request, calls [`classify`](Self::classify), enforces the limits of the class, and calls
/// [`handle`](Self::handle). It then sends the response with the headers that all responses have, and counts it.
///
/// # Guarantees
/// - A handler sees only authenticated requests, without the headers that carry tokens.
/// - The server calls `classify` once per request, before `handle`.
/// - The server ends the future of a bounded request, and its body if it has no known length, at the request timeout. It ends
///   those of an endless request at shutdown.
///
/// # Assumptions
/// Both calls return quickly; long work goes into [`Answer::Later`].
///
/// # Errors
/// There are none: a failure is a response with a `Status`. The server answers a panic with 500; it does not affect other
/// requests.
pub trait Handler: Send + Sync {
    /// Determines the verb and class of a request from its head. The second value comes back as [`Request::found`].
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        (Classified { verb: verb_of(&head.method), class: Class::Bounded }, None)
    }

    /// The paths that the index `/` lists.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Responds to a request.
    fn handle(&self, request: Request) -> Answer;
}

/// A handler that serves no path: it responds with 404.
#[derive(Debug)]
pub struct Nothing;

impl Handler for Nothing {
    fn handle(&self, _: Request) -> Answer {
        Answer::Now(respond::not_found())
    }
}

/// The verb of a request that is known only by its method.
pub fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Parses the query parameter `timeout`. `None` if it is absent, empty, zero or negative; an error is the 400 for an invalid
/// duration.
pub(crate) fn timeout(query: Option<&str>) -> Result<Option<Duration>, Status> {
    // Most requests have no timeout: avoid decoding their queries.
    let Some(query) = query.filter(|query| query.contains("timeout=")) else { return Ok(None) };
    let given = query_pairs(query).find(|(name, _)| name == "timeout").map(|(_, value)| value);
    match given.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => match rdd_meta::go_duration::parse(text) {
            // Zero and negative values are no limit.
            Ok(nanoseconds) => Ok(u64::try_from(nanoseconds).ok().filter(|given| *given > 0).map(Duration::from_nanos)),
            Err(why) => Err(Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))),
        },
    }
}

/// The audit ID of one request. A generated ID is formatted only where it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditId(Name);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Given(HeaderValue),
    Made(Uuid),
}

impl AuditId {
    /// The header that carries the ID in the request and in the response.
    pub const HEADER: HeaderName = HeaderName::from_static("audit-id");
    const LENGTH_MAX: usize = 64;

    /// The client's ID if it is short and safe to log, otherwise a new one.
    pub fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(Self::HEADER).filter(|value| Self::is_sane(value.as_bytes()));
        Self(given.map_or_else(|| Name::Made(unique()), |given| Name::Given(given.clone())))
    }

    pub(crate) fn to_header(&self) -> HeaderValue {
        let mut value = match &self.0 {
            Name::Given(value) => value.clone(),
            Name::Made(id) => {
                let text = id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned();
                HeaderValue::try_from(text).expect("a UUID is hexadecimal digits and dashes")
            }
        };
        // HPACK does not index sensitive headers. Every ID is unique, so indexing it would only evict headers that repeat.
        value.set_sensitive(true);
        value
    }

    fn is_sane(value: &[u8]) -> bool {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        !value.is_empty() && value.len() <= Self::LENGTH_MAX && value.iter().all(plain)
    }
}

impl fmt::Display for AuditId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Given(value) => f.write_str(value.to_str().unwrap_or_default()),
            Name::Made(id) => id.hyphenated().fmt(f),
        }
    }
}

/// Generates a UUID. It only has to be unique, not unpredictable, so a mixed counter with a random start is enough, and needs no
/// system call.
fn unique() -> Uuid {
    static FIRST: LazyLock<[u64; 2]> = LazyLock::new(|| [0; 2].map(|_| RandomState::new().hash_one(0)));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = FIRST.map(|first| u128::from(stir(first.wrapping_add(count))));
    uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes()).into_uuid()
}

/// SplitMix64: a bijection of 64-bit numbers whose results for consecutive numbers look independent.
fn stir(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Iterates over the decoded names and values of a query string, in order. A name without `=` has an empty value.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// Decodes `%41` and `+`. Invalid escapes stay unchanged: no parameter of this server has a meaning with them.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = || u8::from_str_radix(std::str::from_utf8(tail.get(..2)?).ok()?, 16).ok();
        match (first, escaped()) {
            // `from_str_radix` accepts a sign, a percent escape does not.
            (b'%', Some(byte)) if !tail.starts_with(b"+") => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            (b'+', _) => {
                bytes.push(b' ');
                rest = tail;
            }
            (plain, _) => {
                bytes.push(*plain);
                rest = tail;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings_are_decoded_and_garbage_is_left_alone() {
        let pairs = |query| query_pairs(query).map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        assert_eq!(pairs("verbose&exclude=a&exclude=b%20c+d"), ["verbose=", "exclude=a", "exclude=b c d"]);
        assert_eq!(pairs("&&a=%zz&b=%4&c=%&d=%+1&e=%41=B"), ["a=%zz", "b=%4", "c=%", "d=% 1", "e=A=B"]);
        assert!(pairs("").is_empty());
    }

    #[test]
    fn a_clients_audit_id_is_kept_only_if_it_is_plain_and_short() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AuditId::HEADER, HeaderValue::from_str(value).unwrap());
            AuditId::of(&headers).to_string()
        };
        assert_eq!(of("deploy-17.a_b"), "deploy-17.a_b");
        for bad in ["", "a b", "<script>", "a=b", &"x".repeat(65)] {
            let made = of(bad);
            assert_ne!(made, bad);
            assert!(Uuid::parse_str(&made).is_ok(), "{made}");
        }
    }

    #[test]
    fn no_two_requests_have_the_same_name_and_neighbours_share_nothing() {
        let ids: Vec<Uuid> = (0..10_000).map(|_| unique()).collect();
        assert_eq!(ids.iter().collect::<std::collections::HashSet<_>>().len(), ids.len());
        assert!(ids.iter().all(|id| id.get_version_num() == 4));
        for pair in ids.windows(2) {
            let different = (pair[0].as_u128() ^ pair[1].as_u128()).count_ones();
            assert!((24..=104).contains(&different), "{different} bits of 122 differ");
        }
    }

    #[test]
    fn a_name_is_the_same_in_the_log_and_on_the_wire() {
        let id = AuditId::of(&HeaderMap::new());
        assert_eq!(id.to_header(), id.to_string().as_str());
        assert!(id.to_header().is_sensitive());
    }
}
