//! Tests logs of real containers, read with a third-party WebSocket library.

use std::time::Duration;

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::{
    api::{Ask, Server, Stream},
    eventually,
};
use tokio_tungstenite::tungstenite::{
    Message, WebSocket,
    client::{IntoClientRequest, client},
};

use crate::{
    client::{Gui, SOON, mirrors},
    engine,
};

/// A log that is being read.
struct Log(WebSocket<Stream>);

impl Gui {
    fn log_path(id: &str, query: &str) -> String {
        format!("/passthrough/engine/logs/{id}{query}")
    }

    /// Opens the log of a container like the GUI.
    #[track_caller]
    fn log(&self, id: &str, query: &str) -> Log {
        let head = self.wire.head("GET", "/");
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
        let address = format!("wss://{}{}", header("Host"), Self::log_path(id, query));
        let mut request = address.into_client_request().unwrap();
        request.headers_mut().insert("authorization", header("Authorization").parse().unwrap());
        request.headers_mut().insert("origin", format!("https://{}", header("Host")).parse().unwrap());
        match client(request, self.wire.connect().unwrap()) {
            Ok((socket, _)) => Log(socket),
            Err(error) => panic!("{id}{query}: {error}"),
        }
    }

    /// The reply to a handshake that must fail.
    fn log_refused(&self, id: &str, query: &str) -> (u16, String) {
        let ask = Ask::new("GET", &Self::log_path(id, query))
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
        let reply = self.wire.ask(&ask);
        (reply.code, reply.text().into_owned())
    }
}

impl Log {
    /// Reads to the end. Returns all messages and the close code.
    fn read_out(mut self) -> (Vec<Vec<u8>>, u16) {
        let mut pieces = Vec::new();
        loop {
            match self.0.read().unwrap() {
                Message::Binary(bytes) => pieces.push(bytes.to_vec()),
                Message::Close(frame) => return (pieces, frame.map_or(1005, |frame| frame.code.into())),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("binary messages and nothing else, not {other:?}"),
            }
        }
    }

    fn text(self) -> (String, u16) {
        let (pieces, code) = self.read_out();
        (String::from_utf8(pieces.concat()).unwrap(), code)
    }

    fn next(&mut self) -> Vec<u8> {
        loop {
            if let Message::Binary(bytes) = self.0.read().unwrap() {
                return bytes.to_vec();
            }
        }
    }
}

#[track_caller]
fn ended(gui: &Gui, id: &str) {
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "its end", |container| container["status"]["status"] == "exited");
}

#[test]
fn logs_are_read_followed_cut_and_told_apart() {
    let Some(gui) = engine::running() else { return };
    let id = gui.run(&[], "echo one; echo two; echo three >&2; sleep 1; echo four");
    ended(&gui, &id);
    // The engine keeps two streams, and guarantees no order between them.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (text, code) = gui.log(&id, "").text();
    assert_eq!((sorted(&text), code), (sorted("one\ntwo\nthree\nfour"), 1000));
    let (text, code) = gui.log(&id, "?tail=1&follow=false").text();
    assert_eq!((text.as_str(), code), ("four\n", 1000));
    assert_eq!(gui.log(&id, "?since=4000000000&follow=0").text(), (String::new(), 1000));
    let since = gui.docker(&["inspect", "-f", "{{.Created}}", &id]);
    assert_eq!(gui.log(&id, &format!("?since={since}")).text().0.lines().count(), 4);

    let (pieces, _) = gui.log(&id, "?streams=separate").read_out();
    let of = |stream: u8| {
        let pieces = pieces.iter().filter(|piece| piece[0] == stream).flat_map(|piece| &piece[1..]);
        String::from_utf8(pieces.copied().collect()).unwrap()
    };
    assert_eq!((of(1).as_str(), of(2).as_str()), ("one\ntwo\nfour\n", "three\n"));
}

