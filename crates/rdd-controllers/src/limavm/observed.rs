//! The observed state of a LimaVM, as a plain struct.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rdd_types::{
    lima::LimaVM,
    names::{annotation, finalizer},
};

/// Everything that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The LimaVM, read from the server.
    pub vm: Arc<LimaVM>,
    /// Whether it was deleted before it could be read.
    pub is_gone: bool,
    /// Its copy of the template.
    pub template: Template,
    /// The state on disk.
    pub disk: Disk,
    /// The state in this process.
    pub machine: Machine,
    /// What a creation is doing, for users.
    pub progress: Option<String>,
    /// A known problem of the VM's environment, for users.
    pub warning: Option<String>,
    /// The time of the observation.
    pub now: Timestamp,
}

impl Observed {
    /// The name of the LimaVM and of its VM.
    pub fn name(&self) -> &str {
        self.vm.metadata.name.as_deref().unwrap_or_default()
    }

    /// The observed generation.
    pub fn generation(&self) -> i64 {
        self.vm.metadata.generation.unwrap_or_default()
    }

    /// The value of the restart request, if there is one.
    pub fn restart_request(&self) -> Option<&str> {
        self.vm.metadata.annotations.as_ref()?.get(annotation::RESTART_REQUESTED).map(String::as_str)
    }

    /// The value of the reset request, if there is one.
    pub fn reset_request(&self) -> Option<&str> {
        self.vm.metadata.annotations.as_ref()?.get(annotation::RESET_REQUESTED).map(String::as_str)
    }

    /// Whether the VM shall run.
    pub(super) fn is_wanted(&self) -> bool {
        self.vm.spec.running
    }

    pub(super) fn holds_cleanup(&self) -> bool {
        self.vm.metadata.finalizers.iter().flatten().any(|name| name == finalizer::CLEANUP)
    }

    /// Whether the VM runs, so that a changed template or a restart request needs a restart.
    pub fn is_alive(&self) -> bool {
        matches!(self.machine, Machine::Held(_)) || matches!(self.disk, Disk::Running { .. })
    }
}

/// The ConfigMap `<name>-template`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// It does not exist.
    Absent,
    /// It exists.
    Present {
        /// The template with the values of `spec.params`; `None` if it is absent or empty.
        text: Option<String>,
        /// The resourceVersion of the ConfigMap.
        resource_version: String,
        /// Whether this LimaVM owns the ConfigMap.
        ours: bool,
    },
}

/// The state that the driver finds for the VM's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// Not inspected, because a job is in progress.
    NotLooked,
    /// There is no instance.
    Absent,
    /// There is the rest of an interrupted creation.
    HalfMade,
    /// There is a complete instance that does not run.
    Stopped {
        /// The template of the next start.
        template: String,
    },
    /// There is a complete instance that runs, started by this or an earlier process.
    Running {
        /// The template of the next start.
        template: String,
        /// Whether it was started with another template.
        outdated: bool,
    },
    /// The instance is inconsistent.
    Broken {
        /// The problem.
        why: String,
    },
    /// The state cannot be read.
    Unreadable {
        /// The error of the driver.
        why: String,
    },
}

impl Disk {
    /// The template of the next start, if there is a complete instance.
    pub(super) fn template(&self) -> Option<&str> {
        match self {
            Self::Stopped { template } | Self::Running { template, .. } => Some(template),
            _ => None,
        }
    }
}

/// A long operation, which runs in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Create the instance.
    Create,
    /// Start it.
    Start,
    /// Take over an instance that an earlier process left running.
    Adopt,
    /// Stop it.
    Stop,
    /// Stop and delete the instance.
    Delete,
}

/// The state of a VM in this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Machine {
    /// No job has run yet.
    #[default]
    Idle,
    /// The last job created the instance.
    Created,
    /// The last job stopped it.
    Stopped,
    /// A job is in progress.
    Busy(Job),
    /// The VM runs, and this process watches it.
    Held(Phase),
    /// The last job failed.
    Failed(Failure),
}

/// The phase of a VM that this process watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It is starting.
    Starting,
    /// It is up.
    Running {
        /// The problem that the VM reports, if any.
        complaint: Option<String>,
    },
}

/// A failed job, and the time of its retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The job; [`Job::Start`] also stands for a run that ended by itself.
    pub job: Job,
    /// The error.
    pub message: String,
    /// The time until the next attempt; `None` if it is due.
    pub wait: Option<Duration>,
}
