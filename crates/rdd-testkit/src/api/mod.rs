//! Asking an API server as raw as a test likes: a daemon's over TLS ([`Wire`]), or one in the test's own process ([`TestApi`]).

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

/// Nothing that a test waits for takes longer, unless it never comes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ask {
    /// Any word.
    pub method: String,
    /// With its query; sent as it is.
    pub path: String,
    /// Besides those that every request has.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Whatever it is.
    pub body: Vec<u8>,
}

impl Ask {
    /// A request without a body.
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), ..Self::default() }
    }

    /// The same with one header more.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The same with a body of this type.
    #[must_use]
    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.header("Content-Type", content_type)
    }

    /// The same with a body of JSON.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }
}

/// What came of waiting for an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// This.
    Event(Value),
    /// Nothing in that time.
    Quiet,
    /// The watch is over, well or not.
    Ended,
}

/// The events of one watch.
pub trait Events: Send {
    /// Waits for the next event.
    fn next(&mut self, within: Duration) -> Next;

    /// The next event, which must come.
    ///
    /// # Panics
    /// When it does not come within [`PATIENCE`].
    #[track_caller]
    fn expect(&mut self) -> Value {
        match self.next(PATIENCE) {
            Next::Event(event) => event,
            other => panic!("an event was to come, not {other:?}"),
        }
    }
}

/// A server that can be asked.
pub trait Server: Send + Sync {
    /// Asks.
    ///
    /// # Panics
    /// When no answer comes.
    fn ask(&self, ask: &Ask) -> Reply;

    /// Begins a watch. What the server refuses is one event or none.
    fn watch(&self, path: &str) -> Box<dyn Events>;

    /// Reads.
    fn get(&self, path: &str) -> Reply {
        self.ask(&Ask::new("GET", path))
    }

    /// Creates.
    fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask(&Ask::new("POST", path).json(body))
    }

    /// Replaces.
    fn put(&self, path: &str, body: &Value) -> Reply {
        self.ask(&Ask::new("PUT", path).json(body))
    }

    /// Merges a patch.
    fn merge(&self, path: &str, patch: &Value) -> Reply {
        self.ask(&Ask::new("PATCH", path).body("application/merge-patch+json", patch.to_string()))
    }

    /// Applies.
    fn apply(&self, path: &str, manager: &str, object: &Value) -> Reply {
        let path = format!("{path}?fieldManager={manager}&force=true");
        self.ask(&Ask::new("PATCH", &path).body("application/apply-patch+yaml", object.to_string()))
    }

    /// Deletes.
    fn delete(&self, path: &str) -> Reply {
        self.ask(&Ask::new("DELETE", path))
    }
}
