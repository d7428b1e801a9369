//! Tests of starts against a fake daemon: this test program, run again through a script.

use super::*;
use crate::{
    service::state::{self, Daemon},
    testing::{User, eventually, mode},
};
use rdd_stdx::{
    lock::ProcessLock,
    process::{Process, Signal},
};
use std::{env, fs, os::unix::net::UnixDatagram, path::PathBuf, time::Instant};

/// Tells the second run of this program in which home it is the daemon, and how it behaves.
const ROLE: &str = "RDD_CLI_TEST_DAEMON";

/// Not a test but the fake daemon of the tests below: it does nothing unless one of them started it.
#[test]
fn the_daemon_of_these_tests() {
    let Some(role) = env::var_os(ROLE) else { return };
    let (role, dir) = (role.to_string_lossy().into_owned(), env::current_dir().unwrap());
    let say = |text: &str| {
        let socket = env::var_os("NOTIFY_SOCKET").unwrap();
        // Without `--wait`, the command stops listening early.
        let _ = UnixDatagram::unbound().unwrap().send_to(text.as_bytes(), PathBuf::from(socket));
    };
    let _lock = ProcessLock::acquire(&dir.join("rdd.lock")).unwrap();
    fs::write(dir.join("rdd.pid"), std::process::id().to_string()).unwrap();
    say("STATUS=waiting for API server");
    match role.as_str() {
        "ready" => say("STATUS=waiting for controllers to register\nREADY=1"),
        "leaving" if !dir.join("left").exists() => {
            fs::write(dir.join("left"), "").unwrap();
            // Like a daemon that drains its requests: it holds its lock and does not answer.
            std::thread::sleep(Duration::from_secs(1));
            return;
        }
        "leaving" => say("READY=1"),
        "broken" => {
            say("ERRNO=98\nX_RDD_ERROR=port 1 is taken");
            return;
        }
        "failing" => {
            say("X_RDD_ERROR=start the controllers: no disk\nSTATUS=start the controllers: no disk");
            say("STATUS=waiting for controllers to register");
            say("X_RDD_ERROR=start the controllers: no disk\nSTATUS=start the controllers: no disk");
            say("STATUS=waiting for controllers to register");
        }
        _ => {}
    }
    // A timeout, in case the test that started this process dies.
    std::thread::sleep(Duration::from_secs(60));
}

/// Ends the daemon that a test started, whether or not the test passed.
struct Reaper(rdd_instance::Paths);

impl Drop for Reaper {
    fn drop(&mut self) {
        if let Ok(Daemon::Running(Some(pid))) = state::daemon(&self.0)
            && let Ok(Some(process)) = Process::open(pid)
        {
            let _ = process.signal(Signal::KILL);
            let _ = process.wait(Duration::from_secs(10));
        }
    }
}

fn user(role: &str) -> (User, Reaper) {
    let program = env::current_exe().unwrap();
    // A signal that a shell ignores stays ignored in the program that it execs.
    let deaf = if role == "deaf" { "trap '' INT TERM\n" } else { "" };
    let script = format!(
        "{deaf}echo \"$RDD_INSTANCE $*\" > arguments\n{ROLE}={role} exec '{}' --exact service::start::tests::the_daemon_of_these_tests",
        program.display()
    );
    let user = User::new().with_executable(&script);
    let reaper = Reaper(user.instance().paths);
    (user, reaper)
}

fn message(text: &str) -> String {
    format!("\"rancher-desktop-2\" control plane {text}")
}

#[test]
fn a_start_creates_spawns_and_returns_when_the_daemon_is_ready() {
    let (user, reaper) = user("ready");
    let ran = user.run("svc start --controllers=app --secure-port=7000 --log-level=debug");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        ran.messages(),
        [
            "successfully created \"rancher-desktop-2\" control plane",
            "starting \"rancher-desktop-2\" control plane",
            "waiting for API server",
            "waiting for controllers to register",
            &message("is ready"),
        ]
    );
    let paths = &reaper.0;
    assert_eq!(fs::read_to_string(&paths.args_file).unwrap(), "[\n  \"--secure-port\",\n  \"6445\"\n]");
    assert_eq!(
        fs::read_to_string(paths.dir.join("arguments")).unwrap(),
        "2 service serve --secure-port 6445 --controllers app --secure-port 7000 -v 2\n"
    );
    assert_eq!([mode(&paths.log_dir), mode(&paths.stderr_log), mode(&paths.stdout_log)], [0o700, 0o600, 0o600]);

    fs::write(&paths.config, "").unwrap();
    let ran = user.run("svc stop");
    assert_eq!((ran.code, ran.messages()), (0, vec![message("has stopped")]));
    assert!(!paths.config.exists() && !paths.pid_file.exists());
}

#[test]
fn what_keeps_controllers_from_starting_is_told_once_at_once_and_when_the_wait_ends() {
    let (user, _reaper) = user("failing");
    let ran = user.run("svc start --timeout=3s");
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let told = ran.messages().into_iter().filter(|message| message == "start the controllers: no disk").count();
    assert_eq!(told, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("what stood in the way: start the controllers: no disk"), "{}", ran.stderr);
}

