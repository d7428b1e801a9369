//! Contract tests for the life cycle of a machine without faults.

use super::{Subject, UP, VM, delete, exited, log, running, up};
use crate::{Error, Found, Health, Stopped};

pub async fn a_machine_is_made_started_stopped_and_deleted_and_leaves_nothing(subject: &dyn Subject) {
    let driver = subject.driver();
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
    assert_eq!(driver.template(VM).await.unwrap(), None);
    driver.create(VM, &subject.template(1)).await.unwrap();
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    assert_eq!(driver.template(VM).await.unwrap(), Some(subject.template(1)));
    let mut run = driver.start(VM, &log()).await.unwrap();
    assert_eq!(up(subject, &mut run).await, Health::GOOD);
    assert_eq!(driver.inspect(VM).await.unwrap(), UP);
    assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
    exited(subject, &mut run).await;
    assert!(!run.is_watched());
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    delete(subject, &*driver, VM).await;
}

pub async fn every_operation_can_be_repeated(subject: &dyn Subject) {
    let driver = subject.driver();
    let mut first = running(subject, &*driver, VM).await;
    driver.create(VM, &subject.template(2)).await.unwrap();
    assert_eq!(driver.template(VM).await.unwrap(), Some(subject.template(1)), "a whole machine is left as it is");
    assert_eq!(driver.inspect(VM).await.unwrap(), UP);
    let mut second = driver.start(VM, &log()).await.unwrap();
    assert_eq!(up(subject, &mut second).await, Health::GOOD);
    assert!(first.is_watched(), "a second start leaves what runs alone");
    assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
    assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Already);
    exited(subject, &mut first).await;
    exited(subject, &mut second).await;
    driver.apply_template(VM, &subject.template(1)).await.unwrap();
    delete(subject, &*driver, VM).await;
    delete(subject, &*driver, VM).await;
}

pub async fn a_restart_finds_the_machine_as_it_was(subject: &dyn Subject) {
    let driver = subject.driver();
    for _ in 0..3 {
        let mut run = running(subject, &*driver, VM).await;
        assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
        exited(subject, &mut run).await;
    }
    // A stop right after a start waits for it instead of finding nothing to stop.
    let _run = driver.start(VM, &log()).await.unwrap();
    assert_ne!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Already);
    assert_eq!(driver.inspect(VM).await.unwrap(), Found::Stopped);
    delete(subject, &*driver, VM).await;
}

pub async fn two_machines_run_side_by_side(subject: &dyn Subject) {
    let driver = subject.driver();
    // Finding 295-S9: one name is a prefix of the other; the driver must not confuse them.
    let (one, other) = ("rd", "rd-app");
    let mut first = running(subject, &*driver, one).await;
    let second = running(subject, &*driver, other).await;
    assert_eq!(driver.stop(one, subject.grace()).await.unwrap(), Stopped::Graceful);
    exited(subject, &mut first).await;
    assert!(second.is_watched());
    assert_eq!(driver.inspect(other).await.unwrap(), UP);
    delete(subject, &*driver, one).await;
    assert_eq!(driver.inspect(other).await.unwrap(), UP);
    delete(subject, &*driver, other).await;
}

pub async fn what_is_absent_can_be_stopped_and_deleted_but_not_started(subject: &dyn Subject) {
    let driver = subject.driver();
    assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Already);
    assert!(driver.adopt(VM).await.unwrap().is_none());
    assert!(matches!(driver.start(VM, &log()).await, Err(Error::Absent { .. })));
    assert!(matches!(driver.apply_template(VM, &subject.template(1)).await, Err(Error::Absent { .. })));
    delete(subject, &*driver, VM).await;
}

pub async fn a_name_that_is_no_name_is_refused_everywhere(subject: &dyn Subject) {
    let driver = subject.driver();
    for vm in ["", "..", "../rd", "a/b", "-f", "_config", "A"] {
        let template = subject.template(1);
        let answers = [
            driver.inspect(vm).await.map(|_| ()),
            driver.template(vm).await.map(|_| ()),
            driver.create(vm, &template).await,
            driver.start(vm, &log()).await.map(|_| ()),
            driver.adopt(vm).await.map(|_| ()),
            driver.stop(vm, subject.grace()).await.map(|_| ()),
            driver.apply_template(vm, &template).await,
            driver.delete(vm).await,
        ];
        for answer in answers {
            assert!(matches!(answer, Err(Error::InvalidName { .. })), "{vm:?}: {answer:?}");
        }
    }
}
