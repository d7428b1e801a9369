//! An App with a running engine, and the docker command.

use std::fs;

use rdd_stdx::process::background;
use rdd_testkit::{Output, capability::require, eventually};
use serde_json::{Value, json};

use crate::client::{APP, Gui, SOON};

/// The image that tests use.
pub(crate) const IMAGE: &str = "rdd-test/box:1";

/// A client of an instance with a running engine and one image; `None` if no engine can run here.
pub(crate) fn running() -> Option<Gui> {
    if !(require("own-engine") && require("docker")) {
        return None;
    }
    let gui = Gui::connect();
    gui.create_app();
    assert_eq!(gui.merge(APP, &json!({"spec": {"running": true}})).code, 200);
    settled(&gui);
    // The engine is ready before its Docker context has been written.
    let contexts = gui.daemon.home().join(".docker/contexts/meta");
    eventually("its context", SOON, || fs::read_dir(&contexts).ok()?.next().map(drop));
    gui.import(IMAGE);
    Some(gui)
}

/// Waits until the App has settled, like the GUI's progress bar.
#[track_caller]
pub(crate) fn settled(gui: &Gui) -> Value {
    gui.until(APP, "Settled", |app| {
        let of = |condition: &&Value| {
            condition["type"] == "Settled" && condition["observedGeneration"] == app["metadata"]["generation"]
        };
        let settled = app["status"]["conditions"].as_array().and_then(|all| all.iter().find(of));
        settled.is_some_and(|settled| settled["status"] == "True")
    })
}

impl Gui {
    /// Runs the docker command with the instance's own context.
    #[track_caller]
    pub(crate) fn docker(&self, words: &[&str]) -> String {
        self.try_docker(words).expect_success().stdout.trim().to_owned()
    }

    pub(crate) fn try_docker(&self, words: &[&str]) -> Output {
        let mut command = background("docker", std::path::Path::new("/"));
        self.daemon.dress(&mut command);
        command.args(["--context", &format!("rancher-desktop-{}", self.daemon.instance())]).args(words);
        self.daemon.run(command)
    }

    /// Creates an image with only busybox.
    #[track_caller]
    pub(crate) fn import(&self, tag: &str) {
        let folder = self.daemon.home().join("box");
        fs::create_dir_all(folder.join("bin")).unwrap();
        let busybox = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|folder| folder.join("busybox"))
            .find(|path| path.exists())
            .unwrap();
        fs::copy(busybox, folder.join("bin/busybox")).unwrap();
        for name in ["sh", "sleep", "echo", "seq"] {
            let _ = std::os::unix::fs::symlink("busybox", folder.join("bin").join(name));
        }
        let tar = self.daemon.home().join("box.tar");
        let mut command = background("tar", &folder);
        command.arg("-cf").arg(&tar).arg(".");
        self.daemon.run(command).expect_success();
        self.docker(&["import", tar.to_str().unwrap(), tag]);
    }

    /// Starts a container and returns its ID.
    #[track_caller]
    pub(crate) fn run(&self, options: &[&str], script: &str) -> String {
        let words =
            [&["run", "-d", "--network=none", "--stop-timeout=1"], options, &[IMAGE, "sh", "-c", script]].concat();
        self.docker(&words)
    }
}
