//! Kills the real daemon in the middle of operations that its steps only start: an engine that starts or stops.
//!
//! No step ends there, so there is no kill point; the engine's processes show when the time has come.

use rdd_testkit::{capability::require, eventually};
use serde_json::json;

use crate::{
    Scenario,
    life::{Life, Marks, SOON},
    limavm::{MOBY, VM, begin, delete, until_running},
    remains,
};

const BOTH: [&str; 2] = ["containerd", "dockerd"];

/// Waits until the running programs satisfy a condition, and kills the daemon.
fn kill_when(life: &mut Life<'_>, what: &str, is_so: impl Fn(&[String]) -> bool) {
    let engine = life.engine();
    eventually(what, SOON, || {
        let running = remains::programs(&engine);
        if is_so(&running) { Ok(()) } else { Err(running.join(", ")) }
    });
    life.kill();
}

/// Creates a VM that should run; the test decides what happens until it does.
fn check(name: &'static str, live: impl FnOnce(&mut Life<'_>)) {
    if !require("own-engine") {
        return;
    }
    let (scenario, unhurt) = (Scenario { name, machine: Some("box"), ..Scenario::PLAIN }, Marks::new());
    let mut life = Life::begin(&scenario, None, &unhurt);
    begin(&mut life, MOBY, true);
    live(&mut life);
    delete(&mut life);
    life.end();
}

/// Waits until the VM runs as usual, with no process running twice.
fn until_up(life: &mut Life<'_>) {
    until_running(life, true);
    assert_eq!(remains::programs(&life.engine()), BOTH);
}

#[test]
fn killed_when_the_first_process_of_an_engine_has_begun() {
    check("the first process has begun", |life| {
        kill_when(life, "a first process", |running| !running.is_empty());
        until_up(life);
    });
}

#[test]
fn killed_when_the_last_process_of_an_engine_has_begun() {
    check("the last process has begun", |life| {
        kill_when(life, "a last process", |running| running == BOTH);
        until_up(life);
    });
}

#[test]
fn killed_when_the_first_process_of_an_engine_has_ended() {
    check("the first process has ended", |life| {
        until_up(life);
        life.merge(VM, &json!({"spec": {"running": false}}));
        kill_when(life, "an end", |running| running != BOTH);
        until_running(life, false);
        assert_eq!(remains::programs(&life.engine()), [""; 0]);
    });
}

#[test]
fn killed_when_the_first_process_of_an_engine_has_ended_for_good() {
    check("the first process has ended for good", |life| {
        until_up(life);
        life.until("the beginning of the end", |api| api.write("DELETE", VM, &serde_json::Value::Null, &[200, 202]));
        kill_when(life, "an end", |running| running != BOTH);
    });
}
