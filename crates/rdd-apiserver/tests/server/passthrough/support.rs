//! One test endpoint in two places: as a function in the server's process, and behind a Unix socket.

use std::{
    collections::HashMap,
    convert::Infallible,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Request, StatusCode, header};
use http_body_util::StreamBody;
use hyper::{body::Frame, service::service_fn};
use hyper_util::rt::TokioIo;
use rdd_apiserver::{
    passthrough::{Directory, Endpoint, Looked, Passthrough, Stopping, Target},
    respond::{self, Body, Response},
};
use rdd_stdx::task::Group;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener},
};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::derive_accept_key, protocol::Role},
};

use crate::support::{PATIENCE, TestServer};

/// The paths of the two places in [`World`]; every test runs with both.
pub(crate) const PLACES: [&str; 2] = ["/passthrough/here/all", "/passthrough/there/all"];

/// A server with passthroughs, and their endpoints.
pub(crate) struct World {
    pub(crate) server: TestServer,
    pub(crate) listener: Listener,
    _loopback: Group<()>,
    _folder: tempfile::TempDir,
}

/// The tasks that use upgraded connections, after their handlers have responded.
type Talking = Arc<Mutex<Group<()>>>;

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(limit: impl FnOnce(&mut rdd_apiserver::serve::Limits)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::start(folder.path().join("l.sock"));
        let talking = Talking::default();
        let here: Endpoint = Arc::new(move |request| {
            let answer = behave(request.map(Body::from), &talking).map(Body::boxed);
            Box::pin(async move { answer })
        });
        let there = |path: PathBuf| Target::Socket { path, under: "/there/all".to_owned() };
        let loopback = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = loopback.local_addr().unwrap().port();
        let mut loopback_task = Group::default();
        loopback_task.spawn("loopback", accept_tcp(loopback, Arc::default()));
        let directory = Fixed(HashMap::from([
            ("loopback/all", Ok(Target::Loopback { port, under: "/there/all".to_owned() })),
            ("here/all", Ok(Target::Here(here))),
            ("there/all", Ok(there(listener.path.clone()))),
            ("dead/missing", Ok(there(folder.path().join("nobody.sock")))),
            ("dead/left", Ok(there(left_behind(folder.path().join("left.sock"))))),
            ("lookup/fails", Err("the list of managers cannot be read".to_owned())),
        ]));
        let server = TestServer::start_with(|parts| {
            limit(&mut parts.limits);
            parts.handler = Arc::new(Passthrough::new(Arc::new(directory), Arc::clone(&parts.handler)));
        });
        Self { server: server.await, listener, _loopback: loopback_task, _folder: folder }
    }

    /// Sends a request as the administrator, without reading the response.
    pub(crate) async fn begin(&self, method: &str, path: &str, more: &str) -> TlsStream<TcpStream> {
        let mut stream = self.server.connect().await;
        let (port, token) = (self.server.port(), self.server.admin.reveal());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }

    /// Opens an upgraded connection that echoes what it receives.
    pub(crate) async fn converse(&self, place: &str) -> TlsStream<TcpStream> {
        let mut stream = self.begin("GET", &format!("{place}/talk"), "Connection: Upgrade\r\nUpgrade: echo\r\n").await;
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.to_lowercase().contains("upgrade: echo"), "{head}");
        stream
    }
}

/// Reads until the text ends with `end`.
pub(crate) async fn read_until(stream: &mut TlsStream<TcpStream>, end: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        while !read.ends_with(end.as_bytes()) {
            let mut byte = [0];
            match stream.read(&mut byte).await {
                Ok(1) => read.push(byte[0]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&read)),
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("waited for {end:?}"));
    String::from_utf8(read).unwrap()
}

/// Creates a socket file without a listener.
fn left_behind(path: PathBuf) -> PathBuf {
    drop(UnixListener::bind(&path).unwrap());
    path
}

