//! What the host driver does when an engine cannot start, dies with containers in it, or is somebody else's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod forged;
mod room;

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use rdd_driver::{Driver, Error, Found, Health, LogOptions, Run, Running, State, Stopped, suite};
use rdd_stdx::process::{self, Process, Signal};
use rdd_testkit::eventually;
use room::{Place, docker_at, running_leftovers, succeeds};

const VM: &str = "rd";
const GRACE: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(60);

async fn next(run: &mut Run) -> Option<State> {
    tokio::time::timeout(Duration::from_secs(180), run.next()).await.expect("a state in time")
}

/// Makes a machine and waits until it runs.
async fn up(driver: &dyn Driver, template: &str) -> Run {
    driver.create(VM, template).await.unwrap();
    up_again(driver).await
}

async fn up_again(driver: &dyn Driver) -> Run {
    let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
    loop {
        match next(&mut run).await {
            Some(State::Starting) => {}
            Some(State::Running(health)) if !health.is_degraded() => return run,
            other => panic!("{other:?}"),
        }
    }
}

async fn last_words(run: &mut Run) -> String {
    loop {
        match next(run).await {
            Some(State::Exited { last_words }) => return last_words,
            Some(_) => {}
            None => panic!("nobody told of the end"),
        }
    }
}

// Finding O-2
#[test]
fn an_engine_that_dies_at_once_leaves_the_last_line_of_its_log() {
    if !room::enter("an_engine_that_dies_at_once_leaves_the_last_line_of_its_log") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        driver.create(VM, "vmType: host\n").await.unwrap();
        let config = place.engine(VM).folder.join("daemon.json");
        fs::write(&config, "{\"no-such-option\": true}").unwrap();
        let mut run = driver.start(VM, &LogOptions::default()).await.unwrap();
        let words = last_words(&mut run).await;
        assert!(words.starts_with("dockerd ended (exit status: 1): ") && words.contains("no-such-option"), "{words}");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        assert_eq!(running_leftovers(&place, VM), Vec::<String>::new());
        fs::write(&config, "{}").unwrap();
        up_again(&driver).await;
        let messages = fs::read_to_string(place.engine(VM).folder.join("ha.stderr.1.log")).unwrap();
        assert!(messages.contains("no-such-option"), "people find it in the log: {messages}");
        driver.delete(VM).await.unwrap();
    });
}

/// Starts a container that ignores requests to end.
fn stubborn(place: &Place) -> Process {
    place.import_image(VM);
    let script = "trap '' TERM; while true; do sleep 1; done";
    place.docker(VM, &["run", "-d", "--name", "stubborn", "-v", "data:/data", "box", "/bin/sh", "-c", script]);
    let pid = place.docker(VM, &["inspect", "-f", "{{.State.Pid}}", "stubborn"]);
    Process::open(pid.trim().parse().unwrap()).unwrap().unwrap()
}

#[test]
fn containers_end_with_an_engine_that_was_killed_and_their_data_stays() {
    if !room::enter("containers_end_with_an_engine_that_was_killed_and_their_data_stays") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        let mut run = up(&driver, "vmType: host\n").await;
        let container = stubborn(&place);
        place.kill(VM, "dockerd");
        let words = last_words(&mut run).await;
        assert!(words.starts_with("dockerd ended (signal: 9"), "{words}");
        assert!(container.wait(Duration::ZERO).unwrap(), "its container is gone");
        assert_eq!(running_leftovers(&place, VM), Vec::<String>::new());
        let run = up_again(&driver).await;
        assert!(run.is_watched());
        assert!(place.docker(VM, &["volume", "ls", "-q"]).contains("data"));
        assert!(place.docker(VM, &["ps", "-a"]).contains("stubborn"));
        driver.delete(VM).await.unwrap();
        assert_eq!(room::leftovers(&place, VM), Vec::<String>::new());
    });
}

#[test]
fn a_paused_container_does_not_hold_up_the_end_of_an_engine_that_was_killed() {
    if !room::enter("a_paused_container_does_not_hold_up_the_end_of_an_engine_that_was_killed") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        let mut run = up(&driver, "vmType: host\n").await;
        place.import_image(VM);
        place.docker(VM, &["run", "-d", "--name", "paused", "box", "/bin/sh", "-c", "exec sleep 1000"]);
        place.docker(VM, &["pause", "paused"]);
        place.kill(VM, "dockerd");
        let words = last_words(&mut run).await;
        assert!(words.starts_with("dockerd ended (signal: 9"), "{words}");
        assert_eq!(running_leftovers(&place, VM), Vec::<String>::new());
        up_again(&driver).await;
        driver.delete(VM).await.unwrap();
        assert_eq!(room::leftovers(&place, VM), Vec::<String>::new());
    });
}

