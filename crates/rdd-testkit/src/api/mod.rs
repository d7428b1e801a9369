//! Raw HTTP clients for API tests: of a daemon over TLS ([`Wire`]), or of an API server in the test's process ([`TestApi`]).

mod inproc;
pub mod ledger;
mod reply;
mod stream;
mod wire;

use std::time::Duration;

use serde_json::Value;

pub use self::{
    inproc::TestApi,
    reply::Reply,
    stream::Stream,
    wire::{Wire, WireEvents},
};

/// The timeout of every wait in a test. Longer than anything takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// An HTTP request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ask {
    /// The method; any word.
    pub method: String,
    /// The path with its query, sent unchanged.
    pub path: String,
    /// Headers in addition to those that every request has.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Ask {
    /// A request without a body.
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the body and its content type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("Content-Type", content_type)
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }
}

/// The result of waiting for an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The next event.
    Event(Value),
    /// No event within the timeout.
    Quiet,
    /// The watch has ended, with or without an error.
    Ended,
}

/// The events of one watch.
pub trait Events: Send {
    /// Waits for the next event, at most this long.
    fn next(&mut self, within: Duration) -> Next;

    /// Waits for the next event.
    ///
    /// # Panics
    ///
    /// If it does not arrive within [`PATIENCE`].
    #[track_caller]
    fn expect(&mut self) -> Value {
        match self.next(PATIENCE) {
            Next::Event(event) => event,
            other => panic!("an event was to come, not {other:?}"),
        }
    }
}

/// An API server under test.
pub trait Server: Send + Sync {
    /// Sends a request and waits for the reply.
    ///
    /// # Panics
    ///
    /// If no reply arrives.
    fn ask(&self, ask: &Ask) -> Reply;

    /// Starts a watch. If the server rejects it, the result has one event (the Status) or none.
    fn watch(&self, path: &str) -> Box<dyn Events>;

    /// Sends a GET request.
    fn get(&self, path: &str) -> Reply {
        self.ask(&Ask::new("GET", path))
    }

    /// Sends a POST request, which creates an object.
    fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(&Ask::new("POST", path).json(body))
    }

    /// Sends a PUT request, which replaces an object.
    fn put(&self, path: &str, body: &Value) -> Reply {
        self.ask(&Ask::new("PUT", path).json(body))
    }

    /// Sends a JSON merge patch.
    fn merge(&self, path: &str, patch: &Value) -> Reply {
        self.ask(&Ask::new("PATCH", path).body("application/merge-patch+json", patch.to_string()))
    }

    /// Sends a server-side apply patch, forced, as this field manager.
    fn apply(&self, path: &str, manager: &str, object: &Value) -> Reply {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.ask(&Ask::new("PATCH", &path).body("application/apply-patch+yaml", object.to_string()))
    }

    /// Sends a DELETE request.
    fn delete(&self, path: &str) -> Reply {
        self.ask(&Ask::new("DELETE", path))
    }
}