struct Fixed(HashMap<&'static str, Result<Target, String>>);

impl Directory for Fixed {
    fn find(&self, controller: &str, endpoint: &str) -> Looked {
        let found = self.0.get(format!("{controller}/{endpoint}").as_str()).cloned().transpose();
        Box::pin(async move { found })
    }
}

/// Serves on a Unix socket, as a manager in another process does.
pub(crate) struct Listener {
    path: PathBuf,
    open: Arc<AtomicUsize>,
    _task: Group<()>,
}

impl Listener {
    fn start(path: PathBuf) -> Self {
        let socket = UnixListener::bind(&path).unwrap();
        let open = Arc::new(AtomicUsize::new(0));
        let mut task = Group::default();
        task.spawn("listener", accept(socket, Arc::clone(&open)));
        Self { path, open, _task: task }
    }

    /// Waits until the listener has no open connections.
    pub(crate) async fn until_alone(&self) {
        let alone = async {
            while self.open.load(Ordering::SeqCst) > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, alone).await.expect("every connection to the listener ends");
    }
}

async fn accept(socket: UnixListener, open: Arc<AtomicUsize>) {
    let mut connections = Group::default();
    loop {
        let (stream, _) = socket.accept().await.unwrap();
        connections.spawn("connection", serve(stream, Arc::clone(&open)));
    }
}

async fn accept_tcp(socket: TcpListener, open: Arc<AtomicUsize>) {
    let mut connections = Group::default();
    loop {
        let (stream, _) = socket.accept().await.unwrap();
        connections.spawn("connection", serve(stream, Arc::clone(&open)));
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, open: Arc<AtomicUsize>) {
    open.fetch_add(1, Ordering::SeqCst);
    // The connection is open until its upgraded part has ended too.
    let talking = Talking::default();
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().unwrap().as_str();
        head.uri = path.strip_prefix("/there/all").unwrap().parse().unwrap();
        let answer = behave(Request::from_parts(head, Body::new(body)), &talking);
        async move { Ok::<_, Infallible>(answer) }
    });
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // Tests disconnect clients on purpose.
    let _ = serving.with_upgrades().await;
    let mut talking = std::mem::take(&mut *talking.lock().unwrap());
    while talking.next().await.is_some() {}
    open.fetch_sub(1, Ordering::SeqCst);
}

/// Responds as the path requires.
fn behave(mut request: Request<Body>, talking: &Talking) -> Response {
    match request.uri().path() {
        "/echo" => Response::new(request.into_body()),
        "/endless" => Response::new(endless()),
        "/redirect" => {
            let mut response = respond::content(StatusCode::FOUND, respond::TEXT, "over there\n");
            response.headers_mut().insert(header::LOCATION, "http://127.0.0.1:1/elsewhere".parse().unwrap());
            response
        }
        // An upgrade that the client did not request.
        "/unasked" => switch("echo"),
        "/talk" => {
            let upgrade = hyper::upgrade::on(&mut request);
            spawn(talking, &request, async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let mut bytes = [0; 1024];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    stream.write_all(&bytes[..count]).await.unwrap();
                }
            });
            switch("echo")
        }
        "/socket" => {
            let key = request.headers().get(header::SEC_WEBSOCKET_KEY).unwrap().as_bytes().to_vec();
            let upgrade = hyper::upgrade::on(&mut request);
            spawn(talking, &request, async move {
                let stream = TokioIo::new(upgrade.await.unwrap());
                let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
                while let Some(Ok(message)) = socket.next().await {
                    if message.is_text() || message.is_binary() {
                        socket.send(message).await.unwrap();
                    }
                }
            });
            let mut response = switch("websocket");
            response.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, derive_accept_key(&key).parse().unwrap());
            response
        }
        _ => respond::content(StatusCode::OK, respond::TEXT, shown(&request)),
    }
}

fn switch(protocol: &'static str) -> Response {
    let mut response = Response::new(respond::full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, "Upgrade".parse().unwrap());
    response.headers_mut().insert(header::UPGRADE, protocol.parse().unwrap());
    response
}

/// Runs a conversation. In the server's process it ends when the request's stop signal is set.
fn spawn(talking: &Talking, request: &Request<Body>, talk: impl Future<Output = ()> + Send + 'static) {
    let stopping = request.extensions().get::<Stopping>().cloned();
    talking.lock().unwrap().spawn("talk", async move {
        match stopping {
            Some(Stopping(stopping)) => tokio::select! {
                () = talk => {}
                () = stopping.cancelled() => {}
            },
            None => talk.await,
        }
    });
}

fn endless() -> Body {
    let first = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"first\n")))]);
    Body::new(StreamBody::new(first.chain(futures_util::stream::pending())))
}

/// The received request as text.
fn shown(request: &Request<Body>) -> String {
    let mut lines = vec![format!("{} {}", request.method(), request.uri())];
    let headers = request.headers().iter();
    lines.extend(headers.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())));
    lines.join("\n") + "\n"
}
