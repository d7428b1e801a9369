//! Tests of the logs endpoint with a fake engine, over an independent WebSocket client and in memory.

use std::convert::Infallible;

use futures::stream;
use http::StatusCode;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rdd_docker::fake::{Effect, FakeEngine, Fault, NewContainer, Output as Printed, Refusal as Refuses, Route};
use rdd_stdx::{clock::SystemClock, task::Group};
use rdd_testkit::{api::TestApi, controllers::Stage};
use serde_json::json;
use tokio::io::DuplexStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{self, Message, client::IntoClientRequest},
};

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
}

#[test]
fn only_pages_of_this_server_may_read() {
    for (pairs, allowed) in [
        (&[("host", "127.0.0.1:6445")][..], true),
        (&[("host", "127.0.0.1:6445"), ("origin", "https://127.0.0.1:6445")], true),
        (&[("host", "LOCALHOST:1"), ("origin", "https://localhost:1")], true),
        (&[("host", "127.0.0.1:6445"), ("origin", "https://127.0.0.1:6446")], false),
        (&[("host", "127.0.0.1:6445"), ("origin", "https://evil.example")], false),
        (&[("host", "127.0.0.1:6445"), ("origin", "null")], false),
        (&[("host", ""), ("origin", "null")], false),
        (&[("origin", "https://a")], false),
    ] {
        assert_eq!(is_from_here(&headers(pairs)), allowed, "{pairs:?}");
    }
}

#[tokio::test]
async fn pieces_say_whose_they_are() {
    let piece = |output, text: &'static str| Ok(Chunk { output, bytes: Bytes::from_static(text.as_bytes()) });
    let broken = rdd_docker::Error::Name { kind: "container", name: "x y".to_owned() };
    let printed = [piece(Output::Out, "a"), piece(Output::Error, "b"), piece(Output::Terminal, "c"), Err(broken)];
    let told: Vec<_> = pieces(stream::iter(printed)).collect().await;
    let ok = |channel, text: &'static [u8]| Ok(StreamPiece { channel, bytes: Bytes::from_static(text) });
    let broken = Err("failed to copy container logs: \"x y\" is no name of a container".to_owned());
    assert_eq!(told, [ok(1, b"a"), ok(2, b"b"), ok(1, b"c"), broken]);
}

/// An API with an App, and an engine with one running container that has an object.
struct Scene {
    engine: FakeEngine,
    id: String,
    source: Source,
    // Dropped last: the fields above run on it.
    stage: Stage,
    _api: TestApi,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut NewContainer)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = FakeEngine::start(&folder.path().join("docker.sock")).unwrap();
        let mut new = NewContainer::sleeper("web", "box:1");
        change(&mut new);
        let id = engine.change(|world| {
            world.import_image(Some("box:1"), Default::default()).unwrap();
            let id = world.create_container(new).unwrap();
            world.start_container(&id).unwrap();
            id
        });
        let api = TestApi::start();
        let stage = Stage::over(&api, Vec::new);
        stage.block_on(furnish(stage.client(), &id));
        let connected = stage.block_on(Engine::connect(engine.socket(), SystemClock::shared())).unwrap();
        let source = Source::new(stage.client(), move || Some(connected.clone()));
        Self { engine, id, source, stage, _api: api, _folder: folder }
    }

    fn print(&self, output: Printed, text: &str) {
        self.engine.change(|world| world.write_log(&self.id, output, text)).unwrap();
    }

    /// The status and the text of a refused request.
    fn refusal(&self, id: &str, query: &str) -> (u16, String) {
        let opened = self.stage.block_on(self.source.open(id, query));
        opened.map(|_| (0, String::new())).unwrap_or_else(|(code, text)| (code.as_u16(), text.to_owned()))
    }

    /// The received messages while `change` acts on the engine, then the close code and reason.
    fn read(&self, query: &str, change: impl FnOnce(&mut Reader<'_>)) -> (Vec<Vec<u8>>, u16, String) {
        let mut reader = Reader { socket: self.open(query), pieces: Vec::new(), scene: self };
        change(&mut reader);
        reader.read_out()
    }

    fn open(&self, query: &str) -> Connected {
        self.open_as(query, "").0
    }

    /// Opens the WebSocket; returns it with the subprotocol that the server selected.
    fn open_as(&self, query: &str, offered: &str) -> (Connected, String) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let sockets = Sockets::default();
        let endpoint = passthrough(self.source.clone(), &sockets);
        let path = format!("ws://localhost/{}{query}", self.id);
        self.stage.block_on(async {
            let mut tasks = Group::default();
            tasks.spawn("sockets", async move { sockets.serve_all().await });
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let request = request.map(|body| body.map_err(Into::into).boxed_unsync());
                let answer = (endpoint.handler)(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let serving = http1::Builder::new().serve_connection(TokioIo::new(far), service).with_upgrades();
            tasks.spawn("server", async move { drop(serving.await) });
            let mut request = path.into_client_request().unwrap();
            if !offered.is_empty() {
                request.headers_mut().insert("sec-websocket-protocol", offered.parse().unwrap());
            }
            let (socket, answer) = client_async(request, near).await.unwrap();
            let taken = answer.headers().get("sec-websocket-protocol").map(|name| name.to_str().unwrap().to_owned());
            (Connected { socket, _tasks: tasks }, taken.unwrap_or_default())
        })
    }
}

