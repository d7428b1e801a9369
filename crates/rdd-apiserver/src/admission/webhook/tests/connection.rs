//! What only a network can do: be refused, be a stranger, break off, and be used again.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use rdd_stdx::task::Group;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    Stage, Way, mk_map, said,
    server::{Issued, Server},
};
use crate::{admission::testing::put, registry::Registry};

async fn stage_over(issued: Issued, protocols: &[&str]) -> Stage {
    let server = Server::start(issued, protocols).await;
    Stage::over(server, Way::Network, Registry::new([]), BTreeMap::new()).await
}

/// What the client hears if the webhook at `/a` has this client configuration; without the beginning that all share.
async fn failure(stage: &Stage, client_config: Value) -> String {
    stage.validating("c", vec![stage.hook("/a", json!({"clientConfig": client_config}))]).await;
    let said = said(stage.write(&mk_map()).await);
    let prefix = "500 Internal error occurred: failed calling webhook \"a.example.com\": failed to call webhook: ";
    said.strip_prefix(prefix).map(str::to_owned).unwrap_or(said)
}

fn raw(stage: &Stage, respond: impl Fn() -> Response<Full<Bytes>> + Send + Sync + 'static) {
    stage.server.book.raw.lock().unwrap().insert("/a".to_owned(), Arc::new(respond));
}

