//! The error of a reconcile, and helpers to inspect errors of the API.

use std::error::Error as StdError;

/// Any error that can be sent between threads.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a reconcile failed. After any of these errors, the object is requeued with backoff.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API returned an error, or did not answer.
    #[error("{}", api_text(.0))]
    Api(kube::Error),
    /// An operation failed.
    #[error("{what}")]
    Failed {
        /// The operation that failed.
        what: String,
        /// The cause, if it is known.
        #[source]
        source: Option<BoxError>,
    },
    /// A step failed.
    #[error("step {step}")]
    Step {
        /// The name of the step.
        step: &'static str,
        /// The error of the step.
        #[source]
        source: Box<Error>,
    },
    /// A step failed, and the step that should report the failure failed too.
    #[error("{first} (reporting it failed too: {second})", first = rdd_stdx::chain::Chain(.first), second = rdd_stdx::chain::Chain(.second))]
    Twice {
        /// The original error.
        first: Box<Error>,
        /// The error of the reporting step.
        second: Box<Error>,
    },
    /// The controller's code panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The reconcile exceeded the timeout of its controller.
    #[error("it took longer than {0:?}")]
    TooLong(std::time::Duration),
}

/// The error becomes [`Error::Api`]. It is not marked as `source`, because its text already contains that of its sources.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

/// The API error that this link of an error chain is or wraps.
fn api_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a kube::Error> {
    // `Error::Step` boxes its source, so a link of the chain may be a box.
    let own = error.downcast_ref::<Error>().or_else(|| error.downcast_ref::<Box<Error>>().map(|boxed| &**boxed));
    match own {
        Some(Error::Api(error)) => Some(error),
        _ => error.downcast_ref::<kube::Error>(),
    }
}

/// The server's message, without the formatting of `kube`.
fn api_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl Error {
    /// An error that the message alone describes.
    pub fn message(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: None }
    }

    /// An operation that failed because of `source`.
    pub fn because(what: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Failed { what: what.into(), source: Some(source.into()) }
    }

    /// Wraps this error with the operation that failed.
    #[must_use]
    pub fn context(self, what: impl Into<String>) -> Self {
        Self::because(what, self)
    }

    /// The HTTP status code of the first API error in the chain.
    pub fn code(&self) -> Option<u16> {
        let mut next: Option<&(dyn StdError + 'static)> = Some(self);
        while let Some(error) = next {
            if let Some(kube::Error::Api(status)) = api_error(error) {
                return Some(status.code);
            }
            next = error.source();
        }
        None
    }

    /// Whether the API reported a conflict (409): another writer changed the object, and a reconcile of the newer version resolves it.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// Whether the API answered 404.
pub fn is_not_found(error: &kube::Error) -> bool {
    has_code(error, 404)
}

/// Whether the API answered with this status code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

#[cfg(test)]
mod tests {
    use rdd_stdx::chain::Chain;

    use super::*;

    fn refused(code: u16) -> Error {
        let status = kube::core::Status::failure("the map has changed", "Conflict").with_code(code);
        kube::Error::Api(status.boxed()).into()
    }

    #[test]
    fn a_conflict_is_found_wherever_it_is_in_the_chain_and_each_link_is_said_once() {
        let error = Error::Step { step: "write", source: Box::new(refused(409).context("write the status")) };
        assert!(error.is_conflict());
        assert_eq!(Chain(&error).to_string(), "step write: write the status: the map has changed");
        let bare = Error::Step { step: "write", source: Box::new(refused(409)) };
        assert!(bare.is_conflict() && refused(409).is_conflict());
        assert!(!refused(404).is_conflict() && !Error::message("no").is_conflict());
    }
}
