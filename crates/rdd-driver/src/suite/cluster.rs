//! The contract tests for Kubernetes in machines.

use std::path::PathBuf;

use super::{Subject, VM, delete, exited, running, up};
use crate::{Cluster, ClusterFound, Driver, Error, Foundation, Run, Stopped, Upstream, Wanted};

/// A test subject whose machines can run clusters.
pub trait ClusterSubject: Subject {
    /// The spec of a release; different numbers give different releases, a higher number a newer one.
    fn release(&self, number: u32) -> Wanted;

    /// Kills a cluster's process from outside.
    fn crash_cluster(&self, vm: &str);

    /// An identifier of the machine's running engine; it changes when the engine restarts.
    fn engine_identity(&self, vm: &str) -> String;
}

/// Generates a test for each rule of the cluster contract; see [`contract!`](crate::contract).
#[macro_export]
macro_rules! cluster_contract {
    ($subject:expr) => {
        $crate::contract!(@tests $subject;
            cluster: a_cluster_comes_and_goes_without_a_restart_of_the_engine,
            cluster: a_cluster_needs_a_machine_that_runs_and_ends_with_it,
            cluster: another_release_replaces_the_cluster_and_nothing_else,
            cluster: a_cluster_that_dies_is_told_and_can_be_started_again,
            cluster: a_cluster_outlives_its_driver_and_is_taken_over_by_the_next,
            cluster: a_reset_forgets_the_cluster_and_keeps_the_machine,
            cluster: a_cluster_of_a_stopped_machine_can_be_forgotten,
            cluster: what_nobody_can_have_used_is_known_until_it_is_confirmed,
        );
    };
}

fn cluster(driver: &dyn Driver) -> &dyn Cluster {
    driver.kubernetes().expect("a driver with Kubernetes")
}

async fn started(subject: &dyn ClusterSubject, driver: &dyn Driver, number: u32) -> Run {
    let mut run = cluster(driver).start(VM, &subject.release(number)).await.unwrap();
    assert!(!up(subject, &mut run).await.is_degraded());
    run
}

fn runs(subject: &dyn ClusterSubject, number: u32) -> ClusterFound {
    ClusterFound::Running { version: subject.release(number).version }
}

