//! Starts child processes, and signals or waits for processes that are not children.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::Pid;
pub use rustix::process::Signal;

use crate::open_files;

/// A command for a child that outlives this process.
///
/// The child has its own process group, so that Ctrl-C in our terminal does not reach it; no standard input; its own
/// working folder, so that it does not keep the user's folder busy; and no inherited files except standard output and
/// error, so that it holds no locks or pipes of our parent.
pub fn background(program: impl AsRef<OsStr>, cwd: &Path) -> Command {
    keep_inherited_files_from_children();
    let mut command = foreground(program);
    command.current_dir(cwd).stdin(Stdio::null()).process_group(0);
    command
}

/// A command for a child in our terminal, with our process group, standard streams and working folder.
#[expect(clippy::disallowed_methods, reason = "this is the one place that makes commands")]
pub fn foreground(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    open_files::restore_in_child(&mut command);
    command
}

/// Sets close-on-exec on inherited files. Files that this program opens have it already.
///
/// Best effort: if the list of files cannot be read, children inherit them as usual.
#[allow(unsafe_code, reason = "a descriptor that was inherited has no owner in this program to borrow it from")]
fn keep_inherited_files_from_children() {
    use std::os::fd::BorrowedFd;

    use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
    let list = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    for entry in std::fs::read_dir(list).into_iter().flatten().flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        if number <= 2 {
            continue;
        }
        // SAFETY: the number is not -1. If another thread closed the descriptor in the meantime, the calls fail with
        // EBADF. If it was reused for a new file of ours, the flag is set already and stays.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)) {
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}

/// A handle of a process. It never refers to another process that reuses the PID.
#[derive(Debug)]
pub struct Process {
    pid: Pid,
    #[cfg(target_os = "linux")]
    fd: rustix::fd::OwnedFd,
}

impl Process {
    /// Opens the process that has this PID now. `None` if there is none.
    ///
    /// The PID may have been reused between learning it and this call. Check afterwards that the source of the PID
    /// still names it; from then on the handle means that process only.
    pub fn open(pid: u32) -> io::Result<Option<Self>> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        Self::hold(pid)
    }

    /// The PID.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }
}

#[cfg(target_os = "linux")]
impl Process {
    fn hold(pid: Pid) -> io::Result<Option<Self>> {
        use rustix::{io::Errno, process::PidfdFlags};
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Some(Self { pid, fd })),
            Err(Errno::SRCH) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends a signal. Returns `false` if the process has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        sent(rustix::process::pidfd_send_signal(&self.fd, signal))
    }

    /// Waits with a timeout until the process has ended, and returns whether it has. A zombie counts as ended.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let deadline = std::time::Instant::now() + at_most;
        loop {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&timeout)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

#[cfg(target_os = "linux")]
impl Process {
    /// Waits until the process has ended. A zombie counts as ended. Cancel safe.
    #[allow(unsafe_code, reason = "tokio cannot see that a descriptor which it owns stays open")]
    pub async fn ended(&self) -> io::Result<()> {
        use tokio::io::{Interest, unix::AsyncFd};
        // epoll accepts a descriptor only once, so each caller uses a duplicate.
        let fd = self.fd.try_clone()?;
        // SAFETY: the descriptor is open, and the returned value owns it until the end of this function.
        let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        watched.map_err(|error| error.into_parts().1)?.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl Process {
    fn hold(pid: Pid) -> io::Result<Option<Self>> {
        Ok(sent(rustix::process::test_kill_process(pid))?.then_some(Self { pid }))
    }

    /// Sends a signal. Returns `false` if the process has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        sent(rustix::process::kill_process(self.pid, signal))
    }

    /// Waits with a timeout until the process has ended, and returns whether it has.
    pub fn wait(&self, at_most: Duration) -> io::Result<bool> {
        let deadline = std::time::Instant::now() + at_most;
        while sent(rustix::process::test_kill_process(self.pid))? {
            if std::time::Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(true)
    }
}

fn sent(result: rustix::io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_signalled_once_and_then_known_to_be_gone() {
        let mut child = background("sleep", Path::new("/")).arg("600").spawn().unwrap();
        let process = Process::open(child.id()).unwrap().unwrap();
        assert!(!process.wait(Duration::from_millis(1)).unwrap(), "it lives");
        assert!(process.signal(Signal::TERM).unwrap());
        assert!(process.wait(Duration::from_secs(10)).unwrap());
        child.wait().unwrap();
        assert!(!process.signal(Signal::TERM).unwrap(), "after it was reaped the handle reaches nobody");
        assert!(Process::open(child.id()).unwrap().is_none());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn several_can_wait_for_one_end() {
        let mut child = background("sleep", Path::new("/")).arg("600").spawn().unwrap();
        let process = Process::open(child.id()).unwrap().unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(5), process.ended()).await.is_err(), "it lives");
        let both = async { tokio::try_join!(process.ended(), process.ended()) };
        process.signal(Signal::KILL).unwrap();
        tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().unwrap();
        child.wait().unwrap();
        process.ended().await.unwrap();
    }

    #[test]
    fn a_background_child_has_none_of_the_files_that_we_inherited() {
        let file = tempfile::tempfile().unwrap();
        let seen = |shell: &dyn Fn() -> Command| {
            let inherited = rustix::io::dup(&file).unwrap(); // without CLOEXEC, as an inherited one is
            // Use shell builtins: a program that lists files opens one itself, possibly with the same number.
            let look = format!("[ -e /dev/fd/{} ]", std::os::fd::AsRawFd::as_raw_fd(&inherited));
            shell().args(["-c", &look]).status().unwrap().success()
        };
        // Not all files: another test may have set the flag on ours when it started a background child.
        assert!((0..100).any(|_| seen(&|| foreground("sh"))), "a foreground child shares what we have");
        assert!(!seen(&|| background("sh", Path::new("/"))));
    }

    #[test]
    fn pid_zero_is_nobody() {
        assert!(Process::open(0).unwrap().is_none(), "signalling 0 would reach our own process group");
    }
}
