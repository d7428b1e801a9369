//! Asks a server whether it is well, as the user's kubectl would reach it. Credentials are sent over verified TLS only.

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

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It answered with this status.
    Status(u16),
    /// Nothing listens at any of its addresses.
    Refused,
    /// It took too long.
    TimedOut,
    /// No TLS connection came about.
    Tls(String),
    /// Anything else that networks do.
    Unreachable(String),
}

/// Who asks.
pub trait Probe: Send + Sync {
    /// Asks once, in bounded time.
    fn ask(&self, endpoint: &Endpoint) -> impl Future<Output = Answer> + Send;
}

/// Asks over the network.
#[derive(Debug, Clone, Copy)]
pub struct NetworkProbe {
    /// How long it may take in all.
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
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = endpoint.server.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = rdd_stdx::dns::connect(host, port).await.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Answer::Refused,
        io::ErrorKind::TimedOut => Answer::TimedOut,
        _ => Answer::Unreachable(error.to_string()),
    })?;
    if !is_tls {
        // Anybody on the path could read the token. kubectl sends none over plain HTTP either.
        return health(endpoint, None, TokioIo::new(stream)).await;
    }
    let tls = |error: &dyn std::fmt::Display| Answer::Tls(error.to_string());
    let config = trust(endpoint).map_err(Answer::Tls)?;
    let name = endpoint.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(name).map_err(|error| tls(&error))?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| tls(&error))?;
    health(endpoint, endpoint.token.as_deref(), TokioIo::new(stream)).await
}

/// Sends one request for the health, with this bearer token, and does not follow redirects.
async fn health<S>(endpoint: &Endpoint, token: Option<&str>, stream: S) -> Result<u16, Answer>
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send,
{
    let failed = |error: hyper::Error| {
        // A server that does not take our certificate says so only after the handshake.
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
        // Whatever ended it, the answer says what that means for the request.
        _ = connection => answer.await,
    };
    response.map(|response| response.status().as_u16()).map_err(failed)
}

fn request(endpoint: &Endpoint, token: Option<&str>) -> Option<Request<Empty<Bytes>>> {
    let base = endpoint.server.path().trim_end_matches('/');
    let authority = endpoint.server.authority()?.as_str();
    // A name and a password in the URL are credentials, too.
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
