//! Authenticated calls to the daemon, over TLS that trusts what the kubeconfig names and nothing else.

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

/// How long a call may take, if nobody says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// How large the body of an answer may be that is kept in memory.
pub const BODY_BYTES: usize = 16 * 1024 * 1024;
/// How much of the body of a failed download is read for its message.
const MESSAGE_BYTES: usize = 64 * 1024;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A call that failed. Each names the URL, which never carries a token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody listens there, or not any more.
    #[error("connect to {url}")]
    Connect {
        /// The URL.
        url: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Whoever listens there is not the daemon of this kubeconfig.
    #[error("secure the connection to {url}")]
    Tls {
        /// The URL.
        url: String,
        /// What the library said.
        #[source]
        source: io::Error,
    },
    /// It took too long.
    #[error("{method} {url}: no answer within {after:?}")]
    Timeout {
        /// What was asked, in small letters.
        method: String,
        /// The URL.
        url: String,
        /// The limit.
        after: Duration,
    },
    /// The connection broke.
    #[error("{method} {url}")]
    Broken {
        /// What was asked, in small letters.
        method: String,
        /// The URL.
        url: String,
        /// What the library said.
        #[source]
        source: BoxError,
    },
    /// The answer is larger than what is kept in memory.
    #[error("{method} {url}: the answer is larger than {limit} bytes")]
    TooLarge {
        /// What was asked, in small letters.
        method: String,
        /// The URL.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The server refused or failed.
    #[error("{method} {url}: {message} ({code})")]
    Answered {
        /// What was asked, in small letters.
        method: String,
        /// The URL.
        url: String,
        /// The status code.
        code: StatusCode,
        /// What the server said.
        message: String,
    },
    /// What was downloaded could not be kept.
    #[error("keep what {url} sent")]
    Write {
        /// The URL.
        url: String,
        /// What the writer said.
        #[source]
        source: io::Error,
    },
}

/// An answer, whatever its code.
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
    /// Itself if the server says that it went well, otherwise an error with what the server said.
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
    /// Its media type.
    pub kind: &'static str,
    /// The body itself.
    pub bytes: Bytes,
}

/// A client of one daemon ([`Client::from_kubeconfig`]), or of any API server ([`Client::from_server`]).
#[derive(Clone)]
pub struct Client {
    route: Route,
    /// `None` is plain HTTP.
    tls: Option<TlsEndpoint>,
    /// `host:port`, as the kubeconfig has it.
    authority: String,
    /// The path that the server lies under; empty at a daemon.
    prefix: String,
    /// Headers of every request, credentials among them.
    headers: HeaderMap,
    timeout: Duration,
    body_bytes: usize,
}

/// What secures connections.
#[derive(Clone)]
struct TlsEndpoint {
    connector: TlsConnector,
    /// What the certificate must stand for.
    name: ServerName<'static>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server, as the user, of a context; of the current one if none is named.
    ///
    /// Servers other than loopback are refused: a token of ours goes nowhere else.
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

    /// The same client with another limit for the time of a call, or of a pause in a download.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same client with another limit for the size of an answer.
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

    /// Asks for a path, which begins with `/` and may have a query, and reads the whole answer, whatever its code.
    pub async fn get(&self, path: &str) -> Result<Response, Error> {
        self.call(Method::GET, path, None).await
    }

    /// As [`Client::get`], with any method and, if there is one, a body.
    ///
    /// A call that failed may have had its effect all the same: only an answer tells.
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

    /// Asks for a path and writes the answer as it comes; returns its size. There is no limit for the whole, but none of
    /// its parts may take longer than the timeout. An answer that breaks off is an error, as is one that is a failure.
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

    /// Asks for a path whose answer comes line by line and may never end, as that of a watch. The timeout counts for its
    /// beginning only, the size limit for each line. An answer that is a failure is an error.
    pub async fn lines(&self, path: &str) -> Result<Lines, Error> {
        let (asked, body, connection) = self.begin(path).await?;
        Ok(Lines::new(asked, body, connection, self.body_bytes))
    }

    /// The beginning of a successful answer.
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

    /// The head of the answer, and the connection, which must live as long as the body is read.
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

    /// A connection that takes requests as long as the group lives.
    async fn open(&self, asked: &Asked) -> Result<(http1::SendRequest<Full<Bytes>>, Group<()>), Error> {
        let url = || asked.url.clone();
        let stream = self.route.connect().await.map_err(|source| Error::Connect { url: url(), source })?;
        // A request is small and waits for its answer: nothing is gained by holding it back.
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

/// Begins HTTP/1.1 on a stream that nothing was said on yet.
async fn shake_hands<S>(asked: &Asked, stream: S) -> Result<(http1::SendRequest<Full<Bytes>>, Group<()>), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| asked.broken(error.into()))?;
    let mut connections = Group::default();
    connections.spawn("client connection", async move {
        // What goes wrong here goes wrong for the request or its body too, and is told there.
        let _ = connection.await;
    });
    Ok((sender, connections))
}

/// What was asked, for messages.
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

    /// What the server said, from a `Status` if it sent one, otherwise the text itself, cut to a sensible length.
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
