//! The daily verbs of kubectl, spoken natively to one daemon: kubectl's words, output and exit codes.
//!
//! [`read`] says what a command line asks for: a verb of ours, help on one, or something that is left to kubectl.
//! [`Command::run`] does it. Nothing is kept on disk: what the server has is asked for as far as a command needs it.

mod api;
mod context;
mod describe;
mod discovery;
mod error;
mod flags;
mod help;
mod jsonpath;
mod merge;
mod print;
mod selection;
mod sort;
mod source;
mod table;
mod verbs;
mod wrap;
mod write;

use std::time::Duration;

use rdd_client::http::Client;
use rdd_stdx::clock::SharedClock;

use api::Api;
use context::Ctl;
pub use context::Streams;
use error::Error;
use flags::Flags;
use table::Verb;

/// What a command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// A verb of ours.
    Native(Command),
    /// Something that needs no daemon, such as help: this.
    Text(String),
    /// Wrong usage of a verb of kubectl's, told in these words, newline and all.
    Wrong(String),
    /// Wrong usage of a verb of our own, to be told as every other failure of ours.
    Failed(String),
    /// Something that only kubectl itself can do.
    Other,
}

/// How a verb ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// As it should.
    Well,
    /// Not well, and that was told in kubectl's words: exit code 1.
    Told,
    /// Not well, and these words of a verb of our own are yet to be told.
    Failed(String),
}

/// A verb and what was given to it.
#[derive(Debug)]
pub struct Command {
    verb: &'static Verb,
    flags: Flags,
}

/// Reads the words after `ctl`.
pub fn read(words: Vec<String>) -> Asked {
    table::read(words)
}

impl Command {
    /// The context of the kubeconfig to use; `None` for the current one.
    pub fn context(&self) -> Option<&str> {
        self.flags.given("context")
    }

    /// Does it.
    pub fn run(self, client: Client, clock: SharedClock, streams: Streams<'_>) -> Ended {
        let opened = request_timeout(self.flags.text("request-timeout")).and_then(|timeout| Api::new(client, timeout));
        let api = match opened {
            Ok(api) => api,
            Err(error) => {
                // Nobody can be told that nobody can be told.
                let _ = streams.err.write_all(error.report().as_bytes());
                return Ended::Told;
            }
        };
        let command = format!("kubectl {}", self.verb.path);
        let ctl = Ctl::new(api, self.flags, command, clock, streams);
        match (self.verb.run)(&ctl) {
            Ok(()) => Ended::Well,
            Err(Error::Silent) if ctl.is_reader_gone() => Ended::Well,
            Err(error) if self.verb.is_ours() => Ended::Failed(error.to_string()),
            Err(error) => {
                ctl.tell(&error.report());
                Ended::Told
            }
        }
    }
}

/// `0` is no bound; a number alone is seconds.
fn request_timeout(text: &str) -> Result<Option<Duration>, Error> {
    let invalid = || {
        Error::text(
            "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a corresponding time unit (e.g. 1s | 2m | 3h)",
        )
    };
    let nanoseconds = match text.parse::<i64>() {
        Ok(seconds) => seconds.saturating_mul(1_000_000_000),
        Err(_) => rdd_meta::go_duration::parse(text).map_err(|_| invalid())?,
    };
    Ok((nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds.unsigned_abs())))
}
