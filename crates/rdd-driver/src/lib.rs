//! Drivers: how a LimaVM is run, either as a virtual machine or as a container engine on this host.
//!
//! [`Driver`] is the seam. A driver keeps no authoritative state in memory: it reads every answer from the machine's files and
//! processes. A daemon that was killed at any moment therefore continues where the previous one stopped. [`Drivers`]
//! selects a driver by the template's `vmType`. The module `suite` holds the contract as tests, and every driver passes them.

pub mod assets;
mod drivers;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
mod kubelet;
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

/// The boxed future of a driver's asynchronous methods. Boxing keeps [`Driver`] usable as a trait object.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs the machines of one `vmType`. A machine has the name of its LimaVM.
///
/// # Flow
/// The controller calls [`create`](Self::create), then [`start`](Self::start), and follows the returned [`Run`]. After a
/// restart of the daemon it calls [`inspect`](Self::inspect) and [`adopt`](Self::adopt). [`stop`](Self::stop) and
/// [`delete`](Self::delete) end it.
///
/// # Guarantees
/// - **Idempotent.** The caller may repeat every method after it succeeded, failed, or was cut short by the end of the daemon.
///   The method continues from the state that it finds.
/// - **Serial per machine.** A driver runs the changes of one machine one after the other, for all callers. Machines do not
///   wait for each other.
/// - **Detached.** Dropping the driver stops nothing. Running machines continue, and the next driver finds them with
///   [`inspect`](Self::inspect) and takes them over with [`adopt`](Self::adopt).
/// - **Bounded.** Every method has timeouts. Only downloads depend on the speed of the network.
///
/// # Errors
/// A [`Error`] names the failed action for people. A method that fails leaves a state that [`inspect`](Self::inspect)
/// reports and that a repeated call repairs.
pub trait Driver: Debug + Send + Sync {
    /// The values of `vmType` that select this driver.
    fn vm_types(&self) -> &'static [&'static str];

    /// Checks that this host has what the driver needs. The error names a remedy. The driver does not cache the answer, because
    /// the user may install the missing program at any time.
    fn available(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Validates a template without side effects. The error holds one sentence per problem, for the template's author.
    fn validate(&self, template: &str) -> Result<(), Vec<String>>;

    /// Reads the machine's state. It changes nothing and does not wait for other methods.
    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Found, Error>>;

    /// The template of the next start, as the caller provided it. `None` if the machine is absent or incomplete.
    fn template<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>>;

    /// Creates a stopped machine. An incomplete machine is removed and created again. A complete machine stays unchanged,
    /// including its template.
    fn create<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Starts a machine and returns a watch at once, usually in [`State::Starting`]. A machine that runs already is adopted.
    ///
    /// The driver has a start timeout: a machine that does not reach [`State::Running`] in time ends in [`State::Exited`].
    fn start<'a>(&'a self, vm: &'a str, log: &'a LogOptions) -> Pending<'a, Result<Run, Error>>;

    /// Takes over a machine that an earlier daemon left running, without interrupting it. The driver ends leftovers that cannot
    /// continue (one process of two). Returns `None` if nothing runs afterwards.
    ///
    /// The driver identifies the machine's processes by proof (mark, nonce, user, PID namespace), never by a similar name.
    fn adopt<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Run>, Error>>;

    /// Stops a machine: requests a shutdown, and kills its processes when `grace` has passed.
    fn stop<'a>(&'a self, vm: &'a str, grace: Duration) -> Pending<'a, Result<Stopped, Error>>;

    /// Replaces the template on disk. A running machine continues with the template that it was started with.
    fn apply_template<'a>(&'a self, vm: &'a str, template: &'a str) -> Pending<'a, Result<(), Error>>;

    /// Deletes a machine with all its files, processes and devices. A running machine is stopped first, by force if necessary.
    fn delete<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>>;

    /// The progress of the download that a creation or a start currently waits for, as text for people. `None` if there is none.
    fn progress(&self, _vm: &str) -> Option<String> {
        None
    }

    /// A known flaw of the software under the machine, as text for people. `rdd status` shows it while the machine runs.
    fn warning(&self, _vm: &str) -> Option<String> {
        None
    }

    /// The driver for Kubernetes in these machines. `None` if they cannot run Kubernetes.
    fn kubernetes(&self) -> Option<&dyn Cluster> {
        None
    }
}

/// The state of a machine, as [`Driver::inspect`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The machine does not exist.
    Absent,
    /// A creation or a deletion did not finish. [`Driver::create`] repeats it, [`Driver::delete`] completes it.
    HalfMade,
    /// The machine is complete, and none of its processes run.
    Stopped,
    /// The machine runs, supervised by this driver or left by an earlier one.
    Running(Running),
    /// Some of its processes run, but not enough to continue. [`Driver::adopt`] and [`Driver::stop`] end them.
    Broken {
        /// What is wrong, for people.
        why: String,
    },
}

/// What [`Driver::inspect`] knows about a running machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Whether the machine runs with another template than [`Driver::template`] returns, and needs a restart to apply it.
    pub outdated: bool,
}

/// How a machine or a cluster stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It was not running.
    Already,
    /// It ended after the shutdown request.
    Graceful,
    /// It did not end in time, and the driver killed it.
    Forced,
}

// Other operating systems have no driver that stops anything.
#[cfg(target_os = "linux")]
impl Stopped {
    /// The exit state after a stop. Finding O-5: the text records whether force was necessary.
    fn exited(self, action: &str) -> State {
        let how = if self == Self::Forced { ", by force" } else { "" };
        State::Exited { last_words: format!("{action}{how}") }
    }
}

/// The longest name of a machine, in bytes. The name becomes a folder, and the paths of sockets below it are limited to about a
/// hundred bytes.
pub const NAME_LENGTH_MAX: usize = 63;

/// Validates the name of a machine: a DNS label or subdomain as in Kubernetes, which is also safe as a part of a path.
pub fn check_name(vm: &str) -> Result<(), Error> {
    let refuse = |problem| Err(Error::InvalidName { vm: vm.to_owned(), problem });
    if vm.is_empty() {
        refuse("it is empty")
    } else if vm.len() > NAME_LENGTH_MAX {
        refuse("it is longer than 63 characters")
    // Excludes slashes; together with the next rule also `.` and `..`.
    } else if !vm.chars().all(is_name_character) {
        refuse("it has a character other than lower-case letters, digits, hyphens and dots")
    } else if !vm.starts_with(is_alphanumeric) || !vm.ends_with(is_alphanumeric) {
        refuse("it does not start and end with a letter or digit")
    } else {
        Ok(())
    }
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.')
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
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
