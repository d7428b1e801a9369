//! Tests the life cycle from create to delete, with the messages and files of the specification.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use rdd_stdx::process::{Process, Signal};
use rdd_testkit::{Daemon, Sandbox, eventually};

use crate::support::{SOON, dir, expect_error, full_name, messages, server_of, status, stderr_log, talkative, walk};

#[test]
fn create_start_stop_delete_say_what_the_specification_says() {
    let sandbox = talkative().build();
    let name = full_name(&sandbox);
    let said = |args: &[&str]| messages(&sandbox.rdd(args).expect_success());

    assert_eq!(said(&["svc", "stop"]), [format!("\"{name}\" control plane does not exist")]);
    assert_eq!(said(&["svc", "delete"]), [format!("\"{name}\" control plane does not exist")]);
    assert_eq!(said(&["svc", "create"]), [format!("successfully created \"{name}\" control plane")]);
    assert_eq!(said(&["svc", "create"]), [format!("\"{name}\" control plane already exists")]);
    assert_eq!(said(&["svc", "stop"]), [format!("\"{name}\" control plane is already stopped")]);

    let started = said(&["svc", "start"]);
    assert_eq!(started.first(), Some(&format!("starting \"{name}\" control plane")));
    assert_eq!(started.last(), Some(&format!("\"{name}\" control plane is ready")));
    assert_eq!(said(&["svc", "start"]).first(), Some(&format!("\"{name}\" control plane is already running")));

    assert_eq!(said(&["svc", "stop"]), [format!("\"{name}\" control plane has stopped")]);
    assert!(!dir(&sandbox).join("config.yaml").exists(), "a waited stop removes the kubeconfig");
    assert_eq!(said(&["svc", "delete"]), [format!("\"{name}\" control plane has been deleted")]);
    let left: Vec<_> = walk(sandbox.home()).into_iter().filter(|path| path.to_string_lossy().contains(&name)).collect();
    assert!(left.is_empty(), "delete leaves nothing: {left:?}");
    assert!(!sandbox.home().join(format!(".rd{}", sandbox.instance())).exists());
}

#[test]
fn create_stores_the_arguments_in_the_documented_order() {
    let sandbox = Sandbox::builder().env("RDD_DEVELOPER_MODE", "true").build();
    sandbox.rdd(&["svc", "create", "--controllers", "app,lima", "--secure-port", "7000"]).expect_success();
    let text = fs::read_to_string(dir(&sandbox).join("args.json")).unwrap();
    let stored: Vec<String> = serde_json::from_str(&text).unwrap();
    let default_port = &stored[1];
    assert!(default_port.parse::<u16>().is_ok_and(|port| (6543..6643).contains(&port)), "{stored:?}");
    assert_eq!(
        stored,
        ["--secure-port", default_port, "--controllers", "app,lima", "--secure-port", "7000", "-v", "2"]
    );
    assert!(text.starts_with("[\n  \"") && !text.ends_with('\n'), "two-space indent, no newline at the end");
}

#[test]
fn the_status_is_on_stderr_at_any_level_and_the_exit_code_is_zero() {
    let sandbox = Sandbox::builder().env("RDD_LOG_LEVEL", "error").build();
    let name = full_name(&sandbox);
    let lines = |created, started, pid: u32| {
        [
            format!("\"{name}\" control plane has been created: {created}"),
            format!("\"{name}\" control plane has been started: {started}"),
            format!("\"{name}\" control plane PID is: {pid}"),
        ]
    };
    assert_eq!(messages(&sandbox.rdd(&["svc", "status"]).expect_success()), lines(false, false, 0));
    let daemon = Daemon::start_in(sandbox);
    assert_eq!(messages(&daemon.rdd(&["svc", "status"]).expect_success()), lines(true, true, daemon.pid()));
    let json = daemon.rdd(&["svc", "status", "--log-format=json"]).expect_success();
    assert!(json.stderr.contains("control plane has been started: true"), "what the smoke test looks for");
}

