//! Starts, adopts and supervises Lima's host agent.

use std::{
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::{chain::Chain, logfile, process::Process};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    time::Instant,
};

use super::{
    accelerator::{self, Accelerator},
    events::Tail,
    limactl::Limactl,
    machine::Machine,
    teardown::teardown,
    words,
};
use crate::{
    Error, Health, LogOptions, Reporter, State,
    identity::{LIMA_MARK, Seen},
    log,
};

/// The start timeout. Lima itself gives up after ten minutes, and an emulated VM is slow.
const START_TAKES: Duration = Duration::from_secs(20 * 60);
/// The grace period for the remaining processes of a machine whose agent has ended.
const REMAINS_GRACE: Duration = Duration::from_secs(20);
/// The intervals at which the agent's events are read, during and after its start.
const EVENTS_EVERY: Duration = Duration::from_millis(25);
const EVENTS_LATER: Duration = Duration::from_secs(2);

/// Selects the older of Lima's two port forwarders, over SSH. Only it can forward a port to a socket (Lima 1.2.1 fails
/// with "missing port in address" otherwise); it does not forward UDP.
const SSH_FORWARDER: &str = "LIMA_SSH_PORT_FORWARDER";

/// The logs of the guest's consoles, which QEMU overwrites.
const CONSOLES: [&str; 3] = ["serial.log", "serialp.log", "serialv.log"];

/// A running host agent, started by this daemon or adopted.
#[derive(Debug)]
pub(super) struct Agent {
    machine: Machine,
    process: Process,
    child: Option<Child>,
}

impl Agent {
    /// Starts a host agent.
    ///
    /// # Assumptions
    /// Nothing of the machine runs, and an earlier start was torn down.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the host lacks something. All checks come before the first change.
    pub(super) fn start(machine: &Machine, options: &LogOptions) -> Result<Self, Error> {
        machine.check_owner()?;
        let template = machine.template()?;
        // Check all requirements before anything is created.
        let limactl = machine.host.usable_limactl()?;
        machine.check_disk()?;
        let arguments = arguments(machine, &limactl, &template, options)?;
        let emulation = emulation(machine)?;
        let events = log::rotate(&machine.folder.join(log::EVENTS), options)?;
        let mut messages = log::rotate(&machine.folder.join(log::MESSAGES), options)?;
        for console in CONSOLES {
            // QEMU truncates these files, so keep the old content under another name.
            logfile::set_aside(&machine.folder.join(console), options.keep_all)?;
        }
        let mut command = limactl.command(&machine.folder);
        command.args(arguments);
        if has_port_to_socket(&template) {
            command.env(SSH_FORWARDER, "true");
        }
        if let Some((why, value)) = emulation {
            let warning = format!("the machine is emulated, which is many times slower: {why}");
            tracing::warn!(vm = machine.vm, "{warning}");
            // The warning is dropped if the disk is full.
            let _ = writeln!(messages, "{}", json!({ "level": "warning", "msg": warning }));
            command.env(accelerator::qemu_variable(), value);
        }
        command.stdout(events).stderr(messages);
        let launch = machine.note_start(&template)?;
        launch.mark(&mut command, LIMA_MARK, &machine.folder);
        let failed = |source| Error::System { action: format!("start {}", limactl.program.display()), source };
        let child = Command::from(command).spawn().map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        machine.record_agent(pid, &launch)?;
        // The child is not reaped yet, so the PID cannot belong to another process.
        match Process::open(pid).map_err(failed)? {
            Some(process) => Ok(Self { machine: machine.clone(), process, child: Some(child) }),
            None => Err(failed(std::io::Error::other("it ended at once"))),
        }
    }

    /// Opens a host agent that an earlier daemon started. Returns `None` if it has ended.
    pub(super) fn adopt(machine: &Machine, seen: &Seen) -> Result<Option<Self>, Error> {
        let open = seen.open().map_err(|source| Error::System { action: "watch limactl".to_owned(), source })?;
        Ok(open.map(|process| Self { machine: machine.clone(), process, child: None }))
    }

