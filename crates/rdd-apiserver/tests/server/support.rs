//! A server for one test, and clients for it: our own client, raw HTTP/1.1, and HTTP/2.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::request::Parts as Head;
use http_body_util::Empty;
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rdd_apiserver::{
    auth::{Authenticators, Identity, Token, Tokens},
    health::Health,
    request::{Answer, Class, Classified, Found, Handler, Request, verb_of},
    respond::{self, Body, Response},
    serve::{self, Limits, Parts, Server},
    tls::Tls,
    version::{self, Version},
};
use rdd_client::{Client, Kubeconfig};
use rdd_stdx::{clock::SystemClock, task::Group};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The timeout of every wait in these tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) handler: Arc<TestHandler>,
    pub(crate) admin: Token,
    pub(crate) user: Token,
    pub(crate) tls: Arc<Tls>,
    _folder: tempfile::TempDir,
}

/// A handler whose behavior depends on the path.
#[derive(Default)]
pub(crate) struct TestHandler {
    /// The number of requests to `/slow` that have begun.
    pub(crate) begun: AtomicUsize,
    /// The number of requests to `/work` that have read their body.
    pub(crate) worked: Arc<AtomicUsize>,
    /// Each permit completes one request to `/slow` or `/work`.
    pub(crate) gate: Arc<GateInner>,
}

pub(crate) struct GateInner(pub(crate) Semaphore);

impl Default for GateInner {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

/// More than any HTTP/2 flow-control window, so that the client has to read before the response is complete.
pub(crate) const LARGE_BYTES: usize = 5_000_000;

impl Handler for TestHandler {
    fn classify(&self, head: &Head) -> (Classified, Found) {
        let classified = match head.uri.path() {
            path if path.starts_with("/watch") => Classified { verb: "WATCH", class: Class::Endless },
            // All of them, also the slow ones: a request that is wrongly classified as brief must work too.
            _ if head.method == http::Method::GET => Classified { verb: "GET", class: Class::Brief },
            _ => Classified { verb: verb_of(&head.method), class: Class::Bounded },
        };
        (classified, None)
    }

    fn paths(&self) -> Vec<String> {
        vec!["/echo".to_owned()]
    }

    fn handle(&self, mut request: Request) -> Answer {
        let gate = self.gate.clone();
        match request.head.uri.path() {
            "/echo" => Answer::later(async move {
                match request.read_body().await {
                    Ok(body) => text(format!("{} bytes", body.len())),
                    Err(status) => respond::status(&status),
                }
            }),
            "/whoami" => Answer::later(async move {
                text(format!("{} {}", request.identity.name(), request.identity.groups().join(",")))
            }),
            "/debug" => Answer::later(async move { text(format!("{request:?}")) }),
            "/slow" => {
                self.begun.fetch_add(1, Ordering::SeqCst);
                Answer::later(async move {
                    gate.0.acquire().await.unwrap().forget();
                    text("done".to_owned())
                })
            }
            "/work" => {
                let begun = Arc::clone(&self.worked);
                Answer::later(async move {
                    request.read_body().await.unwrap();
                    begun.fetch_add(1, Ordering::SeqCst);
                    gate.0.acquire().await.unwrap().forget();
                    text("done".to_owned())
                })
            }
            "/large" => Answer::later(async { text("x".repeat(LARGE_BYTES)) }),
            "/watch" => Answer::later(async { Response::new(Body::new(endless())) }),
            "/stuck" => Answer::later(async { Response::new(Body::new(endless())) }),
            "/stuck-at-once" => Answer::Now(Response::new(Body::new(endless()))),
            "/panic" => Answer::later(async { panic!("on purpose") }),
            "/panic-at-once" => panic!("at once, on purpose"),
            "/panic-in-body" => Answer::later(async { Response::new(Body::new(panicking())) }),
            path => Answer::Now(match path.strip_prefix("/status/").and_then(|code| code.parse().ok()) {
                Some(code) => respond::content(code, respond::TEXT, "refused".to_owned()),
                None => respond::not_found(),
            }),
        }
    }
}

fn text(text: String) -> Response {
    respond::content(http::StatusCode::OK, respond::TEXT, text)
}

type Item = Result<Frame<Bytes>, respond::BoxError>;

/// A body made of a function that gets the number of earlier polls.
struct Polled<F>(usize, F);

impl<F: FnMut(usize) -> std::task::Poll<Option<Item>> + Unpin> hyper::body::Body for Polled<F> {
    type Data = Bytes;
    type Error = respond::BoxError;

    fn poll_frame(mut self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<Option<Item>> {
        self.0 += 1;
        let count = self.0;
        (self.1)(count)
    }
}

fn line() -> std::task::Poll<Option<Item>> {
    std::task::Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"event\n")))))
}

