//! Why an engine could not be asked, and what that means for who asked.

use std::{io, path::PathBuf, time::Duration};

use rdd_stdx::chain::Chain;

use crate::ApiVersion;

/// Any error that can cross threads.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why the engine did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nobody answers at the socket: nothing of the request was sent.
    #[error("{what}: connect to the engine at {}", socket.display())]
    Connect {
        /// What was attempted.
        what: String,
        /// Where.
        socket: PathBuf,
        /// Why not.
        #[source]
        source: BoxError,
    },
    /// The engine answered, and said no.
    #[error("{what}: Error response from daemon: {message}")]
    Refused {
        /// What was attempted.
        what: String,
        /// The status of the answer.
        status: u16,
        /// In the engine's words.
        message: String,
    },
    /// The engine is too old for us.
    #[error("the engine speaks API version {theirs} at most, and {oldest} is the oldest that is supported")]
    TooOld {
        /// The newest that it speaks.
        theirs: ApiVersion,
        /// The oldest that we do.
        oldest: ApiVersion,
    },
    /// The connection broke in the middle; what was asked may have been done.
    #[error("{what}")]
    Broken {
        /// What was attempted.
        what: String,
        /// What happened.
        #[source]
        source: BoxError,
    },
    /// The answer is not what such an answer looks like.
    #[error("{what}: read the answer")]
    Unreadable {
        /// What was attempted.
        what: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// No answer came in time; what was asked may have been done.
    #[error("{what}: no answer within {after:?}")]
    TimedOut {
        /// What was attempted.
        what: String,
        /// For how long it was waited.
        after: Duration,
    },
    /// This cannot be the name of anything that an engine has.
    #[error("{name:?} is no name of a {kind}")]
    Name {
        /// What it was to name.
        kind: &'static str,
        /// The text.
        name: String,
    },
}

impl Error {
    /// What the engine answered, if it did.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The engine knows no such thing.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Something stands in the way, such as a container that uses the image.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// The engine has certainly heard nothing of it.
    pub fn was_never_sent(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Name { .. })
    }

    /// Without what was attempted: as the docker command line words it.
    pub fn answer(&self) -> String {
        match self {
            Self::Refused { message, .. } => format!("Error response from daemon: {message}"),
            other => Chain(other).to_string(),
        }
    }

    /// What `bollard` says, in our words.
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
