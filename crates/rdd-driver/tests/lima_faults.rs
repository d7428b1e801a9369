//! The lima driver with a `limactl` that fails in every way that it can.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod forged;
mod standin;

use std::{fs, os::unix::net::UnixListener, path::Path, process::Stdio, time::Duration};

use rdd_driver::{Driver, Error, Found, Health, LogOptions, Run, Running, State, Stopped, lima::LimaDriver};
use rdd_instance::{Environment, Instance, Platform};
use rdd_stdx::process::{self, Process};
use rdd_testkit::{capability::require, eventually};
use standin::{Place, TEMPLATE, kill, processes};

const VM: &str = "rd";
const SOON: Duration = Duration::from_secs(30);

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), work).await }).expect("it ends in time")
}

async fn until(run: &mut Run, wanted: impl Fn(&State) -> bool) -> State {
    let found = async {
        while let Some(state) = run.next().await {
            if wanted(&state) {
                return state;
            }
        }
        panic!("nothing more is told after {:?}", run.state())
    };
    tokio::time::timeout(SOON, found).await.expect("it is told in time")
}

async fn started(place: &Place, driver: &LimaDriver) -> Run {
    driver.create(VM, TEMPLATE).await.unwrap();
    let run = driver.start(VM, &LogOptions::default()).await.unwrap();
    let _ = place;
    run
}

// Finding O-2
#[test]
fn an_agent_that_dies_at_once_is_told_with_its_last_words() {
    let place = Place::new();
    place.mode("dies");
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        let end = until(&mut run, |state| matches!(state, State::Exited { .. })).await;
        let State::Exited { last_words } = end else { unreachable!() };
        assert_eq!(last_words, "the host agent has ended (exit status: 1): exit status 1: cannot set up guest memory");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        place.mode("");
        let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        driver.delete(VM).await.unwrap();
    });
}

// Finding O-4
#[test]
fn a_degraded_machine_runs_and_says_so_to_the_next_daemon_too() {
    let place = Place::new();
    place.mode("degraded");
    run(async {
        let expected = State::Running(Health { errors: vec!["the guest agent does not answer".to_owned()] });
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        assert_eq!(until(&mut run, |state| matches!(state, State::Running(_))).await, expected);
        drop(driver);
        let driver = place.driver();
        let mut run = driver.adopt(VM).await.unwrap().unwrap();
        assert_eq!(until(&mut run, |state| matches!(state, State::Running(_))).await, expected);
        driver.delete(VM).await.unwrap();
    });
}

// Finding O-3
#[test]
fn a_creation_that_fails_leaves_a_half_made_machine_and_the_next_one_is_whole() {
    let place = Place::new();
    place.mode("create-fails");
    run(async {
        let driver = place.driver();
        let error = driver.create(VM, TEMPLATE).await.unwrap_err().to_string();
        assert_eq!(error, "limactl create failed: failed to download the image: HTTP 404");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::HalfMade);
        place.mode("");
        driver.create(VM, TEMPLATE).await.unwrap();
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        driver.delete(VM).await.unwrap();
    });
}

