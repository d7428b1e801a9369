//! Tests `demo/hello` and `demo/websocket` through the API of a real daemon, served by the daemon itself and by another process.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, net::UnixListener, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
};

use rdd_stdx::process::background;
use rdd_testkit::{
    Daemon,
    api::{PATIENCE, Server, Wire},
    eventually,
};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{
    Message,
    client::{IntoClientRequest, client},
};

use crate::support::{Beside, SOON, daemon_with, until_code};

const MANAGERS: &str = "/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager";

/// The entry of a manager in the discovery ConfigMap.
fn entry(wire: &Wire, manager: &str) -> Value {
    let text = wire.get(MANAGERS).expect(200)["data"][manager].as_str().unwrap().to_owned();
    serde_json::from_str(&text).unwrap()
}

#[track_caller]
fn expect_greeting(wire: &Wire) {
    let reply = until_code(wire, "/passthrough/demo/hello/the/rest?of=it", 200);
    let text = reply.text();
    assert!(text.starts_with("Hello, world!\n") && text.contains("\nPath = \"/the/rest\"\n"), "{text}");
    // Finding O-8
    assert!(!text.contains("Authorization") && !text.contains("Bearer"), "{text}");
}

#[track_caller]
fn expect_web_socket(wire: &Wire) {
    let head = wire.head("GET", "/passthrough/demo/websocket");
    let header = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap().to_owned()
    };
    let mut request = format!("wss://{}/passthrough/demo/websocket", header("Host")).into_client_request().unwrap();
    request.headers_mut().insert("authorization", header("Authorization").parse().unwrap());
    let (mut socket, _) = client(request, wire.connect().unwrap()).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text("hello from websocket\n"));
    match socket.read().unwrap() {
        Message::Close(Some(frame)) => assert_eq!(u16::from(frame.code), 1000),
        other => panic!("a close was to come, not {other:?}"),
    }
}

#[track_caller]
fn expect_nothing_at(wire: &Wire, path: &str) {
    let reply = wire.get(path);
    assert_eq!((reply.code, &*reply.text()), (404, "404 page not found\n"), "{path}");
}

