//! Everything a LimaVM's conditions can say.

use crate::saying::Saying;

/// The condition type that tells whether the instance is there.
pub const CREATED: &str = "Created";
/// The condition type that tells whether it runs.
pub const RUNNING: &str = "Running";

const fn created(status: &'static str, reason: &'static str, message: &'static str, when: &'static str) -> Saying {
    Saying { condition: CREATED, status, reason, message, when }
}

const fn running(status: &'static str, reason: &'static str, message: &'static str, when: &'static str) -> Saying {
    Saying { condition: RUNNING, status, reason, message, when }
}

/// Nothing is known yet.
pub static PENDING: Saying = created(
    "Unknown",
    "Pending",
    "Reconciliation in progress",
    "The controller has seen the LimaVM and is creating the instance, or creating anew one that vanished.",
);
/// Created by us, just now.
pub static INSTANCE_CREATED: Saying =
    created("True", "Created", "Lima instance created successfully", "The instance was created, all of it.");
/// Found whole.
pub static INSTANCE_EXISTS: Saying =
    created("True", "Created", "Lima instance exists", "A whole instance of this LimaVM was found on disk.");
/// Not created.
pub static CREATE_FAILED: Saying = created(
    "False",
    "CreateFailed",
    "<what went wrong>",
    "Creating failed, or there is no template to create from. It is tried again, with growing delay, and at once after an edit.",
);

/// A claim of an earlier process, not yet verified.
pub static RECONCILING: Saying = running(
    "Unknown",
    "Reconciling",
    "Verifying instance state after controller restart",
    "It ran when the controller ended; whether it still does is being found out.",
);
/// On its way up.
pub static STARTING: Saying =
    running("False", "Starting", "Lima instance is starting", "It was told to start, or was found half-way up.");
/// Up.
pub static STARTED: Saying =
    running("True", "Started", "Lima instance is running", "It reported that it runs; `restartCount` grows with it.");
/// Up, but not well.
pub static STARTED_DEGRADED: Saying = running(
    "True",
    "Started",
    "<Lima instance is running, but degraded: what it complains about>",
    "It reported that it runs, and that something in it does not.",
);
/// Up, on something that has a known flaw.
pub static STARTED_WITH_WARNING: Saying = running(
    "True",
    "Started",
    "<Lima instance is running; warning: what is known to be wrong>",
    "It reported that it runs, with a version of Lima that has a known flaw.",
);
/// Found stopped.
pub static STOPPED: Saying =
    running("False", "Stopped", "Lima instance is stopped", "It shall not run, and was found not running.");
/// Stopped by us.
pub static STOPPED_ON_REQUEST: Saying =
    running("False", "Stopped", "Lima instance stopped successfully", "It was told to stop, and did.");
/// The first half of a restart.
pub static STOPPED_FOR_RESTART: Saying = running(
    "False",
    "Stopped",
    "Stopped for restart",
    "The first half of a restart is done; `restartNeeded` is cleared with it.",
);
/// It does not come up, or does not stay up.
pub static START_FAILED: Saying = running(
    "False",
    "StartFailed",
    "<what went wrong; for something that ended by itself, the last line of its log>",
    "It could not be started, or ended before it was up, or keeps ending. It is tried again, with growing delay.",
);
/// It does not go down.
pub static STOP_FAILED: Saying = running(
    "False",
    "StopFailed",
    "<what went wrong>",
    "It could not be stopped, or not be removed after a delete. It is tried again, with growing delay.",
);

/// All of the above, in the order of the reference.
pub static ALL: [&Saying; 14] = [
    &PENDING,
    &INSTANCE_CREATED,
    &INSTANCE_EXISTS,
    &CREATE_FAILED,
    &RECONCILING,
    &STARTING,
    &STARTED,
    &STARTED_DEGRADED,
    &STARTED_WITH_WARNING,
    &STOPPED,
    &STOPPED_ON_REQUEST,
    &STOPPED_FOR_RESTART,
    &START_FAILED,
    &STOP_FAILED,
];

/// The text of [`STARTED_WITH_WARNING`].
pub fn warning_message(warning: &str) -> String {
    format!("Lima instance is running; warning: {warning}")
}

/// The text of [`STARTED_DEGRADED`].
pub fn degraded_message(complaint: &str) -> String {
    format!("Lima instance is running, but degraded: {complaint}")
}