#[test]
fn an_adopted_engine_keeps_its_containers_running() {
    if !room::enter("an_adopted_engine_keeps_its_containers_running") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        drop(up(&driver, "vmType: host\n").await);
        let container = stubborn(&place);
        drop(driver);
        // A daemon that was killed between starting a process and writing it down is the worst case.
        for part in ["containerd", "dockerd"] {
            fs::remove_file(place.engine(VM).run_dir.join(format!("{part}.json"))).unwrap();
        }
        let driver = place.host();
        assert!(driver.adopt(VM).await.unwrap().is_some());
        assert!(!container.wait(Duration::from_millis(100)).unwrap(), "it never noticed");
        // An engine that is asked to stop gives its containers ten seconds, and then it is done: nobody was forced.
        assert_eq!(driver.stop(VM, GRACE).await.unwrap(), Stopped::Graceful);
        assert!(container.wait(Duration::ZERO).unwrap());
        driver.delete(VM).await.unwrap();
    });
}

// Finding 295-S9
#[test]
fn processes_that_only_look_like_ours_are_left_alone() {
    if !room::enter("processes_that_only_look_like_ours_are_left_alone") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        let folder = place.engine(VM).folder;
        let twin = place.engine("rd-app").folder;
        let mut look_alike = process::background("sleep", Path::new("/"));
        let mut look_alike = look_alike.arg("600").env("RDD_HOST_ENGINE", &twin).env("OTHER", &folder).spawn().unwrap();
        let run = up(&driver, "vmType: host\n").await;
        place.kill(VM, "containerd");
        last_words(&mut run.afresh()).await;
        driver.delete(VM).await.unwrap();
        assert!(look_alike.try_wait().unwrap().is_none(), "it lives");
        look_alike.kill().unwrap();
        look_alike.wait().unwrap();
    });
}

/// How many processes were called by exactly this name, and have this variable.
fn processes_called(name: &str, variable: &str) -> usize {
    let has = |file: std::path::PathBuf, wanted: &str| {
        let text = fs::read(file).unwrap_or_default();
        text.split(|byte| *byte == 0).map(|part| part == wanted.as_bytes()).collect::<Vec<_>>()
    };
    let folders = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_called = |folder: &std::path::PathBuf| has(folder.join("cmdline"), name).first() == Some(&true);
    folders.filter(is_called).filter(|folder| has(folder.join("environ"), variable).contains(&true)).count()
}

// Finding A-4
#[test]
fn a_forged_mark_is_neither_adopted_nor_signalled_and_does_not_delay_a_stop() {
    if !room::enter("a_forged_mark_is_neither_adopted_nor_signalled_and_does_not_delay_a_stop") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        drop(up(&driver, "vmType: host\n").await);
        let engine = place.engine(VM);
        let mark = format!("RDD_HOST_ENGINE={}", engine.folder.display());
        let nonce = forged::read_nonce(&engine.folder.join("launch.json"));
        let pose = ["bash", "-c", "exec -a dockerd sleep 600"];
        let mut strangers = forged::start_all(&mark, &nonce, &pose);
        let dockerd = place.part(VM, "dockerd").unwrap();
        // Two containers pose as well, with the nonce: one of them shares our PID namespace.
        place.import_image(VM);
        let nonce = format!("{}={nonce}", forged::NONCE);
        for namespace in [&["--pid=host"][..], &[]] {
            let variables = ["run", "-d", "--stop-signal=KILL", "-v", "/:/host", "-e", &mark, "-e", &nonce];
            let words = ["box", "/bin/busybox", "chroot", "/host", "bash", "-c", "exec -a dockerd sleep 600"];
            place.docker(VM, &[&variables[..], namespace, &words].concat());
        }
        // The real one was called by its path.
        let posing = || processes_called("dockerd", &mark) == strangers.len() + 2;
        eventually("all who pose", SOON, || posing().then_some(()));
        // A daemon that was killed between starting a process and recording it is the worst case.
        drop(driver);
        fs::remove_file(engine.run_dir.join("dockerd.json")).unwrap();
        let driver = place.host();
        assert!(driver.adopt(VM).await.unwrap().is_some());
        drop(driver);
        // Without the real one nobody takes its place.
        dockerd.signal(Signal::KILL).unwrap();
        assert!(dockerd.wait(SOON).unwrap());
        let driver = place.host();
        assert!(matches!(driver.inspect(VM).await.unwrap(), Found::Broken { .. }));
        // The containers are the machine's and end with it; what else there is would be waited for.
        let (began, grace) = (std::time::Instant::now(), Duration::from_secs(1));
        assert_eq!(driver.stop(VM, grace).await.unwrap(), Stopped::Forced);
        assert!(began.elapsed() < grace + Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(processes_called("dockerd", &mark), strangers.len(), "only those who are not ours are left");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        assert!(driver.adopt(VM).await.unwrap().is_none());
        let began = std::time::Instant::now();
        assert_eq!(driver.stop(VM, GRACE).await.unwrap(), Stopped::Already);
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        driver.delete(VM).await.unwrap();
        strangers.iter_mut().for_each(forged::Forged::expect_alive);
    });
}

