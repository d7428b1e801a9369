//! Tests of the fake: planned faults, gates and adoption.

use std::time::Duration;

use super::*;
use crate::{Driver, Found, Health, LogOptions, Running, State, Stopped};

const TEMPLATE: &str = "vmType: fake\n";
const GRACE: Duration = Duration::from_secs(1);

fn log() -> LogOptions {
    LogOptions::default()
}

#[tokio::test]
async fn faults_happen_when_and_as_often_as_planned() {
    let world = World::new();
    let driver = world.driver();
    world.fail(Op::Create, Fault::before("no")).once();
    assert_eq!(driver.create("rd", TEMPLATE).await.unwrap_err().to_string(), "no");
    assert_eq!(world.found("rd"), Found::Absent);
    world.fail(Op::Create, Fault::halfway("disk full")).once();
    assert_eq!(driver.create("rd", TEMPLATE).await.unwrap_err().to_string(), "disk full");
    assert_eq!(world.found("rd"), Found::HalfMade);
    world.fail(Op::Create, Fault::after("lost")).once();
    assert!(driver.create("rd", TEMPLATE).await.is_err());
    assert_eq!(world.found("rd"), Found::Stopped);
    driver.create("rd", TEMPLATE).await.unwrap();
    world.fail(Op::Start, Fault::halfway("half")).once();
    assert!(driver.start("rd", &log()).await.is_err());
    assert_eq!(world.found("rd"), Found::Broken { why: "a start did not finish".to_owned() });
    assert_eq!(driver.stop("rd", GRACE).await.unwrap(), Stopped::Forced);
    assert_eq!(world.calls_of("rd"), ["create", "create", "create", "create", "start", "stop"]);
}

#[tokio::test]
async fn a_gate_holds_one_kind_of_operation_until_it_is_dropped() {
    let world = World::new();
    let driver = world.driver();
    driver.create("rd", TEMPLATE).await.unwrap();
    let gate = world.hold(Op::Start);
    let options = log();
    let mut started = driver.start("rd", &options);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut started).await.is_err());
    assert_eq!(driver.inspect("rd").await.unwrap(), Found::Stopped, "looking does not wait");
    drop(gate);
    assert_eq!(started.await.unwrap().state(), State::Running(Health::GOOD));
}

#[tokio::test]
async fn a_machine_outlives_its_driver_and_is_adopted_by_the_next() {
    let world = World::new();
    let driver = world.driver();
    driver.create("rd", TEMPLATE).await.unwrap();
    world.boot(Boot::ByHand);
    let mut run = driver.start("rd", &log()).await.unwrap();
    assert_eq!(run.next().await, Some(State::Starting));
    drop(driver);
    assert_eq!(run.next().await, None, "unwatched");
    let driver = world.driver();
    let mut run = driver.adopt("rd").await.unwrap().unwrap();
    assert_eq!(run.next().await, Some(State::Starting));
    let degraded = Health { errors: vec!["no network".to_owned()] };
    assert!(world.comes_up("rd", degraded.clone()));
    assert_eq!(run.next().await, Some(State::Running(degraded)));
    assert_eq!(world.found("rd"), Found::Running(Running { outdated: false }));
    assert!(world.dies("rd", "kernel panic"));
    assert_eq!(run.exited().await.as_deref(), Some("kernel panic"));
    assert!(driver.adopt("rd").await.unwrap().is_none());
    assert_eq!(world.starts("rd"), 1);
}
