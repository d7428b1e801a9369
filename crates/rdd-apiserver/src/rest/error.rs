//! Errors of the layers below, as a client is told of them.

use rdd_meta::{GroupResource, Reason, Status};
use rdd_patch::ssa;
use rdd_stdx::chain::Chain;

use crate::state;

/// What upstream answers for an error that it has no better word for: 500 with nothing but the text.
pub(crate) fn plain(message: impl Into<String>) -> Status {
    let mut status = Status::internal("");
    status.message = message.into();
    status.reason = None;
    status.details = None;
    status
}

/// 422 for a patch that does not apply, as upstream's generic answer has it.
pub(crate) fn unprocessable(message: &str) -> Status {
    let mut status = Status::generic_response(422, "", &GroupResource::new("", ""), "", message, 0);
    status.details.get_or_insert_default().causes.clear();
    status
}

/// An error of the state that is nobody's fault. What belongs in the log goes there; the client learns what it can act on.
pub(crate) fn of_state(error: &state::Error) -> Status {
    match error {
        state::Error::TooLarge { wanted, current } => Status::resource_version_too_large(wanted.0, current.0, 1),
        state::Error::Closed => Status::service_unavailable("the server is shutting down"),
        state::Error::Store { source } => from_store(source),
        other => {
            tracing::error!(error = %Chain(other), "the state failed");
            Status::internal(other.to_string())
        }
    }
}

/// The Status for a write that the store did not do. 503 invites clients to try again, so it is only for what may pass.
fn from_store(error: &rdd_store::Error) -> Status {
    use rdd_store::Error;
    match error {
        Error::ValueTooLarge { .. } => return Status::request_entity_too_large(rdd_store::VALUE_BYTES_MAX),
        Error::KeyTooLong { .. } => return Status::bad_request(error.to_string()),
        _ => tracing::error!(error = %Chain(error), "a write failed"),
    }
    match error {
        Error::Invalid { .. } | Error::Unsupported { .. } => Status::internal(error.to_string()),
        _ => Status::service_unavailable(error.to_string()),
    }
}

/// What ownership rules refuse.
pub(crate) fn of_ownership(error: ssa::Error) -> Status {
    match error {
        ssa::Error::BadRequest(message) => Status::bad_request(message),
        ssa::Error::Conflict(conflicts) => {
            let message = conflicts.to_string();
            let cause = |conflict: &ssa::Conflict| rdd_meta::status::Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message(),
                field: conflict.field(),
            };
            let causes = conflicts.0.iter().map(cause).collect();
            Status::apply_conflict(causes, message)
        }
        other => plain(other.to_string()),
    }
}

/// Whether it says that the object is not there.
pub(crate) fn is_not_found(status: &Status) -> bool {
    status.reason == Some(Reason::NotFound)
}

#[cfg(test)]
mod tests {
    use rdd_store::Error;

    use super::*;

    // Finding A-8
    #[test]
    fn only_a_failure_of_the_store_that_may_pass_is_503() {
        let reason = || "two operations on one key".to_owned();
        for (error, code) in [
            (Error::ValueTooLarge { bytes: 9 << 20 }, 413),
            (Error::KeyTooLong { bytes: 5_000 }, 400),
            (Error::Invalid { reason: reason() }, 500),
            (Error::Unsupported { what: "be backed up" }, 500),
            (Error::Overloaded, 503),
            (Error::Poisoned { cause: reason() }, 503),
            (Error::Closed, 503),
        ] {
            assert_eq!(of_state(&state::Error::Store { source: error.clone() }).code, code, "{error}");
        }
    }
}
