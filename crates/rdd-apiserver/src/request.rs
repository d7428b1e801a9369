//! What a handler is given: an authenticated request, and the seam through which handlers plug in.

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

/// A request whose sender is known and which has passed every limit.
#[derive(Debug)]
pub struct Request {
    /// Method, URI, headers; without the `Authorization` header, which nobody needs any more.
    pub head: Parts,
    /// Who asks.
    pub identity: Arc<Identity>,
    /// Names this request in logs and in the response.
    pub audit_id: AuditId,
    /// Cancelled when the server shuts down and requests of [`Class::Endless`] are to end by themselves. Shared, for to clone a
    /// token takes a lock.
    pub stopping: Arc<CancellationToken>,
    /// How long the client says it waits, if it says so. Requests of [`Class::Endless`] have another parameter for it.
    pub patience: Option<Duration>,
    /// What the handler has found out when it classified this.
    pub found: Found,
    pub(crate) body: Body,
    pub(crate) body_bytes_max: usize,
    pub(crate) body_budget: BodyBudget,
}

/// What a request takes of the bytes that large bodies may have in all while their requests are worked on.
///
/// A body of 1.5 MB becomes a hundred times as much while it is parsed, merged and written again, so that a few at the same
/// time would exhaust a small machine. Small bodies take nothing.
#[derive(Debug, Default)]
pub(crate) struct BodyBudget {
    /// One permit per byte; `None` for a request without a body.
    pub(crate) available: Option<Arc<Semaphore>>,
    /// Given back with the request.
    pub(crate) taken: Option<OwnedSemaphorePermit>,
}

impl BodyBudget {
    /// Waits until there is room for a body of this size. The request's own timeout bounds the wait.
    async fn take(&mut self, bytes: usize) {
        let Some(available) = self.available.take().filter(|_| bytes >= LARGE_BODY_BYTES) else { return };
        let bytes = u32::try_from(bytes.min(LARGE_BODIES_BYTES)).unwrap_or(u32::MAX);
        self.taken = available.acquire_many_owned(bytes).await.ok();
    }
}

impl Request {
    /// Reads the whole body, or says in a `Status` why not: too large, or broken off. After a large one the caller continues off
    /// the async workers.
    pub async fn read_body(&mut self) -> Result<Bytes, Status> {
        let limit = self.body_bytes_max;
        let mut read = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| Status::bad_request("the request body could not be read"))?;
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > limit - read.len() {
                return Err(Status::request_entity_too_large(limit));
            }
            read.extend_from_slice(&data);
        }
        // Not before it is all there: a client that sends slowly must not hold up others.
        self.body_budget.take(read.len()).await;
        offload::announce(read.len()).await;
        Ok(read.freeze())
    }

    /// The decoded values of a query parameter, in order.
    pub fn query<'a>(&'a self, name: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
        let pairs = query_pairs(self.head.uri.query().unwrap_or_default());
        pairs.filter(move |(found, _)| found == name).map(|(_, value)| value)
    }
}

/// How the server treats a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// An ordinary one: counted against the limits of requests in flight, and ended by the request timeout.
    Bounded,
    /// One that only looks something up: as [`Bounded`](Self::Bounded), and so soon answered that nothing else need be done meanwhile.
    Brief,
    /// One that may take as long as it needs, such as a download: neither counted nor timed. Shutdown waits for it.
    Unbounded,
    /// One that does not end by itself, such as a watch: as [`Unbounded`](Self::Unbounded), and ended by shutdown.
    Endless,
}

impl Class {
    /// Whether it is counted against the limits of requests in flight, and ended by the request timeout.
    pub fn is_bounded(self) -> bool {
        matches!(self, Self::Bounded | Self::Brief)
    }
}

/// What a handler says about a request before it handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The verb for metrics, in capitals: `GET`, `LIST`, `WATCH`. From a closed set, or the metrics grow without bound.
    pub verb: &'static str,
    /// How it is treated.
    pub class: Class,
}

