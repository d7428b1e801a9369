//! Starts the daemon, exactly once even if several commands start it at the same time.

use std::time::Duration;

use super::{
    ControlPlane, args_file,
    command_lock::{self, CommandLock},
    deadline::Deadline,
    readiness::{self, Awaited, Phase, Phases, Wanted},
    spawn::{self, Starting},
};
use crate::{progress::Progress, report::Outcome};

/// How long a start without `--wait` waits for the daemon to take its lock.
const LOCK_BOUND: Duration = Duration::from_secs(10);
/// The longest wait for one step; it ends early when there is news.
const TURN: Duration = Duration::from_secs(1);

/// Arguments of this run of the daemon; they are not stored, except by a start that creates the instance.
#[derive(Debug, Default, Clone)]
pub struct Session {
    /// The value of `--controllers`, if it was given.
    pub controllers: Option<String>,
    /// The value of `--secure-port`, if it was given.
    pub secure_port: Option<u16>,
    /// Further arguments for the daemon.
    pub positional: Vec<String>,
}

/// A request to start the daemon.
#[derive(Debug)]
pub struct Request {
    /// The arguments of this run.
    pub session: Session,
    /// Whether to wait until the daemon is ready.
    pub wait: bool,
    /// Whether the user asked for the start; then every result is reported.
    pub announce: bool,
    /// Whether the API alone is enough if the controllers fail to start.
    pub api_only: bool,
}

impl Session {
    /// Checks that the daemon accepts these arguments, including those that a first start stores, before anything is written.
    pub fn check(&self, default_port: u16) -> Outcome {
        args_file::check_words(&self.positional)?;
        let stored = args_file::of_start(default_port, &self.positional);
        args_file::check_words(&[stored, self.arguments(0)].concat())
    }

    fn arguments(&self, verbosity: u8) -> Vec<String> {
        let mut arguments = Vec::new();
        if let Some(controllers) = &self.controllers {
            arguments.extend(["--controllers".to_owned(), controllers.clone()]);
        }
        if let Some(port) = self.secure_port {
            arguments.extend(["--secure-port".to_owned(), port.to_string()]);
        }
        arguments.extend(["-v".to_owned(), verbosity.to_string()]);
        arguments.extend(self.positional.iter().cloned());
        arguments
    }
}

/// Starts the daemon, or finds it running; with `wait`, returns when it is ready.
///
/// # Flow
///
/// Takes the command lock and observes again, stores the arguments if the instance is new, and starts the process. The lock is released
/// once the daemon holds its own. If a daemon runs that is stopping, waits for its end and starts another.
///
/// # Guarantees
///
/// Of several concurrent starts, one starts the daemon and the others wait for it. After the deadline the daemon continues to start.
///
/// # Errors
///
/// A deadline failure if it is not ready at the deadline, a failure with its reason if it ends, and a failure for an invalid args file or
/// an incompatible version.
pub fn start(plane: &ControlPlane<'_>, request: &Request, deadline: Deadline) -> Outcome {
    let mut told = false;
    loop {
        if !plane.observe()?.daemon.is_running() {
            let lock = command_lock::hold(plane, deadline)?;
            if !plane.observe()?.daemon.is_running() {
                return start_anew(plane, request, deadline, lock);
            }
        }
        // A daemon that ended during the wait was stopping when it was found; a new one takes its place.
        if await_running(plane, request, deadline, &mut told)? != Awaited::Gone {
            return Ok(());
        }
    }
}

