//! A disk that fills up under the API: writes are refused with a Status, reads go on, room heals it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rdd_testkit::{
    Daemon, Sandbox,
    api::{Server, Wire},
    capability::require,
    eventually,
};

use crate::support::{MAPS, SOON, expect_proper, expect_unharmed, mk_map};

/// A file system of one's own, small, gone with the test.
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
    expect_proper("a full disk", &refused);
    assert_eq!((refused.code, refused.reason().as_str()), (503, "ServiceUnavailable"), "{}", refused.text());
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
