//! Stops a machine: requests a shutdown, waits, kills what remains, and cleans up.

use std::{io, os::unix::net::UnixStream, time::Duration};

use rdd_stdx::{backoff::Backoff, process::Signal};
use tokio::time::Instant;

use super::machine::{Machine, QMP_SOCKET};
use crate::{Error, Stopped, identity::Seen};

/// The time that helper processes get to end after their machine.
const HELPERS_TAKE: Duration = Duration::from_secs(3);
/// The timeout for killed processes to disappear.
const KILL_TAKES: Duration = Duration::from_secs(10);
/// The backoff between observations of a teardown; each observation reads all of `/proc`.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(160));

/// Stops a machine: requests a shutdown, kills its processes when `grace` has passed, and removes what only a running
/// machine needs.
///
/// Idempotent, from any state: an interrupted teardown is completed by the next one.
///
/// # Errors
/// [`Error::StillRunning`] if processes survive the kill.
pub(super) async fn teardown(machine: &Machine, grace: Duration) -> Result<Stopped, Error> {
    let deadline = Instant::now() + grace;
    let processes = machine.processes();
    let mut graceful = match (machine.agent(&processes), machine.qemu(&processes)) {
        // The agent sends a power-button event to the VM and ends after it.
        (Some(agent), _) => ask(&agent, deadline, || Ok(())).await?,
        (None, Some(qemu)) => ask(&qemu, deadline, || press_power_button(machine)).await?,
        (None, None) => true,
    };
    graceful &= sweep(machine, graceful).await?;
    machine.clear()?;
    Ok(match (processes.is_empty(), graceful) {
        (true, _) => Stopped::Already,
        (false, true) => Stopped::Graceful,
        (false, false) => Stopped::Forced,
    })
}

fn failed(action: &str) -> impl FnOnce(io::Error) -> Error + use<> {
    let action = action.to_owned();
    move |source| Error::System { action, source }
}

/// Asks a process to end, by a signal or, for QEMU, by `otherwise`. Returns `false` if it is still running at the
/// deadline.
async fn ask(seen: &Seen, deadline: Instant, otherwise: impl FnOnce() -> io::Result<()>) -> Result<bool, Error> {
    let program = seen.program();
    let failed = || failed(&format!("stop {program}"));
    let Some(process) = seen.open().map_err(failed())? else { return Ok(true) };
    if program.starts_with("qemu-system-") {
        // A signal would be a hard power-off.
        if otherwise().is_err() {
            return Ok(false);
        }
    } else {
        process.signal(Signal::INT).map_err(failed())?;
    }
    match tokio::time::timeout_at(deadline, process.ended()).await {
        Ok(ended) => ended.map(|()| true).map_err(failed()),
        Err(_) => Ok(false),
    }
}

/// Sends a power-button event to a VM whose host agent is gone.
fn press_power_button(machine: &Machine) -> io::Result<()> {
    use std::io::Write as _;
    let mut monitor = UnixStream::connect(machine.folder.join(QMP_SOCKET))?;
    monitor.set_write_timeout(Some(Duration::from_secs(1)))?;
    monitor.write_all(b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"system_powerdown\"}\n")?;
    // QEMU drops commands of a client that disconnects: read the greeting and the two replies first.
    monitor.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut answers = std::io::BufReader::new(monitor);
    for _ in 0..3 {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut answers, &mut line)?;
    }
    Ok(())
}

/// Kills the processes that remain. They get a moment to end by themselves first, if `patient`. Returns `false` if it
/// killed the host agent or QEMU.
async fn sweep(machine: &Machine, patient: bool) -> Result<bool, Error> {
    let began = Instant::now();
    let mut graceful = true;
    let mut delays = BACKOFF.delays();
    loop {
        let left = machine.processes();
        if left.is_empty() {
            return Ok(graceful);
        }
        if began.elapsed() > HELPERS_TAKE + KILL_TAKES {
            let what = left.iter().map(|seen| format!("{} ({})", seen.program(), seen.pid)).collect::<Vec<_>>();
            return Err(Error::StillRunning { vm: machine.vm.clone(), what: what.join(", ") });
        }
        if !patient || began.elapsed() > HELPERS_TAKE {
            // Killing a leftover connection does not make the stop forced.
            graceful &= machine.agent(&left).is_none() && machine.qemu(&left).is_none();
            for seen in left {
                seen.signal(Signal::KILL).map_err(failed("kill a process"))?;
            }
        }
        tokio::time::sleep(delays.advance()).await;
    }
}