// Finding O-3
#[test]
fn a_creation_that_outlived_its_daemon_is_ended_and_redone() {
    let place = Place::new();
    place.mode("create-hangs");
    run(async {
        let driver = place.driver();
        {
            // The daemon is killed while it waits: nobody ends the child.
            let limactl = place.bin().join("limactl");
            let mut command = process::background(limactl, Path::new("/"));
            fs::create_dir_all(place.own_dir()).unwrap();
            fs::write(place.own_dir().join("rd.preparing"), "").unwrap();
            let launch = serde_json::json!({
                "nonce": "n",
                "boot": fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim(),
                "pid_namespace": fs::read_link("/proc/self/ns/pid").unwrap(),
            });
            fs::write(place.launch_file(VM), launch.to_string()).unwrap();
            let template = place.own_dir().join("x.yaml");
            fs::write(&template, TEMPLATE).unwrap();
            command.args(["create", "--name=rd"]).arg(template).env("LIMA_HOME", &place.instance.paths.lima_home);
            drop(command.env(standin::MARK, place.folder(VM)).env(forged::NONCE, "n").spawn().unwrap());
        }
        eventually("the creation", SOON, || place.bin().join("creating").exists().then_some(()));
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::HalfMade);
        place.mode("");
        driver.create(VM, TEMPLATE).await.unwrap();
        assert!(place.processes(VM).is_empty(), "{:?}", place.processes(VM));
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn a_creation_that_is_given_up_ends_its_limactl() {
    let place = Place::new();
    place.mode("create-hangs");
    run(async {
        let driver = place.driver();
        let creation = tokio::time::timeout(Duration::from_secs(5), driver.create(VM, TEMPLATE));
        assert!(creation.await.is_err());
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::HalfMade);
        driver.delete(VM).await.unwrap();
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
        assert!(place.processes(VM).is_empty());
    });
}

#[test]
fn sockets_and_pid_files_of_a_dead_agent_mean_that_the_machine_is_stopped() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        driver.create(VM, TEMPLATE).await.unwrap();
        let folder = place.folder(VM);
        // PID 1 lives, and is not ours; nobody listens at the socket.
        fs::write(folder.join("ha.pid"), "1\n").unwrap();
        fs::write(folder.join("qemu.pid"), "1\n").unwrap();
        drop(UnixListener::bind(folder.join("ha.sock")).unwrap());
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn what_the_original_left_running_is_known_by_the_files_it_was_told_to_write() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        driver.create(VM, TEMPLATE).await.unwrap();
        let folder = place.folder(VM);
        let mut command = process::background(place.bin().join("limactl"), &folder);
        command.args(["hostagent", "--pidfile"]).arg(folder.join("ha.pid")).arg("--socket").arg(folder.join("ha.sock"));
        command.args(["--guestagent", "/dev/null", VM]).env("LIMA_HOME", &place.instance.paths.lima_home);
        let events = fs::File::create(folder.join("ha.stdout.log")).unwrap();
        let mut child = command.stdout(events).spawn().unwrap();
        eventually("its PID file", SOON, || folder.join("ha.pid").exists().then_some(()));
        eventually("its QEMU", SOON, || folder.join("qemu.pid").exists().then_some(()));
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Running(Running { outdated: false }));
        let mut run = driver.adopt(VM).await.unwrap().unwrap();
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        assert_eq!(driver.stop(VM, SOON).await.unwrap(), Stopped::Graceful);
        child.wait().unwrap();
        driver.delete(VM).await.unwrap();
    });
}

// Finding 295-S9
#[test]
fn a_process_that_looks_alike_is_left_alone() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let mut look_alike = process::background("sleep", Path::new("/"));
        let twin = format!("{}-app", place.folder(VM).display());
        let mut look_alike =
            look_alike.arg("600").env(standin::MARK, twin).env("OTHER", place.folder(VM)).spawn().unwrap();
        driver.delete(VM).await.unwrap();
        assert!(processes().iter().any(|(pid, _)| *pid == look_alike.id()), "it is not ours");
        kill(look_alike.id());
        look_alike.wait().unwrap();
    });
}

// Finding A-4
#[test]
fn a_forged_mark_is_neither_adopted_nor_signalled_and_does_not_delay_a_stop() {
    if !require("root") {
        return;
    }
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let folder = place.folder(VM);
        let mark = format!("{}={}", standin::MARK, folder.display());
        let pid_file = folder.join("ha.pid").display().to_string();
        // They look like a host agent to those who go by words.
        let pose = ["bash", "-c", "read line", "limactl", "hostagent", "--pidfile", &pid_file];
        let mut strangers = forged::start_all(&mark, &forged::read_nonce(&place.launch_file(VM)), &pose);
        let agent = Process::open(place.agent(VM)).unwrap().unwrap();
        drop((run, driver));
        fs::remove_file(folder.join("agent.json")).unwrap();
        let driver = place.driver();
        let mut run = driver.adopt(VM).await.unwrap().unwrap();
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let began = std::time::Instant::now();
        assert_eq!(driver.stop(VM, SOON).await.unwrap(), Stopped::Graceful);
        // Helpers of a machine that has ended are given three seconds.
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert!(agent.wait(Duration::ZERO).unwrap(), "the real one was asked to stop");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        assert!(driver.adopt(VM).await.unwrap().is_none());
        driver.delete(VM).await.unwrap();
        strangers.iter_mut().for_each(forged::Forged::expect_alive);
    });
}

