//! An instance with the product's CRDs, and a fake controller that behaves as the test requires.

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rdd_client::{
    http::{Client, Content},
    kubeconfig::Kubeconfig,
};
use rdd_testkit::{Output, Sandbox, SandboxBuilder, eventually};
use rdd_types::{CustomResourceExt, app::App, lima::LimaVM};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(30);

pub(crate) const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
pub(crate) const VMS: &str = "/apis/lima.rancherdesktop.io/v1alpha1/namespaces/default/limavms";

/// How the fake controller treats the App.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It does nothing.
    Idle,
    /// It reports progress but never finishes.
    Dawdle,
    /// It reaches the desired state.
    Settle,
    /// It fails.
    Fail,
}

/// An instance without controllers of its own, and the fake controller.
pub(crate) struct Product {
    sandbox: Sandbox,
    api: Arc<Api>,
    manner: Arc<Mutex<Manner>>,
    ends: Arc<AtomicBool>,
    controller: Option<JoinHandle<()>>,
}

impl Deref for Product {
    type Target = Sandbox;

    fn deref(&self) -> &Sandbox {
        &self.sandbox
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(controller) = self.controller.take() {
            controller.join().unwrap();
        }
    }
}

/// A sandbox whose commands log at the level info.
pub(crate) fn talkative() -> SandboxBuilder {
    Sandbox::builder().env("RDD_LOG_LEVEL", "info")
}

impl Product {
    /// Starts the daemon, creates the CRDs, and runs a fake controller with this behaviour.
    pub(crate) fn start(manner: Manner) -> Self {
        Self::start_in(talkative().build(), manner)
    }

    pub(crate) fn start_in(sandbox: Sandbox, manner: Manner) -> Self {
        let product = Self::without_definitions(sandbox, manner);
        for definition in [app_definition(), vm_definition()] {
            let made =
                product.api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(&definition));
            assert_eq!(made.unwrap().0, 201);
        }
        product
    }

    pub(crate) fn without_definitions(sandbox: Sandbox, manner: Manner) -> Self {
        sandbox.rdd(&["svc", "create", "--controllers="]).expect_success();
        sandbox.rdd(&["svc", "start"]).expect_success();
        let config = PathBuf::from(sandbox.rdd(&["svc", "paths", "config"]).expect_success().stdout.trim());
        let (api, manner, ends) = (Arc::new(Api::new(config)), Arc::new(Mutex::new(manner)), Arc::default());
        let (its_api, its_manner, its_ends) = (Arc::clone(&api), Arc::clone(&manner), Arc::clone(&ends));
        let controller = std::thread::spawn(move || {
            let api = its_api;
            while !AtomicBool::load(&its_ends, Ordering::Relaxed) {
                let manner = *its_manner.lock().unwrap();
                reconcile_app(&api, manner);
                reconcile_vms(&api, manner);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { sandbox, api, manner, ends, controller: Some(controller) }
    }

    pub(crate) fn manner(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    /// The App, if it exists.
    pub(crate) fn app(&self) -> Option<Value> {
        self.api.get(APP)
    }

    /// Starts a command without waiting for it, with its standard error in a file.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Running {
        let said = self.home().join(format!("said-{}", arguments.join("-").replace('/', "_")));
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
        Running { child: command.spawn().unwrap(), said }
    }
}

/// A running command.
pub(crate) struct Running {
    pub(crate) child: Child,
    said: PathBuf,
}

impl Running {
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }

    #[track_caller]
    pub(crate) fn until_it_says(&self, text: &str) {
        eventually(text, SOON, || {
            let said = self.said();
            if said.contains(text) { Ok(()) } else { Err(said) }
        });
    }

    /// Waits for the command's end; returns its exit code and messages.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Option<i32>, Vec<String>) {
        let status =
            eventually("the command's end", SOON, || self.child.try_wait().unwrap().ok_or_else(|| self.said()));
        (status.code(), messages_of(&self.said()))
    }
}

/// A client of the daemon's API. It reads the kubeconfig for each call, so it survives a restart of the daemon.
pub(crate) struct Api {
    config: PathBuf,
    runtime: Mutex<Runtime>,
}

impl Api {
    fn new(config: PathBuf) -> Self {
        Self { config, runtime: Mutex::new(Builder::new_current_thread().enable_all().build().unwrap()) }
    }

    /// Calls the API. Returns code and body; `None` if the daemon does not answer.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let config = Kubeconfig::parse(&fs::read_to_string(&self.config).ok()?).ok()?;
        let client = Client::from_kubeconfig(&config, None).ok()?.with_timeout(SOON);
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let content = body.map(|body| Content { kind, bytes: body.to_string().into() });
        let runtime = self.runtime.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let response = runtime.block_on(client.call(method.parse().unwrap(), path, content)).ok()?;
        Some((response.status.as_u16(), serde_json::from_slice(&response.body).unwrap_or_default()))
    }

    /// The object at this path, if it exists.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.call("GET", path, None).filter(|(code, _)| *code == 200).map(|(_, object)| object)
    }

    /// Creates an object, which must succeed.
    #[track_caller]
    pub(crate) fn create(&self, collection: &str, object: &Value) -> Value {
        let (code, made) = self.call("POST", collection, Some(object)).unwrap();
        assert_eq!(code, 201, "{made}");
        made
    }

    /// Patches an object, which must succeed.
    #[track_caller]
    pub(crate) fn merge(&self, path: &str, change: &Value) -> Value {
        let (code, made) = self.call("PATCH", path, Some(change)).unwrap();
        assert_eq!(code, 200, "{made}");
        made
    }
}