async fn furnish(client: Client, id: &str) {
    use kube::api::PostParams;
    let definitions = Api::all(client.clone());
    for crd in ["app", "container"].iter().flat_map(|controller| rdd_types::crds_of(controller)) {
        definitions.create(&PostParams::default(), &crd).await.unwrap();
    }
    let app = json!({"metadata": {"name": "app"}, "spec": {"namespace": "default"}});
    let app: App = serde_json::from_value(app).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &app).await.unwrap();
    let container: Container = serde_json::from_value(json!({"metadata": {"name": id}})).unwrap();
    Api::namespaced(client, "default").create(&PostParams::default(), &container).await.unwrap();
}

struct Connected {
    socket: WebSocketStream<DuplexStream>,
    _tasks: Group<()>,
}

struct Reader<'s> {
    socket: Connected,
    pieces: Vec<Vec<u8>>,
    scene: &'s Scene,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<tungstenite::Result<Message>> {
        self.scene.stage.block_on(async { self.socket.socket.next().await })
    }

    /// Reads until this text has arrived.
    fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.pieces.concat()).contains(text) {
            match self.next() {
                Some(Ok(Message::Binary(bytes))) => self.pieces.push(bytes.to_vec()),
                other => panic!("{text:?} was to come, not {other:?}"),
            }
        }
    }

    fn read_out(mut self) -> (Vec<Vec<u8>>, u16, String) {
        loop {
            match self.next() {
                Some(Ok(Message::Binary(bytes))) => self.pieces.push(bytes.to_vec()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    return (self.pieces, frame.code.into(), frame.reason.to_string());
                }
                // 1005 means that the close frame has no code.
                Some(Ok(Message::Close(None))) => return (self.pieces, 1005, String::new()),
                other => panic!("binary messages and an end, not {other:?}"),
            }
        }
    }
}

#[test]
fn a_log_is_followed_until_its_container_ends() {
    let scene = Scene::new();
    scene.print(Printed::Stdout, "before");
    let (pieces, code, reason) = scene.read("", |reader| {
        reader.until("before\n");
        scene.print(Printed::Stderr, "after");
        reader.until("after\n");
        scene.engine.change(|world| world.exit_container(&scene.id, 0)).unwrap();
    });
    assert_eq!(String::from_utf8(pieces.concat()).unwrap(), "before\nafter\n");
    assert_eq!((code, reason.as_str()), (1000, "Closing connection"));
}