// Finding A-4
#[test]
fn a_pid_file_that_names_a_process_of_another_user_is_stale() {
    if !require("root") {
        return;
    }
    let place = Place::new();
    run(async {
        let driver = place.driver();
        driver.create(VM, TEMPLATE).await.unwrap();
        let pid_file = place.folder(VM).join("ha.pid");
        let mut command = process::background("setpriv", Path::new("/"));
        command.args(["--reuid=65533", "--regid=65533", "--clear-groups", "bash", "-c", "read line"]);
        command.args(["limactl", "hostagent", "--pidfile"]).arg(&pid_file).stdin(Stdio::piped());
        let mut stranger = command.spawn().unwrap();
        fs::write(&pid_file, stranger.id().to_string()).unwrap();
        let is_stranger = |(pid, words): &(u32, String)| *pid == stranger.id() && words.starts_with("bash");
        eventually("the stranger", SOON, || processes().iter().any(is_stranger).then_some(()));
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        driver.delete(VM).await.unwrap();
        assert_eq!(stranger.try_wait().unwrap(), None, "it lives");
        kill(stranger.id());
        stranger.wait().unwrap();
    });
}

// Finding A-9
#[test]
fn an_old_limactl_is_used_with_a_warning() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let warning = driver.warning(VM).unwrap();
        assert!(
            warning.starts_with("limactl 1.2.1 ") && warning.ends_with("update Lima to 2.1.3 or later"),
            "{warning}"
        );
        assert_eq!(driver.warning("other"), None);
        drop((run, driver));
        let driver = place.driver();
        assert!(driver.adopt(VM).await.unwrap().is_some());
        assert_eq!(driver.warning(VM), Some(warning), "the next daemon says so as well");
        driver.delete(VM).await.unwrap();
    });
}

