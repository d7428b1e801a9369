//! Authentication and the origin check, over real connections.

use base64::{Engine, engine::general_purpose::STANDARD};
use rdd_apiserver::{
    auth::Token,
    tls::{Pair, Subject, Tls},
};
use rdd_client::{Client, kubeconfig::User};
use rdd_stdx::{chain::Chain, clock::SystemClock};

use crate::support::{TestServer, body, code, header};

const UNAUTHORIZED: &str = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
                            \"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n";

#[tokio::test]
async fn without_a_token_every_path_is_401_in_the_words_of_kubernetes() {
    let server = TestServer::start().await;
    for path in [
        "/",
        "/livez",
        "/readyz",
        "/readyz/ping",
        "/healthz",
        "/metrics",
        "/version",
        "/datastore/backup",
        "/echo",
        "/panic",
        "/watch",
        "/api/v1/namespaces",
        "/nowhere",
        "/version?token=x",
    ] {
        for method in ["GET", "POST", "OPTIONS", "DELETE"] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
            let response = server.send(&request).await;
            assert_eq!((code(&response), body(&response)), (401, UNAUTHORIZED), "{method} {path}");
            assert_eq!(header(&response, "content-type"), Some("application/json"));
            assert_eq!(header(&response, "www-authenticate"), None, "kube-apiserver sends none");
            assert_eq!(header(&response, "access-control-allow-origin"), None);
        }
    }
}

#[tokio::test]
async fn a_wrong_token_or_one_in_the_url_is_no_token() {
    let server = TestServer::start().await;
    let right = server.admin.reveal().to_owned();
    let wrong = Token::random().reveal().to_owned();
    for (path, headers) in [
        ("/version".to_owned(), format!("Authorization: Bearer {wrong}\r\n")),
        ("/version".to_owned(), format!("Authorization: Bearer {}\r\n", &right[..35])),
        ("/version".to_owned(), format!("Authorization: Basic {right}\r\n")),
        ("/version".to_owned(), format!("Authorization: Bearer {right}\r\nAuthorization: Bearer {right}\r\n")),
        ("/version".to_owned(), format!("Cookie: token={right}\r\n")),
        (format!("/version?token={right}&access_token={right}&authorization=Bearer%20{right}"), String::new()),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n");
        assert_eq!(code(&server.send(&request).await), 401, "{path} {headers}");
    }
    assert_eq!(server.get("/version").await.0, 200);
}

#[tokio::test]
async fn each_token_stands_for_its_user() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/whoami").await.1, "system-admin system:masters,system:authenticated");
    let user = Client::from_kubeconfig(&server.kubeconfig(), Some("user")).unwrap();
    let said = user.get("/whoami").await.unwrap().success().unwrap();
    assert_eq!(said.body, "user system:authenticated");
}

fn with_certificate(server: &TestServer, pair: &Pair) -> Client {
    let mut config = server.kubeconfig();
    config.users[0].user = User {
        client_certificate_data: STANDARD.encode(&pair.certificate),
        client_key_data: STANDARD.encode(&pair.key),
        token: String::new(),
    };
    Client::from_kubeconfig(&config, None).unwrap()
}

#[tokio::test]
async fn a_client_certificate_of_our_authority_names_its_holder() {
    let server = TestServer::start().await;
    let subject = Subject { common_name: "alice", organization: Some("system:masters") };
    let pair = server.tls.issue_client(subject).unwrap();
    let said = with_certificate(&server, &pair).get("/whoami").await.unwrap();
    assert_eq!(said.body, "alice system:masters,system:authenticated");
    let pair = server.tls.issue_client(Subject { common_name: "", organization: None }).unwrap();
    let said = with_certificate(&server, &pair).get("/whoami").await.unwrap();
    assert_eq!(said.status, 401, "a certificate that names nobody is no credential");
}

