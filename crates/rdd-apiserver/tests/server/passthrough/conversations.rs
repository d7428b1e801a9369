//! Passthrough requests that continue after the head of the response: streams and upgraded connections, and how they end.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rdd_apiserver::passthrough::CONVERSATIONS;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::{Message, client::IntoClientRequest, protocol::CloseFrame};

use super::support::{PLACES, World, read_until};
use crate::support::{PATIENCE, code, read_to_end};

#[tokio::test]
async fn bodies_stream_both_ways() {
    let world = World::start().await;
    for place in PLACES {
        let mut stream = world.begin("POST", &format!("{place}/echo"), "Transfer-Encoding: chunked\r\n").await;
        stream.write_all(b"4\r\none\n\r\n").await.unwrap();
        let head = read_until(&mut stream, "4\r\none\n\r\n").await;
        assert_eq!(code(&head), 200, "the first piece is back before the second has been sent");
        stream.write_all(b"4\r\ntwo\n\r\n").await.unwrap();
        assert_eq!(read_until(&mut stream, "two\n\r\n").await, "4\r\ntwo\n\r\n");
        stream.write_all(b"0\r\n\r\n").await.unwrap();
        assert_eq!(read_until(&mut stream, "0\r\n\r\n").await, "0\r\n\r\n");
    }
    world.listener.until_alone().await;
}

#[tokio::test]
async fn a_connection_becomes_what_both_sides_agree_on() {
    let world = World::start().await;
    for place in PLACES {
        let mut stream = world.converse(place).await;
        for word in ["ping\n", "pong\n"] {
            stream.write_all(word.as_bytes()).await.unwrap();
            assert_eq!(read_until(&mut stream, "\n").await, word);
        }
        stream.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut stream).await, "", "the end of one side is the end of the other");
    }
    world.listener.until_alone().await;
}

#[tokio::test]
async fn a_web_socket_passes_through() {
    let world = World::start().await;
    for place in PLACES {
        let mut request =
            format!("wss://127.0.0.1:{}{place}/socket", world.server.port()).into_client_request().unwrap();
        let token = format!("Bearer {}", world.server.admin.reveal());
        request.headers_mut().insert("authorization", token.parse().unwrap());
        let stream = world.server.connect().await;
        let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        let long = Message::binary(vec![7; 300_000]);
        for message in [Message::text("hi"), long] {
            socket.send(message.clone()).await.unwrap();
            let back = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(back, message);
        }
        let goodbye = CloseFrame { code: 1000.into(), reason: "done".into() };
        socket.close(Some(goodbye.clone())).await.unwrap();
        let closed = tokio::time::timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(closed, Message::Close(Some(goodbye)));
    }
    world.listener.until_alone().await;
}

#[tokio::test]
async fn a_client_that_leaves_takes_the_listeners_connection_with_it() {
    let world = World::start().await;
    let mut stream = world.begin("GET", &format!("{}/endless", PLACES[1]), "").await;
    read_until(&mut stream, "first\n").await;
    drop(stream);
    drop(world.converse(PLACES[1]).await);
    world.listener.until_alone().await;
}

#[tokio::test]
async fn shutdown_ends_what_would_go_on_for_ever() {
    let world = World::start().await;
    let mut open = Vec::new();
    for place in PLACES {
        let mut stream = world.begin("GET", &format!("{place}/endless"), "").await;
        read_until(&mut stream, "first\n").await;
        open.push(stream);
        open.push(world.converse(place).await);
    }
    let drained = world.server.server.shutdown(PATIENCE).await;
    assert_eq!(drained.cut_off, 0);
    for mut stream in open {
        read_to_end(&mut stream).await;
    }
    world.listener.until_alone().await;
}

#[tokio::test]
async fn conversations_leave_nothing_behind_and_are_bounded() {
    let world = World::start().await;
    for _ in 0..CONVERSATIONS + 20 {
        let mut stream = world.converse(PLACES[1]).await;
        stream.write_all(b"x\n").await.unwrap();
        assert_eq!(read_until(&mut stream, "\n").await, "x\n");
    }
    world.listener.until_alone().await;
    let mut open = Vec::new();
    for _ in 0..CONVERSATIONS {
        open.push(world.converse(PLACES[1]).await);
    }
    let (code, text) = world.server.get(PLACES[1]).await;
    assert_eq!(code, 429, "{text}");
    assert_eq!(world.server.get(PLACES[0]).await.0, 200, "what needs no socket goes on");
    open.clear();
    world.listener.until_alone().await;
    drop(world.converse(PLACES[1]).await);
}

#[tokio::test]
async fn a_connection_keeps_its_place_when_it_is_no_longer_http() {
    let world = World::start_with(|limits| limits.connections = 1).await;
    for place in PLACES {
        let first = world.converse(place).await;
        let second = world.converse(place);
        tokio::pin!(second);
        let early = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
        assert!(early.is_err(), "there is one place, and it is taken");
        drop(first);
        tokio::time::timeout(PATIENCE, second).await.expect("now it is free");
    }
}