// Finding O-9
#[test]
fn many_starts_at_once_give_one_daemon_and_all_of_them_succeed() {
    let sandbox = talkative().build();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = sandbox.command(&["svc", "start"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let mut starters = 0;
    for output in &outputs {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        starters += u32::from(stderr.contains("msg=\"starting "));
        assert!(stderr.contains("msg=\"starting ") != stderr.contains("is already running"), "{stderr}");
    }
    assert_eq!(starters, 1, "exactly one of them started it");
    let daemons: Vec<_> = sandbox.processes().into_iter().filter(|process| !process.is_zombie()).collect();
    assert_eq!(daemons.len(), 1, "{daemons:?}");
    assert!(!stderr_log(&sandbox).with_file_name("rdd.stderr.1.log").exists(), "the winner's log was not set aside");
}

// Finding O-9
#[test]
fn a_second_daemon_in_the_foreground_is_refused() {
    let daemon = Daemon::start_in(talkative().build());
    let output = daemon.rdd(&["svc", "serve"]);
    expect_error(&output, 1, &[&format!("control plane \"{}\" is already running", full_name(&daemon))]);
    assert_eq!(status(&daemon)["pid"], daemon.pid());
}

// Finding O-9: the original trusted any PID of a running process.
#[test]
fn a_pid_file_that_names_a_living_stranger_is_seen_through() {
    let sandbox = talkative().build();
    sandbox.rdd(&["svc", "create"]).expect_success();
    let mut stranger = rdd_stdx::process::background("sleep", sandbox.home()).arg("600").spawn().unwrap();
    let pid_file = dir(&sandbox).join("rdd.pid");
    fs::write(&pid_file, stranger.id().to_string()).unwrap();

    assert_eq!(status(&sandbox)["running"], false);
    let said = messages(&sandbox.rdd(&["svc", "stop"]).expect_success());
    assert_eq!(said, [format!("\"{}\" control plane is already stopped", full_name(&sandbox))]);
    fs::write(&pid_file, stranger.id().to_string()).unwrap();
    let daemon = Daemon::start_in(sandbox);
    assert_ne!(daemon.pid(), stranger.id());
    let sandbox = daemon.stop();
    fs::write(&pid_file, stranger.id().to_string()).unwrap();
    sandbox.rdd(&["svc", "delete"]).expect_success();

    assert!(stranger.try_wait().unwrap().is_none(), "the stranger was never signalled");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_killed_daemon_is_seen_as_stopped_at_once_and_starts_again() {
    let daemon = Daemon::start();
    let first = daemon.pid();
    let process = Process::open(first).unwrap().unwrap();
    process.signal(Signal::KILL).unwrap();
    assert!(process.wait(SOON).unwrap());
    assert_eq!(status(&daemon)["running"], false);
    daemon.rdd(&["svc", "start"]).expect_success();
    assert_ne!(daemon.pid(), first);
    assert_eq!(status(&daemon)["ready"], true);
}

#[test]
fn a_hung_daemon_is_killed_after_the_bound_and_stop_says_so() {
    let daemon = Daemon::start_in(talkative().build());
    let pid = daemon.pid();
    let process = Process::open(pid).unwrap().unwrap();
    process.signal(Signal::STOP).unwrap();
    let before = Instant::now();
    let output = daemon.rdd(&["svc", "stop", "--timeout", "1s"]);
    expect_error(&output, 4, &["killed", &pid.to_string()]);
    assert!(before.elapsed() < Duration::from_secs(15), "bounded: {:?}", before.elapsed());
    assert!(process.wait(SOON).unwrap(), "it is gone");
    daemon.rdd(&["svc", "start"]).expect_success();
}

#[test]
fn a_start_keeps_its_bound_while_the_daemon_hangs_and_says_what_it_waits_for() {
    let daemon = Daemon::start_in(talkative().build());
    let process = Process::open(daemon.pid()).unwrap().unwrap();
    process.signal(Signal::STOP).unwrap();
    let before = Instant::now();
    let output = daemon.rdd(&["svc", "start", "--timeout", "1s"]);
    let elapsed = before.elapsed();
    process.signal(Signal::CONT).unwrap();
    expect_error(&output, 4, &["control plane to be ready", "context deadline exceeded", "no answer within"]);
    assert!(elapsed < Duration::from_secs(8), "bounded: {elapsed:?}");
}

#[test]
fn stop_without_waiting_returns_and_the_daemon_goes() {
    let daemon = Daemon::start_in(talkative().build());
    let process = Process::open(daemon.pid()).unwrap().unwrap();
    let said = messages(&daemon.rdd(&["svc", "stop", "--wait=false"]).expect_success());
    assert_eq!(said, [format!("\"{}\" control plane is stopping", full_name(&daemon))]);
    assert!(process.wait(SOON).unwrap());
    assert_eq!(status(&daemon)["running"], false);
}

#[test]
fn start_without_waiting_returns_before_or_after_readiness_and_the_daemon_comes_up() {
    let sandbox = talkative().build();
    let said = messages(&sandbox.rdd(&["svc", "start", "--wait=false"]).expect_success());
    assert_eq!(said.last(), Some(&format!("\"{}\" control plane is starting", full_name(&sandbox))));
    eventually("the daemon to be ready", SOON, || (status(&sandbox)["ready"] == true).then_some(()));
}

#[test]
fn the_first_signal_stops_gracefully_with_exit_zero() {
    let sandbox = Sandbox::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = sandbox.command(&["svc", "serve"]).stderr(std::process::Stdio::null()).spawn().unwrap();
        eventually("the daemon to be ready", SOON, || (status(&sandbox)["ready"] == true).then_some(()));
        Process::open(child.id()).unwrap().unwrap().signal(signal).unwrap();
        assert!(child.wait().unwrap().success(), "{signal:?}");
    }
}

#[test]
fn readiness_is_announced_by_systemds_protocol() {
    let sandbox = Sandbox::new();
    let path = sandbox.home().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    let mut child = sandbox
        .command(&["svc", "serve"])
        .env("NOTIFY_SOCKET", &path)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).expect("READY=1 comes");
        if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == "READY=1") {
            break;
        }
    }
    assert_eq!(status(&sandbox)["ready"], true, "announced means usable");
    Process::open(child.id()).unwrap().unwrap().signal(Signal::INT).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_daemon_that_cannot_start_is_noticed_at_once_with_its_reason() {
    let sandbox = talkative().build();
    sandbox.rdd(&["svc", "create"]).expect_success();
    fs::write(dir(&sandbox).join("db"), "a file where the folder should be").unwrap();
    let before = Instant::now();
    let output = sandbox.rdd(&["svc", "start"]);
    expect_error(&output, 1, &["db", "rdd.stderr.log"]);
    assert!(before.elapsed() < Duration::from_secs(10), "nobody waits for the dead: {:?}", before.elapsed());
    assert_eq!(status(&sandbox)["running"], false);
}

