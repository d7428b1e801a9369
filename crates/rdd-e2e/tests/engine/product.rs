//! An instance with an engine, and a client of its API.

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

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
/// The annotation that requests an action of a container.
pub(crate) const ACTION: &str = "containers.rancherdesktop.io/action";

/// A client of a daemon's API that survives restarts. Clones share the connection settings.
#[derive(Clone)]
pub(crate) struct Api(Arc<Mutex<Wire>>);

impl Api {
    pub(crate) fn of(daemon: &Daemon) -> Self {
        Self(Arc::new(Mutex::new(Wire::of(daemon))))
    }

    /// Reads the kubeconfig again after a restart: the token has changed, and the port may have.
    pub(crate) fn renew(&self, daemon: &Daemon) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Wire::of(daemon);
    }

    /// A separate client for one thread.
    pub(crate) fn wire(&self) -> Wire {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls the API. Returns code and body; `None` if the daemon does not answer.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let mut ask = Ask::new(method, path);
        if let Some(body) = body {
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            ask = ask.body(kind, body.to_string());
        }
        // Each call has its own connection, since callers would wait for each other on a shared one.
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

    /// The current objects of a collection; `None` if the daemon does not answer.
    pub(crate) fn list(&self, path: &str) -> Option<Vec<Value>> {
        let (code, list) = self.call("GET", path, None)?;
        (code == 200).then(|| list["items"].as_array().cloned().unwrap_or_default())
    }
}

/// A daemon with its own running engine.
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

/// A sandbox whose commands log at the level info.
pub(crate) fn talkative() -> SandboxBuilder {
    Sandbox::builder().env("RDD_LOG_LEVEL", "info")
}

impl Product {
    /// Starts a daemon with a running engine that is mirrored.
    pub(crate) fn start() -> Self {
        let sandbox = talkative().build();
        sandbox.rdd(&["set", "backend=host", "running=true"]).expect_success();
        let product = Self::around(Daemon::start_in(sandbox));
        product.until_condition("ContainerEngineReady", "True");
        product
    }

    /// The product of a running daemon that has an App.
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

    /// The API path of a collection of mirrors.
    pub(crate) fn mirrors(&self, kind: &str) -> String {
        mirrors(&self.namespace, kind)
    }

    /// A mirror, if it exists.
    pub(crate) fn mirror(&self, kind: &str, name: &str) -> Option<Value> {
        let (code, object) = self.api.call("GET", &format!("{}/{name}", self.mirrors(kind)), None)?;
        (code == 200).then_some(object)
    }

    /// The status and reason of a condition of the App.
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

    /// Waits until a mirror reports this status of its container.
    #[track_caller]
    pub(crate) fn until_status(&self, id: &str, status: &str) {
        eventually(&format!("{id} to be {status}"), SOON, || {
            let seen = self.mirror("containers", id).map(|mirror| mirror["status"]["status"].clone());
            if seen == Some(json!(status)) { Ok(()) } else { Err(format!("{seen:?}")) }
        });
    }

    /// Requests an action of a container.
    #[track_caller]
    pub(crate) fn ask_for(&self, id: &str, action: &str) {
        self.api.merge(&format!("{}/{id}", self.mirrors("containers")), &asking(action));
    }

    /// Kills the daemon and starts it again; the engine continues to run.
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

/// The patch that requests an action of a container.
pub(crate) fn asking(action: &str) -> Value {
    json!({"metadata": {"annotations": {ACTION: action}}})
}