// Finding A-4
#[test]
fn an_engine_that_a_version_without_nonces_started_is_adopted_and_ended_as_a_whole() {
    if !room::enter("an_engine_that_a_version_without_nonces_started_is_adopted_and_ended_as_a_whole") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        driver.create(VM, "vmType: host\nparam: {CONTAINER_ENGINE: containerd}\n").await.unwrap();
        let engine = place.engine(VM);
        drop(up_again(&driver).await);
        drop(driver);
        // As it was before: the variable is in no environment, the fields are in no record, and there is no launch file.
        place.kill(VM, "containerd");
        fs::remove_file(engine.folder.join("launch.json")).unwrap();
        let mut commands = ["containerd", "sleep"].map(|name| {
            let mut command = process::background("bash", Path::new("/"));
            command.args(["-c", &format!("exec -a {name} sleep 600")]).env("RDD_HOST_ENGINE", &engine.folder);
            command.spawn().unwrap()
        });
        let stat = fs::read_to_string(format!("/proc/{}/stat", commands[0].id())).unwrap();
        let started: u64 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let record = serde_json::json!({ "pid": commands[0].id(), "started": started, "boot": boot.trim() });
        fs::write(engine.run_dir.join("containerd.json"), record.to_string()).unwrap();
        let driver = place.host();
        let up = Found::Running(Running { outdated: false });
        eventually("the mark of both", SOON, || {
            let marked = running_leftovers(&place, VM).iter().filter(|left| left.starts_with("process")).count();
            (marked == 2).then_some(())
        });
        assert_eq!(driver.inspect(VM).await.unwrap(), up);
        assert!(driver.adopt(VM).await.unwrap().is_some());
        driver.delete(VM).await.unwrap();
        commands.iter_mut().for_each(|command| assert!(!command.wait().unwrap().success()));
        assert_eq!(room::leftovers(&place, VM), Vec::<String>::new());
    });
}

#[test]
fn the_socket_is_where_the_template_says_and_private_and_never_taken_from_another_engine() {
    if !room::enter("the_socket_is_where_the_template_says_and_private_and_never_taken_from_another_engine") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        let socket = &place.instance.paths.docker_socket;
        let template = format!("vmType: host\nparam:\n  HOST_DOCKER_SOCKET: {}\n", socket.display());
        let run = up(&driver, &template).await;
        assert_eq!(fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
        docker_at(socket, &["version"]);
        driver.create("second", &template).await.unwrap();
        let error = driver.start("second", &LogOptions::default()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("another engine answers at {}", socket.display()));
        assert!(matches!(error, Error::InTheWay { .. }));
        assert!(run.is_watched());
        driver.delete("second").await.unwrap();
        docker_at(socket, &["version"]);
        driver.delete(VM).await.unwrap();
        assert!(socket.symlink_metadata().is_err());
    });
}

