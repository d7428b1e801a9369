//! Ending a machine: asking it, waiting, and then no longer asking.

use std::{io, os::unix::net::UnixStream, time::Duration};

use rdd_stdx::{backoff::Backoff, process::Signal};
use tokio::time::Instant;

use super::machine::{Machine, QMP_SOCKET};
use crate::{Error, Stopped, identity::Seen};

/// How long helpers of a machine that ended may take to follow it.
const HELPERS_TAKE: Duration = Duration::from_secs(3);
/// How long the kernel may take to end what was killed.
const KILL_TAKES: Duration = Duration::from_secs(10);
/// How often everything is looked at while it ends, at first and at most: a look reads all of `/proc`.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(160));

/// Asks a machine to shut down, kills what is left of it when `grace` is over, and removes what only a running machine has.
pub(super) async fn teardown(machine: &Machine, grace: Duration) -> Result<Stopped, Error> {
    let deadline = Instant::now() + grace;
    let processes = machine.processes();
    let mut graceful = match (machine.agent(&processes), machine.qemu(&processes)) {
        // The agent presses the machine's power button, and ends when the machine has.
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

/// Asks a process to end, by a signal or in another way. `false` if it has not by the deadline.
async fn ask(seen: &Seen, deadline: Instant, otherwise: impl FnOnce() -> io::Result<()>) -> Result<bool, Error> {
    let program = seen.program();
    let failed = || failed(&format!("stop {program}"));
    let Some(process) = seen.open().map_err(failed())? else { return Ok(true) };
    if program.starts_with("qemu-system-") {
        // A signal would be like pulling the plug.
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

/// What a machine does without its host agent when somebody wants it to end.
fn press_power_button(machine: &Machine) -> io::Result<()> {
    use std::io::Write as _;
    let mut monitor = UnixStream::connect(machine.folder.join(QMP_SOCKET))?;
    monitor.set_write_timeout(Some(Duration::from_secs(1)))?;
    monitor.write_all(b"{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"system_powerdown\"}\n")?;
    // QEMU takes no order of one who has gone, so its answers are waited for: a greeting and two lines.
    monitor.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut answers = std::io::BufReader::new(monitor);
    for _ in 0..3 {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut answers, &mut line)?;
    }
    Ok(())
}

/// Kills what is left, if it does not end by itself in a moment. `false` if the machine itself had to be killed.
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
            // A connection that lingers is no part of the machine's own end.
            graceful &= machine.agent(&left).is_none() && machine.qemu(&left).is_none();
            for seen in left {
                seen.signal(Signal::KILL).map_err(failed("kill a process"))?;
            }
        }
        tokio::time::sleep(delays.advance()).await;
    }
}
