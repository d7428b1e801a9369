//! An instance with an engine, and its API.

use std::{
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rdd_testkit::{
    Daemon, Sandbox, SandboxBuilder,
    api::{Ask, Wire},
    eventually,
};
use serde_json::{Value, json};

use crate::docker::Docker;

/// Long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
/// The annotation by which something is asked of a container.
pub(crate) const ACTION: &str = "containers.rancherdesktop.io/action";

/// The API of a daemon, also after it was started again. Clones share what they know.
#[derive(Clone)]
pub(crate) struct Api(Arc<Mutex<Wire>>);

impl Api {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        Self(Arc::new(Mutex::new(Wire::of(daemon))))
    }

    /// The daemon was started again: it has another token, and maybe another port.
    pub(crate) fn renew(&self, daemon: &Daemon) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Wire::of(daemon);
    }

    /// A client of one thread's own.
    pub(crate) fn wire(&self) -> Wire {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Code and body; `None` if the daemon does not answer.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let mut ask = Ask::new(method, path);
        if let Some(body) = body {
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            ask = ask.body(kind, body.to_string());
        }
        // Of this call's own: a connection that is shared would make callers wait for each other.
        let reply = self.wire().try_ask(&ask).ok()?;
        Some((reply.code, reply.json()))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (code, object) = self.call("GET", path, None).expect("an answer");
        assert_eq!(code, 200, "{path}: {object}");
        object
    }

    #[track_caller]
    pub(crate) fn merge(&self, path: &str, change: &Value) -> Value {
        let (code, object) = self.call("PATCH", path, Some(change)).expect("an answer");
        assert_eq!(code, 200, "{path}: {object}");
        object
    }

    #[track_caller]
    pub(crate) fn create(&self, path: &str, object: &Value) -> Value {
        let (code, object) = self.call("POST", path, Some(object)).expect("an answer");
        assert_eq!(code, 201, "{path}: {object}");
        object
    }

    #[track_caller]
    pub(crate) fn delete(&self, path: &str) {
        let (code, object) = self.call("DELETE", path, None).expect("an answer");
        assert_eq!(code, 200, "{path}: {object}");
    }

    /// What a list has now; `None` if the daemon does not answer.
    pub(crate) fn list(&self, path: &str) -> Option<Vec<Value>> {
        let (code, list) = self.call("GET", path, None)?;
        (code == 200).then(|| list["items"].as_array().cloned().unwrap_or_default())
    }
}

/// A daemon with an engine of its own that runs.
pub(crate) struct Product {
    daemon: Daemon,
    pub(crate) api: Api,
    pub(crate) namespace: String,
}

impl Deref for Product {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

/// An instance whose commands say what they do.
pub(crate) fn talkative() -> SandboxBuilder {
    Sandbox::builder().env("RDD_LOG_LEVEL", "info")
}

impl Product {
    /// With a running engine that is mirrored.
    pub(crate) fn start() -> Self {
        let sandbox = talkative().build();
        sandbox.rdd(&["set", "backend=host", "running=true"]).expect_success();
        let product = Self::around(Daemon::start_in(sandbox));
        product.until_condition("ContainerEngineReady", "True");
        product
    }

    /// Of a daemon that runs and has an App.
    pub(crate) fn around(daemon: Daemon) -> Self {
        let api = Api::of(&daemon);
        let app = api.get(APP);
        let namespace = app["spec"]["namespace"].as_str().expect("an App has a namespace").to_owned();
        Self { daemon, api, namespace }
    }

    pub(crate) fn docker(&self) -> Docker {
        Docker::at(&self.docker_socket())
    }

    pub(crate) fn docker_socket(&self) -> PathBuf {
        self.daemon.path("docker_socket")
    }

    /// The path of a collection of mirrors, or of one of them.
    pub(crate) fn mirrors(&self, kind: &str) -> String {
        mirrors(&self.namespace, kind)
    }

    /// A mirror, if it is there.
    pub(crate) fn mirror(&self, kind: &str, name: &str) -> Option<Value> {
        let (code, object) = self.api.call("GET", &format!("{}/{name}", self.mirrors(kind)), None)?;
        (code == 200).then_some(object)
    }

    /// A condition of the App: its status and reason.
    pub(crate) fn condition(&self, kind: &str) -> Option<(String, String)> {
        let (_, app) = self.api.call("GET", APP, None)?;
        let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let one = all.into_iter().find(|condition| condition["type"] == kind)?;
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        Some((text("status"), text("reason")))
    }

    #[track_caller]
    pub(crate) fn until_condition(&self, kind: &str, status: &str) {
        eventually(&format!("{kind}={status}"), SOON, || match self.condition(kind) {
            Some((seen, _)) if seen == status => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// Waits until a mirror says this of its container.
    #[track_caller]
    pub(crate) fn until_status(&self, id: &str, status: &str) {
        eventually(&format!("{id} to be {status}"), SOON, || {
            let seen = self.mirror("containers", id).map(|mirror| mirror["status"]["status"].clone());
            if seen == Some(json!(status)) { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }

    /// Asks something of a container.
    #[track_caller]
    pub(crate) fn ask_for(&self, id: &str, action: &str) {
        self.api.merge(&format!("{}/{id}", self.mirrors("containers")), &asking(action));
    }

    /// Kills the daemon and starts it again; the engine goes on.
    pub(crate) fn kill_and_start(&self) {
        let daemon = rdd_stdx::process::Process::open(self.daemon.pid()).unwrap();
        if let Some(daemon) = daemon {
            daemon.signal(rdd_stdx::process::Signal::KILL).unwrap();
            assert!(daemon.wait(SOON).unwrap());
        }
        self.daemon.rdd(&["svc", "start"]).expect_success();
        self.api.renew(&self.daemon);
    }
}

pub(crate) fn mirrors(namespace: &str, kind: &str) -> String {
    format!("/apis/containers.rancherdesktop.io/v1alpha1/namespaces/{namespace}/{kind}")
}

/// The patch that asks something of a container.
pub(crate) fn asking(action: &str) -> Value {
    json!({"metadata": {"annotations": {ACTION: action}}})
}