pub async fn a_cluster_comes_and_goes_without_a_restart_of_the_engine(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    let engine = subject.engine_identity(VM);
    let kubernetes = cluster(&*driver);
    kubernetes.check(VM, Some(&subject.release(1).program)).await.unwrap();
    assert_eq!(kubernetes.inspect(VM).await.unwrap(), ClusterFound::Absent);
    assert_eq!(kubernetes.used_release(VM), None);
    assert_eq!(kubernetes.started_at(VM).await.unwrap(), None);
    assert_eq!(kubernetes.stop(VM, subject.grace()).await.unwrap(), Stopped::Already);
    for _ in 0..2 {
        started(subject, &*driver, 1).await;
        started(subject, &*driver, 1).await;
        assert_eq!(kubernetes.inspect(VM).await.unwrap(), runs(subject, 1));
        assert_eq!(kubernetes.used_release(VM), Some(subject.release(1).version));
        assert!(kubernetes.started_at(VM).await.unwrap().is_some_and(|at| !at.is_zero()));
        assert!(kubernetes.kubeconfig(VM).await.unwrap().unwrap().contains("clusters"));
        match kubernetes.upstream(VM).await.unwrap().unwrap() {
            Upstream::Tcp(address) => assert_ne!(address.port(), 0),
            Upstream::Unix(path) => assert_ne!(path, PathBuf::new()),
        }
        assert_eq!(kubernetes.stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
        assert_eq!(kubernetes.upstream(VM).await.unwrap(), None);
        assert_eq!(kubernetes.kubeconfig(VM).await.unwrap(), None);
        let stopped = ClusterFound::Stopped { version: subject.release(1).version };
        assert_eq!(kubernetes.inspect(VM).await.unwrap(), stopped);
        assert_eq!(kubernetes.used_release(VM), Some(subject.release(1).version));
        assert_eq!(kubernetes.started_at(VM).await.unwrap(), None);
    }
    assert_eq!(subject.engine_identity(VM), engine);
    delete(subject, &*driver, VM).await;
    assert_eq!(kubernetes.inspect(VM).await.unwrap(), ClusterFound::Absent);
}

pub async fn a_cluster_needs_a_machine_that_runs_and_ends_with_it(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    driver.create(VM, &subject.template(1)).await.unwrap();
    let refused = cluster(&*driver).start(VM, &subject.release(1)).await.unwrap_err();
    assert!(matches!(refused, Error::NotRunning { .. }), "{refused}");
    running(subject, &*driver, VM).await;
    let mut run = started(subject, &*driver, 1).await;
    driver.stop(VM, subject.grace()).await.unwrap();
    exited(subject, &mut run).await;
    assert!(!cluster(&*driver).inspect(VM).await.unwrap().is_running());
    delete(subject, &*driver, VM).await;
}

pub async fn another_release_replaces_the_cluster_and_nothing_else(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    let engine = subject.engine_identity(VM);
    let mut old = started(subject, &*driver, 1).await;
    started(subject, &*driver, 2).await;
    exited(subject, &mut old).await;
    assert_eq!(cluster(&*driver).inspect(VM).await.unwrap(), runs(subject, 2));
    assert_eq!(subject.engine_identity(VM), engine);
    delete(subject, &*driver, VM).await;
}

pub async fn a_cluster_that_dies_is_told_and_can_be_started_again(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    let engine = subject.engine_identity(VM);
    let mut run = started(subject, &*driver, 1).await;
    subject.crash_cluster(VM);
    assert_ne!(exited(subject, &mut run).await, "");
    assert!(!cluster(&*driver).inspect(VM).await.unwrap().is_running());
    started(subject, &*driver, 1).await;
    assert_eq!(subject.engine_identity(VM), engine);
    delete(subject, &*driver, VM).await;
}

pub async fn a_cluster_outlives_its_driver_and_is_taken_over_by_the_next(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    started(subject, &*driver, 1).await;
    let (config, upstream) =
        (cluster(&*driver).kubeconfig(VM).await.unwrap(), cluster(&*driver).upstream(VM).await.unwrap());
    let began = cluster(&*driver).started_at(VM).await.unwrap();
    drop(driver);
    let driver = subject.driver();
    driver.adopt(VM).await.unwrap().expect("the engine");
    assert_eq!(cluster(&*driver).inspect(VM).await.unwrap(), runs(subject, 1));
    started(subject, &*driver, 1).await;
    assert_eq!(cluster(&*driver).kubeconfig(VM).await.unwrap(), config, "it was not started anew");
    assert_eq!(cluster(&*driver).upstream(VM).await.unwrap(), upstream);
    assert_eq!(cluster(&*driver).started_at(VM).await.unwrap(), began, "nor called so");
    assert_eq!(cluster(&*driver).stop(VM, subject.grace()).await.unwrap(), Stopped::Graceful);
    delete(subject, &*driver, VM).await;
}

pub async fn a_reset_forgets_the_cluster_and_keeps_the_machine(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    let engine = subject.engine_identity(VM);
    started(subject, &*driver, 2).await;
    for _ in 0..2 {
        cluster(&*driver).reset(VM).await.unwrap();
        assert_eq!(cluster(&*driver).inspect(VM).await.unwrap(), ClusterFound::Absent);
        assert_eq!(cluster(&*driver).used_release(VM), None, "so that any release may come next");
    }
    assert_eq!(subject.engine_identity(VM), engine);
    started(subject, &*driver, 1).await;
    delete(subject, &*driver, VM).await;
}

pub async fn what_nobody_can_have_used_is_known_until_it_is_confirmed(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    let kubernetes = cluster(&*driver);
    assert_eq!(kubernetes.foundation(VM).await.unwrap(), None);
    for number in [1, 2] {
        started(subject, &*driver, number).await;
        let made = kubernetes.foundation(VM).await.unwrap().expect("it stands on something");
        assert!(made.is_new && made.authority.contains("CERTIFICATE"), "{made:?}");
        kubernetes.stop(VM, subject.grace()).await.unwrap();
        assert_eq!(kubernetes.foundation(VM).await.unwrap(), Some(made.clone()), "whether it runs or not");
        started(subject, &*driver, number + 1).await;
        assert!(
            kubernetes.foundation(VM).await.unwrap().is_some_and(|found| found.is_new),
            "another start uses nothing"
        );
        // Twice, because confirm must be idempotent.
        for _ in 0..2 {
            kubernetes.confirm(VM).await.unwrap();
        }
        kubernetes.stop(VM, subject.grace()).await.unwrap();
        started(subject, &*driver, number + 1).await;
        let used = Foundation { is_new: false, ..made };
        assert_eq!(subject.driver().kubernetes().unwrap().foundation(VM).await.unwrap(), Some(used), "for good");
        kubernetes.reset(VM).await.unwrap();
        assert_eq!(kubernetes.foundation(VM).await.unwrap(), None);
    }
    delete(subject, &*driver, VM).await;
}

pub async fn a_cluster_of_a_stopped_machine_can_be_forgotten(subject: &impl ClusterSubject) {
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    started(subject, &*driver, 2).await;
    cluster(&*driver).confirm(VM).await.unwrap();
    driver.stop(VM, subject.grace()).await.unwrap();
    for _ in 0..2 {
        cluster(&*driver).reset(VM).await.unwrap();
        assert_eq!(cluster(&*driver).inspect(VM).await.unwrap(), ClusterFound::Absent);
        assert_eq!(cluster(&*driver).used_release(VM), None);
    }
    drop(driver);
    let driver = subject.driver();
    running(subject, &*driver, VM).await;
    assert_eq!(cluster(&*driver).inspect(VM).await.unwrap(), ClusterFound::Absent);
    started(subject, &*driver, 1).await;
    let made = cluster(&*driver).foundation(VM).await.unwrap().expect("it stands on something");
    assert!(made.is_new, "nothing is left of the old one");
    cluster(&*driver).stop(VM, subject.grace()).await.unwrap();
    started(subject, &*driver, 1).await;
    assert_eq!(cluster(&*driver).foundation(VM).await.unwrap(), Some(made), "it is forgotten once");
    delete(subject, &*driver, VM).await;
}
