//! The latency of `/livez` while the server processes the longest lists that fit into requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rdd_apiserver::{
    auth::{Authenticators, Identity, Token, Tokens},
    core::Core,
    health::Health,
    serve::{self, Limits, Parts, Server},
    tls::Tls,
};
use rdd_client::{Client, Kubeconfig, http::Content};
use rdd_stdx::clock::SystemClock;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{STACK_BYTES, server};

/// The maximum difference between the slowest `/livez` of the loaded server and that of an idle server beside it.
const HEALTH_CHECK_TIME: Duration = Duration::from_millis(100);
/// The maximum number of measurements: the best one counts, because other programs use the machine too.
const TRIES: usize = 3;
/// The minimum number of responses under load. A server with fewer counts as unresponsive.
const ANSWERS_MIN: usize = 20;
/// The timeout of one request of the load. It is long because the requests wait for each other, and their own duration is not
/// judged.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MUTATING_HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING_HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A complete server with TLS, on a runtime like the daemon's.
struct TlsServer {
    kubeconfig: Kubeconfig,
    // Fields are dropped in order: server and core before the runtime that they run on.
    _server: Server,
    _core: Core,
    _runtime: Runtime,
    _folder: tempfile::TempDir,
}

impl TlsServer {
    fn start() -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).thread_stack_size(STACK_BYTES).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let clock = SystemClock::shared();
        let tls = Arc::new(Tls::open(&folder.path().join("tls"), clock.clone(), Box::new(|_| {})).unwrap());
        let (admin, user) = (Token::random(), Token::random());
        let tokens = Tokens::new([(admin.clone(), Identity::admin())]);
        let core = runtime.block_on(server::open_core());
        let parts = Parts {
            tls: tls.clone(),
            authenticators: Authenticators::standard(tokens),
            health: Health::default(),
            version: server::version(),
            figures: Vec::new(),
            backup: None,
            handler: core.endpoints(),
            limits: Limits { request_timeout: REQUEST_TIMEOUT, ..Limits::default() },
            clock,
        };
        let server = runtime.block_on(async { Server::start(serve::bind(0).await.unwrap(), parts) });
        let kubeconfig = Kubeconfig::for_daemon(server.address().port(), &tls.bundle(), admin.reveal(), user.reveal());
        Self { kubeconfig, _server: server, _core: core, _runtime: runtime, _folder: folder }
    }

    fn client(&self) -> TestClient {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::from_kubeconfig(&self.kubeconfig, None).unwrap().with_timeout(REQUEST_TIMEOUT);
        TestClient { client, runtime }
    }
}

/// A client on the caller's thread, with a new connection for each request.
struct TestClient {
    client: Client,
    runtime: Runtime,
}

impl TestClient {
    fn send(&self, method: &str, path: &str, content_type: &'static str, body: &Value) -> u16 {
        let content = (!body.is_null()).then(|| Content { kind: content_type, bytes: body.to_string().into() });
        self.runtime.block_on(self.client.call(method.parse().unwrap(), path, content)).unwrap().status.as_u16()
    }

    /// Requests `/livez` until `done`, and returns the duration of each response.
    fn check_health(&self, done: &AtomicBool) -> Vec<Duration> {
        let mut times = Vec::new();
        while !done.load(Ordering::SeqCst) {
            let began = Instant::now();
            assert_eq!(self.send("GET", "/livez", "application/json", &Value::Null), 200);
            times.push(began.elapsed());
        }
        times
    }
}

/// The durations of the responses in one run.
struct Round {
    loaded: Vec<Duration>,
    idle: Vec<Duration>,
}

impl Round {
    /// The difference between the slowest responses of the loaded server and the idle one.
    ///
    /// The threads of both servers compete for the same cores, also with other programs, which delays both. A worker that
    /// computes instead of responding delays only the loaded server.
    fn excess(&self) -> Duration {
        longest(&self.loaded).saturating_sub(longest(&self.idle))
    }
}

fn longest(times: &[Duration]) -> Duration {
    times.iter().max().copied().unwrap_or_default()
}

/// One request of the load.
struct HeavyRequest {
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Value,
    code: u16,
}

fn create(collection: &str, body: Value) -> HeavyRequest {
    HeavyRequest { method: "POST", path: collection.to_owned(), content_type: "application/json", body, code: 201 }
}

fn delete(collection: &str, name: &str) -> HeavyRequest {
    let path = format!("{collection}/{name}");
    HeavyRequest { method: "DELETE", path, content_type: "application/json", body: Value::Null, code: 200 }
}

fn mk_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn mk_service(name: &str, ports: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports}})
}

