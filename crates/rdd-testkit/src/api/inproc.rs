//! Runs the whole API server over a store in memory, inside the test's process; it starts in milliseconds and leaves nothing behind.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use rdd_apiserver::{
    auth::Identity,
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{Core, Parts},
    serve::InProcess,
    state,
    version::{self, Version},
};
use rdd_stdx::{
    clock::{SharedClock, SystemClock},
    task::Group,
};
use rdd_store::{MemoryStore, Store};
use serde_json::Value;
use tokio::runtime::Runtime;
use tower_service::Service;

use super::{Ask, Events, Next, PATIENCE, Reply, Server};

/// The stack size of the daemon's own threads.
const STACK_BYTES: usize = 8 << 20;

/// An API server without a socket, including the garbage collector and the other background tasks. Dropping it stops it.
#[derive(Debug)]
pub struct TestApi {
    door: InProcess,
    core: Core,
    // Dropped last: the fields above have tasks on it.
    runtime: Arc<Runtime>,
}

impl TestApi {
    /// Starts an API server over an empty store.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start() -> Self {
        Self::start_with(state::Limits::default(), SystemClock::shared())
    }

    /// Starts an API server with these limits on its history and with this clock.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_with(limits: state::Limits, clock: SharedClock) -> Self {
        let store = Arc::new(MemoryStore::new(rdd_store::Limits::default(), clock.clone()));
        Self::start_over(store, limits, clock)
    }

    /// Starts an API server over a store of the test.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn start_over(store: Arc<dyn Store>, limits: state::Limits, clock: SharedClock) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_stack_size(STACK_BYTES).enable_all().build();
        let runtime = runtime.expect("a runtime can be started");
        let version = mk_version();
        let parts = Parts {
            store,
            clock: clock.clone(),
            version: version.clone(),
            endowment: Endowment {
                namespaces: ["default", "kube-system", "kube-public"].map(str::to_owned).to_vec(),
                ca_bundle: Arc::new(String::new),
                port: 6443,
            },
            tokens: None,
            reviewer: TokenReviewer::new(|_, _| None),
            plugins: Vec::new(),
        };
        let core = runtime.block_on(Core::open_with(parts, limits)).expect("the core opens over a store");
        let door = InProcess::alone(core.endpoints(), Identity::admin(), &version, clock);
        Self { door, core, runtime: Arc::new(runtime) }
    }

    /// The core, for tests of what the API does not expose.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// A tower service of the API, as `kube::Client::new` takes it.
    pub fn door(&self) -> InProcess {
        self.door.clone()
    }
}

fn mk_version() -> Version {
    let text = str::to_owned;
    Version {
        major: text("1"),
        minor: text("35"),
        git_version: text("v1.35.4+rdd-test"),
        git_commit: text("0"),
        git_tree_state: text("clean"),
        build_date: text("2026-01-01T00:00:00Z"),
        go_version: text("rustc"),
        compiler: text("rustc"),
        platform: version::platform(),
    }
}

/// Builds the request as hyper would pass it on; `None` if it is not a valid HTTP request.
fn mk_request(ask: &Ask) -> Option<http::Request<Full<Bytes>>> {
    let mut request = http::Request::builder().method(ask.method.as_str()).uri(&ask.path);
    for (name, value) in &ask.headers {
        request = request.header(name.as_str(), value.as_slice());
    }
    if !ask.body.is_empty() {
        request = request.header("content-length", ask.body.len());
    }
    request.body(Full::new(Bytes::copy_from_slice(&ask.body))).ok()
}

impl Server for TestApi {
    fn ask(&self, ask: &Ask) -> Reply {
        let Some(request) = mk_request(ask) else {
            // Over the wire, hyper rejects such a request before the server sees it.
            return Reply { code: 400, headers: vec![("content-type".into(), "text/yaml".into())], body: Vec::new() };
        };
        let mut door = self.door.clone();
        let answered = self.runtime.block_on(async move {
            // Runs on a thread of the runtime, which has the daemon's stack size, not on the test's thread.
            let mut tasks = Group::default();
            tasks.spawn("request", async move {
                let Ok(response) = door.call(request).await;
                let (head, body) = response.into_parts();
                let body = body.collect().await.map(|body| body.to_bytes().to_vec());
                (head, body.unwrap_or_default())
            });
            tokio::time::timeout(PATIENCE * 2, tasks.next()).await
        });
        let ended = answered.unwrap_or_else(|_| panic!("no answer in time: {} {}", ask.method, ask.path));
        let (head, body) = ended.expect("the task was started").outcome.expect("the server contains its panics");
        let pairs = head.headers.iter();
        let headers =
            pairs.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        Reply { code: head.status.as_u16(), headers: headers.collect(), body }
    }

    fn watch(&self, path: &str) -> Box<dyn Events> {
        let request = mk_request(&Ask::new("GET", path)).expect("the path of a watch is a path");
        let mut door = self.door.clone();
        let (sender, lines) = channel();
        let _inside = self.runtime.enter();
        let mut tasks = Group::default();
        tasks.spawn("watch", async move {
            let Ok(response) = door.call(request).await;
            let mut body = response.into_body();
            let mut text = Vec::new();
            while let Some(Ok(frame)) = body.frame().await {
                text.extend_from_slice(&frame.into_data().unwrap_or_default());
                // One event per line; a frame may hold several or a part of one.
                while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = text.drain(..=end).collect();
                    if sender.send(serde_json::from_slice(&line).unwrap_or(Value::Null)).is_err() {
                        return;
                    }
                }
            }
        });
        Box::new(Lines { lines, _tasks: tasks, _runtime: Arc::clone(&self.runtime) })
    }
}

/// The events of a watch in this process.
struct Lines {
    lines: Receiver<Value>,
    _tasks: Group<()>,
    _runtime: Arc<Runtime>,
}

impl Events for Lines {
    fn next(&mut self, within: Duration) -> Next {
        match self.lines.recv_timeout(within) {
            Ok(event) => Next::Event(event),
            Err(RecvTimeoutError::Timeout) => Next::Quiet,
            Err(RecvTimeoutError::Disconnected) => Next::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_starts_in_milliseconds_and_serves_and_watches() {
        let api = TestApi::start();
        let maps = "/api/v1/namespaces/default/configmaps";
        let mut events = api.watch(&format!("{maps}?watch=true&fieldSelector=metadata.name%3Da"));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let made = api.post(maps, &map).expect(201);
        assert_eq!(events.expect()["object"], made);
        assert_eq!(events.next(Duration::from_millis(1)), Next::Quiet);
        assert_eq!(api.get(&format!("{maps}/a")).expect(200), made);
        assert_eq!(api.get(&format!("{maps}/b")).reason(), "NotFound");
    }
}
