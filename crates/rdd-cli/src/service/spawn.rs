//! Starts the daemon's process and follows its start.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Child, ExitStatus},
    time::Duration,
};

use rdd_stdx::{chain::Chain, file, process};

use super::{
    ControlPlane,
    deadline::Deadline,
    logfile,
    notify::{self, Listener, News},
    readiness::{self, Verdict},
    state::{self, Daemon},
};
use crate::report::{Failure, Outcome};

/// The longest wait for one message; the daemon's exit is noticed within this time.
const TICK: Duration = Duration::from_millis(10);

/// The timeout of a check, if the daemon cannot send messages.
const LOOK: Duration = Duration::from_secs(1);

/// A daemon that is starting.
#[derive(Debug)]
pub struct Starting {
    child: Child,
    /// Receives the daemon's messages; without it, the daemon is polled.
    listener: Option<Listener>,
    /// Why it fails, as it reported.
    reason: Option<String>,
}

/// The news of one step.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The status texts that it sent.
    pub statuses: Vec<String>,
    /// Whether the daemon is ready.
    pub ready: bool,
    /// Whether it refuses writes; [`Starting::reason`] has the reason.
    pub read_only: bool,
}

/// The daemon's arguments: the stored ones, then those of the session, which win.
pub fn arguments(stored: Vec<String>, session: Vec<String>) -> Vec<OsString> {
    ["service", "serve"].into_iter().map(str::to_owned).chain(stored).chain(session).map(OsString::from).collect()
}

/// Starts the daemon in the background with new log files. It outlives this command.
pub fn spawn(plane: &ControlPlane<'_>, arguments: &[OsString]) -> Outcome<Starting> {
    let (paths, environment) = (plane.paths(), &plane.context.environment);
    let fail = |what: &str, error: std::io::Error| Failure::caused(what.to_owned(), error);
    let executable = plane.context.executable().map_err(|error| fail("find this program's own file", error))?;
    file::create_dir_private(&paths.log_dir)?;
    let rotate = |path: &Path| logfile::rotate(path, environment.keep_logs, environment.log_title.as_deref());
    let (stdout, stderr) = (rotate(&paths.stdout_log)?, rotate(&paths.stderr_log)?);
    // Opened before the daemon starts, so that no message is lost.
    let listener = listen(plane);
    let mut command = process::background(&executable, &paths.dir);
    command.args(arguments).stdout(stdout).stderr(stderr);
    // The instance may have been chosen by a flag.
    command.env("RDD_INSTANCE", plane.instance.name.as_str());
    match &listener {
        Some(listener) => command.env("NOTIFY_SOCKET", listener.path()),
        None => command.env_remove("NOTIFY_SOCKET"),
    };
    if environment.log_dir.is_some() {
        // The daemon has another working directory, in which a relative path would be wrong.
        let log_dir = std::path::absolute(&paths.log_dir).map_err(|error| fail("resolve RDD_LOG_DIR", error))?;
        command.env("RDD_LOG_DIR", log_dir);
    }
    let child = command.spawn().map_err(|error| fail(&format!("start {}", executable.display()), error))?;
    Ok(Starting { child, listener, reason: None })
}

/// Opens the notify socket. It is optional: without it the daemon is polled.
fn listen(plane: &ControlPlane<'_>) -> Option<Listener> {
    Listener::open(&notify::places(plane.paths()))
        .inspect_err(|errors| {
            let reasons: Vec<String> = errors.iter().map(|error| Chain(error).to_string()).collect();
            let reasons = reasons.join("; ");
            plane.record().warn(&format!("the daemon is asked how far it is, since it cannot tell: {reasons}"));
        })
        .ok()
}

