//! The daemon as seen from outside: whether it exists and runs, how it is started, awaited and stopped.

pub mod api;
pub mod args_file;
pub mod command_lock;
pub mod datastore;
pub mod deadline;
pub mod logfile;
pub mod notify;
pub mod ownership;
pub mod readiness;
pub mod spawn;
pub mod start;
pub mod state;
pub mod stop;

use std::time::Duration;

use rdd_instance::{Instance, Paths};

use crate::{
    context::Context,
    record::Recorder,
    report::{Failure, Outcome},
};
use deadline::Deadline;

/// How long a command waits for the service it needs but was not asked to start.
const AUTOSTART_BOUND: Duration = Duration::from_secs(90);

/// One instance's daemon, and the command that is concerned with it.
#[derive(Debug)]
pub struct ControlPlane<'a> {
    /// The surroundings of the command.
    pub context: &'a Context<'a>,
    /// Whose daemon it is.
    pub instance: Instance,
}

impl<'a> ControlPlane<'a> {
    /// The daemon that this command line means. An instance whose files belong to another user is refused.
    pub fn of(context: &'a Context<'a>) -> Outcome<Self> {
        let plane = Self::unchecked(context)?;
        ownership::check(plane.paths(), &context.environment)?;
        Ok(plane)
    }

    /// As [`of`](Self::of), for commands that neither read nor create files of the instance.
    pub fn unchecked(context: &'a Context<'a>) -> Outcome<Self> {
        Ok(Self { context, instance: context.instance()? })
    }

    /// The name that people see.
    pub fn name(&self) -> String {
        self.instance.full_name()
    }

    /// Where its files are.
    pub fn paths(&self) -> &Paths {
        &self.instance.paths
    }

    /// Where messages go.
    pub fn record(&self) -> &Recorder {
        &self.context.record
    }

    /// What is there now.
    pub fn observe(&self) -> Outcome<state::State> {
        Ok(state::observe(self.paths())?)
    }

    /// The server version this program works with; `None` if any will do.
    pub fn expected_version(&self) -> Option<&'static str> {
        (!self.context.is_developer_mode()).then_some(self.context.build.git_version)
    }

    /// A folder of ours that is a link leads to files that are not ours.
    pub fn refuse_linked_folder(&self) -> Outcome {
        let dir = &self.paths().dir;
        if dir.is_symlink() {
            let message =
                format!("{} is a symbolic link, and what it leads to may not be ours to remove", dir.display());
            return Err(Failure::message(message).hint("remove the link, or put the folder itself in its place"));
        }
        Ok(())
    }

    /// A daemon of the Go version holds no lock of ours, but it answers on a socket of its own while it lives. Its files
    /// are not touched then.
    pub fn refuse_live_original(&self) -> Outcome {
        let socket = &self.paths().original_socket;
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            let message = format!("the Go version of rdd is running {:?} ({} answers)", self.name(), socket.display());
            return Err(Failure::message(message).hint("stop it first, with its own `rdd svc stop`"));
        }
        Ok(())
    }
}

/// Makes sure that the service is there and can be used: creates and starts it if needed, and waits. For every command
/// that talks to the API. Bounded by 90 s, whatever the command's own timeout is.
pub fn ensure_running(plane: &ControlPlane<'_>) -> Outcome {
    ensure(plane, false)
}

/// The same for commands that can do with the API alone, if controllers cannot start.
pub fn ensure_api(plane: &ControlPlane<'_>) -> Outcome {
    ensure(plane, true)
}

fn ensure(plane: &ControlPlane<'_>, api_only: bool) -> Outcome {
    let deadline = Deadline::after(Some(AUTOSTART_BOUND));
    let request = start::Request { session: start::Session::default(), wait: true, announce: false, api_only };
    start::start(plane, &request, deadline)
}
