//! Webhooks of other processes: one POST over HTTPS, in HTTP/1.1 or HTTP/2, over connections that are used again.

mod connect;
mod fault;
mod pool;
mod trust;

use std::sync::Arc;

use bytes::Bytes;
use http::{
    HeaderMap, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rdd_stdx::dns::Resolver;
use tokio::time::{Instant, timeout_at};

use self::{
    connect::{Connection, Sender},
    pool::{Key, Pool},
};
use super::{
    endpoint::{Endpoint, Place},
    resolve::Resolve,
};

/// How large an answer may be: room for a patch that replaces the largest object, in base64, and then some.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
const DEADLINE: &str = "context deadline exceeded";

/// A client of webhooks.
#[derive(Debug)]
pub(super) struct Network {
    services: Arc<dyn Resolve>,
    resolver: Resolver,
    pool: Pool,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) status: StatusCode,
    pub(super) content_type: String,
    pub(super) retry_after_seconds: u32,
    pub(super) body: Bytes,
}

/// Why nothing was, in Go's words.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unanswered {
    /// The request did not get through; to be told with its URL.
    Unsent(String),
    /// The answer broke off.
    Broken(String),
}

impl Network {
    pub(super) fn new(services: Arc<dyn Resolve>, resolver: Resolver) -> Self {
        Self { services, resolver, pool: Pool::default() }
    }

    /// Posts JSON. Redirects are not followed: what is told to a webhook is told to nobody else.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        query: &str,
        json: Bytes,
        deadline: Instant,
    ) -> Result<Answered, Unanswered> {
        let sent = timeout_at(deadline, self.send(endpoint, query, json)).await;
        let (connection, response) = sent.unwrap_or_else(|_| Err(DEADLINE.to_owned())).map_err(Unanswered::Unsent)?;
        let (head, body) = response.into_parts();
        let read = timeout_at(deadline, read(body)).await;
        let body = read.unwrap_or_else(|_| Err(DEADLINE.to_owned())).map_err(Unanswered::Broken)?;
        self.pool.put(connection);
        let text = |name| head.headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        Ok(Answered {
            status: head.status,
            content_type: text(CONTENT_TYPE).unwrap_or_default().to_owned(),
            retry_after_seconds: text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok()).unwrap_or_default(),
            body,
        })
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        query: &str,
        json: Bytes,
    ) -> Result<(Connection, http::Response<Incoming>), String> {
        let place = match &endpoint.place {
            Place::Host { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Place::Host { host, port } => format!("{host}:{port}"),
            Place::Service { namespace, name, port } => self.services.resolve(namespace, name, *port)?,
        };
        let key = Key::of(endpoint, place);
        if let Some(mut known) = self.pool.take(&key) {
            // The other side may have closed it while nobody looked. Then it has not seen the request, and a new one will do.
            if let Ok(response) = known.sender.send(request(endpoint, query, &json, &known.sender)?).await {
                return Ok((known, response));
            }
        }
        let mut fresh = connect::connect(key, endpoint, &self.resolver).await?;
        let request = request(endpoint, query, &json, &fresh.sender)?;
        let response = fresh.sender.send(request).await.map_err(|error| fault::http(&error))?;
        Ok((fresh, response))
    }
}

fn request(endpoint: &Endpoint, query: &str, json: &Bytes, sender: &Sender) -> Result<Request<Full<Bytes>>, String> {
    let (authority, path) = (&endpoint.authority, &endpoint.path);
    let mut headers = HeaderMap::new();
    // HTTP/2 has the whole URL in the request, HTTP/1.1 only the path.
    let uri = match sender {
        Sender::Http1(_) => {
            let host = authority.parse().map_err(|error| format!("invalid host {authority:?}: {error}"))?;
            headers.insert(HOST, host);
            format!("{path}?{query}")
        }
        Sender::Http2(_) => format!("https://{authority}{path}?{query}"),
    };
    let request = Request::post(uri)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission");
    let mut request = request.body(Full::new(json.clone())).map_err(|error| error.to_string())?;
    request.headers_mut().extend(headers);
    Ok(request)
}

async fn read(body: Incoming) -> Result<Bytes, String> {
    match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(format!("the response is larger than {ANSWER_BYTES_MAX} bytes"))
        }
        Err(error) => Err(error.downcast_ref().map_or_else(|| error.to_string(), fault::http)),
    }
}
