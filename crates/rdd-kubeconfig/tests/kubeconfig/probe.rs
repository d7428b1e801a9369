//! Tests of the probe against healthy, unhealthy, slow, invalid and absent servers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rdd_kubeconfig::{Answer, Endpoint, Keep, NetworkProbe, Probe, Trust, Verdict};
use rdd_stdx::task::Group;
use rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer, server::WebPkiClientVerifier};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::support::{self, Folder, cluster, merge};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer() -> Issuer {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap()
}

fn signed(issuer: &Issuer, name: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    (certificate, key)
}

/// Serves one request after the other; answers 200 if the request has the token or needs none.
async fn serve(tls: Option<TlsAcceptor>) -> (u16, Group<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut group = Group::default();
    group.spawn("server", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            match &tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        answer(stream).await;
                    }
                }
                None => answer(stream).await,
            }
        }
    });
    (port, group)
}

async fn answer(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => request.push(byte[0]),
            _ => return,
        }
    }
    let request = String::from_utf8(request).unwrap().to_lowercase();
    let status = match request {
        _ if !request.starts_with("get /base/healthz http/1.1\r\n") => "404 Not Found",
        _ if request.contains("authorization: bearer good") => "200 OK",
        _ => "401 Unauthorized",
    };
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
    let _ = stream.flush().await;
}

fn acceptor(issuer: &Issuer, name: &str, wants_client: bool) -> TlsAcceptor {
    let (certificate, key) = signed(issuer, name);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(issuer.der().clone()).unwrap();
    let builder = if wants_client {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate.der().clone()], key).unwrap()))
}

fn endpoint(server: String, trust: Trust) -> Endpoint {
    Endpoint {
        server: server.parse().unwrap(),
        trust,
        server_name: None,
        identity: None,
        token: Some("good".to_owned()),
    }
}

fn pem(issuer: &Issuer) -> Trust {
    Trust::Pem(issuer.pem().into_bytes())
}

async fn ask(endpoint: &Endpoint) -> Answer {
    NetworkProbe { within: Duration::from_secs(10) }.ask(endpoint).await
}

#[tokio::test]
async fn a_server_is_known_by_its_authority_and_we_by_our_token() {
    let issuer = issuer();
    let (port, _server) = serve(Some(acceptor(&issuer, "127.0.0.1", false))).await;
    let mut endpoint = endpoint(format!("https://127.0.0.1:{port}/base/"), pem(&issuer));
    assert_eq!(ask(&endpoint).await, Answer::Status(200));
    endpoint.token = Some("bad".to_owned());
    assert_eq!(ask(&endpoint).await, Answer::Status(401));
    endpoint.token = Some("line\nbreak".to_owned());
    assert!(matches!(ask(&endpoint).await, Answer::Unreachable(_)));
    endpoint.trust = Trust::System;
    assert!(matches!(ask(&endpoint).await, Answer::Tls(_)));
    endpoint.trust = Trust::Pem(b"nonsense".to_vec());
    assert!(matches!(ask(&endpoint).await, Answer::Tls(_)));
}

#[tokio::test]
async fn the_name_in_a_certificate_may_be_another() {
    let issuer = issuer();
    let (port, _server) = serve(Some(acceptor(&issuer, "kubernetes.default", false))).await;
    let mut endpoint = endpoint(format!("https://127.0.0.1:{port}/base"), pem(&issuer));
    assert!(matches!(ask(&endpoint).await, Answer::Tls(_)));
    endpoint.server_name = Some("kubernetes.default".to_owned());
    assert_eq!(ask(&endpoint).await, Answer::Status(200));
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_there_is_one() {
    let issuer = issuer();
    let (port, _server) = serve(Some(acceptor(&issuer, "127.0.0.1", true))).await;
    let mut endpoint = endpoint(format!("https://127.0.0.1:{port}/base"), pem(&issuer));
    assert!(matches!(ask(&endpoint).await, Answer::Tls(_)));
    let (certificate, key) = signed(&issuer, "admin");
    endpoint.identity = Some((certificate.pem().into_bytes(), key.serialize_pem().into_bytes()));
    assert_eq!(ask(&endpoint).await, Answer::Status(200));
}

/// Answers every request with `answer`, and records everything that was sent to it.
async fn record(answer: &'static str) -> (u16, Arc<Mutex<Vec<u8>>>, Group<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Arc::<Mutex<Vec<u8>>>::default();
    let recorder = Arc::clone(&received);
    let mut group = Group::default();
    group.spawn("recorder", async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                recorder.lock().unwrap().extend_from_slice(&buffer[..length]);
                if buffer[..length].ends_with(b"\r\n\r\n") {
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            }
        }
    });
    (port, received, group)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

// Finding A-3
#[tokio::test]
async fn no_credential_is_sent_over_plain_http() {
    let (port, received, _server) = record(OK).await;
    let issuer = issuer();
    let (certificate, key) = signed(&issuer, "admin");
    let mut endpoint = endpoint(format!("http://ann:hunter2@127.0.0.1:{port}/base"), Trust::System);
    endpoint.identity = Some((certificate.pem().into_bytes(), key.serialize_pem().into_bytes()));
    assert_eq!(ask(&endpoint).await, Answer::Status(200));
    let received = String::from_utf8(received.lock().unwrap().clone()).unwrap();
    let expected = format!("GET /base/healthz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    assert_eq!(received, expected, "the request has no credential of any kind");
    assert!(!format!("{endpoint:?}").contains("hunter2"), "{endpoint:?}");
}

// Finding A-3: the same from kubeconfig files, as the daemon calls it.
#[tokio::test]
async fn a_current_context_with_a_plain_http_server_is_asked_anonymously() {
    let (port, received, _server) = record(OK).await;
    for user in ["{token: hunter2}", "{tokenFile: token}", "{username: ann, password: hunter2}"] {
        let folder = Folder::new();
        folder.write("token", "hunter2");
        let text = format!(
            "apiVersion: v1\nclusters:\n- name: c\n  cluster: {{server: 'http://127.0.0.1:{port}'}}\ncontexts:\n- name: x\n  \
             context: {{cluster: c, user: u}}\ncurrent-context: x\nusers:\n- name: u\n  user: {user}\n"
        );
        let merge = merge(&[&folder.write("config", &text)]);
        merge.publish(&cluster(1), &support::user()).await.unwrap();
        let verdict = merge.switch_current(&NetworkProbe { within: Duration::from_secs(10) }).await.unwrap();
        assert_eq!(verdict, Verdict::Keep(Keep::Answers), "{user}");
        let received = String::from_utf8(std::mem::take(&mut *received.lock().unwrap())).unwrap();
        assert_eq!(received, format!("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"), "{user}");
    }
}

// Finding A-3
#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let (elsewhere, received, _other) = record(OK).await;
    let answer = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (port, _, _server) = record(answer.leak()).await;
    assert_eq!(ask(&endpoint(format!("http://127.0.0.1:{port}"), Trust::System)).await, Answer::Status(307));
    assert!(received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn where_nobody_listens_we_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    assert_eq!(ask(&endpoint(format!("https://127.0.0.1:{port}"), Trust::System)).await, Answer::Refused);
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let probe = NetworkProbe { within: Duration::from_millis(100) };
    for scheme in ["http", "https"] {
        assert_eq!(probe.ask(&endpoint(format!("{scheme}://127.0.0.1:{port}"), Trust::System)).await, Answer::TimedOut);
    }
}
