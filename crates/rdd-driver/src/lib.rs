//! Runs what stands under a LimaVM: a virtual machine, or the container engine of this very host.
//!
//! [`Driver`] is the seam. A driver keeps no truth in memory: whatever it is asked, it finds on the machine, so that a
//! daemon that was killed at any moment goes on where the last one stopped. [`Drivers`] picks one by the template's
//! `vmType`. The contract is in `suite`, as tests that each driver passes.

pub mod assets;
mod drivers;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
mod identity;
mod kubernetes;
#[cfg(target_os = "linux")]
pub mod lima;
pub mod log;
mod run;
#[cfg(feature = "suite")]
pub mod suite;
pub mod template;
#[cfg(target_os = "linux")]
mod trust;
#[cfg(target_os = "linux")]
mod watch;

use std::{fmt::Debug, future::Future, pin::Pin, time::Duration};

pub use drivers::Drivers;
pub use error::Error;
pub use kubernetes::{Cluster, ClusterFound, Foundation, Upstream, Wanted};
pub use log::LogOptions;
pub use run::{Health, Reporter, Run, State};
pub use template::Template;

/// What an asynchronous method returns: boxed, so that drivers can be chosen at run time.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs machines of one sort. A machine is named like its LimaVM.
///
/// **Idempotent.** Every method may be called again, after it succeeded, failed or was cut short by the end of the
/// daemon, and then goes on from what it finds. **Serial.** Changes of one machine happen one after the other, whoever
/// asks; machines do not wait for each other. **Unattended.** Dropping the driver stops nothing: what runs goes on, and
/// the next driver finds it by [`inspect`](Self::inspect) and takes it over by [`adopt`](Self::adopt). **Bounded.** No
/// method waits without an end, except for the network where a driver has to download something.
pub trait Driver: Debug + Send + Sync {
    /// The values of `vmType` that mean this driver.
    fn vm_types(&self) -> &'static [&'static str];

    /// Whether this host has what the driver needs; if not, the error names what to do about it. It may have been installed
    /// a moment later, so nothing is remembered of the answer.
    fn available(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Checks a template without touching anything; every problem is a sentence for its author.
    fn validate(&self, template: &str) -> Result<(), Vec<String>>;

    /// Looks at the machine. Changes nothing, and waits for no other method.
    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Found, Error>>;

    /// The template that the next start will use, as it was given; `None` if the machine is absent or half-made.
    fn template<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>>;

    /// Makes a machine, stopped. A half-made one is removed and made anew; a whole one is left as it is, its template
    /// included.
    fn create<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Starts a machine and returns as soon as there is something to watch, usually in [`State::Starting`]. One that
    /// runs already is taken over.
    ///
    /// A start that never becomes [`State::Running`] ends in [`State::Exited`] after a while.
    fn start<'a>(&'a self, vm: &'a str, log: &'a LogOptions) -> Pending<'a, Result<Run, Error>>;

    /// Takes over what an earlier daemon left running, as it runs. Remains that cannot go on (one process of two) are
    /// ended. `None` if nothing runs afterwards.
    ///
    /// What belongs to the machine is known by its exact identity, never by a name that looks like it.
    fn adopt<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Run>, Error>>;

    /// Stops a machine: asks it to end, and ends it by force when `grace` is over.
    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>>;

    /// Replaces the template. Only writes it: what runs goes on as it was started.
    fn apply_template<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Removes a machine with everything that is its own, by force if it runs. Leaves nothing.
    fn delete<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>>;

    /// What a creation or a start waits for at this moment, for people: how far a download is. `None` if there is nothing to tell.
    fn progress(&self, _vm: &str) -> Option<String> {
        None
    }

    /// A known flaw of what a machine runs on, for people: `rdd status` shows it while the machine runs.
    fn warning(&self, _vm: &str) -> Option<String> {
        None
    }

    /// Kubernetes in this driver's machines, if it can have any.
    fn kubernetes(&self) -> Option<&dyn Cluster> {
        None
    }
}

/// What there is of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// A creation or a deletion that did not finish: [`Driver::create`] redoes it, [`Driver::delete`] finishes it.
    HalfMade,
    /// Whole, and nothing of it runs.
    Stopped,
    /// It runs, watched by this driver or left by an earlier one.
    Running(Running),
    /// Something of it runs that cannot go on: [`Driver::adopt`] and [`Driver::stop`] end it.
    Broken {
        /// What is wrong, for people.
        why: String,
    },
}

/// What is known of a running machine by looking at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Whether it was started with another template than the one that [`Driver::template`] returns now, in anything that only
    /// a restart can change.
    pub outdated: bool,
}

/// How a machine came to a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was not running.
    Already,
    /// It ended when it was asked to.
    Graceful,
    /// It did not, and was killed.
    Forced,
}

// Without a driver that runs something nobody stops anything.
#[cfg(target_os = "linux")]
impl Stopped {
    /// The state of what was stopped. Finding O-5: whoever looks later can tell which it was.
    fn exited(self, word: &str) -> State {
        let how = if self == Self::Forced { ", by force" } else { "" };
        State::Exited { last_words: format!("{word}{how}") }
    }
}

/// The longest name of a machine: it becomes a folder, and sockets below it have to fit into about a hundred bytes.
pub const NAME_LENGTH_MAX: usize = 63;

/// Whether a machine can have this name: what Kubernetes calls a DNS label or subdomain, which no path can misread.
pub fn check_name(vm: &str) -> Result<(), Error> {
    let refuse = |problem| Err(Error::InvalidName { vm: vm.to_owned(), problem });
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if vm.is_empty() {
        refuse("it is empty")
    } else if vm.len() > NAME_LENGTH_MAX {
        refuse("it is longer than 63 characters")
    } else if !vm.chars().all(allowed) {
        refuse("it has a character other than lower-case letters, digits, hyphens and dots")
    } else if !edge(vm.chars().next()) || !edge(vm.chars().next_back()) {
        refuse("it does not start and end with a letter or digit")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_folder_are_refused() {
        let long = "a".repeat(64);
        for name in ["", ".", "..", "a/b", "../a", "-a", "a-", ".a", "A", "_config", "a b", "a\0", "ä", &long] {
            assert!(check_name(name).is_err(), "{name:?} must be refused");
        }
        for name in ["rd", "a", "0", "rd-app", "a.b", &long[1..]] {
            assert!(check_name(name).is_ok(), "{name:?} must be accepted");
        }
    }
}
