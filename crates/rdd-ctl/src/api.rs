//! The API client of the verbs: one connection, blocking calls that return JSON, and watches with callbacks.

use std::{
    cell::RefCell,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{Method, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use rdd_client::http::{Client, Connection};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::{
    cluster::ClientSource,
    error::{Error, Refusal, Result},
};

/// The maximum size of a response body.
const BODY_BYTES_MAX: usize = 1 << 30;
/// The maximum size of a watch event.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The method.
    pub(crate) method: Method,
    /// The path without the query.
    pub(crate) path: String,
    /// The query parameters in order.
    pub(crate) query: Vec<(String, String)>,
    /// The `Accept` header.
    pub(crate) accept: &'static str,
    /// The body with its media type.
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    /// Whether to send the path unescaped, with the query in it.
    pub(crate) is_raw: bool,
}

impl Call {
    /// A GET request.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A request without a body.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), accept: "application/json", body: None, is_raw: false }
    }

    /// Adds a query parameter, unless its value is empty.
    #[must_use]
    pub(crate) fn query(mut self, name: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.query.push((name.to_owned(), value));
        }
        self
    }

    /// Adds a body.
    #[must_use]
    pub(crate) fn body(mut self, media_type: &'static str, body: Vec<u8>) -> Self {
        self.body = Some((media_type, body));
        self
    }

    /// Adds a JSON body.
    #[must_use]
    pub(crate) fn json(self, value: &Value) -> Self {
        let body = rdd_meta::go_json::to_string(value).into_bytes();
        self.body("application/json", body)
    }

    fn uri(&self) -> String {
        if self.is_raw {
            return self.path.clone();
        }
        let mut uri = escape(&self.path, b"/-._~!$&'()*+,;=:@");
        for (index, (name, value)) in self.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(&escape(name, b"-._~"));
            uri.push('=');
            uri.push_str(&escape(value, b"-._~"));
        }
        uri
    }
}

/// Percent-encodes everything but letters, digits and the characters in `kept`.
fn escape(text: &str, kept: &[u8]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// A watch event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub(crate) kind: String,
    /// The object.
    pub(crate) object: Value,
}

/// Why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    /// The callback ended it.
    Seen,
    /// The server closed it.
    Closed,
    /// The timeout passed.
    Late,
}

/// A client of one server with its current connection.
#[derive(Debug)]
pub(crate) struct Api {
    source: ClientSource,
    runtime: Runtime,
    /// The connection with the generation of the client that opened it.
    connection: RefCell<Option<(u64, Connection)>>,
    warnings: RefCell<Vec<String>>,
    timeout: Option<Duration>,
}

