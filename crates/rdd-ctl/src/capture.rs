//! Captures the standard output of a program, with a timeout and a size limit.

use std::{
    io::{self, Read},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// The polling interval for the exit of a program that has closed its output.
const END_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Why the output of a program could not be captured.
#[derive(Debug)]
pub(crate) enum CaptureError {
    /// The program could not be started.
    Start(io::Error),
    /// The output could not be read.
    Read(io::Error),
    /// The program exceeded the timeout and was killed.
    TimedOut,
    /// The output exceeded the limit, and the program was killed.
    TooLarge,
}

/// Runs a command until it exits; returns its exit status and its standard output. Blocks.
///
/// The caller configures the other streams. The program is killed if it is still running, or its output is still open, after
/// `timeout`, and if it writes more than `bytes_max`.
/// `timeout`, and when it writes more than `bytes_max`.
pub(crate) fn capture_stdout(
    command: &mut Command,
    timeout: Duration,
    bytes_max: usize,
) -> Result<(ExitStatus, Vec<u8>), CaptureError> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(CaptureError::Start)?;
    let captured = capture(&mut child, Instant::now() + timeout, bytes_max);
    if captured.is_err() {
        // Best effort: the program may have exited by now.
        let _ = child.kill();
        let _ = child.wait();
    }
    captured
}

fn capture(child: &mut Child, deadline: Instant, bytes_max: usize) -> Result<(ExitStatus, Vec<u8>), CaptureError> {
    let mut stdout = child.stdout.take().ok_or_else(|| CaptureError::Read(io::ErrorKind::BrokenPipe.into()))?;
    let (mut written, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&wait)) {
            Ok(0) => return Err(CaptureError::TimedOut),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(CaptureError::Read(errno.into())),
        }
        match stdout.read(&mut piece).map_err(CaptureError::Read)? {
            0 => break,
            read => written.extend_from_slice(&piece[..read]),
        }
        if written.len() > bytes_max {
            return Err(CaptureError::TooLarge);
        }
    }
    // Nearly every program exits right after it closes its output.
    loop {
        match child.try_wait().map_err(CaptureError::Read)? {
            Some(status) => return Ok((status, written)),
            None if Instant::now() >= deadline => return Err(CaptureError::TimedOut),
            None => std::thread::sleep(END_POLL_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rdd_stdx::process::background;

    use super::*;

    // Finding E-9
    #[test]
    fn output_is_captured_within_bounds_of_time_and_size() {
        let run = |script: &str, milliseconds: u64| {
            let mut command = background("sh", Path::new("/"));
            capture_stdout(command.args(["-c", script]), Duration::from_millis(milliseconds), 1000)
        };
        let (status, written) = run("printf hello; exit 3", 60_000).unwrap();
        assert_eq!((status.code(), written.as_slice()), (Some(3), b"hello".as_slice()));
        assert!(matches!(run("exec sleep 600", 1), Err(CaptureError::TimedOut)));
        assert!(matches!(run("exec >&-; exec sleep 600", 50), Err(CaptureError::TimedOut)), "it closed its output");
        assert!(matches!(run("exec yes", 60_000), Err(CaptureError::TooLarge)));
        let missing = capture_stdout(&mut background("/nonexistent", Path::new("/")), Duration::ZERO, 1);
        assert!(matches!(missing, Err(CaptureError::Start(_))));
    }
}
