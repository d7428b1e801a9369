//! Contract tests for templates.

use super::{Subject, UP, VM, delete, log, running, up};
use crate::{Error, Found, Health, Running, Stopped};

pub async fn a_bad_template_is_refused_with_reasons_and_changes_nothing(subject: &dyn Subject) {
    let driver = subject.driver();
    assert_eq!(driver.validate(&subject.template(1)), Ok(()));
    for bad in [subject.bad_template(), String::new(), "[".to_owned(), "- a\n".to_owned()] {
        let problems = driver.validate(&bad).unwrap_err();
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.trim().is_empty()), "{bad:?}");
        assert!(matches!(driver.create(VM, &bad).await, Err(Error::InvalidTemplate { .. })), "{bad:?}");
        assert_eq!(driver.inspect(VM).await.unwrap(), Found::Absent);
    }
    driver.create(VM, &subject.template(1)).await.unwrap();
    let answer = driver.apply_template(VM, &subject.bad_template()).await;
    assert!(matches!(answer, Err(Error::InvalidTemplate { .. })), "{answer:?}");
    assert_eq!(driver.template(VM).await.unwrap(), Some(subject.template(1)));
    delete(subject, &*driver, VM).await;
}

pub async fn an_edit_is_written_at_once_and_takes_effect_at_the_next_start(subject: &dyn Subject) {
    let driver = subject.driver();
    let run = running(subject, &*driver, VM).await;
    driver.apply_template(VM, &subject.template(2)).await.unwrap();
    assert_eq!(driver.template(VM).await.unwrap(), Some(subject.template(2)));
    assert!(run.is_watched(), "what runs goes on");
    let outdated = Found::Running(Running { outdated: true });
    assert_eq!(driver.inspect(VM).await.unwrap(), outdated);
    // The state is on disk: a daemon that was killed between the edit and the restart still reports it.
    drop(driver);
    let driver = subject.driver();
    assert_eq!(driver.inspect(VM).await.unwrap(), outdated);
    driver.apply_template(VM, &subject.template(1)).await.unwrap();
    assert_eq!(driver.inspect(VM).await.unwrap(), UP, "taken back");
    driver.apply_template(VM, &subject.template(2)).await.unwrap();
    assert_eq!(driver.stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
    let mut run = driver.start(VM, &log()).await.unwrap();
    assert_eq!(up(subject, &mut run).await, Health::GOOD);
    assert_eq!(driver.inspect(VM).await.unwrap(), UP);
    delete(subject, &*driver, VM).await;
}
