//! What there is to know of a LimaVM, as a plain struct.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rdd_types::{
    lima::LimaVM,
    names::{annotation, finalizer},
};

/// All that the plan needs to know.
#[derive(Debug, Clone)]
pub struct Observed {
    /// The LimaVM, as it is now.
    pub vm: Arc<LimaVM>,
    /// Whether it went away before anybody looked.
    pub is_gone: bool,
    /// The copy of the template that belongs to it.
    pub template: Template,
    /// What is on disk.
    pub disk: Disk,
    /// What this process knows of it.
    pub machine: Machine,
    /// What it waits for while it is being made, for people.
    pub progress: Option<String>,
    /// A known flaw of what it runs on, for people.
    pub warning: Option<String>,
    /// When this was seen.
    pub now: Timestamp,
}

impl Observed {
    /// The name of the LimaVM, which is that of the VM too.
    pub fn name(&self) -> &str {
        self.vm.metadata.name.as_deref().unwrap_or_default()
    }

    /// The generation that this is about.
    pub fn generation(&self) -> i64 {
        self.vm.metadata.generation.unwrap_or_default()
    }

    /// What the request for a restart says, if there is one.
    pub fn restart_request(&self) -> Option<&str> {
        self.vm.metadata.annotations.as_ref()?.get(annotation::RESTART_REQUESTED).map(String::as_str)
    }

    /// What the request for a reset says, if there is one.
    pub fn reset_request(&self) -> Option<&str> {
        self.vm.metadata.annotations.as_ref()?.get(annotation::RESET_REQUESTED).map(String::as_str)
    }

    /// Whether it shall run.
    pub(super) fn is_wanted(&self) -> bool {
        self.vm.spec.running
    }

    pub(super) fn holds_cleanup(&self) -> bool {
        self.vm.metadata.finalizers.iter().flatten().any(|name| name == finalizer::CLEANUP)
    }

    /// Whether something runs that an edit or a request for a restart would have to stop.
    pub fn is_alive(&self) -> bool {
        matches!(self.machine, Machine::Held(_)) || matches!(self.disk, Disk::Running { .. })
    }
}

/// The ConfigMap `<name>-template`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// There is none.
    Absent,
    /// There is one.
    Present {
        /// Its key `template`, if it has that and there is something in it, with the values of `spec.params`.
        text: Option<String>,
        /// Its version.
        resource_version: String,
        /// Whether this LimaVM is its controller.
        ours: bool,
    },
}

/// What the driver finds under the VM's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disk {
    /// Nobody looked, because the machine is busy.
    NotLooked,
    /// Nothing.
    Absent,
    /// What an interrupted create left.
    HalfMade,
    /// A whole instance that does not run.
    Stopped {
        /// The template that it starts with.
        template: String,
    },
    /// A whole instance that runs, by our doing or an earlier process's.
    Running {
        /// The template that it starts with next time.
        template: String,
        /// Whether it was started with another one.
        outdated: bool,
    },
    /// Something that neither runs nor is stopped.
    Broken {
        /// What is wrong.
        why: String,
    },
    /// Nobody can tell.
    Unreadable {
        /// What the driver said.
        why: String,
    },
}

impl Disk {
    /// The template that it starts with next time, where there is something whole to start.
    pub(super) fn template(&self) -> Option<&str> {
        match self {
            Self::Stopped { template } | Self::Running { template, .. } => Some(template),
            _ => None,
        }
    }
}

/// What takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Make the instance.
    Create,
    /// Start it.
    Start,
    /// Take over what an earlier process left running.
    Adopt,
    /// Stop it.
    Stop,
    /// Stop it and remove all of it.
    Delete,
}

/// What this process knows of a VM.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Machine {
    /// Nothing: it has not done anything yet.
    #[default]
    Idle,
    /// The last thing it did was to create it.
    Created,
    /// The last thing it did was to stop it.
    Stopped,
    /// Something is under way.
    Busy(Job),
    /// It runs, and we hear of it.
    Held(Phase),
    /// The last thing it did failed.
    Failed(Failure),
}

/// How far a VM that we hold has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// On its way up.
    Starting,
    /// Up.
    Running {
        /// What it complains about, if it does.
        complaint: Option<String>,
    },
}

/// What failed, and when to try again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What it was; [`Job::Start`] also stands for a run that ended by itself.
    pub job: Job,
    /// What went wrong.
    pub message: String,
    /// How long to wait before the next try; nothing if it is due.
    pub wait: Option<Duration>,
}
