//! Observes everything that the plan of Kubernetes depends on.

use std::sync::Arc;

use kube::{Api, ResourceExt};
use rdd_driver::{Cluster, ClusterFound, Driver, Foundation};
use rdd_instance::Platform;
use rdd_runtime::{Context, Error, conditions};
use rdd_stdx::chain::Chain;
use rdd_types::app::{App, VM};

use super::{
    Parts,
    access::Access,
    contexts::Published,
    plan::{LOOK_AGAIN, Observed, Trouble, Wish, wish},
    prober::Answer,
    releases::Release,
    validity::doubt,
};
use crate::app::backend::vm_type_of;

/// Observes the current state. The App is read from the server: a decision on a stale copy would be reverted by the next reconcile.
pub(super) async fn observe(parts: &Parts, object: &Arc<App>, cx: &Context) -> Result<Observed, Error> {
    let apps: Api<App> = Api::all(cx.client.clone());
    // An App with another uid is a new one, for which the next reconcile runs.
    let app = apps.get_opt(&object.name_any()).await?.filter(|app| app.uid() == object.uid());
    let (app, is_gone) = app.map_or_else(|| (Arc::clone(object), true), |app| (Arc::new(app), false));
    let wish = if is_gone { Wish::Off } else { wish(&app) };
    let driver = driver_of(parts, &app);
    let cluster = driver.as_ref().ok().and_then(|driver| driver.kubernetes());
    let release = match &wish {
        Wish::Run(Some(version)) => parts.releases.look(version),
        _ => Release::Absent,
    };
    let found = find(&driver, cluster, &wish, &release).await;
    let port = parts.gate.port();
    let is_running = found.as_ref().is_ok_and(ClusterFound::is_running);
    let (upstream, access) = match (cluster.filter(|_| is_running), port) {
        (Some(cluster), Some(port)) => way_in(cluster, port).await,
        _ => (None, None),
    };
    let probe = access.as_ref().and_then(|access| parts.prober.latest(access));
    let wall = cx.clock.wall();
    let is_doubted = !is_running || access.as_ref().is_some_and(|access| doubt(access, probe.as_ref(), wall));
    // The data's certificates only matter before a start, or when a running cluster may fail because of them.
    let foundation = match (cluster, &wish) {
        (Some(cluster), Wish::Run(_)) if is_doubted => stands_on(cluster, &found).await,
        _ => None,
    };
    if !matches!(wish, Wish::Run(_)) {
        // Failures of an earlier wish say nothing about the next one.
        parts.memory.forget();
    } else if let Some(probe) = probe.as_ref().filter(|probe| probe.answer.is_healthy()) {
        parts.memory.clear_last_failure();
        // A healthy API alone is not enough: a cluster in a crash loop may answer for a moment.
        if probe.answer == Answer::Ready {
            parts.memory.clear_ends();
        }
    }
    Ok(Observed {
        port,
        route: parts.gate.route(),
        is_probing: parts.prober.target().is_some(),
        cluster: found,
        is_watched: parts.memory.is_watched(),
        failure: parts.memory.failure(),
        release,
        warning: match (cluster, &wish) {
            (Some(cluster), Wish::Run(Some(version))) => cluster.warning(VM, version),
            _ => None,
        },
        published: match &access {
            _ if !parts.contexts.is_there() => Published::Nothing,
            Some(access) if parts.memory.has_published(access, LOOK_AGAIN) => Published::AsWanted,
            _ => Published::Otherwise,
        },
        is_chosen: access.as_ref().is_some_and(|access| parts.memory.is_chosen_for(access)),
        renewed_for: parts.memory.renewed_for(),
        upstream,
        access,
        probe,
        foundation,
        wall,
        now: conditions::now(&*cx.clock),
        app,
        is_gone,
    })
}

/// The driver of this App's machine.
pub(super) fn driver_of(parts: &Parts, app: &App) -> Result<Arc<dyn Driver>, String> {
    let vm_type = vm_type_of(app.spec.backend, Platform::current());
    let driver = parts.drivers.of_type(vm_type);
    driver.cloned().ok_or_else(|| format!("there is no driver for vmType {vm_type:?} on this machine"))
}

async fn find(
    driver: &Result<Arc<dyn Driver>, String>,
    cluster: Option<&dyn Cluster>,
    wish: &Wish,
    release: &Release,
) -> Result<ClusterFound, Trouble> {
    let cluster = cluster.ok_or_else(|| match driver {
        Err(why) => Trouble::Lasting(why.clone()),
        Ok(_) => Trouble::Lasting("this backend cannot run Kubernetes".to_owned()),
    })?;
    let found = cluster.inspect(VM).await.map_err(trouble)?;
    // The check is about starting: a cluster that runs has passed it.
    if matches!(wish, Wish::Run(_)) && !found.is_running() {
        let program = match release {
            Release::Ready { program, .. } => Some(program.as_path()),
            _ => None,
        };
        cluster.check(VM, program).await.map_err(trouble)?;
    }
    Ok(found)
}

fn trouble(error: rdd_driver::Error) -> Trouble {
    let text = Chain(&error).to_string();
    if matches!(error, rdd_driver::Error::Unsupported { .. }) { Trouble::Lasting(text) } else { Trouble::Passing(text) }
}

/// The foundation of the cluster's data, if there is data. If it cannot be read, the next reconcile tries again.
async fn stands_on(cluster: &dyn Cluster, found: &Result<ClusterFound, Trouble>) -> Option<Foundation> {
    found.as_ref().ok()?.version()?;
    cluster.foundation(VM).await.unwrap_or_else(|error| {
        tracing::debug!(error = %Chain(&error), "nobody knows what Kubernetes stands on");
        None
    })
}

/// The destination for connections to a running cluster, and the access to it. A kubeconfig that is absent or incomplete counts as
/// absent.
async fn way_in(cluster: &dyn Cluster, port: u16) -> (Option<rdd_driver::Upstream>, Option<Access>) {
    let upstream = cluster.upstream(VM).await.unwrap_or_else(|error| {
        tracing::debug!(error = %Chain(&error), "nobody knows where Kubernetes is");
        None
    });
    let text = cluster.kubeconfig(VM).await.unwrap_or_else(|error| {
        tracing::debug!(error = %Chain(&error), "the kubeconfig of Kubernetes cannot be read");
        None
    });
    let access = text.and_then(|text| {
        let read = Access::parse(&text, port);
        read.inspect_err(
            |error| tracing::debug!(error = %Chain(error), "the kubeconfig of Kubernetes is of no use yet"),
        )
        .ok()
    });
    (upstream, access)
}