#[test]
fn a_log_is_followed_until_its_container_ends_and_a_terminal_is_as_it_is() {
    let Some(gui) = engine::running() else { return };
    let id = gui.run(&["-t"], "echo up; trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done");
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "its mirror", |container| container["status"]["status"] == "running");
    let mut log = gui.log(&id, "");
    assert_eq!(log.next(), b"up\r\n");
    gui.docker(&["stop", "-t", "20", &id]);
    let (text, code) = log.text();
    assert_eq!((text.as_str(), code), ("bye\r\n", 1000));
}

#[test]
fn what_is_wrong_is_told_before_the_upgrade_in_its_order() {
    let Some(gui) = engine::running() else { return };
    let id = gui.run(&[], "sleep 1000");
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "its mirror", |container| container["status"]["status"] == "running");
    let nobody = "0123456789abcdef";
    for (id, query, code, text) in [
        ("xyz", "?follow=maybe", 400, "Invalid container ID"),
        (nobody, "?follow=maybe", 404, "Container not found"),
        (&id, "?follow=maybe", 400, "Invalid follow parameter"),
        (&id, "?since=yesterday", 400, "Invalid since parameter"),
        (&id, "?streams=three", 400, "Invalid streams parameter"),
    ] {
        assert_eq!(gui.log_refused(id, query), (code, format!("{text}\n")), "{id}{query}");
    }
    assert_eq!(gui.wire.get(&Gui::log_path(&id, "")).code, 400, "no upgrade");
    let foreign = Ask::new("GET", &Gui::log_path(&id, "")).header("Origin", "https://evil.example");
    assert_eq!(gui.wire.ask(&foreign).code, 403);
    // Docker accepts a prefix of an ID; here it is not the name of any object.
    assert_eq!(gui.log_refused(&id[..12], "").0, 404);

    gui.daemon.rdd(&["stop"]).expect_success();
    assert_eq!(gui.log_refused(&id, "").0, 404, "no mirrors, no logs");
}

fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_client_that_does_not_read_makes_nothing_grow_and_is_left() {
    let Some(gui) = engine::running() else { return };
    // A hundred megabytes, if they were read.
    let line = "x=$(busybox head -c 16000 /dev/zero | busybox tr '\\0' x)";
    let id = gui.run(&[], &format!("{line}; i=0; while [ $i -lt 6000 ]; do echo $x; i=$((i+1)); done; sleep 1000"));
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "its mirror", |container| container["status"]["status"] == "running");
    let pid = gui.daemon.pid();
    let mut log = gui.log(&id, "");
    log.next();
    let before = resident(pid);
    // A message has ten seconds to be sent; then the connection is closed.
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(13) {
        let now = resident(pid);
        assert!(now < before + 50_000, "{before} kB have become {now} kB");
        std::thread::park_timeout(Duration::from_millis(200));
    }
    let mut left = 0_usize;
    let end = loop {
        match log.0.read() {
            Ok(Message::Binary(bytes)) => left += bytes.len(),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(left < 32 << 20, "{left} bytes were waiting; {end}");
}

#[test]
fn an_engine_that_dies_ends_the_log_with_its_own_code() {
    let Some(gui) = engine::running() else { return };
    let id = gui.run(&[], "echo up; sleep 1000");
    let path = format!("{}/{id}", mirrors("containers"));
    gui.until(&path, "its mirror", |container| container["status"]["status"] == "running");
    let mut log = gui.log(&id, "");
    assert_eq!(log.next(), b"up\n");
    let is_engine = |process: &rdd_testkit::processes::Info| process.name == "dockerd" && !process.is_zombie();
    let engine = gui.daemon.processes().into_iter().find(is_engine).expect("an engine");
    Process::open(engine.pid).unwrap().unwrap().signal(Signal::KILL).unwrap();
    // Finding A-12: 1000 would mean that the log is complete.
    let (_, code) = log.read_out();
    assert_eq!(code, 1011);
    // Another engine is started, and its logs can be read.
    eventually("its log", SOON, || {
        let plain = gui.wire.get(&Gui::log_path(&id, "?follow=false"));
        // Everything is valid, except that the request is not a WebSocket handshake.
        if plain.code == 400 { Ok(()) } else { Err(plain.text().into_owned()) }
    });
}
