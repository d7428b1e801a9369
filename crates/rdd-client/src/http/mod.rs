//! Authenticated API calls over TLS, which trusts only the certificates in the kubeconfig.

mod connection;
mod lines;
mod route;
mod server;
mod target;

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rdd_meta::Status;
use rdd_stdx::task::Group;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsConnector;

pub use self::{
    connection::Connection,
    lines::Lines,
    route::{InvalidProxyUrl, ProxyServer, SocksProxy},
    server::{InvalidServer, ServerOptions, ServerTrust},
};
use self::{
    route::Route,
    target::{loopback, tls_config},
};
use crate::kubeconfig::{self, Kubeconfig, decode};

/// The default time limit of a call.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// The default limit on the size of a response body in memory.
pub const BODY_BYTES: usize = 16 * 1024 * 1024;
/// The limit on the part of a failed download's body that is read for the error message.
const MESSAGE_BYTES: usize = 64 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed. Messages contain the URL, which never contains a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server's address does not accept connections.
    #[error("connect to {url}")]
    Connect {
        /// The URL.
        url: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The TLS handshake failed: the server is not the one of the kubeconfig.
    #[error("secure the connection to {url}")]
    Tls {
        /// The URL.
        url: String,
        /// The error of the TLS library.
        #[source]
        source: io::Error,
    },
    /// The call exceeded its time limit.
    #[error("{method} {url}: no answer within {after:?}")]
    Timeout {
        /// The method of the request, in lower case.
        method: String,
        /// The URL.
        url: String,
        /// The time limit.
        after: Duration,
    },
    /// The connection failed during the call.
    #[error("{method} {url}")]
    Broken {
        /// The method of the request, in lower case.
        method: String,
        /// The URL.
        url: String,
        /// The error of the HTTP library.
        #[source]
        source: BoxError,
    },
    /// The response body exceeds the size limit.
    #[error("{method} {url}: the answer is larger than {limit} bytes")]
    TooLarge {
        /// The method of the request, in lower case.
        method: String,
        /// The URL.
        url: String,
        /// The size limit in bytes.
        limit: usize,
    },
    /// The server answered with an error status.
    #[error("{method} {url}: {message} ({code})")]
    Answered {
        /// The method of the request, in lower case.
        method: String,
        /// The URL.
        url: String,
        /// The status code.
        code: StatusCode,
        /// The server's message.
        message: String,
    },
    /// The writer of a download failed.
    #[error("keep what {url} sent")]
    Write {
        /// The URL.
        url: String,
        /// The error of the writer.
        #[source]
        source: io::Error,
    },
}

/// A complete response with any status code.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    asked: Asked,
}

impl Response {
    /// Returns the response if its status is a success, otherwise [`Error::Answered`] with the server's message.
    pub fn success(self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(self.asked.answered(self.status, &self.body))
    }
}

/// The body of a request.
#[derive(Debug, Clone)]
pub struct Content {
    /// The media type.
    pub kind: &'static str,
    /// The content.
    pub bytes: Bytes,
}

/// A client of one daemon ([`Client::from_kubeconfig`]) or of any API server ([`Client::from_server`]). Each call opens
/// a connection of its own, unless it goes through [`Client::connect`].
#[derive(Clone)]
pub struct Client {
    route: Route,
    /// `None` for plain HTTP.
    tls: Option<TlsEndpoint>,
    /// `host:port` as in the kubeconfig, for the Host header.
    authority: String,
    /// The path of the server's URL, which precedes the path of every request; empty for a daemon.
    prefix: String,
    /// The headers of every request, including credentials.
    headers: HeaderMap,
    timeout: Duration,
    body_bytes: usize,
}

