//! Tests of the plan for the engine's connection, as a table.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rdd_runtime::Step as _;
use rdd_types::{
    Time,
    app::{App, AppSpec, AppStatus, EngineName},
    conditions::CONTAINER_ENGINE_READY,
};

use super::plan::{Connection, Observed, Publication, Step, plan};

fn condition(kind: &str, status: &str, reason: &str) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        observed_generation: Some(1),
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

/// A connected App with this status of its Running condition.
fn seen(running: &str) -> Observed {
    let mut app = App::new("app", AppSpec::default());
    app.metadata.generation = Some(1);
    app.status = Some(AppStatus { conditions: vec![condition("Running", running, "Told")], ..AppStatus::default() });
    Observed {
        app: Arc::new(app),
        connection: Connection::Live,
        is_wanted: Some("default".to_owned()),
        publication: Publication::Published,
        mirrors: 3,
        now: Timestamp::UNIX_EPOCH,
    }
}

fn off(running: &str) -> Observed {
    let publication = Publication::Withdrawn;
    Observed { connection: Connection::Off, is_wanted: None, publication, mirrors: 0, ..seen(running) }
}

/// The names of the steps, with the reported conditions.
fn steps(seen: &Observed) -> Vec<String> {
    let said = |step: &Step| match step {
        Step::Report(condition) => format!("report {} {}", condition.status, condition.reason),
        other => other.name().to_owned(),
    };
    plan(seen).steps.iter().map(said).collect()
}

fn change(seen: &mut Observed, change: impl FnOnce(&mut App)) {
    change(Arc::make_mut(&mut seen.app));
}

#[test]
fn it_connects_when_the_vm_runs_and_says_how_that_goes() {
    assert_eq!(steps(&off("True")), ["connect", "report False Connecting"]);
    let trying = |error: Option<&str>| Observed {
        connection: Connection::Connecting { error: error.map(str::to_owned) },
        ..seen("True")
    };
    assert_eq!(steps(&trying(None)), ["report False Connecting"]);
    assert_eq!(steps(&trying(Some("no socket"))), ["report False ConnectFailed"]);
    assert_eq!(steps(&seen("True")), ["report True Connected"]);
    let new = Observed { publication: Publication::Unknown, ..seen("True") };
    assert_eq!(steps(&new), ["report True Connected", "publish"]);
}

#[test]
fn mirrors_go_before_it_is_said_that_the_engine_stopped() {
    for running in ["False", "True"] {
        let mut seen = seen(running);
        change(&mut seen, |app| app.spec.container_engine.name = EngineName::Containerd);
        assert_eq!(steps(&seen), ["disconnect", "withdraw", "delete-mirrors"], "{running}");
        seen.mirrors = 0;
        assert_eq!(steps(&seen), ["disconnect", "withdraw", "delete-mirrors"], "one more may come");
        let gone = Observed { app: seen.app, ..off(running) };
        let said = if running == "True" { "report Unknown NotApplicable" } else { "report False Stopped" };
        assert_eq!(steps(&gone), [said]);
    }
}

// Finding 295-S5
#[test]
fn what_is_not_mirrored_is_unknown() {
    let mut seen = off("True");
    change(&mut seen, |app| app.spec.container_engine.name = EngineName::Containerd);
    assert_eq!(steps(&seen), ["report Unknown NotApplicable"]);
}

// Finding O-6
#[test]
fn an_app_that_is_deleted_is_let_go_of_whatever_its_vm_does() {
    for running in ["True", "False", "Unknown"] {
        let mut seen = seen(running);
        change(&mut seen, |app| app.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)));
        assert_eq!(steps(&seen), ["disconnect", "withdraw", "delete-mirrors"], "{running}");
    }
}

#[test]
fn while_nobody_knows_whether_the_vm_runs_nothing_goes_and_nothing_is_claimed() {
    assert_eq!(steps(&seen("Unknown")), [""; 0]);
    let mut dark = Observed { mirrors: 3, ..off("Unknown") };
    assert_eq!(steps(&dark), [""; 0]);
    let claim = condition(CONTAINER_ENGINE_READY, "True", "Connected");
    change(&mut dark, |app| app.status.get_or_insert_default().conditions.push(claim));
    assert_eq!(steps(&dark), ["report False Connecting"]);
}

#[test]
fn nothing_new_writes_nothing_and_a_new_generation_is_acknowledged() {
    let mut seen = seen("True");
    let mut said = condition(CONTAINER_ENGINE_READY, "True", "Connected");
    said.message = "Container engine synced".to_owned();
    change(&mut seen, |app| app.status.get_or_insert_default().conditions.push(said));
    assert_eq!(steps(&seen), [""; 0]);
    change(&mut seen, |app| app.metadata.generation = Some(2));
    assert_eq!(steps(&seen), ["report True Connected"]);
}