impl Starting {
    /// Waits for news, at most this long.
    ///
    /// # Errors
    ///
    /// A failure with the reason if the daemon has ended.
    pub fn step(&mut self, plane: &ControlPlane<'_>, at_most: Duration) -> Outcome<Step> {
        let mut step = match &self.listener {
            Some(listener) => {
                let news = listener.receive(at_most.min(TICK))?;
                self.take(news)
            }
            None => self.ask(plane, at_most)?,
        };
        if step.ready {
            return Ok(step);
        }
        if let Some(status) = self.child.try_wait()? {
            // Its last message may have arrived between the receive and the check of the process.
            let last = self.listener.as_ref().map_or(Ok(Vec::new()), |listener| listener.receive(Duration::ZERO))?;
            step = self.take(last);
            return if step.ready { Ok(step) } else { Err(self.ended(plane, status)) };
        }
        Ok(step)
    }

    /// Polls the daemon from outside. A kubeconfig may be from another daemon, so this one must hold the lock.
    fn ask(&mut self, plane: &ControlPlane<'_>, at_most: Duration) -> Outcome<Step> {
        std::thread::sleep(at_most.min(TICK));
        if !self.holds_lock(plane)? {
            return Ok(Step::default());
        }
        let seen = readiness::look(plane, Deadline::after(Some(at_most.min(LOOK))));
        match readiness::judge(&seen, plane.expected_version()) {
            Verdict::Ready => Ok(Step { ready: true, ..Step::default() }),
            Verdict::Waiting(phase) => {
                self.reason = seen.failing.or_else(|| self.reason.take());
                Ok(Step { statuses: vec![phase.message().to_owned()], ready: false, read_only: seen.read_only })
            }
            Verdict::Incompatible { found } => Err(readiness::incompatible(&found, plane.context.build.git_version)),
        }
    }

    /// Whether this daemon holds the daemon's lock, so that no other one can start.
    pub fn holds_lock(&self, plane: &ControlPlane<'_>) -> Outcome<bool> {
        Ok(state::daemon(plane.paths())? == Daemon::Running(Some(self.child.id())))
    }

    fn take(&mut self, news: Vec<News>) -> Step {
        let mut step = Step::default();
        for item in news {
            match item {
                News::Ready => step.ready = true,
                News::Status(status) => step.statuses.push(status),
                News::Error(reason) => self.reason = Some(reason),
                News::ReadOnly(reason) => {
                    self.reason = Some(read_only(&reason));
                    step.read_only = true;
                }
            }
        }
        step
    }

    /// Why the daemon fails or refuses writes, if it has reported a reason.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    fn ended(&self, plane: &ControlPlane<'_>, status: ExitStatus) -> Failure {
        let log = &plane.paths().stderr_log;
        let text = fs::read(log).unwrap_or_default();
        // A daemon that crashed sends no reason; the log may end with one.
        let reason = self.reason.clone().or_else(|| last_line(&String::from_utf8_lossy(&text)));
        let reason = reason.unwrap_or_else(|| "it said nothing".to_owned());
        Failure::message(format!("{:?} control plane ended while starting ({status}): {reason}", plane.name()))
            .hint(format!("its log is {}", log.display()))
    }
}

/// The message for a daemon that refuses writes.
pub(super) fn read_only(reason: &str) -> String {
    format!("the control plane is read-only, and accepts writes again by itself when the reason is gone: {reason}")
}

/// The last line of a log that is neither empty nor the log's title.
fn last_line(text: &str) -> Option<String> {
    let is_title = |line: &str| line.starts_with("=== ") && line.ends_with(" ===");
    text.lines().map(str::trim).rfind(|line| !line.is_empty() && !is_title(line)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_arguments_come_before_those_of_the_session() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            arguments(words(&["--secure-port", "6445"]), words(&["-v", "2"])),
            ["service", "serve", "--secure-port", "6445", "-v", "2"]
        );
    }

    #[test]
    fn the_last_line_that_says_anything_is_the_reason() {
        for (text, expected) in [
            ("", None),
            ("=== title ===\n", None),
            ("=== title ===\n  first\n last \n\n", Some("last")),
            ("only", Some("only")),
        ] {
            assert_eq!(last_line(text).as_deref(), expected, "{text:?}");
        }
    }
}
