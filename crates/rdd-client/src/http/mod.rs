//! One authenticated call to the daemon, over TLS that trusts what the kubeconfig names and nothing else.

mod target;

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rdd_meta::Status;
use rdd_stdx::task::Group;
use rustls::pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use self::target::{loopback, tls_config};
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
    #[error("get {url}: no answer within {after:?}")]
    Timeout {
        /// The URL.
        url: String,
        /// The limit.
        after: Duration,
    },
    /// The connection broke.
    #[error("get {url}")]
    Broken {
        /// The URL.
        url: String,
        /// What the library said.
        #[source]
        source: BoxError,
    },
    /// The answer is larger than what is kept in memory.
    #[error("get {url}: the answer is larger than {limit} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// The server refused or failed.
    #[error("get {url}: {message} ({code})")]
    Answered {
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
    url: String,
}

impl Response {
    /// Itself if the server says that it went well, otherwise an error with what the server said.
    pub fn success(self) -> Result<Self, Error> {
        if self.status.is_success() {
            return Ok(self);
        }
        Err(answered(self.url, self.status, &self.body))
    }
}

/// A client of one daemon.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    /// What the certificate must stand for.
    name: ServerName<'static>,
    /// `host:port`, as the kubeconfig has it.
    authority: String,
    authorization: Option<HeaderValue>,
    connector: TlsConnector,
    timeout: Duration,
    body_bytes: usize,
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
        let authorization = match resolved.user.token.as_str() {
            "" => None,
            token => {
                let value = HeaderValue::try_from(format!("Bearer {token}"));
                let mut value = value.map_err(|_| invalid("token", "it is not plain text".to_owned()))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let connector = TlsConnector::from(Arc::new(tls));
        Ok(Self { address, name, authority, authorization, connector, timeout: TIMEOUT, body_bytes: BODY_BYTES })
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
        format!("https://{}{path}", self.authority)
    }

    /// Asks for a path, which begins with `/` and may have a query, and reads the whole answer, whatever its code.
    pub async fn get(&self, path: &str) -> Result<Response, Error> {
        let url = self.url(path);
        let asked = async {
            let (response, _connection) = self.send(path).await?;
            let (head, body) = response.into_parts();
            let body = read_limited(&url, body, self.body_bytes).await?;
            Ok(Response { status: head.status, headers: head.headers, body, url: url.clone() })
        };
        let late = |_| Error::Timeout { url: url.clone(), after: self.timeout };
        timeout(self.timeout, asked).await.map_err(late)?
    }

    /// Asks for a path and writes the answer as it comes; returns its size. There is no limit for the whole, but none of
    /// its parts may take longer than the timeout. An answer that breaks off is an error, as is one that is a failure.
    pub async fn download(&self, path: &str, writer: &mut (dyn io::Write + Send)) -> Result<u64, Error> {
        let url = self.url(path);
        let late = || Error::Timeout { url: url.clone(), after: self.timeout };
        let (response, _connection) = timeout(self.timeout, self.send(path)).await.map_err(|_| late())??;
        let code = response.status();
        let mut body = response.into_body();
        if !code.is_success() {
            let said = timeout(self.timeout, read_limited(&url, body, MESSAGE_BYTES)).await.map_err(|_| late())??;
            return Err(answered(url, code, &said));
        }
        let mut written = 0;
        while let Some(frame) = timeout(self.timeout, body.frame()).await.map_err(|_| late())? {
            let frame = frame.map_err(|source| Error::Broken { url: url.clone(), source: source.into() })?;
            let Ok(data) = frame.into_data() else { continue };
            writer.write_all(&data).map_err(|source| Error::Write { url: url.clone(), source })?;
            written += data.len() as u64;
        }
        Ok(written)
    }

    /// The head of the answer, and the connection, which must live as long as the body is read.
    async fn send(&self, path: &str) -> Result<(http::Response<Incoming>, Group<()>), Error> {
        let url = || self.url(path);
        let broken = |source: BoxError| Error::Broken { url: url(), source };
        let stream = TcpStream::connect(self.address).await.map_err(|source| Error::Connect { url: url(), source })?;
        let stream = self.connector.connect(self.name.clone(), stream).await;
        let stream = stream.map_err(|source| Error::Tls { url: url(), source })?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.into()))?;
        let mut connections = Group::default();
        connections.spawn("client connection", async move {
            // What goes wrong here goes wrong for the request or its body too, and is told there.
            let _ = connection.await;
        });
        let request = self.request(path).map_err(|error| broken(error.into()))?;
        let response = sender.send_request(request).await.map_err(|error| broken(error.into()))?;
        Ok((response, connections))
    }

    fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>, http::Error> {
        let mut request = Request::get(path)
            .header(header::HOST, &self.authority)
            .header(header::USER_AGENT, concat!("rdd-client/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json, */*");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request.body(Empty::new())
    }
}

async fn read_limited(url: &str, body: Incoming, limit: usize) -> Result<Bytes, Error> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Error::TooLarge { url: url.to_owned(), limit }),
        Err(source) => Err(Error::Broken { url: url.to_owned(), source }),
    }
}

/// What the server said, from a `Status` if it sent one, otherwise the text itself, cut to a sensible length.
fn answered(url: String, code: StatusCode, body: &[u8]) -> Error {
    let message = match Status::from_wire(body) {
        Some(status) if !status.message.is_empty() => status.message,
        _ => String::from_utf8_lossy(body).trim().chars().take(500).collect(),
    };
    Error::Answered { url, code, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_server_said() {
        let said = |body: &[u8]| answered("https://127.0.0.1:1/x".to_owned(), StatusCode::FORBIDDEN, body).to_string();
        assert_eq!(
            said(&Status::forbidden("no").to_wire()),
            "get https://127.0.0.1:1/x: forbidden: no (403 Forbidden)"
        );
        assert_eq!(said(b"plain\n"), "get https://127.0.0.1:1/x: plain (403 Forbidden)");
    }
}
