//! The errors of requests to an engine, and what they mean for the caller.

use std::{io, path::PathBuf, time::Duration};

use rdd_stdx::chain::Chain;

use crate::ApiVersion;

/// An error that can cross threads.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a request to the engine failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection failed; nothing of the request was sent.
    #[error("{what}: connect to the engine at {}", socket.display())]
    Connect {
        /// The attempted action.
        what: String,
        /// The path of the socket.
        socket: PathBuf,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// The engine answered with an error status.
    #[error("{what}: Error response from daemon: {message}")]
    Refused {
        /// The attempted action.
        what: String,
        /// The status code.
        status: u16,
        /// The engine's message.
        message: String,
    },
    /// The engine supports only API versions that are too old.
    #[error("the engine speaks API version {theirs} at most, and {oldest} is the oldest that is supported")]
    TooOld {
        /// The newest version that the engine supports.
        theirs: ApiVersion,
        /// The oldest version that this client supports.
        oldest: ApiVersion,
    },
    /// The connection broke during the request; the engine may have executed it.
    #[error("{what}")]
    Broken {
        /// The attempted action.
        what: String,
        /// The cause.
        #[source]
        source: BoxError,
    },
    /// The answer could not be parsed.
    #[error("{what}: read the answer")]
    Unreadable {
        /// The attempted action.
        what: String,
        /// The parse error.
        #[source]
        source: serde_json::Error,
    },
    /// The request timed out; the engine may have executed it.
    #[error("{what}: no answer within {after:?}")]
    TimedOut {
        /// The attempted action.
        what: String,
        /// The timeout.
        after: Duration,
    },
    /// The name is not valid for any object of an engine.
    #[error("{name:?} is no name of a {kind}")]
    Name {
        /// The kind of object.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

impl Error {
    /// The status code, if the engine answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Whether another object prevents the action, such as a container that uses the image.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Whether the engine certainly received nothing of the request.
    pub fn was_never_sent(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Name { .. })
    }

    /// The message without the attempted action, as the docker CLI prints it.
    pub fn answer(&self) -> String {
        match self {
            Self::Refused { message, .. } => format!("Error response from daemon: {message}"),
            other => Chain(other).to_string(),
        }
    }

    /// Converts an error of `bollard`.
    pub(crate) fn of(what: impl Into<String>, socket: &std::path::Path, error: bollard::errors::Error) -> Self {
        use bollard::errors::Error as Theirs;
        let what = what.into();
        match error {
            Theirs::DockerResponseServerError { status_code, message } => {
                Self::Refused { what, status: status_code, message }
            }
            Theirs::IOError { err } if err.kind() == io::ErrorKind::NotConnected => {
                Self::Connect { what, socket: socket.to_owned(), source: err.into() }
            }
            Theirs::RequestTimeoutError => Self::TimedOut { what, after: crate::transport::LONGEST },
            other => Self::Broken { what, source: Box::new(other) },
        }
    }
}