/// The TLS settings of connections.
#[derive(Clone)]
struct TlsEndpoint {
    connector: TlsConnector,
    /// The name that the server's certificate must be valid for.
    name: ServerName<'static>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client with the cluster and user of a context, or of the current context if none is given.
    ///
    /// # Errors
    /// When the context cannot be resolved, a value is invalid, or the server is not on loopback: the daemon's tokens
    /// must not be sent to other machines.
    pub fn from_kubeconfig(config: &Kubeconfig, context: Option<&str>) -> Result<Self, kubeconfig::Error> {
        let resolved = config.resolve(context)?;
        let invalid = |field, why: String| kubeconfig::Error::Invalid { field, why };
        let (authority, address) =
            loopback(&resolved.cluster.server).map_err(|why| invalid("server", why.to_owned()))?;
        let host = authority.rsplit_once(':').map_or(authority.as_str(), |(host, _)| host);
        let name = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(name).map_err(|error| invalid("server", error.to_string()))?;
        let bundle = decode("certificate-authority-data", &resolved.cluster.certificate_authority_data)?;
        let tls = tls_config(&bundle, resolved.user)?;
        let mut headers = HeaderMap::new();
        let token = resolved.user.token.as_str();
        if !token.is_empty() {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|_| invalid("token", "it is not plain text".to_owned()))?;
            // Debug output of the headers then hides the token.
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        Ok(Self {
            route: Route::Address(address),
            tls: Some(TlsEndpoint { connector: TlsConnector::from(Arc::new(tls)), name }),
            authority,
            prefix: String::new(),
            headers,
            timeout: TIMEOUT,
            body_bytes: BODY_BYTES,
        })
    }

    /// Sets the time limit of a call. In a download it limits each pause.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the limit on the size of a response body.
    #[must_use]
    pub fn with_body_limit(mut self, bytes: usize) -> Self {
        self.body_bytes = bytes;
        self
    }

    /// The URL of a path, for messages.
    pub fn url(&self, path: &str) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}{path}", self.authority, self.prefix)
    }

    /// Gets a path, which starts with `/` and may have a query. Reads the whole response, whatever its status.
    ///
    /// # Errors
    /// When the connection fails, or the call exceeds the time or size limit. An error status is not an error; see
    /// [`Response::success`].
    pub async fn get(&self, path: &str) -> Result<Response, Error> {
        self.call(Method::GET, path, None).await
    }

    /// Like [`get`](Client::get), with any method and an optional body.
    ///
    /// A call that fails may have taken effect on the server nevertheless.
    pub async fn call(&self, method: Method, path: &str, body: Option<Content>) -> Result<Response, Error> {
        let asked = Asked::of(&method, self.url(path));
        let late = |asked: Asked| asked.late(self.timeout);
        let answer = async {
            let (response, _connection) = self.send(&asked, method, path, body).await?;
            let (head, body) = response.into_parts();
            let body = asked.read(body, self.body_bytes).await?;
            Ok(Response { status: head.status, headers: head.headers, body, asked: asked.clone() })
        };
        timeout(self.timeout, answer).await.map_err(|_| late(asked.clone()))?
    }

    /// Gets a path and writes the response body as it arrives. Returns its size.
    ///
    /// The time limit applies to the head of the response and to each pause; the whole download has no limit.
    ///
    /// # Errors
    /// When the server answers with an error status, the response ends early, or the writer fails.
    pub async fn download(&self, path: &str, writer: &mut (dyn io::Write + Send)) -> Result<u64, Error> {
        let (asked, mut body, _connection) = self.begin(path).await?;
        let mut written = 0;
        while let Some(frame) = timeout(self.timeout, body.frame()).await.map_err(|_| asked.late(self.timeout))? {
            let Ok(data) = frame.map_err(|source| asked.broken(source.into()))?.into_data() else { continue };
            writer.write_all(&data).map_err(|source| Error::Write { url: asked.url.clone(), source })?;
            written += data.len() as u64;
        }
        Ok(written)
    }

    /// Gets a path whose response consists of lines and may not end, such as a watch.
    ///
    /// The time limit applies to the head of the response only, the size limit to each line.
    ///
    /// # Errors
    /// When the server answers with an error status or the connection fails.
    pub async fn lines(&self, path: &str) -> Result<Lines, Error> {
        let (asked, body, connection) = self.begin(path).await?;
        Ok(Lines::new(asked, body, connection, self.body_bytes))
    }

    /// Sends a GET request and checks the status of the response.
    async fn begin(&self, path: &str) -> Result<(Asked, Incoming, Group<()>), Error> {
        let asked = Asked::of(&Method::GET, self.url(path));
        let sent = timeout(self.timeout, self.send(&asked, Method::GET, path, None)).await;
        let (response, connection) = sent.map_err(|_| asked.late(self.timeout))??;
        let (code, body) = (response.status(), response.into_body());
        if !code.is_success() {
            let said = timeout(self.timeout, asked.read(body, MESSAGE_BYTES)).await;
            return Err(asked.answered(code, &said.map_err(|_| asked.late(self.timeout))??));
        }
        Ok((asked, body, connection))
    }

    /// Returns the head of the response, and the connection, which must live until the body is read.
    async fn send(
        &self,
        asked: &Asked,
        method: Method,
        path: &str,
        body: Option<Content>,
    ) -> Result<(http::Response<Incoming>, Group<()>), Error> {
        let (mut sender, connections) = self.open(asked).await?;
        let request = self.request(method, path, body).map_err(|error| asked.broken(error.into()))?;
        let response = sender.send_request(request).await.map_err(|error| asked.broken(error.into()))?;
        Ok((response, connections))
    }

    /// Opens a connection, which accepts requests as long as the group lives.
    async fn open(&self, asked: &Asked) -> Result<(http1::SendRequest<Full<Bytes>>, Group<()>), Error> {
        let url = || asked.url.clone();
        let stream = self.route.connect().await.map_err(|source| Error::Connect { url: url(), source })?;
        // A request is small and its response is awaited, so Nagle's algorithm would only delay it.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return shake_hands(asked, stream).await };
        let stream = tls.connector.connect(tls.name.clone(), stream).await;
        shake_hands(asked, stream.map_err(|source| Error::Tls { url: url(), source })?).await
    }

    fn request(&self, method: Method, path: &str, body: Option<Content>) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.prefix))
            .header(header::HOST, &self.authority)
            .header(header::USER_AGENT, concat!("rdd-client/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json, */*");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        match body {
            None => request.body(Full::default()),
            Some(Content { kind, bytes }) => request.header(header::CONTENT_TYPE, kind).body(Full::new(bytes)),
        }
    }
}

