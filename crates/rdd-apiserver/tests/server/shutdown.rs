//! Shutdown: in order, without losing a response, and in bounded time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use rdd_apiserver::{
    auth::Identity,
    serve::{Drained, limits::CLOSE},
};
use rdd_client::http::Error;
use rdd_stdx::task::Group;
use tokio::io::AsyncWriteExt;
use tower_service::Service as _;

use crate::support::{PATIENCE, TestServer, body, code, read_to_end};

enum Came {
    Slow(u16, String),
    Drained(Drained),
}

#[tokio::test]
async fn shutdown_refuses_the_new_ends_the_endless_and_answers_what_is_in_flight() {
    let server = TestServer::start().await;
    let client = server.client();
    let mut watch = server.connect().await;
    let token = server.admin.reveal();
    let head = format!("GET /watch HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n");
    watch.write_all(head.as_bytes()).await.unwrap();
    let mut tasks = Group::default();
    let slow = client.clone();
    tasks.spawn("slow", async move {
        let response = slow.get("/slow").await.unwrap();
        Came::Slow(response.status.as_u16(), String::from_utf8(response.body.to_vec()).unwrap())
    });
    server.until_begun(1).await;
    let handler = server.handler.clone();
    let running = server.server;
    tasks.spawn("shutdown", async move { Came::Drained(running.shutdown(PATIENCE).await) });
    let watched = read_to_end(&mut watch).await;
    assert_eq!((code(&watched), body(&watched)), (200, "6\r\nevent\n\r\n0\r\n\r\n"), "the watch ends well");
    let error = client.get("/livez").await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "no new connection is taken: {error:?}");
    assert_eq!(tasks.len(), 2, "shutdown waits for the request in flight");
    handler.gate.0.add_permits(1);
    let first = tokio::time::timeout(PATIENCE, tasks.next()).await.unwrap().unwrap().outcome.unwrap();
    let second = tokio::time::timeout(PATIENCE, tasks.next()).await.unwrap().unwrap().outcome.unwrap();
    for came in [first, second] {
        match came {
            Came::Slow(code, text) => assert_eq!((code, text.as_str()), (200, "done")),
            Came::Drained(drained) => assert_eq!(drained.cut_off, 0),
        }
    }
}

#[tokio::test]
async fn the_steps_are_logged_in_order() {
    let server = TestServer::start().await;
    server.server.shutdown(PATIENCE).await;
    let log = crate::log::text();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text} is not in the log"));
    let steps = [
        "shutdown: readiness ended",
        "shutdown: no new connections",
        "shutdown: connections take no further requests",
        "shutdown: watches ended",
        "shutdown: drained",
    ];
    assert!(steps.map(at).is_sorted());
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut_off_after_the_bound() {
    for over_http2 in [false, true] {
        let server = TestServer::start().await;
        let mut tasks = Group::default();
        if over_http2 {
            let (mut sender, connection) = server.connect_http2().await;
            let request = server.http2_request("GET", "/slow");
            tasks.spawn("slow", async move {
                let _connection = connection;
                sender.send_request(request).await.map(|_| ()).map_err(|error| error.to_string())
            });
        } else {
            let client = server.client();
            tasks
                .spawn("slow", async move { client.get("/slow").await.map(|_| ()).map_err(|error| error.to_string()) });
        }
        server.until_begun(1).await;
        let drained = server.server.shutdown(Duration::from_millis(200)).await;
        assert_eq!(drained.cut_off, 1);
        assert!(drained.elapsed < Duration::from_secs(5), "{drained:?}");
        let slow = tokio::time::timeout(PATIENCE, tasks.next()).await.unwrap().unwrap();
        assert!(slow.outcome.unwrap().is_err(), "its client learns of it");
    }
}

#[tokio::test]
async fn a_client_in_the_middle_of_http2_gets_its_answer_and_then_a_goaway() {
    let server = TestServer::start().await;
    let (mut sender, mut connection) = server.connect_http2().await;
    let slow = sender.send_request(server.http2_request("GET", "/slow"));
    let mut tasks = Group::default();
    tasks.spawn("slow", async move { slow.await.unwrap().into_body().collect().await.unwrap().to_bytes() });
    server.until_begun(1).await;
    let handler = server.handler.clone();
    let request = server.http2_request("GET", "/livez");
    let mut ending = Group::default();
    let running = server.server;
    ending.spawn("shutdown", async move { running.shutdown(PATIENCE).await });
    let refused = async {
        while sender.send_request(request.clone()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("the connection takes no further requests");
    handler.gate.0.add_permits(1);
    assert_eq!(tasks.next().await.unwrap().outcome.unwrap(), "done");
    assert_eq!(ending.next().await.unwrap().outcome.unwrap().cut_off, 0);
    tokio::time::timeout(PATIENCE, connection.next()).await.expect("the server closes the connection");
}

#[tokio::test]
async fn requests_that_their_clients_gave_up_are_not_waited_for() {
    let server = TestServer::start().await;
    let (mut sender, _connection) = server.connect_http2().await;
    let mut given_up = Group::default();
    for _ in 0..50 {
        let answer = sender.send_request(server.http2_request("GET", "/slow"));
        given_up.spawn("http2", async move { drop(answer.await) });
    }
    let client = server.client();
    given_up.spawn("http1", async move { drop(client.get("/slow").await) });
    server.until_begun(51).await;
    given_up.cancel();
    while given_up.next().await.is_some() {}
    let drained = server.server.shutdown(PATIENCE).await;
    assert_eq!(drained.cut_off, 0, "each ended when its client reset it or went away");
}

#[tokio::test]
async fn an_idle_server_ends_at_once_although_clients_keep_connections_open() {
    let server = TestServer::start().await;
    let _http1 = server.connect().await;
    let (mut sender, _connection) = server.connect_http2().await;
    assert_eq!(sender.send_request(server.http2_request("GET", "/livez")).await.unwrap().status(), 200);
    let drained = server.server.shutdown(PATIENCE).await;
    assert!(drained.elapsed < CLOSE, "the clients close them when told, so there is no waiting: {drained:?}");
    assert_eq!(drained.cut_off, 0);
}

#[tokio::test]
async fn a_watch_that_is_refused_while_the_server_ends_is_refused_in_full() {
    let server = TestServer::start().await;
    let mut door = server.server.in_process(Identity::admin());
    server.server.shutdown(PATIENCE).await;
    let request = http::Request::get("/watch-of-nothing").body(Empty::<Bytes>::new()).unwrap();
    let response = door.call(request).await.unwrap();
    assert_eq!(response.status(), 404);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "404 page not found\n");
}
