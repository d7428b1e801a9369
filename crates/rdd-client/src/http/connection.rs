//! One connection to the daemon, for requests one after the other.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use rdd_stdx::task::Group;
use tokio::time::timeout;

use super::{Asked, Client, Error};

/// Whoever asks without saying who.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("rdd-client/", env!("CARGO_PKG_VERSION")));

/// An open connection. It must live as long as the body of an answer is read.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
    _driver: Group<()>,
}

impl Client {
    /// A connection that several requests can use one after the other, opened within the client's time limit.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let asked = Asked::of(&Method::GET, self.url(""));
        let opened = timeout(self.timeout, self.open(&asked)).await.map_err(|_| asked.late(self.timeout))?;
        let (sender, driver) = opened?;
        Ok(Connection { client: self.clone(), sender, _driver: driver })
    }
}

impl Connection {
    /// Whether it can take another request; `false` when the server has closed it.
    pub async fn is_usable(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// Sends a request, whose URI is a path, and gives the head of the answer; the body comes as it is read.
    ///
    /// `Host` and the credentials of the client are added. There is no bound on the time it takes: whoever calls has one.
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
            // A header may be there several times, as the groups of who is impersonated are.
            headers.append(name, value.clone());
        }
        self.sender.send_request(request).await.map_err(|error| asked.broken(error.into()))
    }
}
