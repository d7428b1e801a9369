//! Tests a disk that fills up under the API: writes fail with a Status, reads continue, and free space repairs it.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use rdd_testkit::{
    Daemon, Sandbox,
    api::{Reply, Server, Wire},
    capability::require,
    eventually,
};

use crate::support::{MAPS, SOON, expect_proper, expect_unharmed, mk_map, until};

/// A small file system of the test's own, unmounted on drop.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: &Path, size: &str) -> Self {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=700");
        run(rdd_stdx::process::foreground("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at));
        Self(at.to_owned())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        run(rdd_stdx::process::foreground("umount").arg("--lazy").arg(&self.0));
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_refuses_writes_with_a_status_and_keeps_what_it_has() {
    if !require("tmpfs") {
        return;
    }
    let sandbox = Sandbox::new();
    let local = sandbox.home().join(".local");
    let disk = Tmpfs::mount(&local, "8m");
    let daemon = Daemon::start_in(sandbox);
    let (wire, pid) = (Wire::of(&daemon), daemon.pid());
    wire.post(MAPS, &mk_map("before", "1")).expect(201);
    let ballast = local.join("ballast");
    fs::write(&ballast, vec![0; 16 << 20]).expect_err("the disk is smaller than that");

    let mut kept = vec!["before".to_owned()];
    let large = "x".repeat(200_000);
    let refused = (0..200).find_map(|count| {
        let name = format!("m{count}");
        let reply = wire.post(MAPS, &mk_map(&name, &large));
        if reply.code == 201 {
            kept.push(name);
            return None;
        }
        Some(reply)
    });
    let refused = refused.expect("no disk of 8 MB holds 40 MB");
    expect_refused(&refused, &local);
    for name in &kept {
        wire.get(&format!("{MAPS}/{name}")).expect(200);
    }
    fs::remove_file(&ballast).unwrap();
    eventually("a write after room was made", SOON, || {
        let reply = wire.post(MAPS, &mk_map("after", "1"));
        if reply.code == 201 { Ok(()) } else { Err(reply.text().into_owned()) }
    });
    kept.push("after".to_owned());
    expect_unharmed(&daemon, &wire, pid, 200);
    daemon.rdd(&["svc", "stop"]).expect_success();
    daemon.rdd(&["svc", "start"]).expect_success();
    let wire = Wire::of(&daemon);
    for name in &kept {
        wire.get(&format!("{MAPS}/{name}")).expect(200);
    }
    daemon.rdd(&["svc", "stop"]).expect_success();
    drop(disk);
}

/// Finding A-8. The daemon is killed while its disk is full; the files that it needs at its start exist already.
#[test]
fn killed_on_a_full_disk_it_starts_read_only_says_why_and_accepts_writes_when_there_is_space() {
    if !require("tmpfs") {
        return;
    }
    let sandbox = Sandbox::new();
    let local = sandbox.home().join(".local");
    let disk = Tmpfs::mount(&local, "8m");
    let ballast = local.join("ballast");
    fs::write(&ballast, vec![0; 3 << 20]).unwrap();
    let daemon = Daemon::start_in(sandbox);
    let wire = Wire::of(&daemon);
    wire.post(MAPS, &mk_map("before", "1")).expect(201);
    fill(&wire, &local);
    daemon.kill();
    fs::write(local.join("rest"), vec![0; 16 << 20]).expect_err("the disk is smaller than that");
    // Its port is taken meanwhile, so that one of its first objects has to change but cannot be written.
    let _taken = TcpListener::bind(("127.0.0.1", port_of(&wire))).unwrap();

    let started = daemon.rdd(&["svc", "start"]).expect_success();
    assert!(started.stderr.contains("read-only"), "{}", started.stderr);
    assert!(started.stderr.contains(&format!("free space in {}", local.display())), "{}", started.stderr);
    let wire = Wire::of(&daemon);
    wire.get(&format!("{MAPS}/before")).expect(200);
    let list = wire.get(MAPS).expect(200);
    assert!(list["items"].as_array().unwrap().iter().any(|item| item["metadata"]["name"] == "before"));
    let mut watch = wire.watch(&format!("{MAPS}?watch=true"));
    assert_eq!(watch.expect()["type"], "ADDED");
    // The daemon learns from a failed write that its disk is full. It checks again after a second, and that check may succeed, so the write
    // is repeated.
    let refuse = || expect_refused(&wire.post(MAPS, &mk_map("while-full", &"x".repeat(900_000))), &local);
    let says = |words: &[&str], text: &str| {
        eventually(&format!("{text:?} in what {words:?} says"), SOON, || {
            refuse();
            let output = daemon.rdd(words).expect_success();
            let said = output.stdout + &output.stderr;
            if said.contains(text) { Ok(()) } else { Err(said) }
        });
    };
    says(&["svc", "start"], "control plane is read-only");
    says(&["svc", "status"], &format!("free space in {}", local.display()));
    says(&["svc", "status", "-o", "json"], "\"readOnly\": \"the control plane is read-only");

    let pid = daemon.pid();
    fs::remove_file(&ballast).unwrap();
    eventually("a write after there was space", SOON, || {
        let reply = wire.post(MAPS, &mk_map("after", "1"));
        if reply.code == 201 { Ok(()) } else { Err(reply.text().into_owned()) }
    });
    daemon.rdd(&["svc", "start"]).expect_success();
    let status: serde_json::Value =
        serde_json::from_str(&daemon.rdd(&["svc", "status", "-o", "json"]).expect_success().stdout).unwrap();
    assert_eq!((&status["ready"], &status["readOnly"]), (&true.into(), &serde_json::Value::Null));
    until(&wire, "/api/v1/namespaces/default/services/kubernetes", "the new port", |service| {
        service["spec"]["ports"][0]["port"] == port_of(&wire)
    });
    expect_unharmed(&daemon, &wire, pid, 200);
    daemon.rdd(&["svc", "stop"]).expect_success();
    drop(disk);
}

/// The port that a daemon listens on.
fn port_of(wire: &Wire) -> u16 {
    let head = wire.head("GET", "/");
    let (_, rest) = head.split_once("Host: 127.0.0.1:").expect("a header names the server");
    rest.lines().next().unwrap().parse().unwrap()
}

/// Writes until not even a small object fits.
fn fill(wire: &Wire, disk: &Path) {
    for bytes in [900_000, 100_000, 10_000, 10] {
        let value = "x".repeat(bytes);
        let refused = (0..2_000).find_map(|count| {
            let reply = wire.post(MAPS, &mk_map(&format!("m{bytes}-{count}"), &value));
            (reply.code != 201).then_some(reply)
        });
        expect_refused(&refused.expect("the disk is full at last"), disk);
    }
}

/// Expects the reply to a write that does not fit on the disk.
#[track_caller]
fn expect_refused(reply: &Reply, disk: &Path) {
    expect_proper("a full disk", reply);
    assert_eq!((reply.code, reply.reason().as_str()), (503, "ServiceUnavailable"), "{}", reply.text());
    let message = reply.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains(&format!("free space in {}", disk.display())), "{message}");
}
