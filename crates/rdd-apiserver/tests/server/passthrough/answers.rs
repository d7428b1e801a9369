//! Passthrough requests with a single response.

use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;

use super::support::{PLACES, World, read_until};
use crate::support::{body, code, header};

#[tokio::test]
async fn method_rest_and_query_arrive_and_the_rest_of_nothing_is_a_slash() {
    let world = World::start().await;
    for place in PLACES {
        let answer = world.server.raw("DELETE", &format!("{place}/a%20b//c?x=1&y=%2F"), "").await;
        assert_eq!((code(&answer), body(&answer).lines().next()), (200, Some("DELETE /a%20b//c?x=1&y=%2F")));
        for nothing in ["", "/"] {
            let (_, shown) = world.server.get(&format!("{place}{nothing}")).await;
            assert!(shown.starts_with("GET /\n"), "{place} {shown}");
        }
    }
}

// Finding O-8
#[tokio::test]
async fn no_credentials_reach_a_controller() {
    let world = World::start().await;
    for place in PLACES {
        let more = "Cookie: session=secret\r\nProxy-Authorization: Basic secret\r\nX-Remote-User: secret\r\n\
             X-Remote-Extra-Scopes: secret\r\nAccept: text/plain\r\n\
             Sec-WebSocket-Protocol: chat, base64url.bearer.authorization.k8s.io.secret\r\n";
        let answer = world.server.raw("GET", &format!("{place}/x"), more).await;
        let shown = body(&answer);
        assert!(!shown.contains("secret") && !shown.contains(world.server.admin.reveal()), "{shown}");
        assert!(!shown.to_lowercase().contains("authorization"), "{shown}");
        assert!(shown.contains("accept: text/plain") && shown.contains("sec-websocket-protocol: chat"), "{shown}");
    }
}

// Findings E-4, E-5
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_listener_of_our_user_on_loopback_answers_and_gets_no_credentials() {
    let world = World::start().await;
    let more = "Cookie: session=secret\r\nX-Forwarded-For: 10.0.0.1\r\n";
    let answer = world.server.raw("GET", "/passthrough/loopback/all/x?y", more).await;
    let shown = body(&answer);
    assert!(code(&answer) == 200 && shown.starts_with("GET /x?y\n"), "{answer}");
    assert!(!shown.contains("secret") && !shown.to_lowercase().contains("authorization"), "{shown}");
    assert!(shown.contains("x-forwarded-for: 10.0.0.1, 127.0.0.1\n"), "{shown}");
    let mut stream = world.converse("/passthrough/loopback/all").await;
    stream.write_all(b"hello\n").await.unwrap();
    assert_eq!(read_until(&mut stream, "\n").await, "hello\n");
}

// Finding E-4
#[tokio::test]
async fn controllers_learn_from_where_a_request_comes() {
    let world = World::start().await;
    for place in PLACES {
        let (_, shown) = world.server.get(&format!("{place}/x")).await;
        assert!(shown.contains("x-forwarded-for: 127.0.0.1\n"), "{shown}");
    }
}

// Finding O-8
#[tokio::test]
async fn a_stranger_gets_nowhere() {
    let world = World::start().await;
    for place in PLACES {
        for upgrade in ["", "Connection: Upgrade\r\nUpgrade: echo\r\n"] {
            let request = format!("GET {place}/talk HTTP/1.1\r\nHost: 127.0.0.1\r\n{upgrade}\r\n");
            let mut stream = world.server.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let head = read_until(&mut stream, "\r\n\r\n").await;
            assert_eq!(code(&head), 401, "{head}");
        }
    }
    world.listener.until_alone().await;
}

#[tokio::test]
async fn a_redirect_is_the_clients_to_follow() {
    let world = World::start().await;
    for place in PLACES {
        let answer = world.server.raw("GET", &format!("{place}/redirect"), "").await;
        assert_eq!((code(&answer), body(&answer)), (302, "over there\n"));
        assert_eq!(header(&answer, "location"), Some("http://127.0.0.1:1/elsewhere"));
    }
}

#[tokio::test]
async fn what_nobody_has_is_not_found_in_plain_text() {
    let world = World::start().await;
    for path in ["", "/", "/here", "/here/", "/here/none", "/none/all", "/here/all/../all", "/there/all/%2e%2e/x"] {
        let answer = world.server.raw("GET", &format!("/passthrough{path}"), "").await;
        assert_eq!((code(&answer), body(&answer)), (404, "404 page not found\n"), "{path}");
        assert_eq!(header(&answer, "content-type"), Some("text/plain; charset=utf-8"), "{path}");
    }
}

#[tokio::test]
async fn who_does_not_answer_is_a_503_and_who_cannot_be_looked_up_a_500() {
    let world = World::start().await;
    for (path, wanted, message) in [
        ("dead/missing", 503, r#"the endpoint \"missing\" of the controller \"dead\" does not answer"#),
        ("dead/left", 503, r#"the endpoint \"left\" of the controller \"dead\" does not answer"#),
        // The endpoint upgrades the connection although the client did not request it.
        ("there/all/unasked", 503, r#"the endpoint \"all\" of the controller \"there\" does not answer"#),
        ("lookup/fails", 500, "the list of managers cannot be read"),
    ] {
        let (code, text) = world.server.get(&format!("/passthrough/{path}")).await;
        assert_eq!(code, wanted, "{path} {text}");
        assert!(text.contains(r#""kind":"Status""#) && text.contains(message), "{path} {text}");
    }
    world.listener.until_alone().await;
}

#[tokio::test]
async fn over_http2_it_is_the_same_and_the_listener_learns_the_host() {
    let world = World::start().await;
    let (mut sender, _connection) = world.server.connect_http2().await;
    for place in PLACES {
        let asked = sender.send_request(world.server.http2_request("GET", &format!("{place}/x?y")));
        let answer = asked.await.unwrap();
        assert_eq!(answer.status(), 200);
        let shown = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        assert!(shown.starts_with("GET /x?y\n"), "{shown}");
        let host = format!("host: 127.0.0.1:{}\n", world.server.port());
        assert_eq!(shown.contains(&host), place == PLACES[1], "{shown}");
    }
}

#[tokio::test]
async fn the_index_tells_of_them_and_everything_else_is_served_as_before() {
    let world = World::start().await;
    assert!(world.server.get("/").await.1.contains(r#""/passthrough/""#));
    assert_eq!(world.server.get("/passthroughs/here/all").await.0, 404);
}
