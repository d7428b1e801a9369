//! A minimal HTTP client over TLS, one request at a time per connection.

use std::{net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rdd_client::kubeconfig::Kubeconfig;
use rdd_stdx::task::Group;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub(crate) const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }

    fn alpn(self) -> Vec<u8> {
        match self {
            Self::Http1 => b"http/1.1".to_vec(),
            Self::Http2 => b"h2".to_vec(),
        }
    }
}

/// A server, with the certificates to trust and the token to send.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    roots: Arc<RootCertStore>,
    authorization: HeaderValue,
}

impl Endpoint {
    /// The server of a daemon's kubeconfig, with administrator rights.
    pub(crate) fn of_daemon(config: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(config).with_context(|| format!("read {}", config.display()))?;
        let config = Kubeconfig::parse(&text).context("read the kubeconfig")?;
        let resolved = config.resolve(None).context("find the current context")?;
        let server = resolved.cluster.server.strip_prefix("https://").context("find the server")?;
        let bundle =
            BASE64_STANDARD.decode(&resolved.cluster.certificate_authority_data).context("decode the bundle")?;
        let address = server.replace("localhost", "127.0.0.1").parse().context("read the server's address")?;
        Self::new(address, &bundle, &resolved.user.token)
    }

    /// A server with these trusted certificates.
    pub(crate) fn new(address: SocketAddr, bundle: &[u8], token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle) {
            roots.add(certificate.context("read a certificate")?).context("trust a certificate")?;
        }
        let authorization = HeaderValue::try_from(format!("Bearer {token}")).context("show a token")?;
        Ok(Self { address, roots: Arc::new(roots), authorization })
    }

    pub(crate) async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let stream = self.secure(protocol).await.with_context(|| format!("connect to {}", self.address))?;
        let mut driver = Group::default();
        // If a connection breaks, its requests fail, so the driver's own error adds nothing.
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.context("greet")?;
                driver.spawn("connection", async { drop(connection.await) });
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                // The flow control windows of Go's client, so that a list does not depend on round trips.
                builder.initial_stream_window_size(4 << 20).initial_connection_window_size(1 << 30);
                let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.context("greet")?;
                driver.spawn("connection", async { drop(connection.await) });
                Sender::Http2(sender)
            }
        };
        let (authority, authorization) = (self.address.to_string(), self.authorization.clone());
        Ok(Connection { sender, authority, authorization, _driver: driver })
    }

    pub(crate) async fn connect_many(&self, protocol: Protocol, count: usize) -> Result<Vec<Connection>> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(self.connect(protocol).await?);
        }
        Ok(connections)
    }

    async fn secure(&self, protocol: Protocol) -> Result<TlsStream<TcpStream>> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().context("choose a version of TLS")?;
        let mut config = builder.with_root_certificates(Arc::clone(&self.roots)).with_no_client_auth();
        config.alpn_protocols = vec![protocol.alpn()];
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// A connection; dropping it closes it.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: Sender,
    authority: String,
    authorization: HeaderValue,
    _driver: Group<()>,
}

impl Connection {
    /// Sends a request and returns the response, whatever its status, as soon as the headers have arrived.
    pub(crate) async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let kind = if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
        let builder = Request::builder()
            .method(method)
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, "rdd-bench/1")
            .header(header::CONTENT_TYPE, kind);
        let request = match &self.sender {
            Sender::Http1(_) => builder.uri(path).header(header::HOST, &self.authority),
            Sender::Http2(_) => builder.version(Version::HTTP_2).uri(format!("https://{}{path}", self.authority)),
        };
        let request = request.body(Full::new(body)).context("make a request")?;
        let sent = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await.context("wait for a connection")?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                sender.ready().await.context("wait for a connection")?;
                sender.send_request(request).await
            }
        };
        sent.with_context(|| format!("ask for {path}"))
    }

    /// Gets a path, which must succeed, and discards the body. Returns its size.
    pub(crate) async fn skim(&mut self, path: &str) -> Result<usize> {
        let mut response = self.send(Method::GET, path, Bytes::new()).await?;
        ensure!(response.status().is_success(), "GET {path}: {}", response.status());
        let mut bytes = 0;
        while let Some(frame) = response.frame().await {
            bytes += frame.context("read an answer")?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    /// Gets a path, which must succeed, with the whole body.
    pub(crate) async fn fetch(&mut self, path: &str) -> Result<(HeaderMap, Bytes)> {
        let (head, body) = self.send(Method::GET, path, Bytes::new()).await?.into_parts();
        let body = body.collect().await.context("read an answer")?.to_bytes();
        ensure!(head.status.is_success(), "GET {path}: {}: {}", head.status, String::from_utf8_lossy(&body));
        Ok((head.headers, body))
    }

    /// Creates an object, which must succeed.
    pub(crate) async fn create(&mut self, path: &str, object: Bytes) -> Result<()> {
        let response = self.send(Method::POST, path, object).await?;
        let status = response.status();
        let body = response.into_body().collect().await.context("read an answer")?.to_bytes();
        if !status.is_success() {
            bail!("POST {path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(())
    }
}