#[test]
fn the_kubeconfig_names_the_port_that_was_bound_even_when_the_first_choice_is_taken() {
    let daemon = Daemon::start();
    let first = server_of(&daemon.config_path());
    let port: u16 = first.rsplit(':').next().unwrap().parse().unwrap();
    let sandbox = daemon.stop();
    let squatter = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let daemon = Daemon::start_in(sandbox);
    let second = server_of(&daemon.config_path());
    assert_ne!(first, second);
    assert_eq!(status(&daemon)["ready"], true);
    drop(squatter);
}

#[test]
fn each_start_sets_the_old_log_aside_and_keeps_five() {
    let sandbox = Sandbox::builder().env("RDD_LOG_TITLE", "a title").build();
    for _ in 0..7 {
        sandbox.rdd(&["svc", "start"]).expect_success();
        sandbox.rdd(&["svc", "stop"]).expect_success();
    }
    let log = stderr_log(&sandbox);
    let there: Vec<u32> = (1..=9).filter(|n| log.with_file_name(format!("rdd.stderr.{n}.log")).exists()).collect();
    assert_eq!(there, [2, 3, 4, 5, 6]);
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("=== a title ===\n"), "{text}");
    assert!(text.contains("apiserver"), "a word that the original's tests look for: {text}");
    let shown = sandbox.rdd(&["svc", "log"]).expect_success();
    assert_eq!(shown.stdout, text);
}

