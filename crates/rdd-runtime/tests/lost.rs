//! A server that disappears and returns under running controllers: they reconnect and miss no change.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::{
    sync::{Arc, RwLock},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use kube::{Client, client::Body};
use rdd_apiserver::{respond::Response, serve::InProcess, state};
use rdd_runtime::{
    Registered,
    hooks::Local,
    manager::{Manager, Options, Role, Started},
    metrics::Metrics,
    probe::Unhurt,
};
use rdd_stdx::clock::SystemClock;
use rdd_store::{MemoryStore, Store};
use rdd_testkit::api::{Server, TestApi};
use serde_json::json;
use things::{Hands, Things, World, until};
use tower_service::Service;

/// The current server, if there is one.
#[derive(Clone)]
struct Switch(Arc<RwLock<Option<InProcess>>>);

impl Service<http::Request<Body>> for Switch {
    type Response = Response;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, Result<Response, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let door = self.0.read().unwrap().clone();
        Box::pin(async move {
            match door {
                Some(mut door) => door.call(request).await.map_err(|never| match never {}),
                None => Err(std::io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

fn mk_api(store: &Arc<MemoryStore>) -> TestApi {
    let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(store);
    TestApi::start_over(store, state::Limits::default(), SystemClock::shared())
}

#[test]
fn controllers_follow_a_server_that_starts_anew_and_do_nothing_twice() {
    let store = Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()));
    let first = mk_api(&store);
    let switch = Switch(Arc::new(RwLock::new(Some(first.door()))));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let world = Arc::<World>::default();
    let (client, manager) = runtime.block_on(async {
        let client = Client::new(switch.clone(), "default");
        let options = Options {
            name: "test".to_owned(),
            role: Role::Alone,
            client: client.clone(),
            clock: SystemClock::shared(),
            hooks: Arc::new(Local {
                base: String::new(),
                ca_bundle: String::new(),
                register: Arc::new(|_, _| Box::new(())),
            }),
            probe: Arc::new(Unhurt),
            metrics: Metrics::default(),
            progress: Arc::new(|_| {}),
        };
        let started = Manager::start(options, vec![Registered::new(Things(Arc::clone(&world)))]).await.unwrap();
        let Started::Running(manager) = started else { panic!("it has something to do") };
        (client, manager)
    });
    let hands = Hands::new(client);
    runtime.block_on(async {
        hands.make("a", "1", "").await;
        hands.make("b", "1", "").await;
        until("the copies", || async { hands.seen("a").await.is_some() && hands.seen("b").await.is_some() }).await;
        until("quiet", || manager.is_quiet()).await;
    });
    let version = || first_version(&runtime, &hands, "a");
    let before = version();

    *switch.0.write().unwrap() = None;
    drop(first);
    let second = mk_api(&store);
    // A change while no watch runs.
    let thing = "/apis/test.rancherdesktop.io/v1/namespaces/default/things/b";
    eventually_served(&second, thing);
    second.merge(thing, &json!({"spec": {"value": "2"}})).expect(200);
    *switch.0.write().unwrap() = Some(second.door());

    runtime.block_on(async {
        until("the change in the gap", || async { hands.copied("b").await.as_deref() == Some("2") }).await;
        until("quiet", || manager.is_quiet()).await;
    });
    assert_eq!(version(), before, "what was right already was not written again");
    assert!(manager.is_well());
    runtime.block_on(manager.stop(Duration::from_secs(5)));
}

fn eventually_served(api: &TestApi, path: &str) {
    rdd_testkit::eventually("the kind", Duration::from_secs(20), || (api.get(path).code == 200).then_some(()));
}

fn first_version(runtime: &tokio::runtime::Runtime, hands: &Hands, name: &str) -> Option<String> {
    runtime.block_on(hands.0.get(name)).unwrap().metadata.resource_version
}
