//! Kill scenarios of the Kubernetes controller, with an engine and a stand-in for K3s.

use std::fs;

use rdd_controllers::kubernetes;
use rdd_types::names::annotation::RESET_KUBERNETES;
use serde_json::{Value, json};

use crate::{
    Scenario,
    life::{Life, object, says},
    standin,
};

const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
const NAMESPACE: &str = "/api/v1/namespaces/desk";
/// The version of the channel `stable`.
const STABLE: &str = "v1.34.6+k3s1";

pub(crate) fn scenarios() -> Vec<Scenario> {
    let plain = || Scenario {
        controller: kubernetes::NAME,
        needs_engine: true,
        has_releases: true,
        machine: Some("rd"),
        ..Scenario::PLAIN
    };
    vec![
        Scenario {
            name: "Kubernetes is enabled, renewed, reset and disabled",
            steps: &[
                "bind-port",
                "close-port",
                "connect",
                "start-cluster",
                "stop-cluster",
                "restart-cluster",
                "reset-cluster",
                "clear-request",
                "probe",
                "publish",
                "withdraw",
                "choose-current",
                "write-status",
            ],
            live: live_whole,
            ..plain()
        },
        Scenario {
            name: "a release that cannot be had turns up in the folder",
            steps: &["fetch"],
            live: live_fetched,
            ..plain()
        },
        Scenario {
            name: "a cluster of the future is made anew",
            steps: &["remake-cluster"],
            live: live_remade,
            ..plain()
        },
    ]
}

/// Puts a release into the folder that the daemon checks first.
fn offer(life: &Life<'_>, behaviour: &Value) {
    let folder = life.releases().join(STABLE);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("version"), STABLE).unwrap();
    fs::write(folder.join("behaviour.json"), behaviour.to_string()).unwrap();
    // The program comes last, with a rename: it exists completely or not at all.
    fs::copy(standin::program(), folder.join("k3s.new")).unwrap();
    fs::rename(folder.join("k3s.new"), folder.join("k3s")).unwrap();
}

fn make(life: &mut Life<'_>) {
    let spec = json!({"running": true, "backend": "host", "namespace": "desk"});
    life.make(APPS, &object("app.rancherdesktop.io", "App", "app", &spec));
    settle(life);
}

fn enable(life: &mut Life<'_>, enabled: bool) {
    life.merge(APP, &json!({"spec": {"kubernetes": {"enabled": enabled}}}));
}

fn settle(life: &mut Life<'_>) {
    life.until("the App to settle", |api| says(&api.get(APP)?, "Settled", "True"));
}

fn ready(life: &mut Life<'_>) {
    life.until("Kubernetes", |api| says(&api.get(APP)?, "KubernetesReady", "True"));
    settle(life);
}

fn delete(life: &mut Life<'_>) {
    life.delete(APP);
    life.until("the end of its namespace", |api| api.is_gone(NAMESPACE));
}

fn live_whole(life: &mut Life<'_>) {
    // Its certificates expire so soon that it is restarted, once.
    offer(life, &json!({"certificateDays": 20}));
    make(life);
    enable(life, true);
    ready(life);
    life.mark("ready");
    life.merge(APP, &json!({"metadata": {"annotations": {RESET_KUBERNETES: "now"}}}));
    life.until("the end of the request", |api| {
        let app = api.get(APP)?;
        if app["metadata"]["annotations"][RESET_KUBERNETES].is_null() { Ok(()) } else { Err(app.to_string()) }
    });
    ready(life);
    life.mark("reset");
    enable(life, false);
    settle(life);
    life.mark("disabled");
    delete(life);
}

fn live_fetched(life: &mut Life<'_>) {
    make(life);
    enable(life, true);
    life.until("it to be missed", |api| {
        let app = api.get(APP)?;
        let conditions = app["status"]["conditions"].as_array().into_iter().flatten();
        let is_missed = |one: &Value| one["reason"].as_str().is_some_and(|reason| reason.starts_with("Download"));
        if conditions.into_iter().any(is_missed) { Ok(()) } else { Err(app["status"].to_string()) }
    });
    offer(life, &json!({}));
    ready(life);
    life.mark("ready");
    delete(life);
}

fn live_remade(life: &mut Life<'_>) {
    // Its clock is ahead when it creates its first certificates.
    offer(life, &json!({"clockAhead": 400_u64 * 24 * 3600 * 1000, "clockAheadOnce": true}));
    make(life);
    enable(life, true);
    ready(life);
    life.mark("ready");
    delete(life);
}
