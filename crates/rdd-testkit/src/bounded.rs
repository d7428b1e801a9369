//! Running a command to its end, or to the end of our patience.

use std::{
    io::{self, Read},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    time::{Duration, Instant},
};

use rdd_stdx::process::Process;

/// How long an ended child's streams may stay open: something it started still holds them, which is not our wait.
const STREAMS_LINGER: Duration = Duration::from_millis(500);

/// What a command left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` if a signal ended it, ours after a time-out included.
    pub code: Option<i32>,
    /// What it wrote, with invalid UTF-8 replaced.
    pub stdout: String,
    /// As `stdout`.
    pub stderr: String,
}

impl Output {
    /// Itself, if the exit code was 0.
    ///
    /// # Panics
    /// With both streams, if it was not.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        self.expect_code(0)
    }

    /// Itself, if this was the exit code.
    ///
    /// # Panics
    /// With both streams, if it was not.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        let Self { code: got, stdout, stderr } = &self;
        assert_eq!(*got, Some(code), "exit code\n--- stdout\n{stdout}\n--- stderr\n{stderr}");
        self
    }
}

/// How a bounded run went.
#[derive(Debug)]
pub enum Outcome {
    /// The command ended by itself.
    Ended(Output),
    /// It did not; `at_time_out` saw it alive, then it was killed. With what it had written so far.
    TimedOut(Output),
}

/// Runs a command without standard input and waits for it at most this long.
///
/// `at_time_out` is called with the PID of a command that did not end in time, before it is killed. Only the command
/// itself is killed: what it started is for the caller to find ([`crate::processes`]).
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
    let deadline = Instant::now() + STREAMS_LINGER;
    let text = |collector: Option<Collector>| collector.map(|collector| collector.text(deadline)).unwrap_or_default();
    let output = Output { code, stdout: text(stdout), stderr: text(stderr) };
    Ok(if ended { Outcome::Ended(output) } else { Outcome::TimedOut(output) })
}

fn wait(child: &Child, within: Duration) -> io::Result<bool> {
    // The child is ours and not reaped yet, so its PID cannot have been given away.
    match Process::open(child.id())? {
        Some(process) => process.wait(within),
        None => Ok(true),
    }
}

/// Reads a stream in its own thread, so that neither a full pipe nor one that stays open can hold us up.
struct Collector {
    collected: Arc<Mutex<Vec<u8>>>,
    /// Hangs up when the stream has ended.
    ended: Receiver<()>,
}

impl Collector {
    fn start(mut stream: impl Read + Send + 'static) -> Self {
        let collected = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&collected);
        let (open, ended) = channel();
        std::thread::spawn(move || {
            let _open = open;
            let mut buffer = [0; 8192];
            // A read that fails ends the text, like the end of the stream: what arrived is still shown.
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                sink.lock().expect("appending does not panic").extend_from_slice(&buffer[..count]);
            }
        });
        Self { collected, ended }
    }

    fn text(self, deadline: Instant) -> String {
        // Nothing is ever sent: this returns when the thread has ended or the time is up, and both are fine.
        let _ = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        String::from_utf8_lossy(&self.collected.lock().expect("appending does not panic")).into_owned()
    }
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
