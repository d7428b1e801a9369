//! The conditions of a LimaVM. An App mirrors them.

super::condition_specs! { kind "LimaVM", controller "limavm";
    PENDING = Created Unknown [Pending], Passing Watch,
        "Reconciliation in progress",
        "The controller has observed the LimaVM and is creating the instance, or recreating one that disappeared.";
    // A VM that was never created has no log of its own.
    CREATE_FAILED = Created False [CreateFailed], Failed ServiceLog,
        "<what went wrong>",
        "The instance could not be created, or there is no template. The controller retries with backoff, and immediately after an edit.";
    INSTANCE_CREATED = Created True [Created], Good Nothing,
        "Lima instance created successfully",
        "The controller has created the instance completely.";
    INSTANCE_EXISTS = Created True [Created], Good Nothing,
        "Lima instance exists",
        "The controller found a complete instance of this LimaVM on disk.";
    RECONCILING = Running Unknown [Reconciling], Passing MachineLog,
        "Verifying instance state after controller restart",
        "The instance ran when the controller ended; the controller is verifying whether it still runs.";
    STARTING = Running False [Starting], Passing MachineLog,
        "Lima instance is starting",
        "The controller has started the instance, or found it starting.";
    STARTED = Running True [Started], Good Nothing,
        "Lima instance is running",
        "The instance reported that it runs; `restartCount` counts these reports.";
    STARTED_DEGRADED = Running True [Started], Good Nothing,
        "<Lima instance is running, but degraded: what it complains about>",
        "The instance reported that it runs, and that a part of it does not.";
    STARTED_WITH_WARNING = Running True [Started], Good Nothing,
        "<Lima instance is running; warning: what is known to be wrong>",
        "The instance runs with a version of Lima that has a known flaw.";
    STOPPED = Running False [Stopped], Unwanted MachineLog,
        "Lima instance is stopped",
        "The instance should not run, and does not.";
    STOPPED_ON_REQUEST = Running False [Stopped], Unwanted MachineLog,
        "Lima instance stopped successfully",
        "The controller has stopped the instance.";
    STOPPED_FOR_RESTART = Running False [Stopped], Unwanted MachineLog,
        "Stopped for restart",
        "The instance is stopped and will be started again; `restartNeeded` is cleared with it.";
    START_FAILED = Running False [StartFailed], Failed MachineLog,
        "<what went wrong; for an instance that ended by itself, the last line of its log>",
        "The instance could not be started, ended while starting, or ends repeatedly. The controller retries with backoff.";
    STOP_FAILED = Running False [StopFailed], Failed MachineLog,
        "<what went wrong>",
        "The instance could not be stopped, or not be removed after a delete. The controller retries with backoff.";
}

/// The message of [`STARTED_WITH_WARNING`].
pub fn warning_message(warning: &str) -> String {
    format!("{}; warning: {warning}", STARTED.message)
}

/// The message of [`STARTED_DEGRADED`].
pub fn degraded_message(complaint: &str) -> String {
    format!("{}, but degraded: {complaint}", STARTED.message)
}
