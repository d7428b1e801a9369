//! The daemon as commands see it: state, start, readiness and stop.

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

/// The timeout of a start that a command needs but the user did not ask for.
const AUTOSTART_BOUND: Duration = Duration::from_secs(90);

/// A command's view of one instance's daemon.
#[derive(Debug)]
pub struct ControlPlane<'a> {
    /// The context of the command.
    pub context: &'a Context<'a>,
    /// The instance.
    pub instance: Instance,
}

impl<'a> ControlPlane<'a> {
    /// The daemon of this command line's instance.
    ///
    /// # Errors
    ///
    /// A failure if files of the instance belong to another user.
    pub fn of(context: &'a Context<'a>) -> Outcome<Self> {
        let plane = Self::unchecked(context)?;
        ownership::check(plane.paths(), &context.environment)?;
        Ok(plane)
    }

    /// Like [`of`](Self::of), without the check of ownership: for commands that neither read nor create files of the instance.
    pub fn unchecked(context: &'a Context<'a>) -> Outcome<Self> {
        Ok(Self { context, instance: context.instance()? })
    }

    /// The instance's full name, as users see it.
    pub fn name(&self) -> String {
        self.instance.full_name()
    }

    /// The paths of the instance's files.
    pub fn paths(&self) -> &Paths {
        &self.instance.paths
    }

    /// The recorder for messages.
    pub fn record(&self) -> &Recorder {
        &self.context.record
    }

    /// Observes whether the instance exists and its daemon runs.
    pub fn observe(&self) -> Outcome<state::State> {
        Ok(state::observe(self.paths())?)
    }

    /// The server version that this program requires; `None` accepts any, in developer mode.
    pub fn expected_version(&self) -> Option<&'static str> {
        (!self.context.is_developer_mode()).then_some(self.context.build.git_version)
    }

    /// Fails if the instance's folder is a symbolic link: its target's files may belong to something else and must not be removed.
    pub fn refuse_linked_folder(&self) -> Outcome {
        let dir = &self.paths().dir;
        if dir.is_symlink() {
            let message =
                format!("{} is a symbolic link, and what it leads to may not be ours to remove", dir.display());
            return Err(Failure::message(message).hint("remove the link, or put the folder itself in its place"));
        }
        Ok(())
    }

    /// Fails if a daemon of the original (Go) version runs. It does not hold our lock, but it listens on its own socket; its files must not
    /// be touched while it runs.
    pub fn refuse_live_original(&self) -> Outcome {
        let socket = &self.paths().original_socket;
        // A socket file that a dead process left behind refuses connections.
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            let message = format!("the Go version of rdd is running {:?} ({} answers)", self.name(), socket.display());
            return Err(Failure::message(message).hint("stop it first, with its own `rdd svc stop`"));
        }
        Ok(())
    }
}

/// Ensures that the daemon runs and is ready, creating and starting it if needed; every command that uses the API calls this.
///
/// Waits at most 90 seconds, whatever the command's own timeout is.
pub fn ensure_running(plane: &ControlPlane<'_>) -> Outcome {
    ensure(plane, false)
}

/// Like [`ensure_running`], but the API alone is enough if the controllers fail to start.
pub fn ensure_api(plane: &ControlPlane<'_>) -> Outcome {
    ensure(plane, true)
}

fn ensure(plane: &ControlPlane<'_>, api_only: bool) -> Outcome {
    let deadline = Deadline::after(Some(AUTOSTART_BOUND));
    let request = start::Request { session: start::Session::default(), wait: true, announce: false, api_only };
    start::start(plane, &request, deadline)
}