#[test]
fn an_engine_of_somebody_else_is_watched_and_never_stopped() {
    if !room::enter("an_engine_of_somebody_else_is_watched_and_never_stopped") {
        return;
    }
    suite::run(async {
        let theirs = Place::new("3");
        let their_driver = theirs.host();
        drop(up(&their_driver, "vmType: host\n").await);
        let place = Place::new("2");
        let driver = place.host();
        let their_socket = theirs.engine(VM).docker_socket;
        let template = format!("vmType: host\nparam:\n  HOST_ENGINE_SOCKET: {}\n", their_socket.display());
        let run = up(&driver, &template).await;
        let socket = place.engine(VM).docker_socket;
        docker_at(&socket, &["version"]);
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Running(Running { outdated: false }));
        drop((run, driver));
        let driver = place.host();
        let mut run = driver.adopt(VM).await.unwrap().unwrap();
        assert_eq!(driver.stop(VM, GRACE).await.unwrap(), Stopped::Graceful);
        assert_eq!(last_words(&mut run).await, "stopped");
        assert!(socket.symlink_metadata().is_err());
        docker_at(&their_socket, &["version"]);
        let mut run = up_again(&driver).await;
        assert_eq!(their_driver.stop(VM, GRACE).await.unwrap(), Stopped::Graceful);
        let words = last_words(&mut run).await;
        assert!(words.starts_with(&format!("the engine at {} no longer answers", their_socket.display())), "{words}");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
        driver.delete(VM).await.unwrap();
        assert_eq!(room::leftovers(&place, VM), Vec::<String>::new());
        their_driver.delete(VM).await.unwrap();
    });
}

/// Waits until it is said to be like this, as it runs; no wait for the next word is without end.
async fn until_health(run: &mut Run, is_so: impl Fn(&Health) -> bool) {
    for _ in 0..10 {
        match next(run).await {
            Some(State::Running(health)) if is_so(&health) => return,
            Some(State::Running(_)) => {}
            other => panic!("it runs, and does not say {other:?}"),
        }
    }
    panic!("it never says so");
}

// Finding O-4
#[test]
fn an_engine_that_hangs_is_degraded_and_recovers() {
    if !room::enter("an_engine_that_hangs_is_degraded_and_recovers") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        let mut run = up(&driver, "vmType: host\n").await;
        let dockerd = place.part(VM, "dockerd").unwrap();
        dockerd.signal(Signal::STOP).unwrap();
        // Whoever asks it first notices first; all who ask do in the end.
        let says_so = |error: &String| error.starts_with("dockerd does not answer: ");
        until_health(&mut run, |health| health.errors.iter().any(says_so)).await;
        dockerd.signal(Signal::CONT).unwrap();
        until_health(&mut run, |health| !health.is_degraded()).await;
        driver.delete(VM).await.unwrap();
    });
}

#[test]
fn an_engine_alone_runs_containers_and_ends_them() {
    if !room::enter("an_engine_alone_runs_containers_and_ends_them") {
        return;
    }
    suite::run(async {
        let place = Place::new("2");
        let driver = place.host();
        up(&driver, "vmType: host\nparam: {CONTAINER_ENGINE: containerd}\n").await;
        let engine = place.engine(VM);
        assert!(engine.docker_socket.symlink_metadata().is_err(), "there is no Docker");
        let socket = engine.containerd_socket.display().to_string();
        let rootfs = place.bare_root();
        let root = rootfs.path().display().to_string();
        let run = ["-a", &socket, "run", "-d", "--rootfs", &root, "one", "/bin/sleep", "600"];
        room::run("ctr", &run);
        eventually("the container", SOON, || {
            succeeds("sh", &["-c", &format!("ctr -a {socket} tasks ls | grep RUNNING")]).then_some(())
        });
        assert_ne!(driver.stop(VM, Duration::from_secs(2)).await.unwrap(), Stopped::Already);
        assert_eq!(running_leftovers(&place, VM), Vec::<String>::new());
        driver.delete(VM).await.unwrap();
        assert_eq!(room::leftovers(&place, VM), Vec::<String>::new());
    });
}

#[test]
fn a_machine_of_another_driver_is_none_of_ours() {
    let place = Place::new("2");
    let folder = place.engine(VM).folder;
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("lima.yaml"), "vmType: qemu\n").unwrap();
    suite::run(async {
        let driver = place.host();
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
        assert!(matches!(driver.create(VM, "vmType: host\n").await, Err(Error::InTheWay { .. })));
        assert!(matches!(driver.start(VM, &LogOptions::default()).await, Err(Error::Absent { .. })));
        driver.delete(VM).await.unwrap();
        assert!(folder.join("lima.yaml").exists());
    });
}
