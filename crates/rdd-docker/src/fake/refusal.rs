//! What the engine answers when it does not do what it is asked, in Docker's words.

use http::StatusCode;

/// An answer that says no: what a client sees as `Error response from daemon: …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// Its message.
    pub message: String,
}

impl Refusal {
    /// One with this status and message.
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(super) fn no_container(name: &str) -> Self {
        Self::missing(format!("No such container: {name}"))
    }

    pub(super) fn no_image(name: &str) -> Self {
        Self::missing(format!("No such image: {name}"))
    }

    pub(super) fn no_volume(name: &str) -> Self {
        Self::missing(format!("get {name}: no such volume"))
    }
}

/// Whether a request changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It did.
    Changed,
    /// All was as asked for already.
    Already,
}
