//! Stops the daemon: asks it, then insists, then kills it.

use std::time::Duration;

use rdd_instance::Paths;
use rdd_stdx::{
    lock,
    process::{Process, Signal},
};

use super::{
    ControlPlane,
    deadline::Deadline,
    state::{self, Daemon},
};
use crate::{
    go::GoDuration,
    progress::Progress,
    report::{Failure, Outcome},
};

/// How long a daemon may take after a second signal, on which it ends at once unless it hangs.
const GRACE_MAX: Duration = Duration::from_secs(10);
const GRACE_MIN: Duration = Duration::from_secs(1);
/// A wait without a timeout repeats waits of this length.
const SLICE: Duration = Duration::from_secs(3600);

/// How long the removal of the daemon's published files is retried, and how often.
const CLEAN_UP_BOUND: Duration = Duration::from_millis(200);
const RETRY: Duration = Duration::from_millis(10);

/// The result of a stop.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// No daemon was running.
    WasNotRunning,
    /// The daemon has ended.
    Ended,
    /// The daemon was asked to stop.
    Asked,
}

/// Asks the daemon to stop. With `wait`, returns when it has ended.
///
/// # Guarantees
///
/// Only the process that holds the daemon's lock is signalled, never one that has its former PID. With `wait`, the daemon has
/// ended when this succeeds.
///
/// # Errors
///
/// A deadline failure if the daemon had to be ended by force after `bound` (`None` waits forever), and a failure if its process is not
/// visible from here.
pub fn stop(plane: &ControlPlane<'_>, wait: bool, bound: Option<Duration>) -> Outcome<Stopped> {
    let (name, paths) = (plane.name(), plane.paths());
    let process = loop {
        let process = lock::open_holder(&paths.lock_file)?;
        // Checked while the process handle is open, so the PID cannot be reused; a command that keeps daemons away must not be signalled.
        match (state::daemon(paths)?, process) {
            (Daemon::Stopped, _) => return Ok(Stopped::WasNotRunning),
            (Daemon::Running(None), _) => return Err(out_of_sight(plane)),
            (Daemon::Running(Some(pid)), Some(process)) if process.pid() == pid => break process,
            (Daemon::Running(Some(pid)), None) if is_out_of_sight(paths, pid)? => return Err(out_of_sight(plane)),
            // Another daemon took over between the two checks.
            (Daemon::Running(Some(_)), _) => {}
        }
    };
    let pid = process.pid();
    // SIGINT asks for a graceful shutdown.
    let asked = process.signal(Signal::INT);
    asked.map_err(|error| Failure::caused(format!("failed to stop {name:?} control plane with pid {pid}"), error))?;
    if !wait {
        return Ok(Stopped::Asked);
    }
    let progress = Progress::on_terminal(plane.record(), &format!("stopping {name:?} control plane"));
    let ended = ends_within(&process, bound)?;
    drop(progress);
    if !ended {
        end_by_force(plane, &process, bound.unwrap_or_default())?;
        return Err(Failure::deadline(format!("timed out waiting for {name:?} control plane with pid {pid} to stop")));
    }
    // A daemon that was killed leaves its kubeconfig and PID file behind.
    clean_up(plane)?;
    Ok(Stopped::Ended)
}

fn ends_within(process: &Process, bound: Option<Duration>) -> Outcome<bool> {
    match bound {
        Some(bound) => Ok(process.wait(bound)?),
        None => loop {
            if process.wait(SLICE)? {
                return Ok(true);
            }
        },
    }
}

/// Ends a daemon that did not stop in time: a second signal ends a healthy daemon at once, a hanging one is killed.
fn end_by_force(plane: &ControlPlane<'_>, process: &Process, bound: Duration) -> Outcome {
    let (name, pid, bound_text) = (plane.name(), process.pid(), GoDuration::from(bound));
    // The daemon treats any second signal as a request to end at once.
    process.signal(Signal::TERM)?;
    let how = if process.wait(grace(bound))? {
        "terminated"
    } else {
        process.signal(Signal::KILL)?;
        process.wait(GRACE_MAX)?;
        "killed"
    };
    plane
        .record()
        .warn(&format!("{name:?} control plane with pid {pid} did not stop within {bound_text} and was {how}"));
    Ok(())
}

fn grace(bound: Duration) -> Duration {
    bound.clamp(GRACE_MIN, GRACE_MAX)
}

/// Removes the files that the ended daemon published. A new daemon's files stay. If another process is active for longer than a moment, it
/// either starts a daemon or removes all files itself, so this stops trying.
fn clean_up(plane: &ControlPlane<'_>) -> Outcome {
    let (paths, deadline) = (plane.paths(), Deadline::after(Some(CLEAN_UP_BOUND)));
    while !state::remove_left_behind(paths, &[&paths.config, &paths.pid_file])? && !deadline.has_passed() {
        std::thread::sleep(deadline.left_up_to(RETRY));
    }
    Ok(())
}

/// Whether the daemon's PID belongs to another PID namespace. A daemon that just ended would no longer hold the lock.
fn is_out_of_sight(paths: &Paths, pid: u32) -> Outcome<bool> {
    Ok(Process::open(pid)?.is_none() && state::daemon(paths)? == Daemon::Running(Some(pid)))
}

fn out_of_sight(plane: &ControlPlane<'_>) -> Failure {
    let message = format!("{:?} control plane runs, but its process cannot be seen from here", plane.name());
    Failure::message(message).hint("run this command where the service was started: the same machine or container")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grace_follows_the_bound_within_limits() {
        for (bound, expected) in [(1, 1_000), (3_000, 3_000), (300_000, 10_000)] {
            assert_eq!(grace(Duration::from_millis(bound)), Duration::from_millis(expected));
        }
    }
}