#[test]
fn a_log_that_has_grown_too_large_is_set_aside_while_the_daemon_runs() {
    let sandbox = Sandbox::new();
    let log = stderr_log(&sandbox);
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(&log, vec![b'x'; 16 << 20]).unwrap();
    let stderr = fs::OpenOptions::new().append(true).open(&log).unwrap();
    let mut child = sandbox.command(&["svc", "serve"]).stderr(stderr).spawn().unwrap();
    eventually("the daemon to be ready", SOON, || (status(&sandbox)["ready"] == true).then_some(()));
    let fresh = fs::read_to_string(&log).unwrap();
    assert!(fresh.contains("apiserver is serving") && fresh.len() < 10_000, "it writes to a new file");
    assert_eq!(fs::metadata(log.with_file_name("rdd.stderr.1.log")).unwrap().len(), 16 << 20, "the old one is kept");
    Process::open(child.id()).unwrap().unwrap().signal(Signal::INT).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_start_that_takes_too_long_is_exit_4_and_the_daemon_goes_on_starting() {
    let sandbox = talkative().build();
    let output = sandbox.rdd(&["svc", "start", "--timeout", "1ns"]);
    expect_error(&output, 4, &["context deadline exceeded"]);
    eventually("the daemon to be ready", SOON, || (status(&sandbox)["ready"] == true).then_some(()));
}

#[test]
fn a_followed_log_goes_on_over_a_restart() {
    let sandbox = Sandbox::new();
    sandbox.rdd(&["svc", "start"]).expect_success();
    let shown = sandbox.home().join("followed");
    let mut follower = sandbox
        .command(&["svc", "log", "-f"])
        .stdout(fs::File::create(&shown).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let starts = || fs::read_to_string(&shown).unwrap().matches("apiserver is serving").count();
    eventually("the first start in the followed log", SOON, || (starts() == 1).then_some(()));
    sandbox.rdd(&["svc", "stop"]).expect_success();
    sandbox.rdd(&["svc", "start"]).expect_success();
    eventually("the second start in the followed log", SOON, || (starts() == 2).then_some(()));
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn config_starts_the_service_and_prints_the_kubeconfig() {
    let sandbox = Sandbox::new();
    let output = sandbox.rdd(&["svc", "config", "--log-format=json"]).expect_success();
    for line in ["apiVersion: v1", "kind: Config", "current-context: root"] {
        assert!(output.stdout.lines().any(|shown| shown == line), "{line:?} is missing in {}", output.stdout);
    }
    let file = fs::read_to_string(dir(&sandbox).join("config.yaml")).unwrap();
    assert_eq!(output.stdout, format!("{file}\n"));
}

#[test]
fn tokens_are_new_with_each_start_and_the_certificate_is_not() {
    let read = |sandbox: &Sandbox| {
        let text = fs::read_to_string(dir(sandbox).join("config.yaml")).unwrap();
        let of = |key: &str| text.lines().find(|line| line.contains(key)).unwrap().trim().to_owned();
        (of("token:"), of("certificate-authority-data:"))
    };
    let daemon = Daemon::start();
    let first = read(&daemon);
    let daemon = Daemon::start_in(daemon.stop());
    let second = read(&daemon);
    assert_ne!(first.0, second.0);
    assert_eq!(first.1, second.1);
}

#[test]
fn links_to_the_program_are_in_the_bin_folder() {
    let daemon = Daemon::start();
    let bin = daemon.home().join(format!(".rd{}", daemon.instance())).join("bin");
    for name in ["rdd", "kubectl"] {
        assert_eq!(fs::canonicalize(bin.join(name)).unwrap(), fs::canonicalize(daemon.binary()).unwrap());
    }
}

#[test]
fn two_instances_run_side_by_side() {
    let (one, two) = (Daemon::start(), Daemon::start());
    assert_ne!(server_of(&one.config_path()), server_of(&two.config_path()));
    let two = two.stop();
    assert_eq!(status(&one)["ready"], true, "stopping one leaves the other alone");
    assert_eq!(status(&two)["running"], false);
}
