//! The limits of the server, and that one client's excess does not affect other clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::BodyExt as _;
use rdd_apiserver::serve::Limits;
use rdd_client::http::Error;
use rdd_stdx::task::Group;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{LARGE_BYTES, PATIENCE, TestServer, body, code, header, read_to_end};

#[tokio::test]
async fn a_body_over_the_limit_is_413_whether_announced_or_not() {
    let server = TestServer::start_limited(|limits| limits.body_bytes = 1_000).await;
    let fits = format!("Content-Length: 1000\r\n\r\n{}", "x".repeat(1_000));
    let response = server.raw("POST", "/echo", &fits).await;
    assert_eq!((code(&response), body(&response)), (200, "1000 bytes"));
    let announced = server.raw("POST", "/echo", "Content-Length: 1001\r\n").await;
    let chunk = "x".repeat(600);
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n258\r\n{chunk}\r\n258\r\n{chunk}\r\n0\r\n");
    let chunked = server.raw("POST", "/echo", &chunked).await;
    for response in [announced, chunked] {
        assert_eq!(code(&response), 413, "{response}");
        assert!(body(&response).contains("\"message\":\"Request entity too large: limit is 1000\""), "{response}");
    }
}

#[tokio::test]
async fn one_request_too_many_is_429_and_a_watch_does_not_count() {
    let server = TestServer::start_limited(|limits| {
        limits.read_only_in_flight = 1;
        limits.mutating_in_flight = 1;
    })
    .await;
    let mut watch = server.connect().await;
    let head =
        format!("GET /watch HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {}\r\n\r\n", server.admin.reveal());
    watch.write_all(head.as_bytes()).await.unwrap();
    let client = server.client();
    let mut tasks = Group::default();
    tasks.spawn("slow", async move { client.get("/slow").await.unwrap().status.as_u16() });
    server.until_begun(1).await;
    let refused = server.raw("GET", "/version", "").await;
    assert_eq!((code(&refused), header(&refused, "retry-after")), (429, Some("1")));
    assert!(body(&refused).contains("\"details\":{\"retryAfterSeconds\":1}"), "{refused}");
    let posted = server.raw("POST", "/echo", "Content-Length: 0\r\n").await;
    assert_eq!(code(&posted), 200, "what changes something is counted apart");
    server.handler.gate.0.add_permits(1);
    assert_eq!(tasks.next().await.unwrap().outcome, Ok(200));
    assert_eq!(server.get("/version").await.0, 200, "the place is free again");
}

/// Starts three requests with bodies of this size, and expects the server to process this many of them at once.
async fn expect_work_at_once(server: &TestServer, body_bytes: usize, expected: usize) {
    let written = Arc::new(AtomicUsize::new(0));
    let mut clients = Group::default();
    for _ in 0..3 {
        let (mut stream, token, written) = (server.connect().await, server.admin.reveal().to_owned(), written.clone());
        clients.spawn("client", async move {
            let head = format!(
                "POST /work HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
                 Connection: close\r\nContent-Length: {body_bytes}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b'x'; body_bytes]).await.unwrap();
            written.fetch_add(1, Ordering::SeqCst);
            read_to_end(&mut stream).await
        });
    }
    let worked = &server.handler.worked;
    for done in 0..3 {
        let expected = (done + expected).min(3);
        let reached = async {
            while written.load(Ordering::SeqCst) < 3 || worked.load(Ordering::SeqCst) < expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, reached).await.expect("those that waited come next");
        // By the time these have completed, another request that does not wait would have been counted too.
        for _ in 0..3 {
            assert_eq!(server.get("/whoami").await.0, 200);
        }
        assert_eq!(worked.load(Ordering::SeqCst), expected, "with bodies of {body_bytes} bytes, {done} done");
        server.handler.gate.0.add_permits(1);
        let ended = tokio::time::timeout(PATIENCE, clients.next()).await.unwrap().unwrap();
        assert!(ended.outcome.unwrap().ends_with("done"));
    }
    worked.store(0, Ordering::SeqCst);
}

