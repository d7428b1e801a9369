//! Contract tests for crashes of machines and restarts of the daemon.

use std::time::Duration;

use super::{Subject, UP, VM, delete, exited, log, running, up};
use crate::{Error, Found, Health, Stopped};

pub async fn a_crash_is_told_and_the_machine_can_be_started_again(subject: &dyn Subject) {
    let driver = subject.driver();
    let mut run = running(subject, &*driver, VM).await;
    subject.crash(VM);
    // Finding O-2: the watch reports the end with a reason.
    assert_ne!(exited(subject, &mut run).await.trim(), "");
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    let mut run = driver.start(VM, &log()).await.unwrap();
    assert_eq!(up(subject, &mut run).await, Health::GOOD);
    delete(subject, &*driver, VM).await;
    exited(subject, &mut run).await;
}

pub async fn what_ignores_a_request_is_stopped_by_force(subject: &dyn Subject) {
    let driver = subject.driver();
    let mut run = running(subject, &*driver, VM).await;
    subject.hang(VM);
    // Finding O-5: the result shows that force was necessary.
    assert_eq!(driver.stop(VM, Duration::from_millis(200)).await.unwrap(), Stopped::Forced);
    exited(subject, &mut run).await;
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    delete(subject, &*driver, VM).await;
}

pub async fn what_runs_outlives_its_driver_and_is_adopted_by_the_next(subject: &dyn Subject) {
    let driver = subject.driver();
    let mut run = running(subject, &*driver, VM).await;
    drop(driver);
    while run.next().await.is_some() {}
    let driver = subject.driver();
    assert_eq!(driver.inspect(VM).await.unwrap(), UP);
    let mut run = driver.adopt(VM).await.unwrap().expect("what runs is adopted");
    assert_eq!(up(subject, &mut run).await, Health::GOOD);
    let again = driver.adopt(VM).await.unwrap().expect("and again");
    assert!(again.is_watched());
    subject.crash(VM);
    exited(subject, &mut run).await;
    assert!(driver.adopt(VM).await.unwrap().is_none());
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    delete(subject, &*driver, VM).await;
}

pub async fn the_next_driver_can_stop_and_delete_what_the_last_one_started(subject: &dyn Subject) {
    drop(running(subject, &*subject.driver(), VM).await);
    let driver = subject.driver();
    assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    drop(driver.start(VM, &log()).await.unwrap());
    drop(driver);
    // The machine may have been killed with its driver before it was running.
    delete(subject, &*subject.driver(), VM).await;
}

pub async fn remains_that_cannot_go_on_are_ended_by_adoption(subject: &dyn Subject) {
    drop(running(subject, &*subject.driver(), VM).await);
    subject.maim(VM);
    let driver = subject.driver();
    assert!(matches!(driver.inspect(VM).await.unwrap(), Found::Broken { .. }));
    assert!(driver.adopt(VM).await.unwrap().is_none());
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    let mut run = driver.start(VM, &log()).await.unwrap();
    assert_eq!(up(subject, &mut run).await, Health::GOOD);
    delete(subject, &*driver, VM).await;
}

pub async fn a_half_made_machine_is_known_and_made_anew(subject: &dyn Subject) {
    let driver = subject.driver();
    subject.half_make(VM);
    // Finding O-3: a half-made machine never counts as complete.
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::HalfMade);
    assert_eq!(driver.template(VM).await.unwrap(), None);
    assert!(matches!(driver.start(VM, &log()).await, Err(Error::HalfMade { .. })));
    assert!(matches!(driver.apply_template(VM, &subject.template(1)).await, Err(Error::HalfMade { .. })));
    driver.create(VM, &subject.template(2)).await.unwrap();
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    assert_eq!(driver.template(VM).await.unwrap(), Some(subject.template(2)));
    driver.delete(VM).await.unwrap();
    subject.half_make(VM);
    delete(subject, &*driver, VM).await;
}