fn mk_definition(plural: &str) -> Value {
    let names = |prefix: &str| (0..20_000).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.busy.example.com")},
        "spec": {
            "group": "busy.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": format!("{plural}-one"), "kind": plural.to_uppercase(),
                "listKind": format!("{}List", plural.to_uppercase()), "shortNames": names("s"), "categories": names("c")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn mk_hooks(kind: &str) -> Value {
    let hook = |number: usize| {
        json!({"name": format!("h{number}.busy.example.com"), "clientConfig": {"url": "https://127.0.0.1:1/"},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "rules": [{"operations": ["CREATE"], "apiGroups": ["none.example.com"], "apiVersions": ["v1"], "resources": ["nothings"]}]})
    };
    let hooks: Vec<Value> = (0..10_000).map(hook).collect();
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "busy"}, "webhooks": hooks})
}

/// Requests with the longest lists, in fields whose items validation or a controller compares. The requests of one list run one
/// after the other, the lists concurrently.
fn mk_load() -> Vec<Vec<HeavyRequest>> {
    let mut load = Vec::new();
    let owner = |number| json!({"apiVersion": "v1", "kind": "A", "name": "n", "uid": format!("{number}")});
    let owners: Vec<Value> = (0..55_000).map(owner).collect();
    for name in ["owned-0", "owned-1", "owned-2", "owned-3"] {
        let mut map = mk_map(name);
        map["metadata"]["ownerReferences"] = json!(owners);
        load.push(vec![create(MAPS, map), delete(MAPS, name)]);
    }
    let mut held = mk_map("held");
    held["metadata"]["finalizers"] = (0..20_000).map(|number| format!("example.com/f{number}")).collect();
    load.push(vec![create(MAPS, held), delete(MAPS, "held")]);
    let ports = (1..=10_000).map(|port| json!({"name": format!("p{port}"), "port": port})).collect();
    load.push(vec![create(SERVICES, mk_service("wide", ports)), delete(SERVICES, "wide")]);
    let condition = |number| {
        json!({"type": format!("C{number}"), "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = (0..20_000).map(condition).collect();
    load.push(vec![
        create(SERVICES, mk_service("judged", vec![json!({"port": 80})])),
        HeavyRequest {
            method: "PATCH",
            path: format!("{SERVICES}/judged/status"),
            content_type: "application/merge-patch+json",
            body: json!({"status": {"conditions": conditions}}),
            code: 200,
        },
        delete(SERVICES, "judged"),
    ]);
    // Both definitions have the same short names and categories, which the controller compares.
    load.push(["as", "bs"].map(|plural| create(DEFINITIONS, mk_definition(plural))).into());
    load.push(vec![
        create(MUTATING_HOOKS, mk_hooks("MutatingWebhookConfiguration")),
        create(VALIDATING_HOOKS, mk_hooks("ValidatingWebhookConfiguration")),
        create(MAPS, mk_map("after-the-hooks")),
    ]);
    load
}

fn send_all(client: &TestClient, requests: &[HeavyRequest]) {
    for HeavyRequest { method, path, content_type, body, code } in requests {
        assert_eq!(client.send(method, path, content_type, body), *code, "{method} {path}");
    }
}

/// Sets a flag when it is dropped, also during a panic.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sends the whole load to one server while it measures `/livez` of both.
fn run_load(load: &[Vec<HeavyRequest>]) -> Round {
    // The idle server runs in the same process with the same number of threads: its latency is that of the machine.
    let (loaded, idle) = (TlsServer::start(), TlsServer::start());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let checks = [&loaded, &idle].map(|server| {
            let (client, done) = (server.client(), &done);
            scope.spawn(move || client.check_health(done))
        });
        let set_done = SetOnDrop(&done);
        let loaded = &loaded;
        let writers: Vec<_> =
            load.iter().map(|requests| scope.spawn(move || send_all(&loaded.client(), requests))).collect();
        for writer in writers {
            writer.join().expect("the load is accepted");
        }
        drop(set_done);
        let [loaded, idle] = checks.map(|check| check.join().unwrap());
        Round { loaded, idle }
    })
}

// Finding A-2
#[test]
fn the_longest_lists_do_not_hold_up_the_health_check() {
    let _alone = crate::measure_alone();
    let load = mk_load();
    let mut excess = Duration::MAX;
    for _ in 0..TRIES {
        let round = run_load(&load);
        let counts = (round.loaded.len(), round.idle.len());
        println!("{counts:?} answers, at most {:?} and {:?}", longest(&round.loaded), longest(&round.idle));
        assert!(counts.0 >= ANSWERS_MIN, "{} answers are too few to judge by", counts.0);
        excess = excess.min(round.excess());
        if excess <= HEALTH_CHECK_TIME {
            break;
        }
    }
    assert!(excess <= HEALTH_CHECK_TIME, "an answer took {excess:?} longer than any of an idle server");
}