#[test]
fn a_daemon_that_dies_is_noticed_at_once_and_its_reason_is_told() {
    let (user, reaper) = user("broken");
    let began = Instant::now();
    let ran = user.run("svc start --timeout=50s");
    assert!(began.elapsed() < Duration::from_secs(40), "it does not wait for the bound");
    assert_eq!(ran.code, 1);
    let last = ran.messages().pop().unwrap();
    assert_eq!(last, message("ended while starting (exit status: 0): port 1 is taken"));
    assert!(ran.stderr.contains(&format!("hint: its log is {}", reaper.0.stderr_log.display())), "{}", ran.stderr);
}

#[test]
fn a_daemon_that_says_nothing_is_quoted_from_its_log() {
    for (script, expected) in [("echo 'cannot open it' >&2; exit 3", "cannot open it"), ("exit 3", "it said nothing")] {
        let user = User::new().with_executable(script);
        for line in ["svc start", "svc start --wait=false", "svc config"] {
            let ran = user.run(line);
            assert_eq!(ran.code, 1, "{line}");
            let last = ran.messages().pop().unwrap();
            assert_eq!(last, message(&format!("ended while starting (exit status: 3): {expected}")), "{line}");
        }
    }
}

#[test]
fn the_bound_ends_the_command_and_not_the_daemon() {
    let (user, reaper) = user("slow");
    let ran = user.run("svc start --timeout=300ms");
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.messages().pop().unwrap().ends_with("to be ready: context deadline exceeded"));
    assert!(ran.stderr.contains("hint: what stood in the way: waiting for API server"), "{}", ran.stderr);
    eventually("the daemon goes on", || state::daemon(&reaper.0).unwrap().is_running());
    let ran = user.run("svc start --wait=false");
    assert_eq!((ran.code, ran.messages()), (0, vec![message("is already running")]));
    let ran = user.run("svc start --timeout=50ms");
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.contains("hint: what stood in the way: could not read config from "), "{}", ran.stderr);
    assert_eq!(
        ran.messages()[..3],
        [
            message("is already running"),
            "waiting for \"rancher-desktop-2\" control plane to be ready".to_owned(),
            "waiting for API server".to_owned()
        ]
    );
}

#[test]
fn a_daemon_that_is_on_its_way_down_is_followed_by_a_new_one() {
    let (user, reaper) = user("leaving");
    assert_eq!(user.run("svc start --wait=false").code, 0);
    let first = state::daemon(&reaper.0).unwrap();
    let ran = user.run("svc start --timeout=50s");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        ran.messages(),
        [
            &message("is already running"),
            "waiting for \"rancher-desktop-2\" control plane to be ready",
            "waiting for API server",
            "starting \"rancher-desktop-2\" control plane",
            "waiting for API server",
            &message("is ready"),
        ]
    );
    let second = state::daemon(&reaper.0).unwrap();
    assert!(second.is_running() && second != first, "{first:?} {second:?}");
}

// Finding O-9
#[test]
fn of_two_starts_at_once_one_starts_and_the_other_says_so() {
    let (user, reaper) = user("ready");
    let (one, other) = std::thread::scope(|scope| {
        let start = || user.run("svc start --wait=false");
        let (one, other) = (scope.spawn(start), scope.spawn(start));
        (one.join().unwrap(), other.join().unwrap())
    });
    assert_eq!((one.code, other.code), (0, 0), "{one:?} {other:?}");
    let mut last = [one.messages().pop().unwrap(), other.messages().pop().unwrap()];
    last.sort();
    assert_eq!(last, [message("is already running"), message("is starting")]);
    let logs = fs::read_dir(&reaper.0.log_dir).unwrap().count();
    assert_eq!(logs, 2, "one start rotated the logs, once");
}

#[test]
fn a_daemon_that_ignores_signals_is_killed_after_the_bound_and_nothing_is_removed() {
    let (user, reaper) = user("deaf");
    assert_eq!(user.run("svc start --wait=false").code, 0);
    let Daemon::Running(Some(pid)) = state::daemon(&reaper.0).unwrap() else { panic!("it runs") };
    let ran = user.run("svc delete --timeout=100ms");
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(
        ran.messages(),
        [
            message(&format!("with pid {pid} did not stop within 100ms and was killed")),
            format!("timed out waiting for {} to stop: context deadline exceeded", message(&format!("with pid {pid}"))),
        ]
    );
    assert!(reaper.0.args_file.exists(), "nothing was removed");
    assert!(!state::daemon(&reaper.0).unwrap().is_running());
}

#[test]
fn garbage_in_the_stored_arguments_changes_nothing() {
    let (user, reaper) = user("ready");
    fs::create_dir_all(&reaper.0.dir).unwrap();
    fs::write(&reaper.0.args_file, "garbage").unwrap();
    let ran = user.run("svc start");
    assert_eq!(ran.code, 1);
    assert!(ran.messages()[0].contains("args.json is not a list of arguments"), "{:?}", ran.messages());
    assert!(!reaper.0.log_dir.exists() && !state::daemon(&reaper.0).unwrap().is_running());
    assert_eq!(fs::read_to_string(&reaper.0.args_file).unwrap(), "garbage");
}

#[test]
fn a_log_folder_that_cannot_be_made_is_named() {
    let (mut user, reaper) = user("ready");
    let file = user.home.path().join("file");
    fs::write(&file, "").unwrap();
    user.variables.push(("RDD_LOG_DIR", file.join("logs").to_str().unwrap().to_owned()));
    let ran = user.run("svc start");
    assert_eq!(ran.code, 1);
    assert!(ran.messages().pop().unwrap().contains(file.to_str().unwrap()), "{:?}", ran.messages());
    assert!(!state::daemon(&reaper.0).unwrap().is_running());
}
