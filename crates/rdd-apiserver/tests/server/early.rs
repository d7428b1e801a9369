//! A response that the server sends before it has read the request's body arrives complete.

use std::time::Duration;

use rdd_stdx::task::Group;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::support::{PATIENCE, TestServer, body, code, header};

/// How a client writes its body.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// As fast as the server reads it.
    Fast,
    /// In pieces with pauses, so that the response is sent long before the body is.
    Slow,
}

const KIB: usize = 1024;
/// The number of pieces of a body that is written slowly.
const PIECES: usize = 20;

/// Writes a request of which the server needs only the head, then reads the response to its end.
async fn post(mut stream: TlsStream<TcpStream>, head: String, body_bytes: usize, pace: Pace) -> Result<String, String> {
    stream.write_all(head.as_bytes()).await.map_err(|error| format!("write the head: {error}"))?;
    let body = vec![b'x'; body_bytes];
    let written = match pace {
        Pace::Fast => stream.write_all(&body).await,
        Pace::Slow => write_slowly(&mut stream, &body).await,
    };
    written.map_err(|error| format!("write the body: {error}"))?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await.map_err(|error| format!("after {response:?}: {error}"))?;
    Ok(response)
}

async fn write_slowly(stream: &mut TlsStream<TcpStream>, body: &[u8]) -> std::io::Result<()> {
    for piece in body.chunks(body.len().div_ceil(PIECES)) {
        stream.write_all(piece).await?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn head(server: &TestServer, path: &str, token: &str, length: usize) -> String {
    let port = server.port();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Sends the request ten times at once for each size and pace, and expects the complete response every time.
async fn expect_whole_responses(server: &TestServer, path: &str, token: &str, expected: u16) {
    for (size, pace) in
        [(20 * KIB, Pace::Fast), (20 * KIB, Pace::Slow), (KIB * KIB, Pace::Fast), (KIB * KIB, Pace::Slow)]
    {
        let mut clients = Group::default();
        for _ in 0..10 {
            let stream = server.connect().await;
            clients.spawn("client", post(stream, head(server, path, token, size), size, pace));
        }
        for _ in 0..10 {
            let ended = tokio::time::timeout(PATIENCE, clients.next()).await.expect("the server closes").unwrap();
            let response =
                ended.outcome.unwrap().unwrap_or_else(|error| panic!("{expected} to {size} {pace:?}: {error}"));
            assert_eq!(code(&response), expected, "{response}");
            let length: usize = header(&response, "content-length").unwrap().parse().unwrap();
            assert_eq!(body(&response).len(), length, "{response}");
        }
    }
}

// Finding A-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_before_the_body_is_read_reaches_the_client() {
    let server = TestServer::start().await;
    expect_whole_responses(&server, "/echo", "wrong", 401).await;
    let token = server.admin.reveal();
    for code in [404, 405, 415] {
        expect_whole_responses(&server, &format!("/status/{code}"), token, code).await;
    }
}

// Finding A-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_because_of_a_limit_reaches_the_client() {
    let server = TestServer::start_limited(|limits| limits.body_bytes = KIB).await;
    expect_whole_responses(&server, "/echo", server.admin.reveal(), 413).await;
    let server = TestServer::start_limited(|limits| limits.mutating_in_flight = 0).await;
    expect_whole_responses(&server, "/echo", server.admin.reveal(), 429).await;
}

// Finding A-5
#[tokio::test]
async fn a_client_that_never_closes_does_not_hold_its_connection() {
    let server = TestServer::start_limited(|limits| limits.connections = 1).await;
    let mut stream = server.connect().await;
    stream.write_all(head(&server, "/status/404", server.admin.reveal(), 20 * KIB).as_bytes()).await.unwrap();
    // The only connection is this one, which is neither written to nor closed.
    assert_eq!(server.get("/livez").await.0, 200);
    drop(stream);
}