#[tokio::test]
async fn a_client_certificate_of_another_authority_is_refused() {
    let server = TestServer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let other = Tls::open(folder.path(), SystemClock::shared(), Box::new(|_| {})).unwrap();
    let pair = other.issue_client(Subject { common_name: "alice", organization: Some("system:masters") }).unwrap();
    let error = with_certificate(&server, &pair).get("/whoami").await.unwrap_err();
    let text = Chain(&error).to_string();
    assert!(text.contains("received fatal alert"), "the server itself refuses: {text}");
    assert_eq!(server.get("/version").await.0, 200, "others are served as before");
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted() {
    let (server, other) = (TestServer::start().await, TestServer::start().await);
    let mut config = server.kubeconfig();
    config.clusters[0].cluster.server = format!("https://127.0.0.1:{}", other.port());
    let error = Client::from_kubeconfig(&config, None).unwrap().get("/version").await.unwrap_err();
    assert_eq!(error.to_string(), format!("secure the connection to https://127.0.0.1:{}/version", other.port()));
    let by_name = server.port();
    config.clusters[0].cluster.server = format!("https://localhost:{by_name}");
    assert_eq!(Client::from_kubeconfig(&config, None).unwrap().get("/version").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_403_although_the_token_is_right() {
    let server = TestServer::start().await;
    let (port, token) = (server.port(), server.admin.reveal().to_owned());
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    let send = async |headers: String| {
        let head =
            format!("GET /version HTTP/1.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n{headers}\r\n");
        server.send(&head).await
    };
    for (headers, why) in [
        ("Host: evil.example\r\n".to_owned(), "the Host of a request must be 127.0.0.1, [::1] or localhost"),
        (
            format!("{own}Origin: https://evil.example\r\n"),
            "the Origin of a request, if any, must be that of this server",
        ),
        (format!("{own}Origin: null\r\n"), "the Origin of a request, if any, must be that of this server"),
        (format!("{own}Sec-Fetch-Site: cross-site\r\n"), "requests from other web sites are refused"),
    ] {
        let response = send(headers.clone()).await;
        assert_eq!(code(&response), 403, "{headers}");
        assert!(body(&response).contains(&format!("\"message\":\"forbidden: {why}\"")), "{response}");
        assert_eq!(header(&response, "access-control-allow-origin"), None);
    }
    for headers in [
        own.clone(),
        format!("Host: localhost:{port}\r\n"),
        format!("Host: [::1]:{port}\r\n"),
        format!("{own}Origin: https://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n"),
    ] {
        let response = send(headers.clone()).await;
        assert_eq!(code(&response), 200, "{headers}");
        assert_eq!(header(&response, "access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn over_http2_the_host_is_checked_as_well() {
    let server = TestServer::start().await;
    let (mut sender, _tasks) = server.connect_http2().await;
    let mut request = server.http2_request("GET", "/version");
    assert_eq!(sender.send_request(request.clone()).await.unwrap().status(), 200);
    *request.uri_mut() = "https://evil.example/version".parse().unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 403);
}

#[tokio::test]
async fn no_token_reaches_a_handler() {
    let server = TestServer::start().await;
    let (code, text) = server.get("/debug").await;
    assert!(code == 200 && text.contains("system-admin"), "{text}");
    assert!(!text.contains(server.admin.reveal()) && !text.contains("authorization"), "{text}");
}

#[tokio::test]
async fn no_token_reaches_the_log() {
    let server = TestServer::start().await;
    let (admin, user) = (server.admin.reveal().to_owned(), server.user.reveal().to_owned());
    server.get(&format!("/version?token={user}")).await;
    server.get("/panic").await;
    server.raw("GET", "/version", &format!("Origin: https://{user}.example\r\n")).await;
    server.send(&format!("GET /x?token={admin} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")).await;
    let log = crate::log::text();
    assert!(log.contains("path=\"/version\"") && log.contains("user=\"system-admin\""), "requests are logged");
    assert!(!log.contains(&admin) && !log.contains(&user), "and no token with them");
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn the_server_listens_on_loopback_and_nowhere_else() {
    let server = TestServer::start().await;
    let suffix = format!(":{:04X}", server.port());
    let listening = |table: &str| -> Vec<String> {
        let rows = std::fs::read_to_string(table).unwrap();
        let fields = rows.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        let ours = fields.filter(|fields| fields[1].ends_with(&suffix) && fields[3] == "0A");
        ours.map(|fields| fields[1].to_owned()).collect()
    };
    assert_eq!(listening("/proc/net/tcp"), [format!("0100007F{suffix}")]);
    assert!(listening("/proc/net/tcp6").is_empty());
}
