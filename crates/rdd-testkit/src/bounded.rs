//! Runs a command until it ends or its timeout passes.

use std::{
    io,
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rdd_stdx::process::Process;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::{Errno, ioctl_fionread},
};

/// The timeout for reading the output of a child that has ended; a reader may have to wait on a busy machine.
const LAST_WORDS_TAKE: Duration = Duration::from_secs(30);

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` if a signal ended it, including the kill after a timeout.
    pub code: Option<i32>,
    /// Its standard output, with invalid UTF-8 replaced.
    pub stdout: String,
    /// Its standard error, in the same form.
    pub stderr: String,
}

impl Output {
    /// Returns itself if the exit code is 0.
    ///
    /// # Panics
    ///
    /// With both outputs, if it is another.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        self.expect_code(0)
    }

    /// Returns itself if the exit code is this one.
    ///
    /// # Panics
    ///
    /// With both outputs, if it is another.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        let Self { code: got, stdout, stderr } = &self;
        assert_eq!(*got, Some(code), "exit code\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        self
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The command ended by itself.
    Ended(Output),
    /// The command did not end in time and was killed; with its output so far.
    TimedOut(Output),
}

/// Runs a command without standard input and waits for it, at most this long.
///
/// After the timeout, `at_time_out` is called with the PID while the command is still alive; then it is killed. Only the command itself is
/// killed, not its descendants: the caller finds those with [`crate::processes`].
pub fn run(command: &mut Command, within: Duration, at_time_out: impl FnOnce(u32)) -> io::Result<Outcome> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().map(Collector::start);
    let stderr = child.stderr.take().map(Collector::start);
    let ended = wait(&child, within)?;
    if !ended {
        at_time_out(child.id());
        child.kill()?;
    }
    let code = child.wait()?.code();
    let deadline = Instant::now() + LAST_WORDS_TAKE;
    let text = |collector: Collector| collector.text(deadline);
    let output =
        Output { code, stdout: stdout.map(text).unwrap_or_default(), stderr: stderr.map(text).unwrap_or_default() };
    Ok(if ended { Outcome::Ended(output) } else { Outcome::TimedOut(output) })
}

fn wait(child: &Child, within: Duration) -> io::Result<bool> {
    // The child has not been reaped, so its PID cannot be reused.
    match Process::open(child.id())? {
        Some(process) => process.wait(within),
        None => Ok(true),
    }
}

/// Reads a stream on its own thread, so that neither a full pipe nor one that a grandchild keeps open blocks the test.
struct Collector {
    stream: Arc<OwnedFd>,
    collected: Arc<Mutex<Collected>>,
}

#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    has_ended: bool,
}

impl Collector {
    fn start(stream: impl Into<OwnedFd>) -> Self {
        let (stream, collected) = (Arc::new(stream.into()), Arc::<Mutex<Collected>>::default());
        let (source, sink) = (Arc::clone(&stream), Arc::clone(&collected));
        std::thread::spawn(move || {
            while wait_readable(&source) && read_into(&source, &mut sink.lock().expect("appending does not panic")) {}
        });
        Self { stream, collected }
    }

    /// The output until now. Descendants of the child may still hold the stream open; it does not wait for them.
    fn text(self, deadline: Instant) -> String {
        loop {
            let collected = self.collected.lock().expect("appending does not panic");
            // Bytes leave the pipe only under this lock, so an empty pipe means that all of them are in the buffer.
            let is_empty = ioctl_fionread(&self.stream).is_ok_and(|count| count == 0);
            if collected.has_ended || is_empty || Instant::now() >= deadline {
                return String::from_utf8_lossy(&collected.bytes).into_owned();
            }
            drop(collected);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn wait_readable(stream: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(stream, PollFlags::IN)];
    loop {
        match poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            other => return other.is_ok(),
        }
    }
}

/// Reads once into the buffer; returns false at the end of the stream. An error counts as the end, so that what arrived is still shown.
fn read_into(stream: &OwnedFd, collected: &mut Collected) -> bool {
    let mut buffer = [0; 8192];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(stream, &mut buffer)).unwrap_or(0);
    collected.bytes.extend_from_slice(&buffer[..count]);
    collected.has_ended = count == 0;
    count > 0
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rdd_stdx::process::background;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = background("/bin/sh", Path::new("/"));
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_and_the_code_are_kept_apart() {
        let outcome = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10), |_| ()).unwrap();
        let Outcome::Ended(output) = outcome else { panic!("{outcome:?}") };
        assert_eq!(output, Output { code: Some(3), stdout: "out\n".to_owned(), stderr: "err\n".to_owned() });
    }

    #[test]
    fn a_command_that_hangs_is_shown_alive_and_then_killed() {
        let mut seen = None;
        let outcome = run(&mut shell("echo started; exec sleep 600"), Duration::from_millis(300), |pid| {
            seen = Some((pid, Path::new(&format!("/proc/{pid}")).exists()));
        });
        let Outcome::TimedOut(output) = outcome.unwrap() else { panic!("it ended") };
        assert_eq!((output.code, output.stdout.as_str()), (None, "started\n"));
        let (pid, alive) = seen.unwrap();
        assert!(alive);
        assert!(Process::open(pid).unwrap().is_none(), "killed and reaped");
    }

    #[test]
    fn more_than_a_pipe_holds_does_not_block() {
        let outcome = run(&mut shell("head -c 300000 /dev/zero"), Duration::from_secs(10), |_| ()).unwrap();
        let Outcome::Ended(output) = outcome else { panic!("it hangs") };
        assert_eq!(output.stdout.len(), 300_000);
    }

    #[test]
    fn a_grandchild_that_keeps_the_stream_open_is_not_waited_for() {
        let started = Instant::now();
        let outcome = run(&mut shell("sleep 20 & echo $!"), Duration::from_secs(10), |_| ()).unwrap();
        assert!(started.elapsed() < Duration::from_secs(8));
        let Outcome::Ended(output) = outcome else { panic!("it hangs") };
        let grandchild = Process::open(output.stdout.trim().parse().unwrap()).unwrap().unwrap();
        grandchild.signal(rdd_stdx::process::Signal::KILL).unwrap();
    }
}
