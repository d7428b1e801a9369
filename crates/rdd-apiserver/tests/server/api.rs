//! The complete API behind the server: watches over WebSockets, impersonation, and webhooks that hang.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _, stream::FuturesUnordered};
use http::HeaderMap;
use http_body_util::Full;
use rdd_apiserver::{
    auth::Identity,
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{Core, Parts},
    serve::Drained,
};
use rdd_stdx::clock::SystemClock;
use rdd_store::MemoryStore;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message, client::IntoClientRequest as _, protocol::CloseFrame},
};
use tower_service::Service as _;

use crate::support::{PATIENCE, TestServer, body, code, mk_version};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

struct World {
    server: TestServer,
    core: Core,
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

impl World {
    async fn start() -> Self {
        let core = Core::open(Parts {
            store: Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared())),
            clock: SystemClock::shared(),
            version: mk_version(),
            endowment: Endowment {
                namespaces: vec!["default".to_owned()],
                ca_bundle: Arc::new(String::new),
                port: 6443,
            },
            tokens: None,
            reviewer: TokenReviewer::new(|_, _| None),
            plugins: Vec::new(),
        });
        let core = core.await.unwrap();
        let endpoints = core.endpoints();
        let server = TestServer::start_with(|parts| parts.handler = endpoints).await;
        Self { server, core }
    }

    async fn create(&self, name: &str) {
        self.create_as(name, "").await;
    }

    /// Sends a create with further headers; returns the response.
    async fn create_as(&self, name: &str, more: &str) -> String {
        let object = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
        self.post(MAPS, &object, more).await
    }

    async fn post(&self, path: &str, object: &str, more: &str) -> String {
        let (port, token, length) = (self.server.port(), self.server.admin.reveal(), object.len());
        self.server
            .send(&format!(
                "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
                 Content-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n{object}"
            ))
            .await
    }

    /// Opens a WebSocket with these headers, as OkHttp does; returns it with the response's headers.
    async fn dial(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<(Socket, HeaderMap), (u16, String)> {
        let url = format!("wss://127.0.0.1:{}{path}", self.server.port());
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let dialled = tokio_tungstenite::client_async(request, self.server.connect().await);
        match tokio::time::timeout(PATIENCE, dialled).await.expect("an answer in time") {
            Ok((socket, answer)) => Ok((socket, answer.headers().clone())),
            Err(tungstenite::Error::Http(answer)) => {
                let text = answer.body().as_deref().map(|body| String::from_utf8_lossy(body).into_owned());
                Err((answer.status().as_u16(), text.unwrap_or_default()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a watch as the administrator.
    async fn watch(&self, query: &str, headers: &[(&'static str, &str)]) -> Socket {
        let token = format!("Bearer {}", self.server.admin.reveal());
        let headers: Vec<_> = [("authorization", token.as_str())].into_iter().chain(headers.iter().copied()).collect();
        let path = format!("{MAPS}?watch=true&fieldSelector=metadata.name!%3Dkube-root-ca.crt{query}");
        self.dial(&path, &headers).await.expect("a WebSocket").0
    }
}

async fn next(socket: &mut Socket) -> Message {
    let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("a message in time");
    message.expect("a message before the end").unwrap()
}

/// Returns type and name of the next event, which is one text message.
async fn event(socket: &mut Socket) -> String {
    let text = match next(socket).await {
        Message::Text(text) => text,
        other => panic!("an event is text, not {other:?}"),
    };
    assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
    let event: Value = serde_json::from_str(&text).unwrap();
    let name = event.pointer("/object/metadata/name").or_else(|| event.pointer("/object/code")).unwrap();
    format!("{} {}", event["type"].as_str().unwrap(), name.to_string().trim_matches('"'))
}

/// Returns the code of the close frame.
async fn closed(socket: &mut Socket) -> u16 {
    match next(socket).await {
        Message::Close(Some(CloseFrame { code, .. })) => code.into(),
        other => panic!("an end with a code, not {other:?}"),
    }
}

// Finding E-11
#[tokio::test]
async fn a_watch_over_a_websocket_sends_one_text_message_per_event() {
    let world = World::start().await;
    let origin = format!("https://127.0.0.1:{}", world.server.port());
    world.create("a").await;
    world.create("b").await;
    let mut socket = world.watch("", &[("origin", &origin)]).await;
    assert_eq!([event(&mut socket).await, event(&mut socket).await], ["ADDED a", "ADDED b"]);
    world.create("c").await;
    assert_eq!(event(&mut socket).await, "ADDED c");
    socket.send(Message::Ping("p".into())).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Pong("p".into()));
    socket.send(Message::text("ignored")).await.unwrap();
    let deleted = world.server.raw("DELETE", &format!("{MAPS}/a"), "").await;
    assert_eq!(code(&deleted), 200);
    assert_eq!(event(&mut socket).await, "DELETED a");
    socket.close(None).await.unwrap();
    assert_eq!(next(&mut socket).await, Message::Close(None), "the farewell is returned");
}

// Finding E-11
#[tokio::test]
async fn the_end_of_a_watch_closes_its_websocket() {
    let world = World::start().await;
    let future = "&resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let (mut timed, mut failed) = tokio::join!(world.watch("&timeoutSeconds=1", &[]), world.watch(future, &[]));
    assert_eq!(closed(&mut timed).await, 1000);
    assert_eq!((event(&mut failed).await.as_str(), closed(&mut failed).await), ("ERROR 504", 1000));
    let mut binary = world.watch("", &[("accept", "application/vnd.kubernetes.protobuf;stream=watch")]).await;
    world.create("a").await;
    let Message::Binary(event) = next(&mut binary).await else { panic!("protobuf is binary") };
    assert!(event.starts_with(b"\n\x05ADDED"), "a message needs no length before it: {event:?}");
    let ending = world.server.server.shutdown(PATIENCE);
    let (Drained { cut_off, .. }, code) = tokio::join!(ending, closed(&mut binary));
    assert_eq!((cut_off, code), (0, 1001));
}

// Finding E-11
#[tokio::test]
async fn a_token_may_come_as_a_subprotocol_and_is_never_answered_with_or_logged() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let world = World::start().await;
    let path = format!("{MAPS}?watch=true");
    let secret = format!("{BEARER_PREFIX}{}", URL_SAFE_NO_PAD.encode(world.server.user.reveal()));
    let offered = format!("base64.binary.k8s.io, {secret}");
    let (_socket, headers) = world.dial(&path, &[("sec-websocket-protocol", &offered)]).await.unwrap();
    assert_eq!(headers["sec-websocket-protocol"], "base64.binary.k8s.io");

    let authorization = format!("Bearer {}", world.server.admin.reveal());
    let known = ("authorization", authorization.as_str());
    let (_socket, headers) =
        world.dial(&path, &[known, ("sec-websocket-protocol", &offered)]).await.expect("the header counts first");
    assert_eq!(headers["sec-websocket-protocol"], "base64.binary.k8s.io");

    let wrong = format!("base64.binary.k8s.io, {BEARER_PREFIX}{}", URL_SAFE_NO_PAD.encode("wrong"));
    let twice = format!("{offered}, {secret}");
    for refused in [secret.as_str(), &wrong, &twice, "base64.binary.k8s.io"] {
        let answer = world.dial(&path, &[("sec-websocket-protocol", refused)]).await;
        assert_eq!(answer.map(drop).unwrap_err().0, 401, "{refused}");
    }
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-WebSocket-Protocol: {offered}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(code(&world.server.send(&request).await), 401, "only a WebSocket may");
    for (name, foreign) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let answer = world.dial(&path, &[known, (name, foreign)]).await;
        assert_eq!(answer.map(drop).unwrap_err().0, 403, "{name}");
    }
    let encoded = secret.strip_prefix(BEARER_PREFIX).unwrap();
    let logged = crate::log::text();
    assert!(!logged.contains(encoded) && !logged.contains(world.server.user.reveal()));
}

// Finding E-11
#[tokio::test]
async fn a_handshake_that_is_wrong_is_answered_with_a_status() {
    let world = World::start().await;
    let path = format!("{MAPS}?watch=true");
    let authorization = format!("Bearer {}", world.server.admin.reveal());
    let known = ("authorization", authorization.as_str());
    for (wrong, message) in [
        (("sec-websocket-version", "8"), "version 13"),
        (("sec-websocket-key", "short"), "Sec-WebSocket-Key"),
        (("sec-websocket-protocol", "a, b"), "one subprotocol"),
    ] {
        let (code, text) = world.dial(&path, &[known, wrong]).await.map(drop).unwrap_err();
        assert!(code == 400 && text.contains(r#""kind":"Status""#) && text.contains(message), "{code} {text}");
    }
    let (mut sender, _connection) = world.server.connect_http2().await;
    let listed = sender.send_request(world.server.http2_request("GET", MAPS)).await.unwrap();
    assert_eq!(listed.status(), 200);
}

// Finding E-18
#[tokio::test]
async fn a_request_in_the_name_of_another_is_that_others() {
    let world = World::start().await;
    let review = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}"#;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let more = "Impersonate-User: jane\r\nImpersonate-Group: dev\r\nImpersonate-Extra-Scopes: view\r\n";
    let answer = world.post(path, review, more).await;
    let answer: Value = serde_json::from_str(body(&answer)).unwrap();
    assert_eq!(
        answer["status"]["userInfo"],
        serde_json::json!({
            "username": "jane", "groups": ["dev", "system:authenticated"], "extra": {"scopes": ["view"]},
        })
    );
    assert_eq!(code(&world.create_as("a", "Impersonate-User: jane\r\n").await), 201);
    assert_eq!(code(&world.create_as("b", "Impersonate-Group: dev\r\n").await), 400, "without a user");
}

/// A webhook for ConfigMaps with the label `hang` only.
const HANGING_HOOK: &str = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
    "metadata":{"name":"hanging"},"webhooks":[{"name":"hanging.example.com","sideEffects":"None",
    "admissionReviewVersions":["v1"],"timeoutSeconds":30,"objectSelector":{"matchLabels":{"hang":"yes"}},
    "clientConfig":{"service":{"namespace":"default","name":"hook","path":"/hang"}},
    "rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}]}"#;

/// The maximum duration of a write to another object meanwhile.
const OTHER_WRITE_TIME: Duration = Duration::from_secs(1);

// Finding A-8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_200_creates_hang_in_a_webhook_another_write_is_answered_within_a_second() {
    const CREATES: usize = 200;
    let world = World::start().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let hang: rdd_apiserver::admission::webhook::Handler = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    });
    let _hook = world.core.webhooks().register("default", "hook", "/hang", hang);
    let configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(code(&world.post(configurations, HANGING_HOOK, "").await), 201);

    let door = world.server.server.in_process(Identity::admin());
    let mut creates: FuturesUnordered<_> = (0..CREATES)
        .map(|number| {
            let object = format!(
                r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m{number}","labels":{{"hang":"yes"}}}}}}"#
            );
            let request = http::Request::post(MAPS).header("content-type", "application/json");
            door.clone().call(request.body(Full::new(Bytes::from(object))).unwrap())
        })
        .collect();
    let mut refused = 0;
    let settled = async {
        while refused + asked.load(Ordering::SeqCst) < CREATES {
            let Some(Some(Ok(response))) = creates.next().now_or_never() else {
                tokio::task::yield_now().await;
                continue;
            };
            assert_eq!(response.status(), 429);
            refused += 1;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.expect("each create hangs in the webhook or is refused");
    assert!(asked.load(Ordering::SeqCst) > 0, "some hang");

    let other = tokio::time::timeout(OTHER_WRITE_TIME, world.create_as("other", "")).await;
    assert_eq!(code(&other.expect("another write does not wait for the webhook")), 201);
    assert!(creates.next().now_or_never().is_none(), "the others still hang");
}
