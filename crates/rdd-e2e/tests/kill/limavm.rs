//! Kill scenarios of the LimaVM controller, with the host driver and its own engine.

use rdd_controllers::limavm;
use serde_json::{Value, json};

use crate::{
    Scenario,
    life::{Life, object, says},
    remains,
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const VMS: &str = "/apis/lima.rancherdesktop.io/v1alpha1/namespaces/default/limavms";
pub(crate) const VM: &str = "/apis/lima.rancherdesktop.io/v1alpha1/namespaces/default/limavms/box";
const CONTAINERD: &str = "vmType: host\nparam:\n  CONTAINER_ENGINE: containerd\n";
pub(crate) const MOBY: &str = "vmType: host\nparam:\n  CONTAINER_ENGINE: moby\n";

pub(crate) fn scenarios() -> Vec<Scenario> {
    let plain = || Scenario { controller: limavm::NAME, machine: Some("box"), ..Scenario::PLAIN };
    vec![
        Scenario {
            name: "a machine is left running by a daemon that is killed, taken over, and deleted as it runs",
            steps: &["adopt", "delete"],
            needs_engine: true,
            live: live_left,
            ..plain()
        },
        Scenario {
            name: "a machine is restarted on request, and for a new template",
            steps: &["clear-restart-request", "apply-template"],
            needs_engine: true,
            live: live_restarted,
            ..plain()
        },
        Scenario {
            name: "the same, killed when the old run of it is to end for the new template",
            steps: &["stop"],
            nth: 2,
            is_another: true,
            needs_engine: true,
            live: live_restarted,
            ..plain()
        },
        Scenario {
            name: "the same, killed when the run with the new template is to begin",
            steps: &["start"],
            nth: 3,
            is_another: true,
            needs_engine: true,
            live: live_restarted,
            ..plain()
        },
        Scenario {
            name: "a machine starts and stops",
            steps: &["start", "stop"],
            needs_engine: true,
            live: live_started,
            ..plain()
        },
        Scenario {
            name: "a machine is made, loses its finalizer, and is deleted, and never runs",
            steps: &["ensure-finalizer", "claim-template", "write-status", "create", "sweep", "release"],
            live: live_stopped,
            ..plain()
        },
    ]
}

/// Creates a LimaVM with its template.
pub(crate) fn begin(life: &mut Life<'_>, template: &str, running: bool) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "box"}, "data": {"template": template},
    });
    life.make(MAPS, &map);
    let spec = json!({"running": running, "templateRef": {"name": "box"}});
    life.make(VMS, &object("lima.rancherdesktop.io", "LimaVM", "box", &spec));
}

fn make(life: &mut Life<'_>, template: &str, running: bool) {
    begin(life, template, running);
    until_running(life, running);
}

pub(crate) fn until_running(life: &mut Life<'_>, running: bool) -> Value {
    let status = if running { "True" } else { "False" };
    life.until("the machine to be as it is wanted", |api| {
        let vm = api.get(VM)?;
        says(&vm, "Created", "True")?;
        says(&vm, "Running", status)?;
        let conditions = vm["status"]["conditions"].as_array().into_iter().flatten();
        let is_stopped = conditions.into_iter().any(|one| one["reason"] == "Stopped");
        let needs_restart = vm["status"]["restartNeeded"] == true;
        if (running || is_stopped) && !needs_restart { Ok(vm) } else { Err(vm["status"].to_string()) }
    })
}

fn run(life: &mut Life<'_>, running: bool) {
    life.merge(VM, &json!({"spec": {"running": running}}));
    until_running(life, running);
}

/// Deletes the LimaVM with its template and the ConfigMap.
pub(crate) fn delete(life: &mut Life<'_>) {
    life.delete(VM);
    life.until("the end of the template", |api| api.is_gone(&format!("{MAPS}/box-template")));
    life.delete(&format!("{MAPS}/box"));
}

fn live_stopped(life: &mut Life<'_>) {
    make(life, MOBY, false);
    life.mark("made");
    // Users should not do this, but anyone who can write to it may: the LimaVM would be deleted without its folder.
    life.merge(VM, &json!({"metadata": {"finalizers": null}}));
    life.until("its finalizer", |api| {
        let vm = api.get(VM)?;
        let finalizers = vm["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if finalizers.contains(&json!("rdd.rancherdesktop.io/cleanup")) { Ok(()) } else { Err(vm.to_string()) }
    });
    life.mark("held");
    delete(life);
}

fn live_started(life: &mut Life<'_>) {
    make(life, CONTAINERD, true);
    life.mark("running");
    assert_eq!(remains::programs(&life.engine()), ["containerd"]);
    run(life, false);
    life.mark("stopped");
    assert_eq!(remains::programs(&life.engine()), [""; 0]);
    delete(life);
}

fn live_restarted(life: &mut Life<'_>) {
    make(life, CONTAINERD, true);
    let first = remains::processes(&life.engine());
    life.merge(VM, &json!({"metadata": {"annotations": {"lima.rancherdesktop.io/restartRequested": "now"}}}));
    let second = another_run(life, &first, None);
    let template = json!({"data": {"template": format!("{CONTAINERD}  CHANGED: \"true\"\n")}});
    life.merge(&format!("{MAPS}/box-template"), &template);
    let version = life.until("the new template", |api| {
        let map = api.get(&format!("{MAPS}/box-template"))?;
        Ok::<_, String>(map["metadata"]["resourceVersion"].clone())
    });
    another_run(life, &second, Some(&version));
    life.mark("restarted");
    delete(life);
}

/// Waits until the VM has been restarted: no restart is requested any more, and the processes have changed. With a template of a version,
/// no condition reports that it is in effect before it is.
fn another_run(life: &mut Life<'_>, before: &[(u32, String)], template: Option<&Value>) -> Vec<(u32, String)> {
    let engine = life.engine();
    life.until("another run", |api| {
        let vm = api.get(VM)?;
        let now = remains::processes(&engine);
        let is_said = template == Some(&vm["status"]["observedTemplateResourceVersion"]);
        assert!(!is_said || now.iter().all(|process| !before.contains(process)), "{now:?} runs with the old one: {vm}");
        let is_asked = !vm["metadata"]["annotations"]["lima.rancherdesktop.io/restartRequested"].is_null();
        let is_new = !now.is_empty() && now.iter().all(|process| !before.contains(process));
        if is_new && !is_asked { Ok(()) } else { Err(format!("{now:?} {vm}")) }
    });
    let vm = until_running(life, true);
    let observed = &vm["status"]["observedTemplateResourceVersion"];
    assert!(template.is_none_or(|version| version == observed), "it is in effect: {vm}");
    remains::processes(&engine)
}

fn live_left(life: &mut Life<'_>) {
    make(life, MOBY, true);
    let before = remains::processes(&life.engine());
    life.kill();
    let vm = until_running(life, true);
    assert_eq!(vm["status"]["restartCount"], 1, "a start is counted, and to take over is none: {vm}");
    assert_eq!(remains::processes(&life.engine()), before, "what ran goes on");
    life.mark("taken over");
    delete(life);
}