    /// Waits for the process to end and returns its exit status as text. Cancel safe: it can be dropped and called
    /// again.
    async fn ended(&mut self) -> String {
        match &mut self.child {
            Some(child) => child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()),
            None => match self.process.ended().await {
                Ok(()) => "it was started by an earlier daemon, so nobody knows how".to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Supervises the machine until it ends. When this returns, nothing of it runs and [`State::Exited`] was reported.
    ///
    /// If the future is dropped earlier, the machine keeps running; another caller can adopt it or tear it down.
    pub(super) async fn supervise(mut self, reporter: &Reporter) {
        let mut last_words = self.watch(reporter).await;
        if let Err(error) = teardown(&self.machine, REMAINS_GRACE).await {
            last_words = format!("{last_words}; then it could not be cleared away: {}", Chain(&error));
        }
        reporter.report(State::Exited { last_words });
    }

    async fn watch(&mut self, reporter: &Reporter) -> String {
        let deadline = Instant::now() + START_TAKES;
        let mut tail = Tail::new(self.machine.folder.join(log::EVENTS));
        let mut complaints = String::new();
        loop {
            // Read the events before the first wait, so that an adopted machine reports its state at once.
            match tail.latest() {
                Ok(Some(State::Exited { last_words })) => complaints = last_words,
                Ok(Some(state)) => tell(&self.machine, reporter, state),
                Ok(None) => {}
                Err(error) => {
                    tracing::debug!(vm = self.machine.vm, %error, "could not read the events of the host agent")
                }
            }
            let is_up = matches!(reporter.state(), State::Running(_));
            let pause = if is_up { EVENTS_LATER } else { EVENTS_EVERY };
            tokio::select! {
                how = self.ended() => return self.last_words(&complaints, &how),
                () = tokio::time::sleep(pause) => {}
            }
            if !is_up && Instant::now() >= deadline {
                let silence = format!("the machine did not come up within {} minutes", START_TAKES.as_secs() / 60);
                let reason = words::reason_in(&self.machine.folder.join(log::MESSAGES));
                return reason.map_or_else(|| silence.clone(), |reason| format!("{silence}: {reason}"));
            }
        }
    }

    /// Finding O-2: the reason from the log, so that users need not search for it.
    fn last_words(&self, complaints: &str, how: &str) -> String {
        let reason = words::reason_in(&self.machine.folder.join(log::MESSAGES));
        let parts = [Some(complaints.to_owned()).filter(|text| !text.is_empty()), reason];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
        if text.is_empty() {
            format!("the host agent has ended: {how}")
        } else {
            format!("the host agent has ended ({how}): {text}")
        }
    }
}

/// Reports a state, and logs the problems of a degraded machine once.
fn tell(machine: &Machine, reporter: &Reporter, state: State) {
    if let State::Running(Health { errors }) = &state
        && reporter.state() != state
    {
        errors.iter().for_each(|error| tracing::warn!(vm = machine.vm, error, "the machine is degraded"));
    }
    reporter.report(state);
}

fn arguments(
    machine: &Machine,
    limactl: &Limactl,
    template: &str,
    options: &LogOptions,
) -> Result<Vec<OsString>, Error> {
    let mut arguments: Vec<OsString> = Vec::new();
    if options.debug {
        arguments.push("--debug".into());
    }
    arguments.push("hostagent".into());
    arguments.extend([
        "--pidfile".into(),
        machine.agent_pid_file().into(),
        "--socket".into(),
        machine.agent_socket().into(),
    ]);
    // The agent needs the guest agent's path, because rdd starts it without `limactl start`.
    if !is_plain(template) {
        arguments.extend(["--guestagent".into(), guest_agent(&limactl.program)?.into()]);
        if let Some(archive) = limactl.nerdctl(template)? {
            arguments.extend(["--nerdctl-archive".into(), archive.into()]);
        }
    }
    arguments.push(machine.vm.clone().into());
    Ok(arguments)
}

/// Whether a template is plain: Lima installs nothing in its guest.
fn is_plain(template: &str) -> bool {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options::<Value>(template, options);
    parsed.is_ok_and(|template| template["plain"] == Value::Bool(true))
}

/// Whether a template forwards a port of the guest to a socket of this host.
fn has_port_to_socket(template: &str) -> bool {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options::<Value>(template, options).unwrap_or_default();
    let mut rules = parsed["portForwards"].as_array().into_iter().flatten();
    rules.any(|rule| !rule["guestPort"].is_null() && !rule["hostSocket"].is_null())
}

/// Finds Lima's guest agent in the same places as Lima: beside `limactl`, or in the `share` folder of its prefix.
fn guest_agent(limactl: &Path) -> Result<PathBuf, Error> {
    let name = format!("lima-guestagent.Linux-{}", std::env::consts::ARCH);
    let real = limactl.canonicalize().unwrap_or_else(|_| limactl.to_owned());
    for program in [limactl, &real] {
        let folder = program.parent().unwrap_or(Path::new("/"));
        let share = folder.parent().unwrap_or(Path::new("/")).join("share/lima");
        for place in [folder, &share] {
            let found = [place.join(format!("{name}.gz")), place.join(&name)].into_iter().find(|file| file.is_file());
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }
    Err(Error::Unsupported {
        missing: format!("{} has no {name} beside it or in its share folder", limactl.display()),
        remedy: "install Lima as a whole".to_owned(),
    })
}

/// Why the machine is emulated, and the value of the variable that makes Lima use the shim; `None` with acceleration.
fn emulation(machine: &Machine) -> Result<Option<(String, OsString)>, Error> {
    let Accelerator::Emulation { why } = machine.host.accelerator()? else { return Ok(None) };
    let Some(shim) = &machine.host.shim else { return Ok(None) };
    Ok(Some((why.clone(), accelerator::install_shim(shim, &machine.host.own_dir)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_agent_is_where_lima_looks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let (bin, share) = (folder.path().join("lima/bin"), folder.path().join("lima/share/lima"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&share).unwrap();
        let limactl = bin.join("limactl");
        std::fs::write(&limactl, "").unwrap();
        assert!(guest_agent(&limactl).unwrap_err().to_string().contains("install Lima as a whole"));
        let agent = share.join(format!("lima-guestagent.Linux-{}.gz", std::env::consts::ARCH));
        std::fs::write(&agent, "").unwrap();
        assert_eq!(guest_agent(&limactl).unwrap(), agent);
        let link = folder.path().join("limactl");
        std::os::unix::fs::symlink(&limactl, &link).unwrap();
        assert_eq!(guest_agent(&link).unwrap(), agent, "a link to it will do");
    }

    #[test]
    fn a_port_that_leads_to_a_socket_is_noticed() {
        assert!(has_port_to_socket("portForwards:\n- guestPort: 1\n  hostSocket: /x\n"));
        assert!(!has_port_to_socket("portForwards:\n- guestSocket: /y\n  hostSocket: /x\n- guestPort: 1\n"));
        assert!(!has_port_to_socket("[") && !has_port_to_socket(""));
    }

    #[test]
    fn plain_is_said_in_the_template() {
        assert!(
            is_plain("plain: true\n") && !is_plain("plain: false\n") && !is_plain("images: []\n") && !is_plain("[")
        );
    }
}