#[test]
fn the_streams_are_told_apart_and_tail_is_the_engines() {
    let scene = Scene::new();
    scene.print(Printed::Stdout, "one");
    scene.print(Printed::Stderr, "two");
    scene.print(Printed::Stdout, "three");
    let (pieces, code, _) = scene.read("?follow=false&streams=separate&tail=2", |_| ());
    assert_eq!((pieces, code), (vec![b"\x02two\n".to_vec(), b"\x01three\n".to_vec()], 1000));
}

// Finding E-11
#[test]
fn a_subprotocol_of_kubernetes_says_how_messages_are_written() {
    let scene = Scene::new();
    scene.print(Printed::Stdout, "one");
    scene.print(Printed::Stderr, "two");
    let (socket, taken) = scene.open_as("?follow=false", "v5.channel.k8s.io, v4.channel.k8s.io");
    assert_eq!(taken, "v5.channel.k8s.io");
    let (mut pieces, code, _) = Reader { socket, pieces: Vec::new(), scene: &scene }.read_out();
    assert_eq!(pieces.pop().unwrap(), b"\x03{\"metadata\":{},\"status\":\"Success\"}");
    assert_eq!((pieces, code), (vec![b"\x01one\n".to_vec(), b"\x02two\n".to_vec()], 1000));
}

#[test]
fn an_engine_that_breaks_off_ends_it_with_its_own_code() {
    let mut scene = Scene::new();
    scene.print(Printed::Stdout, "before");
    let mut reader = Reader { socket: scene.open(""), pieces: Vec::new(), scene: &scene };
    reader.until("before\n");
    let Reader { socket, pieces, .. } = reader;
    scene.engine.crash();
    let (_, code, reason) = Reader { socket, pieces, scene: &scene }.read_out();
    assert_eq!(code, 1011, "{reason}");
    assert!(reason.starts_with("failed to copy container logs: "), "{reason}");
}

#[test]
fn what_is_wrong_is_told_in_its_order() {
    let scene = Scene::new();
    let id = scene.id.as_str();
    let plain = |code: u16, text: &str| (code, text.to_owned());
    assert_eq!(scene.refusal("web", "follow=x"), plain(400, "Invalid container ID"));
    assert_eq!(scene.refusal("", ""), plain(400, "Invalid container ID"));
    assert_eq!(scene.refusal("abc", "follow=x"), plain(404, "Container not found"));
    assert_eq!(scene.refusal(id, "follow=x"), plain(400, "Invalid follow parameter"));
    let unconnected = Source::new(scene.stage.client(), || None);
    let refused = scene.stage.block_on(unconnected.open(id, "")).unwrap_err();
    assert_eq!(refused, (StatusCode::SERVICE_UNAVAILABLE, "Docker watcher not running"));

    for (route, status, code, text) in [
        (Route::ContainerInspect, 404, 404, "Container not found"),
        (Route::ContainerInspect, 400, 400, "Invalid argument"),
        (Route::ContainerInspect, 500, 500, "Failed to inspect container"),
        (Route::ContainerLogs, 404, 404, "Container not found"),
        (Route::ContainerLogs, 400, 400, "Invalid argument"),
        (Route::ContainerLogs, 500, 500, "Failed to get container logs"),
    ] {
        let refuses = Refuses::new(StatusCode::from_u16(status).unwrap(), "no");
        scene.engine.fault(Fault::once(route, Effect::Refuse(refuses)));
        assert_eq!(scene.refusal(id, ""), plain(code, text), "{route:?} {status}");
    }
}

#[test]
fn a_client_that_goes_is_forgotten() {
    let scene = Scene::new();
    scene.print(Printed::Stdout, "before");
    let mut reader = Reader { socket: scene.open(""), pieces: Vec::new(), scene: &scene };
    reader.until("before\n");
    let gone = scene.stage.block_on(async { reader.socket.socket.close(None).await });
    assert!(gone.is_ok(), "{gone:?}");
    let end = reader.read_out();
    assert_eq!(end.1, 1005, "a farewell without a code is returned as it is");
}
