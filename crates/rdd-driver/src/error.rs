//! Why a driver could not do what it was asked.

use std::{io, path::PathBuf};

use rdd_stdx::file;

/// A failed operation on one machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be that of a machine.
    #[error("{vm:?} cannot be the name of a machine: {problem}")]
    InvalidName {
        /// The name.
        vm: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The template cannot be used.
    #[error("the template of {vm:?} is invalid: {}", problems.join("; "))]
    InvalidTemplate {
        /// The machine.
        vm: String,
        /// Every problem, as a sentence for the author.
        problems: Vec<String>,
    },
    /// No driver takes this `vmType`.
    #[error("no driver runs vmType {vm_type:?} on this machine; there is {known}")]
    NoDriver {
        /// What the template asks for.
        vm_type: String,
        /// What there is.
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
    /// The machine has to be created again first.
    #[error("machine {vm:?} is half-made: its creation did not finish")]
    HalfMade {
        /// The machine.
        vm: String,
    },
    /// The host lacks something.
    #[error("{missing}; {remedy}")]
    Unsupported {
        /// What is not there.
        missing: String,
        /// What a person does about it.
        remedy: String,
    },
    /// The guest believes to be in another time.
    #[error(
        "the clock of machine {vm:?} is {off} this machine's and could not be set: {said}; restart the machine, or set its clock by hand"
    )]
    Clock {
        /// The machine.
        vm: String,
        /// By how much, and to which side: `3 hours ahead of`.
        off: String,
        /// Why it could not be set.
        said: String,
    },
    /// Something that is not ours is in the way.
    #[error("{what}")]
    InTheWay {
        /// What it is, and where.
        what: String,
    },
    /// A program did not do what it was asked.
    #[error("{program} failed: {said}")]
    Program {
        /// The program with its arguments.
        program: String,
        /// What it wrote, or how it ended.
        said: String,
    },
    /// Processes outlived every attempt to end them.
    #[error("machine {vm:?} still runs after it was stopped by force: {what}")]
    StillRunning {
        /// The machine.
        vm: String,
        /// Which processes.
        what: String,
    },
    /// A file or folder could not be read or written.
    #[error(transparent)]
    File(#[from] file::Error),
    /// The operating system refused something else.
    #[error("{action}")]
    System {
        /// What was attempted.
        action: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// What a test told the fake to say.
    #[error("{0}")]
    Scripted(String),
}

impl Error {
    /// For `map_err`: names what was attempted on a path.
    pub(crate) fn at(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File(file::Error { action, path, source })
    }
}