// Finding O-8
#[track_caller]
fn expect_that_strangers_are_refused(wire: &Wire) {
    let mut stream = wire.connect().unwrap();
    stream.say(b"GET /passthrough/demo/hello HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let answer = String::from_utf8(stream.until_closed(PATIENCE).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[test]
fn the_daemon_answers_for_its_own_controllers() {
    let daemon = daemon_with("demo");
    let wire = Wire::of(&daemon);
    expect_greeting(&wire);
    expect_web_socket(&wire);
    expect_that_strangers_are_refused(&wire);
    expect_nothing_at(&wire, "/passthrough/demo/other");
    expect_nothing_at(&wire, "/passthrough/engine/logs/x");

    let entry = entry(&wire, "embedded");
    assert_eq!(entry["enabledPassthroughs"], json!({"demo": ["hello", "websocket"]}));
    let server = wire.head("GET", "/").lines().find_map(|line| line.strip_prefix("Host: ").map(str::to_owned)).unwrap();
    assert_eq!(entry["passthroughEndpoint"], format!("https://{server}/passthrough/"), "it is where it works");
}

/// The program `app-controller`, which is `rdd` under another name.
fn app_controller(daemon: &Daemon) -> Command {
    let mut command = background(daemon.binary(), Path::new("/"));
    command.arg0("app-controller");
    command
}

#[test]
fn a_process_beside_the_daemon_answers_through_its_socket_and_not_once_it_is_gone() {
    let daemon = daemon_with("");
    let wire = Wire::of(&daemon);
    expect_nothing_at(&wire, "/passthrough/demo/hello");

    let mut beside = Beside::start(&daemon, app_controller(&daemon));
    expect_greeting(&wire);
    expect_web_socket(&wire);
    expect_that_strangers_are_refused(&wire);
    let entry = entry(&wire, "app");
    assert!(entry["passthroughEndpoint"].as_str().unwrap().ends_with("/passthrough/"), "{entry}");
    let socket = daemon.path("short_dir").join("controllers/app.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);

    beside.kill();
    until_code(&wire, "/passthrough/demo/hello", 404);
    let beside = Beside::start(&daemon, app_controller(&daemon));
    expect_greeting(&wire);
    beside.terminate();
    until_code(&wire, "/passthrough/demo/hello", 404);
}

// Finding A-13
#[test]
fn a_process_beside_the_daemon_takes_the_log_flags_of_kubernetes_programs() {
    let daemon = daemon_with("");
    let wire = Wire::of(&daemon);
    let log = daemon.home().join("mock.log");
    let mut command = background(daemon.binary(), Path::new("/"));
    command.arg0("mock-controller").args(["-v", "2", "--logtostderr=false"]);
    command.arg(format!("-log_file={}", log.display())).stderr(Stdio::piped());
    let beside = Beside::start(&daemon, command);
    eventually("the manager", SOON, || wire.get(MANAGERS).expect(200)["data"]["mock"].is_string().then_some(()));
    // A line at debug level shows that -v has an effect.
    let is_written = |text: &String| text.contains("starting") && text.starts_with('I');
    eventually("the log", SOON, || fs::read_to_string(&log).ok().filter(is_written));
    let said = beside.terminate_and_read();
    assert!(!said.contains("starting"), "what is in the file is not on standard error: {said}");
}

#[test]
fn a_registration_cannot_lead_the_daemon_to_another_socket() {
    let daemon = daemon_with("");
    let wire = Wire::of(&daemon);
    let own = entry(&wire, "embedded");
    let forged = |endpoint: &str| {
        let mut entry = own.clone();
        entry["enabledPassthroughs"] = json!({"evil": ["hello"]});
        entry["passthroughEndpoint"] = endpoint.into();
        entry.to_string()
    };
    let short_dir = daemon.path("short_dir");
    fs::create_dir_all(&short_dir).unwrap();
    // A listener that accepts no connection, so that an attempt to connect would be seen.
    let victim = UnixListener::bind(short_dir.join("docker.sock")).unwrap();
    victim.set_nonblocking(true).unwrap();
    for name in ["docker", "..docker", "a..docker", "a.b"] {
        let endpoint = format!("unix://{}", short_dir.join("docker.sock").display());
        let registered = wire.merge(MANAGERS, &json!({"data": {name: forged(&endpoint)}}));
        let reply = wire.get("/passthrough/evil/hello");
        assert!([404, 503].contains(&reply.code), "{name} {} {}", registered.code, reply.text());
        assert!(victim.accept().is_err(), "{name}");
    }
}

// Finding E-5
#[test]
fn a_controller_of_the_original_answers_at_the_port_of_localhost_that_it_registered() {
    let daemon = daemon_with("");
    let wire = Wire::of(&daemon);
    // The listener is in this process, which has the daemon's user: the daemon asks the kernel for the owner of the socket.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(SOON)).unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello").unwrap();
            let head = String::from_utf8(head).unwrap();
            // The daemon checks the health of the endpoint before it passes on requests.
            if !head.starts_with("GET /healthz ") {
                return head;
            }
        }
    });
    let place = format!("http://localhost:{port}/");
    let registered = json!({
        "healthPort": port,
        "metricsPort": port,
        "enabledControllers": null,
        "enabledPassthroughs": {"theirs": ["hello"]},
        "startTime": "2026-01-01T00:00:00Z",
        "healthEndpoint": place,
        "metricsEndpoint": place,
        "passthroughEndpoint": place,
    });
    wire.merge(MANAGERS, &json!({"data": {"original": registered.to_string()}})).expect(200);
    let reply = until_code(&wire, "/passthrough/theirs/hello/the/rest?of=it", 200);
    assert_eq!(reply.text(), "hello");
    let head = server.join().unwrap();
    assert!(head.starts_with("GET /theirs/hello/the/rest?of=it HTTP/1.1\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("authorization"), "{head}");
}