#[tokio::test]
async fn who_cannot_be_reached_is_told_in_gos_words() {
    let stage = Stage::new(Way::Network).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(
        failure(&stage, json!({"url": format!("https://{closed}/a")})).await,
        format!("Post \"https://{closed}/a?timeout=10s\": dial tcp {closed}: connect: connection refused")
    );
    assert_eq!(
        failure(&stage, json!({"service": {"namespace": "ns", "name": "none", "path": "/a"}})).await,
        "Post \"https://none.ns.svc:443/a?timeout=10s\": service \"none\" not found"
    );
    put(&stage.state, "", "services", Some("ns"), "here", r#"{"metadata":{},"spec":{"type":"ClusterIP"}}"#).await;
    assert_eq!(
        failure(&stage, json!({"service": {"namespace": "ns", "name": "here", "port": 8443}})).await,
        "Post \"https://here.ns.svc:8443/?timeout=10s\": no endpoints available for service \"here\""
    );
    let unknown = failure(&stage, json!({"url": "https://nobody.invalid/a"})).await;
    let prefix = "Post \"https://nobody.invalid/a?timeout=10s\": dial tcp: lookup nobody.invalid: ";
    assert!(unknown.starts_with(prefix), "{unknown}");
}

#[tokio::test]
async fn a_stranger_is_not_told_anything() {
    let stage = Stage::new(Way::Network).await;
    stage.respond("/a", json!({"allowed": true}));
    let post = format!("Post \"{}?timeout=10s\": tls: failed to verify certificate: x509: ", stage.url("/a"));
    let stranger = Server::start(Issued::For(&["127.0.0.1"]), &[]).await;
    for client_config in
        [json!({"url": stage.url("/a"), "caBundle": stranger.ca_bundle}), json!({"url": stage.url("/a")})]
    {
        let told = failure(&stage, client_config).await;
        assert_eq!(told, format!("{post}certificate signed by unknown authority"));
    }
    assert!(stage.asked().is_empty());
    let garbage = failure(&stage, json!({"url": stage.url("/a"), "caBundle": STANDARD.encode("no PEM")})).await;
    assert!(garbage.ends_with("unable to load root certificates: unable to parse bytes as PEM block"), "{garbage}");
}

#[tokio::test]
async fn a_certificate_must_stand_for_the_name_that_was_asked_for() {
    for (names, expected) in [
        (&["other.ns.svc"][..], "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
        (&["127.0.0.2"], "certificate is valid for 127.0.0.2, not 127.0.0.1"),
    ] {
        let stage = stage_over(Issued::For(names), &[]).await;
        stage.respond("/a", json!({"allowed": true}));
        let told = failure(&stage, json!({"url": stage.url("/a"), "caBundle": stage.server.ca_bundle})).await;
        assert!(told.ends_with(&format!("x509: {expected}")), "{told}");
    }
}

#[tokio::test]
async fn a_certificate_that_the_configuration_names_itself_is_believed_for_its_names() {
    let stage = stage_over(Issued::BySelf(&["127.0.0.1"]), &[]).await;
    stage.respond("/a", json!({"allowed": true}));
    let client_config = json!({"url": stage.url("/a"), "caBundle": stage.server.ca_bundle});
    assert_eq!(failure(&stage, client_config).await, "ok");
    let told = failure(&stage, json!({"url": stage.url("/a")})).await;
    assert!(told.ends_with("x509: certificate signed by unknown authority"), "{told}");
    let stage = stage_over(Issued::BySelf(&["other.example.com"]), &[]).await;
    let told = failure(&stage, json!({"url": stage.url("/a"), "caBundle": stage.server.ca_bundle})).await;
    assert!(told.contains("tls: failed to verify certificate: x509: "), "{told}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_told_by_its_code_and_a_redirect_is_not_followed() {
    let stage = Stage::new(Way::Network).await;
    let client_config = || json!({"url": stage.url("/a"), "caBundle": stage.server.ca_bundle});
    assert_eq!(failure(&stage, client_config()).await, "the server could not find the requested resource");
    let elsewhere = stage.url("/b");
    stage.respond("/b", json!({"allowed": true}));
    raw(&stage, move || {
        let response = Response::builder().status(StatusCode::TEMPORARY_REDIRECT).header("location", &elsewhere);
        response.body(Full::default()).unwrap()
    });
    assert_eq!(
        failure(&stage, client_config()).await,
        "the server responded with the status code 307 but did not return more information"
    );
    assert!(stage.asked().is_empty());
    raw(&stage, || Response::new(Full::new(Bytes::from(vec![b' '; 9 << 20]))));
    assert_eq!(
        failure(&stage, client_config()).await,
        "unexpected error when reading response body. Please retry. Original error: the response is larger than 8388608 bytes"
    );
}

#[tokio::test]
async fn a_server_without_tls_and_one_that_hangs_up_are_told() {
    let stage = Stage::new(Way::Network).await;
    for (says, expected) in
        [("HTTP/1.1 400 Bad Request\r\n\r\n", "http: server gave HTTP response to HTTPS client"), ("", "EOF")]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = Group::default();
        tasks.spawn("server without TLS", async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 16];
            stream.read_exact(&mut hello).await.unwrap();
            stream.write_all(says.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            // Reads to the end, so that what was said is not lost in a reset.
            while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
        });
        let told = failure(&stage, json!({"url": format!("https://{address}/a")})).await;
        assert_eq!(told, format!("Post \"https://{address}/a?timeout=10s\": {expected}"));
    }
}

#[tokio::test]
async fn a_connection_is_used_again_and_a_closed_one_is_replaced() {
    for (protocols, version) in [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"], "HTTP/1.1"), (&[], "HTTP/1.1")]
    {
        let mut stage = stage_over(Issued::For(&["127.0.0.1"]), protocols).await;
        stage.respond("/a", json!({"allowed": true}));
        stage.validating("c", vec![stage.hook("/a", json!({}))]).await;
        for _ in 0..3 {
            assert_eq!(said(stage.write(&mk_map()).await), "ok");
        }
        assert_eq!(stage.server.book.connections.load(Ordering::Relaxed), 1, "{version}");
        let expected = format!("{version} {}/a?timeout=10s", stage.server.address);
        assert_eq!(*stage.server.book.requests.lock().unwrap(), vec![expected; 3]);
        stage.server.restart().await;
        for _ in 0..2 {
            assert_eq!(said(stage.write(&mk_map()).await), "ok", "{version}");
        }
        assert_eq!(stage.server.book.connections.load(Ordering::Relaxed), 2, "{version}");
    }
}

#[tokio::test]
async fn many_writes_at_once_are_all_answered() {
    for protocols in [&["h2"][..], &["http/1.1"]] {
        let stage = stage_over(Issued::For(&["127.0.0.1"]), protocols).await;
        stage.respond("/a", json!({"allowed": true}));
        stage.validating("c", (0..50).map(|_| stage.hook("/a", json!({}))).collect()).await;
        for _ in 0..3 {
            assert_eq!(said(stage.write(&mk_map()).await), "ok");
        }
        assert_eq!(stage.asked().len(), 150);
    }
}

#[tokio::test]
async fn a_service_is_found_by_the_table_and_spoken_to_by_its_name_over_http1() {
    let server = Server::start(Issued::For(&["hook.ns.svc"]), &["h2", "http/1.1"]).await;
    let table = BTreeMap::from([("ns/hook".to_owned(), server.address.to_string())]);
    let stage = Stage::over(server, Way::Network, Registry::new([]), table).await;
    stage.respond("/a", json!({"allowed": true}));
    let service = json!({"namespace": "ns", "name": "hook", "path": "/a", "port": 8443});
    let client_config = json!({"service": service, "caBundle": stage.server.ca_bundle});
    assert_eq!(failure(&stage, client_config).await, "ok");
    assert_eq!(*stage.server.book.names.lock().unwrap(), ["hook.ns.svc"]);
    assert_eq!(*stage.server.book.requests.lock().unwrap(), ["HTTP/1.1 hook.ns.svc:8443/a?timeout=10s"]);
}

#[tokio::test]
async fn a_service_with_an_external_name_is_that_host() {
    let stage = stage_over(Issued::For(&["hook.ns.svc"]), &[]).await;
    stage.respond("/a", json!({"allowed": true}));
    let external = r#"{"metadata":{},"spec":{"type":"ExternalName","externalName":"127.0.0.1"}}"#;
    put(&stage.state, "", "services", Some("ns"), "hook", external).await;
    let service = json!({"namespace": "ns", "name": "hook", "path": "/a", "port": stage.server.address.port()});
    let client_config = json!({"service": service, "caBundle": stage.server.ca_bundle});
    assert_eq!(failure(&stage, client_config).await, "ok");
}
