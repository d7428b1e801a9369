//! Kubernetes in the fake's machines: clusters return the kubeconfig and address that a test sets.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{
    driver::Fake,
    script::{Op, When},
    world::{Process, World, lock},
};
use crate::{ClusterFound, Error, Foundation, Health, Pending, Run, State, Stopped, Upstream, Wanted};

/// The state of a machine's cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    data: Option<String>,
    foundation: Option<Foundation>,
    process: Option<Process>,
    starts: u32,
}

/// The behavior of clusters, as a test set it.
#[derive(Debug, Clone, Default)]
pub(super) struct Serves {
    /// Kubeconfigs by release; the empty key applies to all other releases.
    kubeconfigs: BTreeMap<String, String>,
    upstream: Option<Upstream>,
    dies: Option<String>,
    authority: Option<String>,
    unsupported: Option<String>,
    warning: Option<String>,
}

impl Cluster {
    pub(super) fn end(&mut self, last_words: &str) -> bool {
        match self.process.take() {
            Some(mut process) => {
                process.turn(State::Exited { last_words: last_words.to_owned() });
                true
            }
            None => false,
        }
    }

    pub(super) fn forget_watches_of(&mut self, number: u64) {
        if let Some(process) = &mut self.process {
            process.watches.retain(|(driver, _)| *driver != number);
        }
    }

    fn found(&self) -> ClusterFound {
        match (&self.process, &self.data) {
            (Some(process), _) => ClusterFound::Running { version: process.started_with.clone() },
            (None, Some(version)) => ClusterFound::Stopped { version: version.clone() },
            (None, None) => ClusterFound::Absent,
        }
    }
}

impl World {
    /// Sets the kubeconfig and the address of all clusters. Without a kubeconfig, clusters that start stay in
    /// [`State::Starting`].
    pub fn cluster_serves(&self, kubeconfig: Option<&str>, upstream: Option<Upstream>) {
        let mut inner = lock(&self.inner);
        // The empty key applies to every release.
        inner.clusters.kubeconfigs = kubeconfig.map(|text| (String::new(), text.to_owned())).into_iter().collect();
        inner.clusters.upstream = upstream;
        for machine in inner.machines.values_mut() {
            if let Some(process) = machine.cluster.process.as_mut().filter(|_| kubeconfig.is_some()) {
                process.turn(State::Running(Health::GOOD));
            }
        }
    }

    /// Sets the certificate authority of cluster data that is created from now on; `None` for no authority.
    pub fn clusters_stand_on(&self, authority: Option<&str>) {
        lock(&self.inner).clusters.authority = authority.map(str::to_owned);
    }

    /// The certificate authority of this machine's cluster data.
    pub fn cluster_stands_on(&self, vm: &str) -> Option<String> {
        Some(lock(&self.inner).machines.get(vm)?.cluster.foundation.as_ref()?.authority.clone())
    }

    /// Makes [`Cluster::check`](crate::Cluster::check) fail with this missing requirement; `None` makes it succeed.
    pub fn clusters_need(&self, missing: Option<&str>) {
        lock(&self.inner).clusters.unsupported = missing.map(str::to_owned);
    }

    /// Sets the warning that clusters return.
    pub fn clusters_warn(&self, warning: Option<&str>) {
        lock(&self.inner).clusters.warning = warning.map(str::to_owned);
    }

    /// Makes clusters that start from now on end at once with these last words; `None` keeps them running.
    pub fn clusters_die(&self, last_words: Option<&str>) {
        lock(&self.inner).clusters.dies = last_words.map(str::to_owned);
    }

    /// Ends a running cluster. Returns `false` if it does not run.
    pub fn cluster_dies(&self, vm: &str, last_words: &str) -> bool {
        let mut inner = lock(&self.inner);
        inner.machines.get_mut(vm).is_some_and(|machine| machine.cluster.end(last_words))
    }

    /// The state of a machine's cluster, without recording a call.
    pub fn cluster(&self, vm: &str) -> ClusterFound {
        lock(&self.inner).machines.get(vm).map_or(ClusterFound::Absent, |machine| machine.cluster.found())
    }

    /// How many times a machine's cluster was started.
    pub fn cluster_starts(&self, vm: &str) -> u32 {
        lock(&self.inner).machines.get(vm).map_or(0, |machine| machine.cluster.starts)
    }
}

