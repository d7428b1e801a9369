//! Executes the steps of Kubernetes. Each is safe to repeat.

use std::{io, time::Duration};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use rdd_driver::{Driver, Wanted};
use rdd_runtime::{Context, Error};
use rdd_stdx::chain::Chain;
use rdd_types::{
    app::{App, VM},
    names::{annotation, field_manager},
};
use serde_json::json;

use super::{
    Parts,
    observe::driver_of,
    plan::{Observed, Step},
};

/// How long a cluster gets to stop gracefully.
const STOP_GRACE: Duration = Duration::from_secs(20);

pub(super) async fn act(parts: &Parts, step: &Step, seen: &Observed, cx: &Context) -> Result<(), Error> {
    match step {
        Step::BindPort => bind(parts, seen).await.map_err(|error| Error::because("bind a port on loopback", error)),
        Step::ClosePort => {
            parts.gate.release();
            Ok(())
        }
        Step::Connect(upstream) => {
            if upstream.is_none() {
                parts.prober.stop();
            }
            parts.gate.connect(upstream.clone());
            Ok(())
        }
        Step::Fetch(version) => {
            parts.releases.fetch(version, cx.trigger());
            Ok(())
        }
        Step::StartCluster(wanted) => start(parts, seen, wanted, cx).await,
        Step::StopCluster => stop(parts, seen).await,
        Step::RestartCluster(wanted, why, end) => {
            tracing::warn!(why, "Kubernetes is started anew");
            stop(parts, seen).await?;
            parts.memory.note_renewal(*end);
            start(parts, seen, wanted, cx).await
        }
        Step::ResetCluster => reset(parts, seen).await,
        Step::RemakeCluster(why) => remake(parts, seen, why).await,
        Step::ClearRequest => clear_request(seen, cx).await,
        Step::Probe(access) => {
            parts.prober.watch(access, started_at(parts, seen).await, cx.trigger());
            Ok(())
        }
        Step::Publish(access) => {
            // Before the publication: from then on, the data may be a user's, and the cluster must not be recreated.
            if !parts.memory.has_published_any() {
                confirm(parts, seen).await?;
            }
            parts.contexts.publish(access).await.map_err(Error::message)?;
            parts.memory.note_publication(Some(access));
            Ok(())
        }
        Step::Withdraw => {
            // Before the withdrawal: if it fails halfway, nothing counts as published.
            parts.memory.note_choice(None);
            parts.memory.note_publication(None);
            let withdrawn = parts.contexts.withdraw().await;
            withdrawn.map_err(|why| Error::message(format!("withdraw the Kubernetes context: {why}")))
        }
        Step::ChooseCurrent(access) => {
            parts.contexts.choose_current().await.map_err(Error::message)?;
            parts.memory.note_choice(Some(access));
            Ok(())
        }
        Step::WriteStatus(status) => cx.apply_status(&*seen.app, status).await.map(drop),
    }
}

/// Binds a port on loopback, preferably the one that was published last, because clients may still use it.
async fn bind(parts: &Parts, seen: &Observed) -> io::Result<()> {
    let last = seen.app.status.as_ref().map(|status| status.kubernetes_port).unwrap_or_default();
    let last = u16::try_from(last).unwrap_or_default();
    parts.gate.hold([last, parts.first_port]).await.map(drop)
}

async fn start(parts: &Parts, seen: &Observed, wanted: &Wanted, cx: &Context) -> Result<(), Error> {
    let driver = driver(parts, seen)?;
    let cluster = driver.kubernetes().ok_or_else(|| Error::message("this backend cannot run Kubernetes"))?;
    // The end of the earlier run must not count as a failure.
    parts.memory.let_go();
    parts.memory.note_publication(None);
    parts.prober.stop();
    let run = cluster.start(VM, wanted).await.map_err(|error| Error::because("start K3s", error))?;
    parts.memory.watch(run, &wanted.version, cx.trigger());
    Ok(())
}

/// When the cluster was started. If it is unknown, a heartbeat counts once it has changed.
async fn started_at(parts: &Parts, seen: &Observed) -> Option<Duration> {
    let driver = driver(parts, seen).ok()?;
    let asked = driver.kubernetes()?.started_at(VM).await;
    asked
        .inspect_err(|error| tracing::debug!(error = %Chain(error), "the start of Kubernetes is not known"))
        .ok()
        .flatten()
}

async fn stop(parts: &Parts, seen: &Observed) -> Result<(), Error> {
    let driver = driver(parts, seen)?;
    parts.memory.let_go();
    parts.prober.stop();
    match driver.kubernetes() {
        Some(cluster) => {
            cluster.stop(VM, STOP_GRACE).await.map(drop).map_err(|error| Error::because("stop Kubernetes", error))
        }
        None => Ok(()),
    }
}

async fn reset(parts: &Parts, seen: &Observed) -> Result<(), Error> {
    let driver = driver(parts, seen)?;
    parts.memory.let_go();
    parts.memory.forget();
    parts.prober.stop();
    // First the copy of the kubeconfig: its credentials are useless without the cluster.
    parts.contexts.remove_cluster_config().map_err(Error::message)?;
    match driver.kubernetes() {
        Some(cluster) => cluster.reset(VM).await.map_err(|error| Error::because("forget the cluster", error)),
        None => Ok(()),
    }
}

/// Deletes a cluster that no user can have used. The next reconcile creates another one, with backoff.
async fn remake(parts: &Parts, seen: &Observed, why: &str) -> Result<(), Error> {
    tracing::warn!(why, "Kubernetes is made anew");
    let driver = driver(parts, seen)?;
    parts.memory.let_go();
    parts.prober.stop();
    if let Some(cluster) = driver.kubernetes() {
        cluster.reset(VM).await.map_err(|error| Error::because("forget the cluster", error))?;
    }
    parts.memory.note_failure(why);
    Ok(())
}

async fn confirm(parts: &Parts, seen: &Observed) -> Result<(), Error> {
    match driver(parts, seen)?.kubernetes() {
        Some(cluster) => cluster.confirm(VM).await.map_err(|error| Error::because("confirm the cluster", error)),
        None => Ok(()),
    }
}

fn driver(parts: &Parts, seen: &Observed) -> Result<std::sync::Arc<dyn Driver>, Error> {
    driver_of(parts, &seen.app).map_err(Error::message)
}

/// Removes the request that was observed. The write fails if the object has changed: a newer request stays.
async fn clear_request(seen: &Observed, cx: &Context) -> Result<(), Error> {
    let apps: Api<App> = Api::all(cx.client.clone());
    let metadata = json!({"uid": seen.app.uid(), "resourceVersion": seen.app.resource_version(),
                          "annotations": {annotation::RESET_KUBERNETES: null}});
    let parameters = PatchParams { field_manager: Some(field_manager::RDD.to_owned()), ..PatchParams::default() };
    apps.patch(&seen.app.name_any(), &parameters, &Patch::Merge(json!({ "metadata": metadata }))).await?;
    Ok(())
}