// Finding A-8
#[tokio::test]
async fn large_bodies_are_worked_on_one_after_the_other_and_small_ones_are_not() {
    let server = TestServer::start().await;
    expect_work_at_once(&server, 1_500_000, 1).await;
    expect_work_at_once(&server, 3 * 1024 * 1024, 1).await;
    expect_work_at_once(&server, 900_000, 2).await;
    expect_work_at_once(&server, 100_000, 3).await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_504_and_a_watch_is_not() {
    let server = TestServer::start_limited(|limits| limits.request_timeout = Duration::from_millis(200)).await;
    let mut watch = server.connect().await;
    let token = server.admin.reveal();
    let head = format!("GET /watch HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    watch.write_all(head.as_bytes()).await.unwrap();
    let (code, text) = server.get("/slow").await;
    assert_eq!(code, 504);
    assert!(text.contains("\"message\":\"Timeout: request did not complete within the allotted timeout\""), "{text}");
    let mut bytes = vec![0; 4_096];
    let mut seen = String::new();
    while !seen.contains("event\n") {
        let read = tokio::time::timeout(PATIENCE, watch.read(&mut bytes)).await.unwrap().unwrap();
        assert!(read > 0, "the watch was cut off: {seen}");
        seen.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    let silent = tokio::time::timeout(Duration::from_millis(100), watch.read(&mut bytes)).await;
    assert!(silent.is_err(), "the watch goes on");
}

#[tokio::test]
async fn a_response_that_does_not_come_to_its_end_is_cut_off() {
    let server = TestServer::start_limited(|limits| {
        limits.request_timeout = SOON;
        limits.read_only_in_flight = 1;
    })
    .await;
    for path in ["/stuck", "/stuck-at-once"] {
        let error = server.client().get(path).await.unwrap_err();
        assert!(matches!(error, Error::Broken { .. }), "{path} does not pass for a whole one: {error:?}");
        assert_eq!(server.get("/livez").await.0, 200, "and the place of {path} is free again");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_for_the_client_is_an_error() {
    let server = TestServer::start().await;
    let error = server.client().with_body_limit(10).get("/version").await.unwrap_err();
    let url = server.client().url("/version");
    assert_eq!(error.to_string(), format!("get {url}: the answer is larger than 10 bytes"));
}

#[tokio::test]
async fn too_many_or_too_large_headers_are_refused() {
    let server = TestServer::start().await;
    let many: String = (0..120).map(|index| format!("X-{index}: y\r\n")).collect();
    assert_eq!(code(&server.raw("GET", "/version", &many).await), 431);
    let large = format!("X-Large: {}\r\n", "y".repeat(70_000));
    assert_eq!(code(&server.raw("GET", "/version", &large).await), 431);
    let fair = format!("X-Fair: {}\r\n", "y".repeat(8_000));
    assert_eq!(code(&server.raw("GET", "/version", &fair).await), 200);
    let (mut sender, _tasks) = server.connect_http2().await;
    let mut request = server.http2_request("GET", "/version");
    let value = http::HeaderValue::try_from("y".repeat(10_000)).unwrap();
    for index in 0..8 {
        let name = http::HeaderName::try_from(format!("x-{index}")).unwrap();
        request.headers_mut().insert(name, value.clone());
    }
    assert_eq!(sender.send_request(request).await.unwrap().status(), 431, "over HTTP/2 too");
}

/// Opens a connection, sends half of a request's head, and waits until the server closes it while it serves another client.
async fn dawdle(limit: impl FnOnce(&mut Limits)) {
    let server = TestServer::start_limited(limit).await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET /version HTTP/1.1\r\nHost: 127.0").await.unwrap();
    assert_eq!(server.get("/version").await.0, 200, "others are served meanwhile");
    assert_eq!(read_to_end(&mut slow).await, "");
}

const SOON: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_connection_that_dawdles_over_its_head_is_closed_while_others_are_served() {
    dawdle(|limits| limits.header_read_timeout = SOON).await;
    dawdle(|limits| limits.authentication_timeout = SOON).await;
}

#[tokio::test]
async fn a_connection_that_dawdles_over_its_handshake_is_closed_while_others_are_served() {
    let server = TestServer::start_limited(|limits| limits.handshake_timeout = SOON).await;
    let mut mute = TcpStream::connect(server.server.address()).await.unwrap();
    assert_eq!(server.get("/version").await.0, 200);
    let mut bytes = Vec::new();
    let closed = tokio::time::timeout(PATIENCE, mute.read_to_end(&mut bytes)).await;
    closed.expect("the connection is closed").unwrap();
}

#[tokio::test]
async fn an_http2_connection_that_authenticates_nobody_is_closed() {
    let server = TestServer::start_limited(|limits| limits.authentication_timeout = Duration::from_millis(300)).await;
    let (mut known, _known_task) = server.connect_http2().await;
    let (mut unknown, mut unknown_task) = server.connect_http2().await;
    assert_eq!(known.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
    let mut request = server.http2_request("GET", "/livez");
    request.headers_mut().remove("authorization");
    assert_eq!(unknown.send_request(request).await.unwrap().status(), 401);
    let ended = tokio::time::timeout(PATIENCE, unknown_task.next()).await;
    ended.expect("the connection is closed").unwrap().outcome.unwrap();
    assert_eq!(known.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
}

/// Opens connections that send nothing.
async fn connect_silently(server: &TestServer, count: usize) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..count {
        silent.push(TcpStream::connect(server.server.address()).await.unwrap());
    }
    silent
}

/// Waits until the server has closed a connection.
async fn until_closed(stream: &mut TcpStream) {
    // A reset is fine too.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("it is closed in time");
}

// Finding A-7
#[tokio::test]
async fn over_the_limit_the_newest_connection_is_refused_and_the_oldest_is_kept() {
    let server = TestServer::start_limited(|limits| {
        limits.connections = 16;
        limits.pending_connections = 4;
        limits.pending_time = PATIENCE * 2;
    })
    .await;
    let mut known = server.connect_http2().await;
    assert_eq!(known.0.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
    let mut oldest = server.connect().await;
    let mut silent = connect_silently(&server, 50).await;
    // Three connections have a place and four wait for one.
    for refused in &mut silent[7..] {
        until_closed(refused).await;
    }
    let head = format!("Host: 127.0.0.1\r\nAuthorization: Bearer {}\r\nConnection: close", server.admin.reveal());
    oldest.write_all(format!("GET /livez HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).await.unwrap();
    assert_eq!(code(&read_to_end(&mut oldest).await), 200, "the oldest one is still served");
    assert_eq!(known.0.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
}

// Finding A-7
#[tokio::test]
async fn a_connection_over_the_limit_is_served_when_silent_ones_had_their_time() {
    let server = TestServer::start_limited(|limits| {
        limits.pending_connections = 4;
        limits.pending_time = Duration::from_millis(200);
    })
    .await;
    let mut silent = connect_silently(&server, 6).await;
    assert_eq!(server.get("/livez").await.0, 200, "two of the silent ones wait before it");
    until_closed(&mut silent[0]).await;
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let server = TestServer::start_limited(|limits| limits.connections = 1).await;
    let first = server.connect().await;
    let client = server.client().with_timeout(Duration::from_millis(200));
    let error = client.get("/livez").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    drop(first);
    assert_eq!(server.get("/livez").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_thought_brief_and_is_not_holds_up_nobody_on_its_connection() {
    let server = TestServer::start().await;
    let (mut sender, _tasks) = server.connect_http2().await;
    let mut waiting = Group::default();
    for _ in 0..3 {
        let slow = sender.send_request(server.http2_request("GET", "/slow"));
        waiting.spawn("slow", async move { slow.await.unwrap().into_body().collect().await.unwrap().to_bytes() });
    }
    server.until_begun(3).await;
    // The body is complete and larger than the socket buffers, and the client does not read it.
    let unread = sender.send_request(server.http2_request("GET", "/large")).await.unwrap();
    for _ in 0..100 {
        let quick = sender.send_request(server.http2_request("GET", "/whoami"));
        let quick = tokio::time::timeout(PATIENCE, quick).await.expect("others do not wait").unwrap();
        assert_eq!(
            quick.into_body().collect().await.unwrap().to_bytes(),
            "system-admin system:masters,system:authenticated"
        );
    }
    assert_eq!(unread.into_body().collect().await.unwrap().to_bytes().len(), LARGE_BYTES);
    server.handler.gate.0.add_permits(3);
    for _ in 0..3 {
        let ended = tokio::time::timeout(PATIENCE, waiting.next()).await.expect("they are woken").unwrap();
        assert_eq!(ended.outcome.unwrap(), "done");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_asks_much_at_once_is_answered_all_of_it() {
    let server = TestServer::start().await;
    let (sender, _tasks) = server.connect_http2().await;
    let mut asking = Group::default();
    for _ in 0..50 {
        let (mut sender, request) = (sender.clone(), server.http2_request("GET", "/whoami"));
        asking.spawn("asking", async move {
            for _ in 0..40 {
                let response = sender.send_request(request.clone()).await.unwrap();
                assert_eq!(response.status(), 200);
                response.into_body().collect().await.unwrap();
            }
        });
    }
    for _ in 0..50 {
        let ended = tokio::time::timeout(PATIENCE, asking.next()).await.expect("no answer is forgotten").unwrap();
        ended.outcome.unwrap();
    }
}

#[tokio::test]
async fn a_panicking_handler_is_a_500_and_its_connection_lives_on() {
    let server = TestServer::start().await;
    let (mut sender, _tasks) = server.connect_http2().await;
    for path in ["/panic", "/panic-at-once"] {
        let response = sender.send_request(server.http2_request("GET", path)).await.unwrap();
        assert_eq!(response.status(), 500, "{path}");
    }
    assert_eq!(sender.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
    let token = server.admin.reveal();
    let head = |path| format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n");
    let both = format!("{}\r\n{}Connection: close\r\n\r\n", head("/panic"), head("/livez"));
    let responses = server.send(&both).await;
    assert!(responses.contains("HTTP/1.1 500") && responses.contains("\"reason\":\"InternalError\""), "{responses}");
    assert!(responses.ends_with("\r\n\r\nok"), "the second request of the connection is answered: {responses}");
    assert!(!responses.contains("on purpose"), "the text of the panic stays in the log");
    assert!(crate::log::text().contains("at once, on purpose"));
}

#[tokio::test]
async fn a_panic_in_a_body_breaks_that_response_off() {
    let server = TestServer::start().await;
    let error = server.client().get("/panic-in-body").await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error:?}");
    assert_eq!(server.get("/livez").await.0, 200);
}