/// What a handler has found out in [`Handler::classify`] and will need again in [`Handler::handle`].
pub type Found = Option<Box<dyn Any + Send>>;

/// An answer that takes a while.
pub type Awaited = Pin<Box<dyn Future<Output = Response> + Send>>;

/// What goes on over a connection after the answer 101, until it ends by itself. It travels among the extensions of the answer; the
/// server runs it, counts it among the requests in flight, and waits for it when it shuts down.
#[derive(Clone)]
pub struct Conversation(Arc<Mutex<Option<Talk>>>);

type Talk = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Conversation {
    /// This one.
    pub fn new(talk: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::pin(talk)))))
    }

    /// It itself, for the one who runs it.
    pub(crate) fn take(&self) -> Option<Talk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Conversation")
    }
}

/// Where a request comes from, among its extensions; not there for one from this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);

/// What a handler answers with.
pub enum Answer {
    /// What need not be waited for, and so needs no room for who waits.
    Now(Response),
    /// What takes a while.
    Later(Awaited),
}

impl Answer {
    /// What takes a while.
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

/// The seam: what is served behind authentication, limits and the built-in paths.
pub trait Handler: Send + Sync {
    /// Judges a request by its head. Called once for each, before [`handle`](Self::handle); must be quick. What it has
    /// found out comes with the request as [`Request::found`].
    fn classify(&self, head: &Parts) -> (Classified, Found) {
        (Classified { verb: verb_of(&head.method), class: Class::Bounded }, None)
    }

    /// The paths to show in the index.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Answers. A panic in it is answered with 500 and does not reach other requests.
    fn handle(&self, request: Request) -> Answer;
}

/// A handler that knows no path.
#[derive(Debug)]
pub struct Nothing;

impl Handler for Nothing {
    fn handle(&self, _: Request) -> Answer {
        Answer::Now(respond::not_found())
    }
}

/// The verb of a request of which nothing but the method is known.
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

/// How long the client says it waits, if it says so; or the 400 for what is no time. Watches have another parameter for it.
pub(crate) fn timeout(query: Option<&str>) -> Result<Option<Duration>, Status> {
    let Some(query) = query.filter(|query| query.contains("timeout=")) else { return Ok(None) };
    let given = query_pairs(query).find(|(name, _)| name == "timeout").map(|(_, value)| value);
    match given.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => match rdd_meta::go_duration::parse(text) {
            Ok(nanoseconds) => Ok(u64::try_from(nanoseconds).ok().filter(|given| *given > 0).map(Duration::from_nanos)),
            Err(why) => Err(Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))),
        },
    }
}

/// The name of one request. It is written out only where it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditId(Name);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Name {
    Given(HeaderValue),
    Made(Uuid),
}

impl AuditId {
    /// The header that carries it both ways.
    pub const HEADER: HeaderName = HeaderName::from_static("audit-id");
    const LENGTH_MAX: usize = 64;

    /// The client's own, if it is one that a log line can carry, otherwise a new one.
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
        // No two are alike: in the table of an HTTP/2 connection each would only push out what does come again.
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

/// A UUID that is like no other and looks random. It tells requests apart and guards nothing, so that numbers in a row will do,
/// beginning somewhere and stirred, which need no system call.
fn unique() -> Uuid {
    static FIRST: LazyLock<[u64; 2]> = LazyLock::new(|| [0; 2].map(|_| RandomState::new().hash_one(0)));
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = FIRST.map(|first| u128::from(stir(first.wrapping_add(count))));
    uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes()).into_uuid()
}

/// Each number becomes another, and neighbours have nothing in common: SplitMix64.
fn stir(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The decoded names and values of a query string, in order. A name without `=` has an empty value.
pub fn query_pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

/// Undoes `%41` and `+`. What is not valid stays as it is: no parameter of ours means anything then.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = || u8::from_str_radix(std::str::from_utf8(tail.get(..2)?).ok()?, 16).ok();
        match (first, escaped()) {
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
