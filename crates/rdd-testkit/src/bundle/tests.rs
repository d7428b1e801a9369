//! Tests that a bundle of a real process is complete and contains no secret.

use rdd_stdx::process::background;

use super::*;
use crate::processes::{Table, look_at};

// Finding 295-S12
#[test]
fn a_bundle_shows_the_process_and_hides_the_secrets() {
    let scratch = tempfile::tempdir().unwrap();
    let home = scratch.path().join("bats");
    fs::create_dir_all(home.join(".local/state")).unwrap();
    fs::write(home.join(".local/state/rdd.stderr.log"), "started\nAuthorization: Bearer hunter2\n").unwrap();
    fs::write(home.join("config.yaml"), "server: https://127.0.0.1:1\ntoken: hunter2\n").unwrap();
    fs::write(home.join("sa.key"), "hunter2").unwrap();
    let mut command = background("/bin/sh", Path::new("/"));
    command.args(["-c", "read line", "sh", "--token=hunter2"]).stdin(std::process::Stdio::piped());
    command.env("SECRET_VALUE", "hunter2").env("RDD_INSTANCE", "bats");
    let mut child = command.spawn().unwrap();
    let mut processes = Table::read().unwrap().descendants_of(child.id());
    processes.insert(0, look_at(child.id()).unwrap());
    let subject = Subject {
        name: "store/kill loop",
        reason: "timed out",
        processes: &processes,
        homes: std::slice::from_ref(&home),
        output: "password=hunter2\nrunning 1 test\n",
    };
    let folder = write(&scratch.path().join("evidence"), &subject).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();

    assert!(folder.file_name().unwrap().to_str().unwrap().starts_with("store_kill_loop-2"), "{folder:?}");
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(text("summary.txt").starts_with("store/kill loop: timed out\n"));
    assert!(text("processes.txt").contains("SECRET_VALUE"), "names are shown");
    assert!(text("processes.txt").contains("instance bats"));
    assert!(text("files.txt").contains(" 0 -> "), "standard input is open");
    assert!(text("memory.txt").contains("MemAvailable"));
    assert!(text("pressure.txt").contains("pressure"));
    assert!(text("api.txt").contains("no rdd process"));
    assert!(text("output.txt").contains("running 1 test"));
    assert!(text("home-bats/files.txt").contains("sa.key"));
    assert!(text("home-bats/local__state__rdd.stderr.log").starts_with("started\n"));
    assert!(text("home-bats/config.yaml").contains("https://127.0.0.1:1"));
    let stack = fs::read_dir(folder.join("stacks")).unwrap().next().unwrap().unwrap().path();
    assert!(fs::read_to_string(stack).unwrap().contains("waits in"));
    assert_no_secret(&folder);
}

fn assert_no_secret(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_secret(&path);
        } else {
            assert!(!fs::read_to_string(&path).unwrap().contains("hunter2"), "{path:?}");
        }
    }
}

#[test]
fn two_bundles_of_one_name_do_not_share_a_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let first = new_folder(scratch.path(), "x").unwrap();
    let second = new_folder(scratch.path(), "x").unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_timestamp_is_read_off_the_calendar() {
    let table = [(0, "19700101T000000Z"), (951_782_400, "20000229T000000Z"), (1_798_761_599, "20261231T235959Z")];
    for (seconds, expected) in table {
        assert_eq!(timestamp(seconds), expected);
    }
}

#[test]
fn the_api_is_asked_through_the_program_that_the_daemon_runs() {
    let home = tempfile::tempdir().unwrap();
    // A shell under the daemon's name: `sh ctl get --raw …` fails with an error that names the missing script `ctl`.
    let program = crate::sandbox::place::copy_program(Path::new("/bin/sh"), &home.path().join("rdd")).unwrap();
    let mut command = background(&program, Path::new("/"));
    command.args(["-c", "read line"]).stdin(std::process::Stdio::piped());
    let mut child = command.env("RDD_INSTANCE", "bats").env("HOME", home.path()).spawn().unwrap();
    let text = instance::api_state(&[look_at(child.id()).unwrap()]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(text.contains("instance bats: GET /readyz?verbose\n("), "{text}");
    assert!(text.contains("GET /metrics"), "{text}");
    assert!(text.contains("ctl"), "the reason names what was tried: {text}");
}
