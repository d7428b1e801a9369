//! A complete server on one thread, over a store in memory.

use std::{cell::Cell, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rdd_apiserver::{
    auth::Identity,
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{Core, Parts},
    serve::InProcess,
    version::Version,
};
use rdd_stdx::clock::SystemClock;
use rdd_store::MemoryStore;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower_service::Service as _;

use crate::cases::{self, CreatableResource};

/// A server that runs completely on the caller's thread, so that the thread's CPU time is the cost of a request.
pub(crate) struct TestServer {
    door: InProcess,
    // Fields are dropped in order: the core before the runtime that it runs on.
    _core: Core,
    runtime: Runtime,
    numbers: Cell<usize>,
}

/// A response and its cost.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
    /// The CPU time of the server's thread during the request.
    pub(crate) cpu: Duration,
}

impl Answer {
    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The second response, with the cost of both requests.
    pub(crate) fn and(self, next: Self) -> Self {
        Self { cpu: self.cpu + next.cpu, ..next }
    }
}

impl TestServer {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let core = runtime.block_on(open_core());
        let door = InProcess::alone(core.endpoints(), Identity::admin(), &version(), SystemClock::shared());
        let server = Self { door, _core: core, runtime, numbers: Cell::new(0) };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = server.send_json("POST", definitions, "application/json", &cases::definition());
        assert_eq!(made.code, 201);
        server
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let answer = self.send("GET", path, "application/json", Vec::new());
        assert_eq!(answer.code, 200, "{path}");
        answer.json()
    }

    /// Returns the built-in resources that can be created, from discovery.
    pub(crate) fn find_creatable(&self) -> Vec<CreatableResource> {
        let groups = self.get("/apis");
        let groups = groups["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap());
        let groups = groups.filter(|group| *group != cases::CUSTOM_GROUP);
        [""].into_iter().chain(groups).flat_map(|group| self.find_creatable_of(group)).collect()
    }

    fn find_creatable_of(&self, group: &str) -> Vec<CreatableResource> {
        let list = self.get(&if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/v1") });
        let listed = list["resources"].as_array().unwrap();
        let name = |resource: &Value| resource["name"].as_str().unwrap().to_owned();
        let has_verb =
            |resource: &Value, verb: &str| resource["verbs"].as_array().unwrap().iter().any(|have| have == verb);
        let creatable = listed.iter().filter(|resource| !name(resource).contains('/') && has_verb(resource, "create"));
        let found = creatable.map(|resource| {
            let plural = name(resource);
            let below = |other: &Value| name(other).strip_prefix(&format!("{plural}/")).map(str::to_owned);
            CreatableResource {
                group: group.to_owned(),
                kind: resource["kind"].as_str().unwrap().to_owned(),
                namespaced: resource["namespaced"].as_bool().unwrap(),
                stored: has_verb(resource, "update"),
                subresources: listed.iter().filter_map(below).collect(),
                plural,
            }
        });
        found.collect()
    }

    /// Returns a number that no object has yet.
    pub(crate) fn next_number(&self) -> usize {
        self.numbers.replace(self.numbers.get() + 1)
    }

    pub(crate) fn send(&self, method: &str, path: &str, content_type: &str, body: Vec<u8>) -> Answer {
        self.send_as(method, path, content_type, "application/json", body)
    }

    pub(crate) fn send_as(&self, method: &str, path: &str, content_type: &str, accept: &str, body: Vec<u8>) -> Answer {
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.header("accept", accept).body(Full::new(Bytes::from(body))).unwrap();
        let began = thread_cpu();
        let (code, body) = self.runtime.block_on(async {
            let Ok(response) = self.door.clone().call(request).await;
            let (head, body) = response.into_parts();
            (head.status.as_u16(), body.collect().await.unwrap().to_bytes())
        });
        // The cost of a request includes the work of the controllers that it triggers.
        self.runtime.block_on(async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        });
        Answer { code, body, cpu: thread_cpu().saturating_sub(began) }
    }

    pub(crate) fn send_json(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        self.send(method, path, content_type, body.to_string().into_bytes())
    }
}

/// The CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// Opens the complete API over a store in memory.
pub(crate) async fn open_core() -> Core {
    let parts = Parts {
        store: Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared())),
        clock: SystemClock::shared(),
        version: version(),
        endowment: Endowment { namespaces: vec!["default".to_owned()], ca_bundle: Arc::new(String::new), port: 6443 },
        tokens: None,
        reviewer: TokenReviewer::new(|_, _| None),
        plugins: Vec::new(),
    };
    Core::open(parts).await.unwrap()
}

pub(crate) fn version() -> Version {
    let text = str::to_owned;
    Version {
        major: text("1"),
        minor: text("35"),
        git_version: text("v1.35.4"),
        git_commit: text("0"),
        git_tree_state: text("clean"),
        build_date: text("2026-01-01T00:00:00Z"),
        go_version: text("go1"),
        compiler: text("gc"),
        platform: text("linux/amd64"),
    }
}
