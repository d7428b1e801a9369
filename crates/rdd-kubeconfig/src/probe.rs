//! Probes the health of a server as the user's kubectl would reach it. Sends credentials over verified TLS only.

use std::{future::Future, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio_rustls::TlsConnector;

use crate::situation::{Endpoint, Trust};

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The server answered with this status code.
    Status(u16),
    /// All addresses of the server refuse connections.
    Refused,
    /// The server did not answer in time.
    TimedOut,
    /// The TLS connection failed.
    Tls(String),
    /// Any other network error.
    Unreachable(String),
}

/// Probes servers; tests use an implementation without a network.
pub trait Probe: Send + Sync {
    /// Probes a server once, in bounded time.
    fn ask(&self, endpoint: &Endpoint) -> impl Future<Output = Answer> + Send;
}

/// Probes over the network.
#[derive(Debug, Clone, Copy)]
pub struct NetworkProbe {
    /// The time limit of a probe.
    pub within: Duration,
}

impl Default for NetworkProbe {
    fn default() -> Self {
        Self { within: Duration::from_secs(3) }
    }
}

impl Probe for NetworkProbe {
    async fn ask(&self, endpoint: &Endpoint) -> Answer {
        match tokio::time::timeout(self.within, ask(endpoint)).await {
            Ok(Ok(status)) => Answer::Status(status),
            Ok(Err(answer)) => answer,
            Err(_) => Answer::TimedOut,
        }
    }
}

async fn ask(endpoint: &Endpoint) -> Result<u16, Answer> {
    let is_tls = endpoint.server.scheme_str() == Some("https");
    let host = endpoint.server.host().unwrap_or_default();
    // A URL has an IPv6 address in brackets; the resolver and TLS do not expect them.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = endpoint.server.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = rdd_stdx::dns::connect(host, port).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Answer::Refused,
        io::ErrorKind::TimedOut => Answer::TimedOut,
        _ => Answer::Unreachable(error.to_string()),
    })?;
    if !is_tls {
        // The token could be read in transit. kubectl does not send it over plain HTTP either.
        return health(endpoint, None, TokioIo::new(stream)).await;
    }
    let tls = |error: &dyn std::fmt::Display| Answer::Tls(error.to_string());
    let config = trust(endpoint).map_err(Answer::Tls)?;
    let name = endpoint.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name).map_err(|error| tls(&error))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| tls(&error))?;
    health(endpoint, endpoint.token.as_deref(), TokioIo::new(stream)).await
}

/// Sends one health request with this bearer token, and does not follow redirects.
async fn health<S>(endpoint: &Endpoint, token: Option<&str>, stream: S) -> Result<u16, Answer>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send,
{
    let failed = |error: hyper::Error| {
        // A server rejects a client certificate only after the handshake, with an alert.
        let chain = rdd_stdx::chain::Chain(&error).to_string();
        if chain.contains("alert") { Answer::Tls(chain) } else { Answer::Unreachable(chain) }
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(failed)?;
    let request = request(endpoint, token);
    let request = request.ok_or_else(|| Answer::Unreachable("no request can be made of it".to_owned()))?;
    let answer = sender.send_request(request);
    tokio::pin!(answer);
    let response = tokio::select! {
        biased;
        response = &mut answer => response,
        // The connection ended; its error is reported by the response.
        _ = connection => answer.await,
    };
    response.map(|response| response.status().as_u16()).map_err(failed)
}

fn request(endpoint: &Endpoint, token: Option<&str>) -> Option<Request<Empty<Bytes>>> {
    let base = endpoint.server.path().trim_end_matches('/');
    let authority = endpoint.server.authority()?.as_str();
    // The login in a URL is a credential, too, and does not belong into the Host header.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path: Uri = format!("{base}/healthz").parse().ok()?;
    let request = Request::get(path).header(header::HOST, host);
    let request = match token {
        Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        None => request,
    };
    request.body(Empty::new()).ok()
}

fn trust(endpoint: &Endpoint) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match &endpoint.trust {
        Trust::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Trust::Pem(pem) => {
            let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            roots.add_parsable_certificates(certificates.map_err(|_| "its authorities are not PEM".to_owned())?);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?.with_root_certificates(roots);
    let Some((certificate, key)) = &endpoint.identity else { return Ok(builder.with_no_client_auth()) };
    let certificates = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|_| "our certificate is not PEM".to_owned())?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "our key is not PEM".to_owned())?;
    builder.with_client_auth_cert(certificates, key).map_err(|error| error.to_string())
}
