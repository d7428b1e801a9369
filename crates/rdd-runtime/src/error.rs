//! Why a reconcile failed, and what that means for the queue.

use std::error::Error as StdError;

/// Any error that can cross threads.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Why a reconcile failed. Whatever it is, the object is tried again after a growing delay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API refused, or did not answer.
    #[error("{}", api_text(.0))]
    Api(kube::Error),
    /// Something was attempted and did not work out.
    #[error("{what}")]
    Failed {
        /// What was attempted.
        what: String,
        /// Why it failed, if more is known.
        #[source]
        source: Option<BoxError>,
    },
    /// A step failed.
    #[error("step {step}")]
    Step {
        /// Its name.
        step: &'static str,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// A step failed, and so did the step that was to tell of it.
    #[error("{first} (and telling of it failed: {second})", first = rdd_stdx::chain::Chain(.first), second = rdd_stdx::chain::Chain(.second))]
    Twice {
        /// What failed.
        first: Box<Error>,
        /// What failed after it.
        second: Box<Error>,
    },
    /// The code of the controller panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The reconcile took longer than its controller allows.
    #[error("it took longer than {0:?}")]
    TooLong(std::time::Duration),
}

/// Its text says all that its sources do.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(error)
    }
}

/// The error of the API that this link of a chain is, in whichever wrapping.
fn api_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a kube::Error> {
    let own = error.downcast_ref::<Error>().or_else(|| error.downcast_ref::<Box<Error>>().map(|boxed| &**boxed));
    match own {
        Some(Error::Api(error)) => Some(error),
        _ => error.downcast_ref::<kube::Error>(),
    }
}

/// What the server said, without the form that `kube` gives it.
fn api_text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl Error {
    /// An attempt that failed for a reason that is in the words themselves.
    pub fn message(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: None }
    }

    /// An attempt that failed because of `source`.
    pub fn because(what: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self::Failed { what: what.into(), source: Some(source.into()) }
    }

    /// The same, with what was attempted before it.
    #[must_use]
    pub fn context(self, what: impl Into<String>) -> Self {
        Self::because(what, self)
    }

    /// The code with which the API refused, wherever in the chain that is.
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

    /// Somebody else changed the object meanwhile: a look at the newer one is all that it takes.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// Whether the API answered that it is not there.
pub fn is_not_found(error: &kube::Error) -> bool {
    has_code(error, 404)
}

/// Whether the API answered with this code.
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
