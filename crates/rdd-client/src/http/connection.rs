//! A connection to a server for consecutive requests.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use rdd_stdx::task::Group;
use tokio::time::timeout;

use super::{Asked, Client, Error};

/// The default user agent.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("rdd-client/", env!("CARGO_PKG_VERSION")));

/// An open connection. It must live until the body of the last response is read.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
    _driver: Group<()>,
}

impl Client {
    /// Opens a connection for several consecutive requests, within the client's time limit.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let asked = Asked::of(&Method::GET, self.url(""));
        let opened = timeout(self.timeout, self.open(&asked)).await.map_err(|_| asked.late(self.timeout))?;
        let (sender, driver) = opened?;
        Ok(Connection { client: self.clone(), sender, _driver: driver })
    }
}

impl Connection {
    /// Whether the connection can take another request; `false` once the server has closed it.
    pub async fn is_usable(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request whose URI is a path. Returns the head of the response; the body arrives as it is read.
    ///
    /// Adds the `Host` header and the client's credentials. There is no time limit, so the caller must set one.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Response<Incoming>, Error> {
        let asked = Asked::of(request.method(), self.client.url(request.uri().path()));
        let mut request = request.map(Full::new);
        if !self.client.prefix.is_empty() {
            let rest = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let uri = format!("{}{rest}", self.client.prefix);
            *request.uri_mut() = uri.parse().map_err(|error: http::uri::InvalidUri| asked.broken(error.into()))?;
        }
        let headers = request.headers_mut();
        let host = HeaderValue::try_from(&self.client.authority).map_err(|error| asked.broken(error.into()))?;
        headers.insert(header::HOST, host);
        headers.entry(header::USER_AGENT).or_insert(AGENT);
        for (name, value) in &self.client.headers {
            // Appended, since a header may occur several times: impersonated groups do.
            headers.append(name, value.clone());
        }
        self.sender.send_request(request).await.map_err(|error| asked.broken(error.into()))
    }
}
