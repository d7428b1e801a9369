//! A client that behaves like the GUI: it gets a kubeconfig from the command line, then lists, watches and writes like the GUI's library.

use std::time::Duration;

use rdd_testkit::{
    Daemon, Sandbox,
    api::{Ask, Events, Next, Reply, Server, Wire},
    bounded::run,
    eventually,
};
use serde_json::{Value, json};

/// A timeout that is long enough for a busy machine; only a failing test waits this long.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
pub(crate) const APP: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps/app";
/// The namespace that the GUI sets in its App.
pub(crate) const NAMESPACE: &str = "rancher-desktop";

/// The API path of a collection of mirrors.
pub(crate) fn mirrors(plural: &str) -> String {
    format!("/apis/containers.rancherdesktop.io/v1alpha1/namespaces/{NAMESPACE}/{plural}")
}

/// The client, and the daemon that it started.
pub(crate) struct Gui {
    pub(crate) daemon: Daemon,
    pub(crate) wire: Wire,
}

/// An engine that is not stopped properly leaves its containers behind.
impl Drop for Gui {
    fn drop(&mut self) {
        let mut command = self.daemon.command(&["svc", "delete"]);
        let _ = run(&mut command, Duration::from_secs(60), |_| ());
    }
}

impl Gui {
    /// Connects like the GUI; the command starts the service if needed.
    pub(crate) fn connect() -> Self {
        Self::connect_in(Sandbox::new())
    }

    pub(crate) fn connect_in(sandbox: Sandbox) -> Self {
        let output = sandbox.rdd(&["service", "config", "--log-format=json"]).expect_success();
        assert!(output.stdout.contains("apiVersion"), "{}", output.stdout);
        let daemon = Daemon::start_in(sandbox);
        Self { wire: Wire::of(&daemon), daemon }
    }

    /// Creates the App like the GUI at its first start: switched off, and in its own namespace.
    pub(crate) fn create_app(&self) -> Value {
        let app = json!({"apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "metadata": {"name": "app"},
                         "spec": {"namespace": NAMESPACE, "running": false}});
        self.wire.post(APPS, &app).expect(201)
    }

    /// Sends a request with all headers of the GUI.
    pub(crate) fn ask(&self, ask: Ask) -> Reply {
        let head = self.wire.head("GET", "/");
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap().to_owned();
        let ask = ask.header("Origin", format!("https://{host}")).header("User-Agent", "rancher-desktop/2.0");
        self.wire.ask(&ask)
    }

    /// Sends a JSON merge patch with strict validation.
    pub(crate) fn merge(&self, path: &str, patch: &Value) -> Reply {
        let ask = Ask::new("PATCH", &format!("{path}?fieldValidation=Strict"));
        self.ask(ask.body("application/merge-patch+json", patch.to_string()))
    }

    /// Sends settings as the preferences dialog does, to validate (`dry`) or to write them.
    pub(crate) fn set(&self, operations: &Value, dry: bool) -> Reply {
        let dry = if dry { "&dryRun=All" } else { "" };
        let path = format!("{APP}?fieldManager=rancher-desktop-app&fieldValidation=Strict{dry}");
        self.ask(Ask::new("PATCH", &path).body("application/json-patch+json", operations.to_string()))
    }

    /// Lists a collection and watches it from there.
    pub(crate) fn follow(&self, collection: &str, selector: &str) -> (Vec<Value>, Followed) {
        let list = self.ask(Ask::new("GET", &format!("{collection}?{selector}"))).expect(200);
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{collection}?watch=true&resourceVersion={version}&{selector}");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        (items, Followed(self.wire.watch(&path)))
    }

    /// The objects of a collection.
    pub(crate) fn list(&self, collection: &str) -> Vec<Value> {
        self.wire.get(collection).expect(200)["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until an object satisfies a condition.
    #[track_caller]
    pub(crate) fn until(&self, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, SOON, || {
            let reply = self.wire.get(path);
            if reply.code == 200 && is_so(&reply.json()) { Ok(reply.json()) } else { Err(reply.text().into_owned()) }
        })
    }

    /// Waits until there is no object at a path.
    #[track_caller]
    pub(crate) fn until_gone(&self, path: &str) {
        eventually(&format!("the end of {path}"), SOON, || {
            let reply = self.wire.get(path);
            if reply.code == 404 { Ok(()) } else { Err(reply.text().into_owned()) }
        });
    }
}

/// A watch.
pub(crate) struct Followed(Box<dyn Events>);

impl Followed {
    /// Waits for an added or modified object that satisfies a condition: a mirror is created first and filled later.
    #[track_caller]
    pub(crate) fn shown(&mut self, is_so: impl Fn(&Value) -> bool) -> Value {
        self.find(|event| (event["type"] == "ADDED" || event["type"] == "MODIFIED") && is_so(&event["object"]))
    }

    /// Waits for an event of this type about an object that satisfies a condition; other events are skipped.
    #[track_caller]
    pub(crate) fn until(&mut self, kind: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        self.find(|event| event["type"] == kind && is_so(&event["object"]))
    }

    #[track_caller]
    fn find(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Vec::new();
        loop {
            match self.0.next(SOON) {
                Next::Event(event) if is_it(&event) => return event["object"].clone(),
                Next::Event(event) => seen.push(event),
                other => panic!("an event was to come, not {other:?}; before it came {seen:#?}"),
            }
        }
    }
}
