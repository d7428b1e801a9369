//! The fake engine's error responses, in Docker's wording.

use http::StatusCode;

/// An error response, which a client sees as `Error response from daemon: …`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The status code.
    pub status: StatusCode,
    /// The message.
    pub message: String,
}

impl Refusal {
    /// An error with this status code and message.
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
    /// The object was already in the requested state.
    Already,
}