fn start_anew(plane: &ControlPlane<'_>, request: &Request, deadline: Deadline, lock: CommandLock) -> Outcome {
    // Storing the arguments is what creates the instance.
    let stored = stored_arguments(plane, request)?;
    let session = request.session.arguments(plane.context.level.verbosity());
    let mut daemon = spawn::spawn(plane, &spawn::arguments(stored, session))?;
    let name = plane.name();
    // Even without a wait, the lock is held until the daemon has its own; otherwise another start could start a second one.
    if !request.wait {
        until_locked(&mut daemon, plane, Deadline::after(Some(LOCK_BOUND)))?;
        drop(lock);
        plane.record().success(&format!("{name:?} control plane is starting"));
        return Ok(());
    }
    let progress = Progress::start(plane.record(), &format!("starting {name:?} control plane"));
    let mut up = Up { phases: Phases::default(), progress, last_status: None, told: None, read_only: false };
    up.tell(Phase::ApiServer.message());
    // Until the daemon holds its lock, another start would not see it, so the command lock must stay.
    let mut ready = false;
    while !ready && !deadline.has_passed() && !daemon.holds_lock(plane)? {
        ready = up.follow(&mut daemon, plane, deadline)?;
    }
    // Other commands may now find the daemon and wait for it themselves.
    drop(lock);
    while !ready {
        if deadline.has_passed() {
            return Err(readiness::timed_out(plane, up.told.take().or(up.last_status.take())));
        }
        ready = up.follow(&mut daemon, plane, deadline)? || (request.api_only && up.told.is_some());
    }
    let how = if up.read_only { "read-only" } else { "ready" };
    drop(up);
    if request.announce {
        plane.record().success(&format!("{name:?} control plane is {how}"));
    }
    Ok(())
}

/// What has been shown to the user during the start.
struct Up {
    phases: Phases,
    progress: Progress,
    /// The daemon's last status text.
    last_status: Option<String>,
    /// The failure reason that was shown last.
    told: Option<String>,
    /// Whether the daemon serves reads only. How long that lasts is unknown, so the start ends.
    read_only: bool,
}

impl Up {
    /// Waits for one step and shows its news. Returns whether the wait is over.
    fn follow(&mut self, daemon: &mut Starting, plane: &ControlPlane<'_>, deadline: Deadline) -> Outcome<bool> {
        let step = daemon.step(plane, deadline.left_up_to(TURN))?;
        step.statuses.iter().for_each(|status| self.tell(status));
        self.last_status = step.statuses.into_iter().next_back().or(self.last_status.take());
        if let Some(reason) = daemon.reason().filter(|_| !step.ready)
            && self.told.as_deref() != Some(reason)
        {
            // The daemon retries, so the wait continues; a user who can help should know now.
            plane.record().warn(reason);
            self.told = Some(reason.to_owned());
        }
        self.read_only = step.read_only && !step.ready;
        Ok(step.ready || step.read_only)
    }

    /// Shows a status text if it is one of the phases that scripts match.
    fn tell(&mut self, status: &str) {
        if let Some(message) = Phase::of_status(status).and_then(|phase| self.phases.advance(phase)) {
            self.progress.phase(message);
        }
    }
}

fn until_locked(daemon: &mut Starting, plane: &ControlPlane<'_>, deadline: Deadline) -> Outcome {
    while !deadline.has_passed() && !daemon.holds_lock(plane)? {
        if daemon.step(plane, deadline.left_up_to(TURN))?.ready {
            break;
        }
    }
    Ok(())
}

fn stored_arguments(plane: &ControlPlane<'_>, request: &Request) -> Outcome<Vec<String>> {
    if let Some(stored) = args_file::read(&plane.paths().args_file)? {
        args_file::check(&plane.paths().args_file, &stored)?;
        return Ok(stored);
    }
    let stored = args_file::of_start(plane.instance.ports.api, &request.session.positional);
    args_file::write(&plane.paths().args_file, &stored)?;
    if request.announce {
        plane.record().info(&format!("successfully created {:?} control plane", plane.name()));
    }
    Ok(stored)
}

fn await_running(plane: &ControlPlane<'_>, request: &Request, deadline: Deadline, told: &mut bool) -> Outcome<Awaited> {
    let name = plane.name();
    if request.announce && !std::mem::replace(told, true) {
        plane.record().info(&format!("{name:?} control plane is already running"));
    }
    if !request.wait {
        return Ok(Awaited::Ready);
    }
    let waiting = format!("waiting for {name:?} control plane to be ready");
    let progress = request.announce.then(|| Progress::start(plane.record(), &waiting));
    let wanted = Wanted { expected: plane.expected_version(), api_only: request.api_only };
    let awaited = readiness::wait(plane, deadline, progress, wanted)?;
    if request.announce && awaited == Awaited::Ready {
        plane.record().success(&format!("{name:?} control plane is ready"));
    }
    Ok(awaited)
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
