//! The errors of drivers.

use std::{io, path::PathBuf};

use rdd_stdx::file;

/// A failed operation on one machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not valid for a machine.
    #[error("{vm:?} cannot be the name of a machine: {problem}")]
    InvalidName {
        /// The name.
        vm: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The template is invalid.
    #[error("the template of {vm:?} is invalid: {}", problems.join("; "))]
    InvalidTemplate {
        /// The machine.
        vm: String,
        /// Every problem, as a sentence for the author.
        problems: Vec<String>,
    },
    /// No driver of this host runs the template's `vmType`.
    #[error("no driver runs vmType {vm_type:?} on this machine; there is {known}")]
    NoDriver {
        /// The template's `vmType`.
        vm_type: String,
        /// The known values of `vmType`.
        known: String,
    },
    /// The machine does not exist.
    #[error("machine {vm:?} does not exist")]
    Absent {
        /// The machine.
        vm: String,
    },
    /// The machine does not run.
    #[error("machine {vm:?} does not run")]
    NotRunning {
        /// The machine.
        vm: String,
    },
    /// The creation of the machine did not finish; the caller has to create it again.
    #[error("machine {vm:?} is half-made: its creation did not finish")]
    HalfMade {
        /// The machine.
        vm: String,
    },
    /// The host lacks a requirement.
    #[error("{missing}; {remedy}")]
    Unsupported {
        /// The missing requirement.
        missing: String,
        /// What a person can do about it.
        remedy: String,
    },
    /// The guest's clock differs from the host's clock and cannot be set.
    #[error(
        "the clock of machine {vm:?} is {skew} this machine's and could not be set: {reason}; restart the machine, or set its clock by hand"
    )]
    Clock {
        /// The machine.
        vm: String,
        /// By how much and in which direction: `3 hours ahead of`.
        skew: String,
        /// Why the driver could not set it.
        reason: String,
    },
    /// A resource that rdd does not own blocks the operation.
    #[error("{what}")]
    InTheWay {
        /// The resource and its place.
        what: String,
    },
    /// A program failed.
    #[error("{program} failed: {message}")]
    Program {
        /// The program with its arguments.
        program: String,
        /// Its error output, or its exit status.
        message: String,
    },
    /// Processes still run after the driver killed them.
    #[error("machine {vm:?} still runs after it was stopped by force: {what}")]
    StillRunning {
        /// The machine.
        vm: String,
        /// The names and PIDs of the processes.
        what: String,
    },
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    File(#[from] file::Error),
    /// Another system call failed.
    #[error("{action}")]
    System {
        /// The failed action.
        action: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The error that a test planned in the fake driver.
    #[error("{0}")]
    Scripted(String),
}

impl Error {
    /// For `map_err`: adds the action and the path to an I/O error.
    pub(crate) fn at(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File(file::Error { action, path, source })
    }
}
