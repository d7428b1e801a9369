//! Helpers that these tests share.

use std::{
    io::Read as _,
    process::{Child, Command},
    time::Duration,
};

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::{
    Daemon, Sandbox,
    api::{Reply, Server, Wire},
    eventually,
};

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Starts a daemon that runs these controllers itself.
#[track_caller]
pub(crate) fn daemon_with(controllers: &str) -> Daemon {
    let sandbox = Sandbox::new();
    sandbox.rdd(&["svc", "create", &format!("--controllers={controllers}")]).expect_success();
    Daemon::start_in(sandbox)
}

/// A process next to a daemon, in its sandbox. It ends with the sandbox at the latest.
pub(crate) struct Beside(Child);

impl Beside {
    /// Starts the process.
    #[track_caller]
    pub(crate) fn start(daemon: &Daemon, mut command: Command) -> Self {
        daemon.dress(&mut command);
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Like [`terminate`](Self::terminate); also returns its standard error, which is a pipe.
    #[track_caller]
    pub(crate) fn terminate_and_read(mut self) -> String {
        let mut stderr = self.0.stderr.take().expect("a pipe");
        self.terminate();
        let mut said = String::new();
        stderr.read_to_string(&mut said).unwrap();
        said
    }

    /// Sends SIGTERM and expects a successful exit.
    #[track_caller]
    pub(crate) fn terminate(mut self) {
        let process = Process::open(self.0.id()).unwrap().expect("it runs");
        process.signal(Signal::TERM).unwrap();
        let status = eventually("its end", SOON, || self.0.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

/// Kills the daemon and starts it again.
#[track_caller]
pub(crate) fn crash_and_restart(daemon: &Daemon) {
    let process = Process::open(daemon.pid()).unwrap().expect("the daemon runs");
    process.signal(Signal::KILL).unwrap();
    assert!(process.wait(SOON).unwrap(), "the daemon ends");
    daemon.rdd(&["svc", "start"]).expect_success();
}

/// Repeats a GET until the reply has this code.
#[track_caller]
pub(crate) fn until_code(wire: &Wire, path: &str, code: u16) -> Reply {
    eventually(&format!("{code} at {path}"), SOON, || {
        let reply = wire.get(path);
        if reply.code == code { Ok(reply) } else { Err(reply.text().into_owned()) }
    })
}
