//! A state with webhooks configured in it, and writes to ask them about.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_meta::Status;
use serde_json::{Value, json};

use super::{
    super::{Handler, Local, Registration, Services, Webhooks},
    server::{Issued, Server},
};
use crate::{
    admission::{
        Admit, Operation,
        testing::{Request, mk_state, put},
    },
    registry::Registry,
    state::State,
};

/// How webhooks are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Local,
    Network,
}

pub(super) struct Stage {
    pub(super) way: Way,
    pub(super) state: Arc<State>,
    pub(super) webhooks: Webhooks,
    pub(super) server: Server,
    local: Arc<Local>,
    registrations: Mutex<Vec<Registration>>,
    /// What webhooks were told, in order: the path and the review.
    pub(super) told: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Stage {
    pub(super) async fn new(way: Way) -> Self {
        Self::with(way, Registry::new([]), BTreeMap::new()).await
    }

    pub(super) async fn with(way: Way, registry: Registry, services: BTreeMap<String, String>) -> Self {
        let server = Server::start(Issued::For(&["127.0.0.1", "hook.ns.svc"]), &["h2", "http/1.1"]).await;
        Self::over(server, way, registry, services).await
    }

    pub(super) async fn over(server: Server, way: Way, registry: Registry, services: BTreeMap<String, String>) -> Self {
        let state = mk_state().await;
        let local = Arc::new(Local::default());
        let services = Arc::new(Services::new(Arc::clone(&state), services));
        let webhooks = Webhooks::new(Arc::clone(&state), Arc::new(registry), Arc::clone(&local), services);
        Self { way, state, webhooks, server, local, registrations: Mutex::default(), told: Arc::default() }
    }

    /// Lets a function answer at a path.
    pub(super) fn serve(&self, path: &str, handler: impl Fn(Value) -> super::super::Reply + Send + Sync + 'static) {
        let (told, at) = (Arc::clone(&self.told), path.to_owned());
        let handler: Handler = Arc::new(move |review: Value| {
            told.lock().unwrap().push((at.clone(), review.clone()));
            handler(review)
        });
        match self.way {
            Way::Local => {
                self.registrations.lock().unwrap().push(self.local.register_url(&self.url(path), handler));
            }
            Way::Network => drop(self.server.book.handlers.lock().unwrap().insert(path.to_owned(), handler)),
        }
    }

    /// Answers every review at a path with this response, whose uid is filled in.
    pub(super) fn respond(&self, path: &str, response: Value) {
        self.serve(path, move |review| {
            let reply = answer(&review, response.clone());
            Box::pin(async move { reply })
        });
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.server.address)
    }

    /// A webhook at a path that is asked about everything, with these fields besides.
    pub(super) fn hook(&self, path: &str, fields: Value) -> Value {
        let mut hook = json!({
            "name": format!("{}.example.com", path.trim_start_matches('/')),
            "clientConfig": {"url": self.url(path), "caBundle": self.server.ca_bundle},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        hook
    }

    pub(super) async fn mutating(&self, name: &str, hooks: Vec<Value>) {
        self.configure("mutatingwebhookconfigurations", name, hooks).await;
    }

    pub(super) async fn validating(&self, name: &str, hooks: Vec<Value>) {
        self.configure("validatingwebhookconfigurations", name, hooks).await;
    }

    async fn configure(&self, plural: &str, name: &str, hooks: Vec<Value>) {
        let json = json!({"metadata": {}, "webhooks": hooks}).to_string();
        put(&self.state, "admissionregistration.k8s.io", plural, None, name, &json).await;
    }

    /// What a write comes to after all webhooks were asked. What they add under `unknown` is dropped, as by a schema.
    pub(super) async fn write(&self, request: &Request) -> Result<Value, Status> {
        let reform = |object: &mut Value| {
            object.as_object_mut().unwrap().remove("unknown");
            let is_text = object["data"].as_object().is_none_or(|data| data.values().all(Value::is_string));
            let wrong = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: wrong type";
            if is_text { Ok(()) } else { Err(Status::bad_request(wrong)) }
        };
        let written = request.with(async |attributes| {
            if self.webhooks.handles(attributes) {
                self.webhooks.mutate(attributes, &reform).await?;
                self.webhooks.validate(attributes).await?;
            }
            Ok(attributes.object.clone().unwrap_or_default())
        });
        written.await
    }

    /// The paths of the webhooks that were asked, in order, since this was asked last.
    pub(super) fn asked(&self) -> Vec<String> {
        self.told.lock().unwrap().drain(..).map(|(path, _)| path).collect()
    }
}

/// The answer to a review. A uid that the response has of its own stays.
pub(super) fn answer(review: &Value, mut response: Value) -> Value {
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    if let Some(patch) = response.get_mut("patch") {
        *patch = STANDARD.encode(patch.to_string()).into();
        response["patchType"] = "JSONPatch".into();
    }
    json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
}

/// The creation of a ConfigMap in the namespace `ns`.
pub(super) fn mk_map() -> Request {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {}});
    Request::new(Operation::Create, "configmaps", "ConfigMap", "x").namespace("ns").object(object)
}

/// An error as a line.
pub(super) fn said(written: Result<Value, Status>) -> String {
    written.map_or_else(|status| format!("{} {}", status.code, status.message), |_| "ok".to_owned())
}
