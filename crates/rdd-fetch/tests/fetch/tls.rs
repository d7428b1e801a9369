//! Over TLS, and through a proxy.

use std::{fs, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rdd_fetch::{Proxy, Sha256};
use rdd_stdx::{chain::Chain, task::Group};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    server::content,
    ways::{asset, fetcher},
};

/// Serves these bytes to everybody who trusts its authority.
async fn serve(bytes: Vec<u8>, name: &str) -> (u16, CertificateDer<'static>, Group<()>) {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = Group::default();
    tasks.spawn("server", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = tls.accept(stream).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
            stream.write_all(&[answer.as_bytes(), &bytes].concat()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    (port, issuer.der().clone(), tasks)
}

#[tokio::test]
async fn a_server_is_trusted_by_its_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(10_000);
    let (port, authority, _server) = serve(bytes.clone(), "localhost").await;
    let wanted = asset(vec![format!("https://localhost:{port}/k3s")], &bytes);
    let error = fetcher(folder.path()).fetch(&wanted, |_| {}).await.unwrap_err();
    assert!(Chain(&error).to_string().contains("invalid peer certificate"), "{}", Chain(&error));
    let trusting = fetcher(folder.path()).with_authorities(vec![authority]);
    assert!(fs::read(trusting.fetch(&wanted, |_| {}).await.unwrap()).unwrap() == bytes);
    let other = asset(vec![format!("https://127.0.0.1:{port}/k3s")], b"x");
    assert!(trusting.fetch(&other, |_| {}).await.is_err(), "it is not known by this name");
}

/// A proxy that connects everybody to one port; what it was told first.
async fn proxy(port: u16, answer: &'static str) -> (u16, Arc<std::sync::Mutex<String>>, Group<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let told = Arc::new(std::sync::Mutex::new(String::new()));
    let telling = told.clone();
    let mut tasks = Group::default();
    tasks.spawn("proxy", async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            *telling.lock().unwrap() = String::from_utf8(head).unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            if let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await {
                let _ = copy_bidirectional(&mut stream, &mut server).await;
            }
        }
    });
    (own, told, tasks)
}

#[tokio::test]
async fn a_proxy_passes_everything_on_and_sees_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = content(10_000);
    let (port, authority, _server) = serve(bytes.clone(), "files.example").await;
    let (through, told, _proxy) = proxy(port, "HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n").await;
    let wanted = asset(vec!["https://files.example/k3s".to_owned()], &bytes);
    let proxy = Proxy::parse(&format!("http://ann:secret@127.0.0.1:{through}"), "other.example").unwrap();
    let fetcher = fetcher(folder.path()).with_authorities(vec![authority]).with_proxy(Some(proxy));
    assert!(fs::read(fetcher.fetch(&wanted, |_| {}).await.unwrap()).unwrap() == bytes);
    assert!(told.lock().unwrap().starts_with("CONNECT files.example:443 HTTP/1.1\r\n"));
    assert_eq!(Sha256::of(&bytes).to_string().len(), 64);
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (through, _told, _proxy) = proxy(1, "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await;
    let proxy = Proxy::parse(&format!("127.0.0.1:{through}"), "").unwrap();
    let wanted = asset(vec!["https://files.example/k3s".to_owned()], b"x");
    let error = fetcher(folder.path()).with_proxy(Some(proxy)).fetch(&wanted, |_| {}).await.unwrap_err();
    let said = Chain(&error).to_string();
    let end = format!("the proxy 127.0.0.1:{through} answered \"HTTP/1.1 407 Proxy Authentication Required\"");
    assert!(said.ends_with(&end), "{said}");
}