/// The messages of a command that waits for a daemon, which appear only on a busy machine.
const OF_A_BUSY_MACHINE: &[&str] =
    &["waiting for API server", "waiting for controllers to register", "waiting for CRDs to be established"];

/// The messages of the log records, unquoted, without those that depend on how busy the machine is.
pub(crate) fn messages_of(stderr: &str) -> Vec<String> {
    let records = stderr.lines().filter_map(|line| line.split_once(" msg=\"")?.1.strip_suffix('"'));
    let messages = records.map(|message| message.replace("\\\"", "\"").replace("\\n", "\n").replace("\\\\", "\\"));
    messages.filter(|message| !OF_A_BUSY_MACHINE.contains(&message.as_str())).collect()
}

/// Asserts the exit code and all messages.
#[track_caller]
pub(crate) fn expect(output: &Output, code: i32, messages: &[&str]) {
    assert_eq!(
        (output.code, messages_of(&output.stderr)),
        (Some(code), messages.iter().map(ToString::to_string).collect()),
        "{}",
        output.stderr
    );
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, generation: &Value) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Writes the status that the App's controller would write.
fn reconcile_app(api: &Api, manner: Manner) {
    let Some(app) = api.get(APP).filter(|_| manner != Manner::Idle) else { return };
    if app["metadata"]["deletionTimestamp"].is_string() {
        if manner == Manner::Settle {
            let _ = api.call("PATCH", APP, Some(&json!({"metadata": {"finalizers": null}})));
        }
        return;
    }
    let generation = &app["metadata"]["generation"];
    let running = app["spec"]["running"] == true;
    let (settled, machine) = match (manner, running) {
        (Manner::Settle, true) => (
            condition("Settled", "True", "Settled", "App has reached the desired state", generation),
            condition("Running", "True", "Started", "Lima instance is running", generation),
        ),
        (Manner::Settle, false) => (
            condition("Settled", "True", "Settled", "App has reached the desired state", generation),
            condition("Running", "False", "Stopped", "Lima instance is stopped", generation),
        ),
        (Manner::Fail, _) => (
            condition("Settled", "False", "StartFailed", "no such kernel", generation),
            condition("Running", "False", "StartFailed", "no such kernel", generation),
        ),
        _ => (
            condition("Settled", "False", "Starting", "LimaVM has not yet reached Started", generation),
            condition("Running", "False", "Starting", "Lima instance is starting", generation),
        ),
    };
    let conditions = json!([machine, settled]);
    if app["status"]["conditions"] != conditions {
        let _ = api.call("PATCH", &format!("{APP}/status"), Some(&json!({"status": {"conditions": conditions}})));
    }
}

/// Writes the status that the LimaVM controller would write.
fn reconcile_vms(api: &Api, manner: Manner) {
    let Some(list) = api.get(VMS).filter(|_| manner != Manner::Idle) else { return };
    for vm in list["items"].as_array().into_iter().flatten() {
        let path = format!("{VMS}/{}", vm["metadata"]["name"].as_str().unwrap());
        if vm["metadata"]["deletionTimestamp"].is_string() {
            if manner == Manner::Settle {
                let _ = api.call("PATCH", &path, Some(&json!({"metadata": {"finalizers": null}})));
            }
            continue;
        }
        let generation = &vm["metadata"]["generation"];
        let running = vm["spec"]["running"] == true;
        let restart = vm["metadata"]["annotations"]["lima.rancherdesktop.io/restartRequested"].is_string();
        let was_running = vm["status"]["conditions"][1]["status"] == "True";
        let count = vm["status"]["restartCount"].as_i64().unwrap_or_default();
        let starts = manner == Manner::Settle && running && (restart || !was_running);
        let state = match (manner, running) {
            (Manner::Settle, true) => condition("Running", "True", "Started", "Lima instance is running", generation),
            (Manner::Settle, false) => condition("Running", "False", "Stopped", "Lima instance is stopped", generation),
            (Manner::Fail, _) => condition("Running", "False", "StartFailed", "no such kernel", generation),
            _ => condition("Running", "False", "Starting", "Lima instance is starting", generation),
        };
        let created = condition("Created", "True", "Created", "Lima instance created successfully", generation);
        let status = json!({"conditions": [created, state], "restartCount": count + i64::from(starts)});
        let same = status["conditions"] == vm["status"]["conditions"] && !starts;
        if !same {
            let _ = api.call("PATCH", &format!("{path}/status"), Some(&json!({"status": status})));
        }
        if restart && manner == Manner::Settle {
            let off = json!({"metadata": {"annotations": {"lima.rancherdesktop.io/restartRequested": null}}});
            let _ = api.call("PATCH", &path, Some(&off));
        }
    }
}

/// The product's own CRD, with a rule that forbids Kubernetes.
fn app_definition() -> Value {
    let mut definition = serde_json::to_value(App::crd()).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/kubernetes";
    let later = json!([{"rule": "!self.enabled", "message": "Kubernetes comes later"}]);
    definition.pointer_mut(spec).unwrap()["x-kubernetes-validations"] = later;
    definition
}

/// The product's own CRD, with a limit that allows only short names.
fn vm_definition() -> Value {
    let mut definition = serde_json::to_value(LimaVM::crd()).unwrap();
    let name = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/templateRef/properties/name";
    definition.pointer_mut(name).unwrap()["maxLength"] = 20.into();
    definition
}

/// Creates an executable script.
pub(crate) fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