impl Api {
    /// Creates a client. `timeout` bounds each request.
    pub(crate) fn new(source: ClientSource, timeout: Option<Duration>) -> Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::text(format!("prepare a call to the control plane: {error}")))?;
        Ok(Self { source, runtime, connection: RefCell::default(), warnings: RefCell::default(), timeout })
    }

    /// The URL of the server, for messages.
    pub(crate) fn url(&self) -> String {
        self.source.url()
    }

    /// Takes the warnings of the responses since the last call.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.borrow_mut())
    }

    /// Sleeps.
    pub(crate) fn pause(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// Sends a request and parses the response as JSON.
    ///
    /// # Errors
    /// When the server is unreachable, when it returns an error status, and when the body is not JSON.
    pub(crate) fn call(&self, call: &Call) -> Result<Value> {
        let body = self.bytes(call)?;
        serde_json::from_slice(&body)
            .map_err(|error| Error::text(format!("couldn't read the answer of {}: {error}", call.path)))
    }

    /// Sends a request and returns the response body.
    ///
    /// # Errors
    /// When the server is unreachable, and when it returns an error status.
    pub(crate) fn bytes(&self, call: &Call) -> Result<Bytes> {
        self.runtime.block_on(async {
            let Some(bound) = self.timeout else { return self.exchange(call).await };
            match tokio::time::timeout(bound, self.exchange(call)).await {
                Ok(answered) => answered,
                Err(_) => Err(self.late()),
            }
        })
    }

    fn late(&self) -> Error {
        Error::Unreachable(
            "Unable to connect to the server: net/http: request canceled (Client.Timeout exceeded while awaiting headers)"
                .to_owned(),
        )
    }

    async fn exchange(&self, call: &Call) -> Result<Bytes> {
        let (generation, mut connection, response) = self.send(call).await?;
        let status = response.status();
        let collected = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
        let body = collected.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
        // Only after the whole body was read can the connection be reused.
        if connection.is_usable().await {
            *self.connection.borrow_mut() = Some((generation, connection));
        }
        if status.is_success() { Ok(body) } else { Err(refused(call, status.as_u16(), &body)) }
    }

    /// Sends a request on the open connection, or on a new one if the server has closed it.
    async fn send(&self, call: &Call) -> Result<(u64, Connection, http::Response<Incoming>)> {
        let (client, generation) = self.source.client()?;
        let kept = self.connection.borrow_mut().take();
        // A connection that was opened with earlier credentials is not reused.
        let mut kept = kept.filter(|(opened_by, _)| *opened_by == generation).map(|(_, connection)| connection);
        if let Some(connection) = &mut kept
            && !connection.is_usable().await
        {
            kept = None;
        }
        let mut connection = match kept {
            Some(connection) => connection,
            None => client.connect().await.map_err(|error| self.no_connection(&client, &error))?,
        };
        let mut request = http::Request::builder()
            .method(call.method.clone())
            .uri(call.uri())
            .header(header::ACCEPT, call.accept)
            .header(header::USER_AGENT, "kubectl/v1.35.4 (rdd ctl)");
        if let Some((media_type, _)) = &call.body {
            request = request.header(header::CONTENT_TYPE, *media_type);
        }
        let body = call.body.as_ref().map_or_else(Bytes::new, |(_, body)| Bytes::copy_from_slice(body));
        let request = request.body(body).map_err(|error| Error::text(error.to_string()))?;
        let response = connection.send(request).await.map_err(|error| self.unreachable(&chain(&error)))?;
        for warning in response.headers().get_all(header::WARNING) {
            self.warnings.borrow_mut().extend(warning.to_str().ok().and_then(warning_text));
        }
        if response.status() == http::StatusCode::UNAUTHORIZED {
            self.source.reject_credentials();
        }
        Ok((generation, connection, response))
    }

    fn no_connection(&self, client: &Client, error: &rdd_client::http::Error) -> Error {
        let url = client.url("");
        let host = url.split_once("://").map_or(url.as_str(), |(_, host)| host);
        match error {
            rdd_client::http::Error::Connect { source, .. }
                if source.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                Error::Unreachable(format!(
                    "The connection to the server {host} was refused - did you specify the right host or port?"
                ))
            }
            error => self.unreachable(&chain(error)),
        }
    }

    fn unreachable(&self, why: &str) -> Error {
        Error::Unreachable(format!("Unable to connect to the server: {why}"))
    }

    /// Watches until the callback breaks, the server closes the watch, or the time is over.
    pub(crate) fn watch(
        &self,
        call: &Call,
        until: Option<Instant>,
        on: &mut dyn FnMut(Event) -> Result<ControlFlow<()>>,
    ) -> Result<WatchEnd> {
        self.runtime.block_on(async {
            let watched = self.follow(call, on);
            // `--request-timeout` applies to watches as well.
            let bound = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let until = [until, bound].into_iter().flatten().min();
            let Some(until) = until else { return watched.await };
            match tokio::time::timeout_at(until.into(), watched).await {
                Ok(ended) => ended,
                Err(_) => Ok(WatchEnd::Late),
            }
        })
    }

    async fn follow(&self, call: &Call, on: &mut dyn FnMut(Event) -> Result<ControlFlow<()>>) -> Result<WatchEnd> {
        let (_, _connection, response) = self.send(call).await?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let said = Limited::new(body, EVENT_BYTES_MAX).collect().await;
            let said = said.map_err(|error| self.unreachable(&error.to_string()))?.to_bytes();
            return Err(refused(call, status.as_u16(), &said));
        }
        let mut buffer = BytesMut::new();
        while let Some(frame) = body.frame().await {
            // A broken connection ends a watch like a closed one.
            let Ok(frame) = frame else { return Ok(WatchEnd::Closed) };
            let Ok(data) = frame.into_data() else { continue };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line = buffer.split_to(end + 1);
                if on(event(&line)?)?.is_break() {
                    return Ok(WatchEnd::Seen);
                }
            }
            if buffer.len() > EVENT_BYTES_MAX {
                return Err(Error::text("an event of the watch is too large"));
            }
        }
        Ok(WatchEnd::Closed)
    }
}

fn event(line: &[u8]) -> Result<Event> {
    let mut value: Value = serde_json::from_slice(line)
        .map_err(|error| Error::text(format!("unable to decode an event from the watch stream: {error}")))?;
    let kind = value["type"].as_str().unwrap_or_default().to_owned();
    Ok(Event { kind, object: value["object"].take() })
}

fn refused(call: &Call, code: u16, body: &[u8]) -> Error {
    let (resource, name) = subject(&call.path);
    Error::Refused(Box::new(Refusal::read(code, body, call.method.as_str(), &resource, &name)))
}

/// The resource and name in a path, for error messages about responses that are not a `Status`.
fn subject(path: &str) -> (String, String) {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return (String::new(), String::new()),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let Some((resource, names)) = rest.split_first() else { return (String::new(), String::new()) };
    let resource = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
    (resource, names.first().map(|name| (*name).to_owned()).unwrap_or_default())
}

/// The text of a warning header, `299 - "text"`.
fn warning_text(header: &str) -> Option<String> {
    let quoted = header.strip_prefix("299 ")?.split_once(' ')?.1.strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(text),
            '\\' => text.extend(letters.next()),
            letter => text.push(letter),
        }
    }
    None
}

fn chain(error: &dyn std::error::Error) -> String {
    rdd_stdx::chain::Chain(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_escaped() {
        let call =
            Call::get("/api/v1/namespaces/a b/configmaps/x").query("labelSelector", "a in (b,c)").query("limit", "");
        assert_eq!(call.uri(), "/api/v1/namespaces/a%20b/configmaps/x?labelSelector=a%20in%20%28b%2Cc%29");
    }

    #[test]
    fn a_warning_is_what_stands_between_its_quotes() {
        assert_eq!(warning_text("299 - \"say \\\"hello\\\"\"").as_deref(), Some("say \"hello\""));
        assert_eq!(warning_text("199 - \"x\""), None);
        assert_eq!(warning_text("299 - \"open"), None);
    }

    #[test]
    fn the_subject_of_a_path_is_its_resource_and_name() {
        let of = |path| subject(path);
        assert_eq!(of("/api/v1/namespaces/a/configmaps/x"), ("configmaps".to_owned(), "x".to_owned()));
        assert_eq!(of("/apis/apps/v1/namespaces/a/deployments"), ("deployments.apps".to_owned(), String::new()));
        assert_eq!(of("/api/v1/namespaces/a"), ("namespaces".to_owned(), "a".to_owned()));
        assert_eq!(of("/version"), (String::new(), String::new()));
    }
}
