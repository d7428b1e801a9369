//! A bare HTTP client of an engine, so that the contract tests see exactly what is on the wire.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rdd_stdx::task::Group;
use serde_json::Value;
use tokio::net::UnixStream;

/// The timeout of every answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of one engine.
#[derive(Debug, Clone)]
pub struct Ask {
    socket: PathBuf,
    /// The prefix of every path, such as `/v1.41`.
    version: String,
}

/// A response of an engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body as JSON; null if it is not JSON.
    pub json: Value,
    /// The body.
    pub bytes: Bytes,
    /// The `Api-Version` header.
    pub api_version: String,
    /// The `Content-Type` header.
    pub content_type: String,
}

impl Answer {
    /// The error message.
    pub fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }

    /// Asserts the status code.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.bytes));
        self
    }
}

impl Ask {
    /// A client of the engine behind this socket, with the oldest supported API version.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), version: "/v1.41".to_owned() }
    }

    /// The same client with another API version; without any if empty.
    pub fn speaking(&self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self.clone() }
    }

    /// Sends a GET request.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, "", Bytes::new()).await
    }

    /// Sends a POST request without a body.
    pub async fn post(&self, path: &str) -> Answer {
        self.send(Method::POST, path, "", Bytes::new()).await
    }

    /// Sends a POST request with JSON.
    pub async fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, "application/json", body.to_string().into()).await
    }

    /// Sends a POST request with an archive.
    pub async fn post_tar(&self, path: &str, body: &Bytes) -> Answer {
        self.send(Method::POST, path, "application/x-tar", body.clone()).await
    }

    /// Sends a DELETE request.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, "", Bytes::new()).await
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: Bytes) -> Answer {
        self.try_send(method, path, kind, body).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends a request. An error means that the connection failed and that the effect of the request is unknown.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn try_send(&self, method: Method, path: &str, kind: &str, body: Bytes) -> Result<Answer, String> {
        let what = format!("{method} {path}");
        let answered = tokio::time::timeout(PATIENCE, async {
            let (response, _connection) = self.open(method, path, kind, body).await?;
            let header = |name: &str| {
                let value = response.headers().get(name).and_then(|value| value.to_str().ok());
                value.unwrap_or_default().to_owned()
            };
            let (status, api_version, content_type) =
                (response.status().as_u16(), header("api-version"), header("content-type"));
            let bytes = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
            let json = serde_json::from_slice(&bytes).unwrap_or_default();
            Ok(Answer { status, json, bytes, api_version, content_type })
        });
        let answer: Result<Answer, String> =
            answered.await.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}")));
        answer.map_err(|error| format!("{what}: {error}"))
    }

    async fn open(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> Result<(Response<Incoming>, Group<()>), String> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| error.to_string())?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| error.to_string())?;
        let mut connections = Group::default();
        connections.spawn("connection", async move {
            let _ = connection.await;
        });
        let uri = format!("{}{path}", self.version);
        let mut request = Request::builder().method(method).uri(uri).header("Host", "engine");
        if !kind.is_empty() {
            request = request.header("Content-Type", kind);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        Ok((response, connections))
    }

    /// Opens a streaming response.
    ///
    /// # Panics
    /// When there is no successful response.
    pub async fn stream(&self, path: &str) -> Stream {
        self.try_stream(path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Opens a streaming response.
    ///
    /// # Errors
    /// When there is no successful response.
    pub async fn try_stream(&self, path: &str) -> Result<Stream, String> {
        let (response, connections) = self.open(Method::GET, path, "", Bytes::new()).await?;
        if response.status() != 200 {
            return Err(format!("it answers {}", response.status()));
        }
        Ok(Stream { body: response.into_body(), rest: BytesMut::new(), _connections: connections })
    }
}

/// A streaming response.
#[derive(Debug)]
pub struct Stream {
    body: Incoming,
    rest: BytesMut,
    _connections: Group<()>,
}

impl Stream {
    /// Returns the next line as JSON; `None` at the end or after an error.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.split_to(end + 1);
                return Some(serde_json::from_slice(&line).unwrap_or_default());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a stream that goes on or ends");
            match frame {
                Some(Ok(frame)) => self.rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Reads the rest of the stream.
    pub async fn rest(mut self) -> Bytes {
        while let Some(frame) =
            tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a stream that goes on or ends")
        {
            let Ok(frame) = frame else { break };
            self.rest.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
        self.rest.freeze()
    }

    /// Returns the action of the next event of this object; skips others.
    pub async fn action_of(&mut self, id: &str) -> Option<String> {
        loop {
            let event = self.next().await?;
            if event["Actor"]["ID"] == id {
                return event["Action"].as_str().map(str::to_owned);
            }
        }
    }

    /// Reads until this object has this event.
    pub async fn until(&mut self, id: &str, action: &str) {
        while let Some(seen) = self.action_of(id).await {
            if seen == action {
                return;
            }
        }
        panic!("the stream ended without {action} of {id}");
    }
}
