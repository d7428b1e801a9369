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
        state::Error::Store { source } => {
            tracing::error!(error = %Chain(error), "a write failed");
            Status::service_unavailable(source.to_string())
        }
        other => {
            tracing::error!(error = %Chain(other), "the state failed");
            Status::internal(other.to_string())
        }
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