impl Fake {
    fn begin_cluster(&self, vm: &str, wanted: &Wanted) -> Result<Run, Error> {
        self.change(|inner| {
            let serves = inner.clusters.clone();
            let machine = inner.machines.get_mut(vm).ok_or_else(|| Error::Absent { vm: vm.to_owned() })?;
            if machine.process.is_none() {
                return Err(Error::NotRunning { vm: vm.to_owned() });
            }
            let cluster = &mut machine.cluster;
            if cluster.process.as_ref().is_some_and(|process| process.started_with != wanted.version) {
                // As in real drivers, another release replaces the running one.
                cluster.end("replaced");
            }
            if cluster.process.is_none() {
                let state = if serves.kubeconfigs.is_empty() { State::Starting } else { State::Running(Health::GOOD) };
                let started_with = wanted.version.clone();
                if cluster.data.is_none() {
                    // Only new data gets a new authority; existing data keeps its own.
                    let made = |authority| Foundation { authority, is_new: true };
                    cluster.foundation = serves.authority.clone().map(made);
                }
                cluster.data = Some(started_with.clone());
                cluster.starts += 1;
                cluster.process = Some(Process { started_with, state, watches: Vec::new() });
            }
            let process = cluster.process.as_mut().ok_or_else(|| Error::NotRunning { vm: vm.to_owned() })?;
            let run = process.watch(self.number);
            // The watch exists already, so the caller observes the end.
            if let Some(last_words) = serves.dies {
                cluster.end(&last_words);
            }
            Ok(run)
        })
    }
}

impl crate::Cluster for Fake {
    fn used_release(&self, vm: &str) -> Option<String> {
        self.change(|inner| inner.machines.get(vm)?.cluster.data.clone())
    }

    fn warning(&self, _vm: &str, _version: &str) -> Option<String> {
        self.change(|inner| inner.clusters.warning.clone())
    }

    fn started_at<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Duration>, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterLook, vm, None).await?;
            asked.done(self.change(|inner| {
                let cluster = &inner.machines.get(vm)?.cluster;
                cluster.process.as_ref()?;
                // A fictitious time that differs between starts.
                Some(Duration::from_secs(cluster.starts.into()))
            }))
        })
    }

    fn check<'a>(&'a self, vm: &'a str, _program: Option<&'a Path>) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterLook, vm, None).await?;
            match self.change(|inner| inner.clusters.unsupported.clone()) {
                Some(missing) => Err(Error::Unsupported { missing, remedy: "do without".to_owned() }),
                None => asked.done(()),
            }
        })
    }

    fn inspect<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<ClusterFound, Error>> {
        Box::pin(async move { self.asked(Op::ClusterLook, vm, None).await?.done(self.world.cluster(vm)) })
    }

    fn start<'a>(&'a self, vm: &'a str, wanted: &'a Wanted) -> Pending<'a, Result<Run, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterStart, vm, None).await?;
            let run = self.begin_cluster(vm, wanted)?;
            asked.done(run)
        })
    }

    fn stop<'a>(&'a self, vm: &'a str, _grace: Duration) -> Pending<'a, Result<Stopped, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterStop, vm, None).await?;
            if asked.is(When::Halfway) {
                return Err(asked.failure());
            }
            let ended = self.change(|inner| inner.machines.get_mut(vm).is_some_and(|one| one.cluster.end("stopped")));
            asked.done(if ended { Stopped::Graceful } else { Stopped::Already })
        })
    }

    fn kubeconfig<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<String>, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterLook, vm, None).await?;
            let text = self.change(|inner| {
                let version = inner.machines.get(vm)?.cluster.process.as_ref()?.started_with.clone();
                let all = &inner.clusters.kubeconfigs;
                // A kubeconfig for this release takes precedence over the general one.
                all.get(&version).or_else(|| all.get("")).cloned()
            });
            asked.done(text)
        })
    }

    fn upstream<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Upstream>, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterLook, vm, None).await?;
            let upstream = self.change(|inner| {
                inner.machines.get(vm)?.cluster.process.as_ref()?;
                inner.clusters.upstream.clone()
            });
            asked.done(upstream)
        })
    }

    fn foundation<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<Option<Foundation>, Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterLook, vm, None).await?;
            asked.done(self.change(|inner| inner.machines.get(vm)?.cluster.foundation.clone()))
        })
    }

    fn confirm<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterConfirm, vm, None).await?;
            self.change(|inner| {
                let found = inner.machines.get_mut(vm).and_then(|machine| machine.cluster.foundation.as_mut());
                if let Some(foundation) = found {
                    foundation.is_new = false;
                }
            });
            asked.done(())
        })
    }

    fn reset<'a>(&'a self, vm: &'a str) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let asked = self.asked(Op::ClusterReset, vm, None).await?;
            self.change(|inner| {
                if let Some(machine) = inner.machines.get_mut(vm) {
                    machine.cluster.end("forgotten");
                    (machine.cluster.data, machine.cluster.foundation) = (None, None);
                }
            });
            asked.done(())
        })
    }
}
