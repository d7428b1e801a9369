//! Lima's host agent: how it is started, and watched until its end.

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

/// How long a machine may take to come up: Lima itself gives up after ten minutes, and one that is emulated is slow.
const START_TAKES: Duration = Duration::from_secs(20 * 60);
/// How long the rest of a machine is given whose agent has ended.
const REMAINS_GRACE: Duration = Duration::from_secs(20);
/// How often the agent's events are looked for, while it starts and later.
const EVENTS_EVERY: Duration = Duration::from_millis(25);
const EVENTS_LATER: Duration = Duration::from_secs(2);

/// Of Lima's two ways to forward ports, only the older one, over SSH, can lead a port to a socket (Lima 1.2.1 fails with "missing port in
/// address" otherwise); it does not forward UDP.
const SSH_FORWARDER: &str = "LIMA_SSH_PORT_FORWARDER";

/// Logs of the guest's consoles, which QEMU writes anew.
const CONSOLES: [&str; 3] = ["serial.log", "serialp.log", "serialv.log"];

/// A host agent that is alive, started by us or adopted.
#[derive(Debug)]
pub(super) struct Agent {
    machine: Machine,
    process: Process,
    child: Option<Child>,
}

impl Agent {
    /// Starts one. Nothing of the machine runs, and nothing is left of an earlier start.
    pub(super) fn start(machine: &Machine, options: &LogOptions) -> Result<Self, Error> {
        machine.check_owner()?;
        let template = machine.template()?;
        // Everything that may be missing is asked for before anything is made.
        let limactl = machine.host.usable_limactl()?;
        machine.check_disk()?;
        let arguments = arguments(machine, &limactl, &template, options)?;
        let emulation = emulation(machine)?;
        let events = log::rotate(&machine.folder.join(log::EVENTS), options)?;
        let mut messages = log::rotate(&machine.folder.join(log::MESSAGES), options)?;
        for console in CONSOLES {
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
            // A line that cannot be written is lost: a full disk has other ways to be noticed.
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
        // The child is not reaped yet, so its PID is its own.
        match Process::open(pid).map_err(failed)? {
            Some(process) => Ok(Self { machine: machine.clone(), process, child: Some(child) }),
            None => Err(failed(std::io::Error::other("it ended at once"))),
        }
    }

    /// Takes hold of one that an earlier daemon started; `None` if it has ended meanwhile.
    pub(super) fn adopt(machine: &Machine, seen: &Seen) -> Result<Option<Self>, Error> {
        let open = seen.open().map_err(|source| Error::System { action: "watch limactl".to_owned(), source })?;
        Ok(open.map(|process| Self { machine: machine.clone(), process, child: None }))
    }

    /// Waits for its end, and tells how it ended. Can be dropped and called again.
    async fn ended(&mut self) -> String {
        match &mut self.child {
            Some(child) => child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string()),
            None => match self.process.ended().await {
                Ok(()) => "it was started by an earlier daemon, so nobody knows how".to_owned(),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Watches until it is over. When this returns nothing of the machine is left running, and its end has been told.
    ///
    /// Dropped half-way it leaves everything as it is, for the next one to adopt or to end.
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
            // The first look is at once: what is told first is what was looked at.
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

    /// Finding O-2: whoever reads the condition need not look for the log.
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

/// What degrades a machine is in the log as well, once.
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
    if !is_plain(template) {
        arguments.extend(["--guestagent".into(), guest_agent(&limactl.program)?.into()]);
        if let Some(archive) = limactl.nerdctl(template)? {
            arguments.extend(["--nerdctl-archive".into(), archive.into()]);
        }
    }
    arguments.push(machine.vm.clone().into());
    Ok(arguments)
}

/// Whether a template wants nothing of Lima in its guest.
fn is_plain(template: &str) -> bool {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options::<Value>(template, options);
    parsed.is_ok_and(|template| template["plain"] == Value::Bool(true))
}

/// Whether a template leads a port of the guest to a socket of this machine.
fn has_port_to_socket(template: &str) -> bool {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed = serde_saphyr::from_str_with_options::<Value>(template, options).unwrap_or_default();
    let mut rules = parsed["portForwards"].as_array().into_iter().flatten();
    rules.any(|rule| !rule["guestPort"].is_null() && !rule["hostSocket"].is_null())
}

/// The program that Lima puts into guests, where Lima itself looks for it: beside `limactl`, or in the `share` folder next to its own.
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

/// Why QEMU has to emulate, and what to tell Lima then; `None` if it need not.
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
