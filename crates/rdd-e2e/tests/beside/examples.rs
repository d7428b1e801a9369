//! Tests the examples of `docs/guides/writing-a-controller.md`, run as a reader would run them.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rdd_stdx::process::background;
use rdd_testkit::{
    Daemon,
    api::{Server, Wire},
    bounded::{Outcome, run},
    capability::require,
    eventually,
};
use serde_json::{Value, json};

use crate::support::{Beside, SOON, crash_and_restart, daemon_with};

/// The timeout of a build. With an empty cache it takes minutes, with a full one seconds.
const BUILD_TAKES: Duration = Duration::from_secs(600);

/// The behaviour of an example for its kind.
struct Example {
    kind: &'static str,
    plural: &'static str,
    /// Two specs, each with the pointer and the value of the status that must follow.
    wishes: [(Value, &'static str, Value); 2],
}

/// Tests the life of a third-party controller: it defines its kind, reconciles objects, survives a crash of the daemon, and ends on
/// request.
#[track_caller]
fn live(example: &Example, program: impl FnOnce(&Daemon) -> Command) {
    let daemon = daemon_with("");
    let beside = Beside::start(&daemon, program(&daemon));
    let path = format!("/apis/hello.example.com/v1/namespaces/default/{}", example.plural);
    let object = format!("{path}/mine");
    let [(first, at, done), (second, again_at, done_again)] = &example.wishes;

    let wire = Wire::of(&daemon);
    let wish = json!({
        "apiVersion": "hello.example.com/v1", "kind": example.kind, "metadata": {"name": "mine"}, "spec": first,
    });
    eventually("its definition", SOON, || {
        let reply = wire.post(&path, &wish);
        if reply.code == 201 { Ok(()) } else { Err(reply.text().into_owned()) }
    });
    until(&wire, &object, at, done);

    crash_and_restart(&daemon);
    let wire = Wire::of(&daemon);
    wire.merge(&object, &json!({"spec": second})).expect(200);
    until(&wire, &object, again_at, done_again);
    beside.terminate();
}

#[track_caller]
fn until(wire: &Wire, object: &str, at: &str, wanted: &Value) {
    eventually(&format!("{at} = {wanted}"), SOON, || {
        let found = wire.get(object).json();
        if found.pointer(at) == Some(wanted) { Ok(()) } else { Err(found.to_string()) }
    });
}

#[test]
fn the_controller_in_rust_goes_on_after_a_crash_of_the_daemon() {
    let greeting = Example {
        kind: "Greeting",
        plural: "greetings",
        wishes: [
            (json!({"who": "Ann"}), "/status/message", json!("Hello, Ann!")),
            (json!({"who": "Bob"}), "/status/message", json!("Hello, Bob!")),
        ],
    };
    live(&greeting, |daemon| {
        // `cargo xtask test` builds it with everything else, and so does `cargo build -p greeter`.
        let mut program = background(daemon.binary().with_file_name("greeter"), Path::new("/"));
        program.arg(daemon.config_path());
        program
    });
}

#[test]
fn the_controller_in_go_goes_on_after_a_crash_of_the_daemon() {
    if !require("go") {
        return;
    }
    let program = build_sums();
    let sum = Example {
        kind: "Sum",
        plural: "sums",
        wishes: [
            (json!({"numbers": [1, 2, 3]}), "/status/total", json!(6)),
            (json!({"numbers": [40, 2]}), "/status/total", json!(42)),
        ],
    };
    live(&sum, |daemon| {
        let mut command = background(&program, Path::new("/"));
        command.arg("-kubeconfig").arg(daemon.config_path());
        command
    });
}

/// Tests and builds the example in Go.
#[track_caller]
fn build_sums() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/go").canonicalize().unwrap();
    let program = folder.join("../../target/conformance/sums");
    let go = |arguments: &[&str]| {
        let mut command = background("go", &folder);
        command.args(arguments).env("GOTOOLCHAIN", "local");
        match run(&mut command, BUILD_TAKES, |_| ()).unwrap() {
            Outcome::Ended(output) => drop(output.expect_success()),
            Outcome::TimedOut(output) => panic!("{command:?} did not end\n{}", output.stderr),
        }
    };
    go(&["test", "./..."]);
    go(&["build", "-o", program.to_str().unwrap(), "."]);
    program
}
