//! A whole server on one thread, over a store in memory.

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

use crate::cases;

/// A server whose every step runs on the thread that calls it, so that the clock of the thread shows what a request costs.
pub(crate) struct TestServer {
    door: InProcess,
    // Dropped before the runtime that it runs on.
    _core: Core,
    runtime: Runtime,
    numbers: Cell<usize>,
}

/// What a request brought.
pub(crate) struct Answer {
    pub(crate) code: u16,
    /// CPU time of the server's thread.
    pub(crate) cpu: Duration,
}

impl Answer {
    /// The cost of this request and of the one before it.
    pub(crate) fn and(self, next: Self) -> Self {
        Self { code: next.code, cpu: self.cpu + next.cpu }
    }
}

impl TestServer {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let version = version();
        let parts = Parts {
            store: Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared())),
            clock: SystemClock::shared(),
            version: version.clone(),
            endowment: Endowment {
                namespaces: vec!["default".to_owned()],
                ca_bundle: Arc::new(String::new),
                port: 6443,
            },
            tokens: None,
            reviewer: TokenReviewer::new(|_, _| None),
            plugins: Vec::new(),
        };
        let core = runtime.block_on(Core::open(parts)).unwrap();
        let door = InProcess::alone(core.endpoints(), Identity::admin(), &version, SystemClock::shared());
        let server = Self { door, _core: core, runtime, numbers: Cell::new(0) };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let made = server.send_json("POST", definitions, "application/json", &cases::definition());
        assert_eq!(made.code, 201);
        server
    }

    /// A number that no object has yet.
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
        let code = self.runtime.block_on(async {
            let Ok(response) = self.door.clone().call(request).await;
            let (head, body) = response.into_parts();
            body.collect().await.unwrap();
            head.status.as_u16()
        });
        // What controllers do about it is part of what it costs.
        self.runtime.block_on(async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        });
        Answer { code, cpu: thread_cpu().saturating_sub(began) }
    }

    pub(crate) fn send_json(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
        self.send(method, path, content_type, body.to_string().into_bytes())
    }
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn version() -> Version {
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