/// Starts HTTP/1.1 on a new stream.
async fn shake_hands<S>(asked: &Asked, stream: S) -> Result<(http1::SendRequest<Full<Bytes>>, Group<()>), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| asked.broken(error.into()))?;
    let mut connections = Group::default();
    connections.spawn("client connection", async move {
        // The request or the body reports the same error.
        let _ = connection.await;
    });
    Ok((sender, connections))
}

/// The method and URL of a request, for messages.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    method: String,
    url: String,
}

impl Asked {
    fn of(method: &Method, url: String) -> Self {
        Self { method: method.as_str().to_ascii_lowercase(), url }
    }

    fn late(&self, after: Duration) -> Error {
        Error::Timeout { method: self.method.clone(), url: self.url.clone(), after }
    }

    fn broken(&self, source: BoxError) -> Error {
        Error::Broken { method: self.method.clone(), url: self.url.clone(), source }
    }

    fn too_large(&self, limit: usize) -> Error {
        Error::TooLarge { method: self.method.clone(), url: self.url.clone(), limit }
    }

    async fn read(&self, body: Incoming, limit: usize) -> Result<Bytes, Error> {
        match Limited::new(body, limit).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(self.too_large(limit)),
            Err(source) => Err(self.broken(source)),
        }
    }

    /// The error for a response: with the message of its `Status`, or else with the start of its body.
    fn answered(&self, code: StatusCode, body: &[u8]) -> Error {
        let message = match Status::from_wire(body) {
            Some(status) if !status.message.is_empty() => status.message,
            _ => String::from_utf8_lossy(body).trim().chars().take(500).collect(),
        };
        Error::Answered { method: self.method.clone(), url: self.url.clone(), code, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_server_said() {
        let asked = Asked::of(&Method::GET, "https://127.0.0.1:1/x".to_owned());
        let said = |body: &[u8]| asked.answered(StatusCode::FORBIDDEN, body).to_string();
        assert_eq!(
            said(&Status::forbidden("no").to_wire()),
            "get https://127.0.0.1:1/x: forbidden: no (403 Forbidden)"
        );
        assert_eq!(said(b"plain\n"), "get https://127.0.0.1:1/x: plain (403 Forbidden)");
    }
}
