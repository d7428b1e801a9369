//! Fixtures: requests to the API of a test, and waits.

use std::time::{Duration, Instant};

use http::Request;
use rdd_runtime::Registered;
use rdd_testkit::{
    api::{PATIENCE, TestApi},
    controllers::Stage,
};
use serde_json::{Value, json};

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const NAMESPACES: &str = "/api/v1/namespaces";
pub(crate) const APPS: &str = "/apis/app.rancherdesktop.io/v1alpha1/apps";
pub(crate) const DEMOS: &str = "/apis/app.rancherdesktop.io/v1alpha1/demos";
pub(crate) const HOSTS: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/hostinfos";
pub(crate) const NOTARIES: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/default/notaries";
pub(crate) const SETS: &str = "/apis/rdd.rancherdesktop.io/v1alpha1/namespaces/default/configmapreplicasets";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The code and the message of a refusal.
pub(crate) type Refusal = (u16, String);

/// A server and controllers that run on it.
pub(crate) struct Scene {
    // Dropped first: it runs on the fields below.
    pub(crate) stage: Stage,
    api: TestApi,
}

impl Scene {
    /// Starts the controllers that `make` returns.
    pub(crate) fn of(make: impl Fn() -> Vec<Registered> + 'static) -> Self {
        Self::prepared(make, |_| ())
    }

    /// Like [`of`](Self::of), after `prepare` has created objects.
    pub(crate) fn prepared(make: impl Fn() -> Vec<Registered> + 'static, prepare: impl FnOnce(&Stage)) -> Self {
        let api = TestApi::start();
        let mut stage = Stage::over(&api, make);
        prepare(&stage);
        stage.start();
        stage.settle();
        Self { stage, api }
    }
}

impl Scene {
    /// The server, for raw requests.
    pub(crate) fn api(&self) -> &TestApi {
        &self.api
    }
}

fn ask(stage: &Stage, method: &str, path: &str, body: &Value) -> Result<Value, Refusal> {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
    let request = request.expect("it is a request");
    match stage.block_on(stage.client().request::<Value>(request)) {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("{method} {path}: {error}"),
    }
}

pub(crate) fn get(stage: &Stage, path: &str) -> Option<Value> {
    match ask(stage, "GET", path, &Value::Null) {
        Ok(found) => Some(found),
        Err((404, _)) => None,
        Err(refusal) => panic!("{path}: {refusal:?}"),
    }
}

pub(crate) fn post(stage: &Stage, path: &str, body: &Value) -> Result<Value, Refusal> {
    ask(stage, "POST", path, body)
}

pub(crate) fn merge(stage: &Stage, path: &str, patch: &Value) -> Result<Value, Refusal> {
    ask(stage, "PATCH", path, patch)
}

pub(crate) fn delete(stage: &Stage, path: &str) -> Result<Value, Refusal> {
    ask(stage, "DELETE", path, &Value::Null)
}

/// An object of one of our kinds.
pub(crate) fn object(group: &str, kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Installs the kinds of these controllers before the controllers start.
pub(crate) fn define(stage: &Stage, controllers: &[&str]) {
    for crd in controllers.iter().flat_map(|controller| rdd_types::crds_of(controller)) {
        let crd = serde_json::to_value(crd).expect("a definition is JSON");
        post(stage, DEFINITIONS, &crd).expect("a definition is taken");
    }
}

/// Waits until a check holds; restarts the controllers if they are killed meanwhile.
#[track_caller]
pub(crate) fn until<T>(stage: &mut Stage, what: &str, mut look: impl FnMut(&Stage) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look(stage) {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        let dead = async { tokio::time::timeout(Duration::ZERO, stage.manager().killed()).await.is_ok() };
        if stage.block_on(dead) {
            stage.start();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reason, action, note, type and reporter of the events about an object.
pub(crate) fn events(stage: &Stage, kind: &str) -> Vec<[String; 5]> {
    let all = get(stage, "/apis/events.k8s.io/v1/namespaces/default/events").expect("events are served");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about = |event: &&Value| event["regarding"]["kind"] == kind;
    let told =
        |event: &Value| ["reason", "action", "note", "type", "reportingController"].map(|field| text(&event[field]));
    all["items"].as_array().into_iter().flatten().filter(about).map(told).collect()
}

/// Waits for an event with this reason about an object of this kind.
#[track_caller]
pub(crate) fn event(stage: &mut Stage, kind: &str, reason: &str, action: &str) -> [String; 5] {
    until(stage, &format!("the event {reason} {action}"), |stage| {
        events(stage, kind).into_iter().find(|event| event[0] == reason && event[1] == action)
    })
}
