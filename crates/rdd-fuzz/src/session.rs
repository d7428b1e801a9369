//! A server in this process, and the checks of its replies across requests.

use std::{
    fmt,
    sync::{OnceLock, atomic::Ordering},
    time::{Duration, Instant},
};

use rdd_testkit::api::{Ask, Server, TestApi};
use serde_json::json;

use crate::{
    PANICS,
    catalog::Catalog,
    invariants::{Signature, Versions, check_answer, check_read_back, read_back_path, signature},
    scenario::Scenario,
};

/// The maximum duration of a request of a few kilobytes, on a busy machine without optimization.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// The number of requests after which the server must still serve a plain object. `/livez` needs a socket, which this server lacks.
const ALIVE_EVERY: u64 = 64;

/// A violated invariant.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) request: Ask,
    pub(crate) problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body: String = String::from_utf8_lossy(&self.request.body).chars().take(500).collect();
        let problem: String = self.problem.chars().take(2000).collect();
        write!(f, "{} {} with {body:?}\n{problem}", self.request.method, self.request.path)
    }
}

pub(crate) struct Session {
    api: TestApi,
    history: Vec<Scenario>,
    versions: Versions,
    requests: u64,
    slowest: Duration,
    panics: u64,
}

impl Session {
    /// Starts a server with the built-in resources and one custom resource.
    pub(crate) fn start() -> Self {
        let api = TestApi::start();
        api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &mk_definition()).expect(201);
        Self {
            api,
            history: Vec::new(),
            versions: Versions::default(),
            requests: 0,
            slowest: Duration::ZERO,
            panics: PANICS.load(Ordering::SeqCst),
        }
    }

    /// The resources of the server; they are the same for all servers of this kind.
    pub(crate) fn catalog(&self) -> &'static Catalog {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| Catalog::discover(&self.api))
    }

    pub(crate) fn history(&self) -> &[Scenario] {
        &self.history
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    pub(crate) fn slowest(&self) -> Duration {
        self.slowest
    }

    /// Sends the requests of a scenario in order. Returns the signatures of the replies, or the first violation.
    pub(crate) fn play(&mut self, scenario: &Scenario) -> Result<Vec<Signature>, Finding> {
        self.history.push(scenario.clone());
        let mut signatures = Vec::new();
        for ask in &scenario.requests {
            let found = self.send(ask);
            signatures.push(found.map_err(|problem| Finding { request: ask.clone(), problem })?);
        }
        Ok(signatures)
    }

    fn send(&mut self, ask: &Ask) -> Result<Signature, String> {
        let before = Instant::now();
        let reply = self.api.ask(ask);
        let took = before.elapsed();
        self.requests += 1;
        self.slowest = self.slowest.max(took);
        if took > REQUEST_TIME_MAX {
            return Err(format!("the answer took {took:?}"));
        }
        if PANICS.load(Ordering::SeqCst) != self.panics {
            return Err("a thread of the server panicked".to_owned());
        }
        check_answer(ask, &reply)?;
        self.versions.check(ask, &reply)?;
        if let Some(path) = read_back_path(ask, &reply) {
            check_read_back(&reply.json(), &self.api.get(&path))?;
        }
        if self.requests.is_multiple_of(ALIVE_EVERY) {
            let alive = self.api.get("/api/v1/namespaces/default");
            if alive.code != 200 {
                return Err(format!("the server does not serve any more: {}: {}", alive.code, alive.text()));
            }
        }
        Ok(signature(ask, &reply))
    }
}

/// A CRD that uses most features of schemas.
fn mk_definition() -> serde_json::Value {
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "value": {"type": "integer", "default": 1, "minimum": 0}}});
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 100", "message": "size is too large"}],
        "properties": {
            "size": {"type": "integer"},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
            "any": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "items": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"], "maxItems": 20},
        },
    });
    let schema = json!({"type": "object", "properties": {"spec": spec,
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}});
    let paths = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema.clone()},
            "subresources": {"status": {}, "scale": paths.clone()}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "fuzzes.fuzz.example"},
        "spec": {"group": "fuzz.example", "scope": "Namespaced",
            "names": {"plural": "fuzzes", "singular": "fuzz", "kind": "Fuzz"},
            "versions": [version("v1", true), version("v2", false)]},
    })
}