fn endless() -> impl hyper::body::Body<Data = Bytes, Error = respond::BoxError> {
    Polled(0, |count| if count == 1 { line() } else { std::task::Poll::Pending })
}

fn panicking() -> impl hyper::body::Body<Data = Bytes, Error = respond::BoxError> {
    Polled(0, |count| if count == 1 { line() } else { panic!("in the body, on purpose") })
}

pub(crate) fn mk_version() -> Version {
    Version {
        major: "1".to_owned(),
        minor: "35".to_owned(),
        git_version: "v1.35.4+rdd-0.0.0".to_owned(),
        git_commit: "0123456789abcdef".to_owned(),
        git_tree_state: "clean".to_owned(),
        build_date: "2026-01-01T00:00:00Z".to_owned(),
        go_version: "rustc 1.95.0".to_owned(),
        compiler: "rustc".to_owned(),
        platform: version::platform(),
    }
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_limited(limit: impl FnOnce(&mut Limits)) -> Self {
        Self::start_with(|parts| limit(&mut parts.limits)).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Parts)) -> Self {
        crate::log::keep();
        let folder = tempfile::tempdir().unwrap();
        let clock = SystemClock::shared();
        let tls = Arc::new(Tls::open(&folder.path().join("tls"), clock.clone(), Box::new(|_| {})).unwrap());
        let (admin, user) = (Token::random(), Token::random());
        let tokens = Tokens::new([(admin.clone(), Identity::admin()), (user.clone(), Identity::user())]);
        let handler = Arc::new(TestHandler::default());
        let mut parts = Parts {
            tls,
            authenticators: Authenticators::standard(tokens),
            health: Health::default(),
            version: mk_version(),
            figures: Vec::new(),
            backup: None,
            handler: handler.clone(),
            limits: Limits::default(),
            clock,
        };
        change(&mut parts);
        let tls = parts.tls.clone();
        let server = Server::start(serve::bind(0).await.unwrap(), parts);
        Self { server, handler, admin, user, tls, _folder: folder }
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.address().port()
    }

    pub(crate) fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::for_daemon(self.port(), &self.tls.bundle(), self.admin.reveal(), self.user.reveal())
    }

    pub(crate) fn client(&self) -> Client {
        Client::from_kubeconfig(&self.kubeconfig(), None).unwrap().with_timeout(PATIENCE)
    }

    /// Sends a GET with the administrator's token; returns code and body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let response = self.client().get(path).await.unwrap();
        (response.status.as_u16(), String::from_utf8(response.body.to_vec()).unwrap())
    }

    /// Opens a TLS connection without sending anything on it.
    pub(crate) async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_with(&[]).await
    }

    async fn connect_with(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(self.tls.bundle().as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.server.address()).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), stream).await.unwrap()
    }

    /// Opens an HTTP/2 connection; returns it with the task that drives it.
    pub(crate) async fn connect_http2(&self) -> (hyper::client::conn::http2::SendRequest<Empty<Bytes>>, Group<()>) {
        let stream = self.connect_with(&[b"h2"]).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let mut tasks = Group::default();
        tasks.spawn("http2 client", async move {
            let _ = connection.await;
        });
        (sender, tasks)
    }

    pub(crate) fn http2_request(&self, method: &str, path: &str) -> http::Request<Empty<Bytes>> {
        http::Request::builder()
            .method(method)
            .uri(format!("https://127.0.0.1:{}{path}", self.port()))
            .header("authorization", format!("Bearer {}", self.admin.reveal()))
            .body(Empty::new())
            .unwrap()
    }

    /// Builds a raw request with the administrator's token and a valid Host; `more` are further headers, each with its line end.
    pub(crate) async fn raw(&self, method: &str, path: &str, more: &str) -> String {
        let (port, token) = (self.port(), self.admin.reveal());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{more}\r\n"
        );
        self.send(&head).await
    }

    /// Sends these bytes and reads until the server closes.
    pub(crate) async fn send(&self, bytes: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        read_to_end(&mut stream).await
    }

    /// Waits until this many requests to `/slow` have begun.
    pub(crate) async fn until_begun(&self, count: usize) {
        let began = async {
            while self.handler.begun.load(Ordering::SeqCst) < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, began).await.unwrap();
    }
}

/// Reads until the server closes, with a timeout. A reset counts as closed.
pub(crate) async fn read_to_end(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the server closes the connection in time");
    String::from_utf8(bytes).unwrap()
}

/// The value of a header in a raw response.
pub(crate) fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let head = response.split("\r\n\r\n").next().unwrap();
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(": ")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

/// The status code of a raw response.
pub(crate) fn code(response: &str) -> u16 {
    response.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no response: {response:?}"))
}

/// The body of a raw response.
pub(crate) fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