// Finding A-9
#[test]
fn a_disk_that_refers_to_a_file_of_the_host_is_never_given_to_qemu() {
    let place = Place::new();
    let mut backed = b"QFI\xfb\0\0\0\x02".to_vec();
    backed.extend(72_u64.to_be_bytes());
    backed.extend([0; 64]);
    run(async {
        let driver = place.driver();
        driver.create(VM, TEMPLATE).await.unwrap();
        fs::write(place.folder(VM).join("basedisk"), &backed).unwrap();
        let refused = driver.start(VM, &LogOptions::default()).await.unwrap_err().to_string();
        assert!(refused.contains("basedisk is refused: it has a backing file"), "{refused}");
        assert!(place.processes(VM).is_empty(), "nothing was started");
        assert!(!place.calls().contains("hostagent"), "{}", place.calls());
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn a_killed_agent_takes_its_machine_with_it() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        kill(place.agent(VM));
        let end = until(&mut run, |state| matches!(state, State::Exited { .. })).await;
        let State::Exited { last_words } = end else { unreachable!() };
        assert!(last_words.starts_with("the host agent has ended (signal: 9 (SIGKILL))"), "{last_words}");
        assert!(place.processes(VM).is_empty(), "its QEMU cannot go on alone");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn a_machine_whose_qemu_is_killed_has_ended() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let (qemu, _) = place.processes(VM).into_iter().find(|(_, words)| words.starts_with("qemu-system")).unwrap();
        kill(qemu);
        let end = until(&mut run, |state| matches!(state, State::Exited { .. })).await;
        let State::Exited { last_words } = end else { unreachable!() };
        assert!(last_words.contains("driver stopped: signal: killed"), "{last_words}");
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn a_mistake_in_a_template_is_told_with_its_line() {
    let place = Place::new();
    let driver = place.driver();
    let problems = driver.validate("vmType: qemu\nimages: []\nmistake: 1\n").unwrap_err();
    assert_eq!(problems, ["[3:1] unknown field \"mistake\""]);
    assert_eq!(driver.validate("vmType: qemu\ncpus: 1\n").unwrap_err(), ["field `images` must be set"]);
    assert_eq!(driver.validate("vmType: vz\n").unwrap_err(), ["field `vmType` must be \"qemu\", and is \"vz\""]);
    assert_eq!(driver.validate("images: [x]\n"), Ok(()), "one without a vmType is meant for Lima");
}

#[test]
fn what_a_template_refers_to_is_in_what_lima_reads_and_the_template_stays_as_it_was_given() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let template = "vmType: qemu\nbase: template://default\n";
        driver.create(VM, template).await.unwrap();
        assert_eq!(driver.template(VM).await.unwrap().as_deref(), Some(template));
        let read = fs::read_to_string(place.folder(VM).join("lima.yaml")).unwrap();
        assert_eq!(read, "vmType: qemu\nimages: [embedded]\n");
        driver.apply_template(VM, TEMPLATE).await.unwrap();
        assert_eq!(driver.template(VM).await.unwrap().as_deref(), Some(TEMPLATE));
        assert_eq!(fs::read_to_string(place.folder(VM).join("lima.yaml")).unwrap(), TEMPLATE);
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn without_limactl_or_with_one_that_is_too_old_it_is_said_what_to_do() {
    let mut place = Place::new();
    place.mode("old");
    let error = place.driver().available().unwrap_err().to_string();
    assert!(error.contains("\"limactl version 0.23.2\"") && error.contains("Lima 1.0 or later is needed"), "{error}");
    place.mode("");
    place.driver().available().unwrap();
    place.environment.limactl = Some("/nonexistent/limactl".into());
    let error = place.driver().available().unwrap_err().to_string();
    assert_eq!(error, "RDD_LIMACTL names /nonexistent/limactl, which is no program; correct it or leave it out");
    place.environment.limactl = None;
    fs::remove_file(place.bin().join("limactl")).unwrap();
    let driver = place.driver();
    let error = driver.available().unwrap_err().to_string();
    assert!(error.starts_with("limactl is not installed; install Lima, "), "{error}");
}

#[test]
fn root_is_told_to_use_the_host() {
    let place = Place::new();
    let driver = LimaDriver::new(&place.instance, &place.environment, None);
    let is_root = rustix::process::geteuid().is_root();
    match driver.available() {
        Err(error) if is_root => assert!(error.to_string().ends_with("or use the backend host"), "{error}"),
        other => assert!(!is_root && other.is_ok(), "{other:?}"),
    }
}

#[test]
fn a_machine_without_acceleration_is_emulated_and_says_why_it_is_slow() {
    let place = Place::new();
    // One that fails when it is tried.
    fs::write(place.bin().join("qemu-system-x86_64"), "#!/bin/sh\necho 'KVM is broken' >&2\nexit 1\n").unwrap();
    run(async {
        let driver = place.driver();
        let mut run = started(&place, &driver).await;
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let shim = place.own_dir().join(rdd_driver::lima::SHIM);
        let told = fs::read_to_string(place.bin().join("calls/qemu")).unwrap();
        assert_eq!(told.trim(), format!("'{}'", shim.display()));
        let messages = fs::read_to_string(place.folder(VM).join("ha.stderr.log")).unwrap();
        let first = messages.lines().next().unwrap();
        assert!(first.contains("the machine is emulated, which is many times slower: "), "{first}");
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn deserted_sockets_of_the_template_go_with_the_machine_and_others_stay() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        let short = &place.instance.paths.short_dir;
        let (own, served, foreign) =
            (short.join("own.sock"), short.join("served.sock"), place.bin().join("foreign.sock"));
        let template = format!(
            "{TEMPLATE}param:\n  A: {}\n  B: {}\n  C: {}\n",
            own.display(),
            served.display(),
            foreign.display()
        );
        driver.create(VM, &template).await.unwrap();
        let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        drop(UnixListener::bind(&own).unwrap());
        drop(UnixListener::bind(&foreign).unwrap());
        let _listener = UnixListener::bind(&served).unwrap();
        driver.stop(VM, SOON).await.unwrap();
        assert!(!own.exists() && served.exists() && foreign.exists());
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn an_unknown_machine_of_the_host_driver_is_not_touched() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        fs::create_dir_all(place.folder(VM)).unwrap();
        fs::write(place.folder(VM).join("lima.yaml"), "vmType: host\n").unwrap();
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
        driver.delete(VM).await.unwrap();
        assert!(matches!(driver.create(VM, TEMPLATE).await, Err(Error::InTheWay { .. })));
        assert!(place.folder(VM).join("lima.yaml").exists());
    });
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_template_that_wants_the_containerd_of_lima_gets_its_archive_from_the_cache() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        driver.create(VM, "vmType: qemu\nimages: [x]\n").await.unwrap();
        let error = driver.start(VM, &LogOptions::default()).await.unwrap_err().to_string();
        assert!(error.starts_with("the archive of nerdctl that the template asks for is not in the cache"), "{error}");
        let home = Path::new(place.environment.home.as_ref().unwrap());
        let folder = home.join(".cache/lima/download/by-url-sha256/abc");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("url"), "https://example.com/nerdctl.tgz").unwrap();
        fs::write(folder.join("data"), "").unwrap();
        let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
        until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
        let given = fs::read_to_string(place.bin().join("calls/nerdctl")).unwrap();
        assert_eq!(given.trim(), folder.join("data").to_string_lossy());
        driver.delete(VM).await.unwrap();
    });
}

