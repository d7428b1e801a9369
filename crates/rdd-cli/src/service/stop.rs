//! Bringing the daemon down: asked, then told, then killed.

use std::time::Duration;

use rdd_stdx::{
    file, lock,
    process::{Process, Signal},
};

use super::{
    ControlPlane,
    state::{self, Daemon},
};
use crate::{
    go::GoDuration,
    progress::Progress,
    report::{Failure, Outcome},
};

/// How long a daemon that was told twice may take. It ends at once on the second signal, unless it hangs.
const GRACE_MAX: Duration = Duration::from_secs(10);
const GRACE_MIN: Duration = Duration::from_secs(1);
/// A wait without end is made of these.
const SLICE: Duration = Duration::from_secs(3600);

/// How it went.
#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    /// There was nothing to stop.
    WasNotRunning,
    /// It has ended.
    Ended,
    /// It was asked to.
    Asked,
}

/// Stops the daemon. With `wait`, returns when it has ended; at the bound it is killed, which is an error.
pub fn stop(plane: &ControlPlane<'_>, wait: bool, bound: Option<Duration>) -> Outcome<Stopped> {
    let (name, paths) = (plane.name(), plane.paths());
    let Some(process) = lock::open_holder(&paths.lock_file)? else {
        return match state::daemon(paths)? {
            Daemon::Stopped => Ok(Stopped::WasNotRunning),
            Daemon::Running(_) => Err(out_of_sight(plane)),
        };
    };
    let pid = process.pid();
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

/// A second signal ends a healthy daemon at once; one that hangs is killed.
fn end_by_force(plane: &ControlPlane<'_>, process: &Process, bound: Duration) -> Outcome {
    let (name, pid, bound_text) = (plane.name(), process.pid(), GoDuration::from(bound));
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

/// What a daemon that ended leaves published. Another one may be up already; its files are its own.
fn clean_up(plane: &ControlPlane<'_>) -> Outcome {
    if !state::daemon(plane.paths())?.is_running() {
        file::remove_if_present(&plane.paths().config)?;
        file::remove_if_present(&plane.paths().pid_file)?;
    }
    Ok(())
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