// Finding 236-S4
#[test]
fn two_instances_of_one_user_have_machines_of_one_name_and_share_nothing() {
    let place = Place::new();
    let environment = Environment { instance: Some("m".to_owned()), ..place.environment.clone() };
    let instance = Instance::resolve(&environment, Platform::Linux).unwrap();
    assert_ne!(instance.paths.machine(VM), place.folder(VM));
    run(async {
        let driver = place.driver();
        let other = LimaDriver::new(&instance, &environment, None).as_if_not_root();
        let mut first = started(&place, &driver).await;
        let mut second = started(&place, &other).await;
        until(&mut first, |state| *state == State::Running(Health::GOOD)).await;
        until(&mut second, |state| *state == State::Running(Health::GOOD)).await;
        driver.delete(VM).await.unwrap();
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
        assert_eq!(other.inspect(VM).await.unwrap(), Found::Running(Running { outdated: false }), "it goes on");
        assert_eq!(second.state(), State::Running(Health::GOOD));
        other.delete(VM).await.unwrap();
    });
}

// Finding O-5
#[test]
fn a_stop_is_graceful_or_forced_and_whoever_watches_is_told_which() {
    let place = Place::new();
    run(async {
        let driver = place.driver();
        for (is_deaf, how, last_words) in
            [(false, Stopped::Graceful, "stopped"), (true, Stopped::Forced, "stopped, by force")]
        {
            let mut run = started(&place, &driver).await;
            until(&mut run, |state| *state == State::Running(Health::GOOD)).await;
            if is_deaf {
                fs::write(place.folder(VM).join("deaf"), "").unwrap();
            }
            assert_eq!(driver.stop(VM, Duration::from_secs(3)).await.unwrap(), how);
            let end = until(&mut run, |state| matches!(state, State::Exited { .. })).await;
            assert_eq!(end, State::Exited { last_words: last_words.to_owned() });
            assert!(place.processes(VM).is_empty(), "{:?}", place.processes(VM));
        }
        driver.delete(VM).await.unwrap();
    });
}
