//! Tests of several managers over one API: each controller runs in one of them, and a manager that ends frees its controllers.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use rdd_runtime::{
    Registered,
    discovery::{self, Registry},
    hooks::Local,
    manager::{Manager, Options, Place, Role, Started},
    metrics::Metrics,
    probe::Unhurt,
};
use rdd_stdx::clock::SystemClock;
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::Stage,
};
use serde_json::json;
use things::{Hands, Things, World, until};

fn place() -> Place {
    Place {
        health_port: 0,
        metrics_port: 6443,
        metrics_endpoint: "https://127.0.0.1:6443/metrics".to_owned(),
        passthrough_endpoint: "https://127.0.0.1:6443/passthrough/".to_owned(),
        passthrough_socket: None,
    }
}

fn options(client: &Client, name: &str, role: Role) -> Options {
    Options {
        name: name.to_owned(),
        role,
        client: client.clone(),
        clock: SystemClock::shared(),
        hooks: Arc::new(Local {
            base: "https://127.0.0.1:1".to_owned(),
            ca_bundle: String::new(),
            register: Arc::new(|_, _| Box::new(())),
        }),
        probe: Arc::new(Unhurt),
        metrics: Metrics::default(),
        progress: Arc::new(|_| {}),
    }
}

async fn start(client: &Client, name: &str, role: Role, world: &Arc<World>) -> Started {
    let controllers = vec![Registered::new(Things(Arc::clone(world)))];
    Manager::start(options(client, name, role), controllers).await.unwrap()
}

async fn running(client: &Client, name: &str, role: Role, world: &Arc<World>) -> Manager {
    match start(client, name, role, world).await {
        Started::Running(manager) => *manager,
        other @ Started::NothingToDo(_) => panic!("{other:?}"),
    }
}

fn run<F: Future<Output = ()>>(scenario: impl FnOnce(Client) -> F) {
    let api = TestApi::start();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "rdd-system"}})).expect(201);
    let stage = Stage::over(&api, Vec::new);
    let client = stage.client();
    stage.block_on(async { tokio::time::timeout(Duration::from_secs(90), scenario(client)).await.expect("in time") });
}

async fn listed(client: &Client) -> Vec<(String, Option<Vec<String>>)> {
    let found = Registry::new(client.clone()).read().await.unwrap().unwrap();
    found.entries.into_iter().map(|(name, entry)| (name, entry.enabled_controllers)).collect()
}

fn things_of(name: &str) -> Vec<(String, Option<Vec<String>>)> {
    vec![(name.to_owned(), Some(vec!["things".to_owned()]))]
}

// Finding O-1
#[test]
fn the_daemons_manager_begins_the_list_anew_and_is_ready_when_it_can_be_used() {
    run(|client| async move {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(client.clone(), discovery::NAMESPACE);
        let world = Arc::default();
        let mut uid = None;
        for _ in 0..2 {
            let manager = running(&client, "embedded", Role::Embedded(place()), &world).await;
            assert!(manager.is_well());
            let map = maps.get(discovery::NAME).await.unwrap();
            assert_ne!(map.uid(), uid, "made anew");
            uid = map.uid();
            assert_eq!(map.annotations()[discovery::READY], "true");
            assert_eq!(map.labels()["app.kubernetes.io/name"], "rancher-desktop-daemon");
            assert_eq!(listed(&client).await, things_of("embedded"));
            // Ready means that an object of the kind can be created at once and is reconciled.
            let hands = Hands::new(client.clone());
            let name = format!("t-{}", uid.clone().unwrap());
            hands.make(&name, "1", "").await;
            until("the copy", || async { hands.copied(&name).await.is_some() }).await;
            manager.stop(Duration::from_secs(5)).await;
            assert_eq!(listed(&client).await, [], "it takes its registration away");
        }
    });
}

// Finding O-8
#[test]
fn health_says_200_or_503_and_nothing_else() {
    run(|client| async move {
        let manager = running(&client, "embedded", Role::Embedded(place()), &Arc::default()).await;
        let entry = Registry::new(client.clone()).read().await.unwrap().unwrap().entries.remove("embedded").unwrap();
        let ask = |path: &'static str| {
            let port = entry.health_port;
            async move {
                use tokio::io::{AsyncReadExt, AsyncWriteExt};
                let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                let (head, body) = answer.split_once("\r\n\r\n").unwrap();
                assert_eq!(body, "", "{path}");
                head.split(' ').nth(1).unwrap().to_owned()
            }
        };
        assert_eq!((ask("/healthz").await, ask("/readyz").await), ("200".to_owned(), "200".to_owned()));
        assert_eq!((ask("/metrics").await, ask("/debug").await), ("503".to_owned(), "503".to_owned()));
        assert_eq!(entry.health_endpoint, format!("http://localhost:{}/healthz", entry.health_port));
        manager.kill().await;
    });
}

#[test]
fn of_managers_that_want_the_same_controller_one_gets_it() {
    run(|client| async move {
        let world = Arc::<World>::default();
        let names = ["a", "b", "c", "d", "e", "f"];
        let starts = names.map(|name| start(&client, name, Role::External(place()), &world));
        let started = futures::future::join_all(starts).await;
        let winners = started.iter().filter(|one| matches!(one, Started::Running(_))).count();
        assert_eq!(winners, 1, "{started:?}");
        let hands = Hands::new(client.clone());
        hands.make("t", "1", "").await;
        until("the copy", || async { hands.seen("t").await.is_some() }).await;
        assert_eq!(listed(&client).await.len(), 1);
    });
}

#[test]
fn a_manager_that_was_killed_leaves_its_place_to_the_next() {
    run(|client| async move {
        let world = Arc::<World>::default();
        let first = running(&client, "first", Role::External(place()), &world).await;
        assert!(matches!(start(&client, "second", Role::External(place()), &world).await, Started::NothingToDo(_)));
        drop(first);
        assert_eq!(listed(&client).await, things_of("first"), "a killed one cannot say good-bye");
        let second = running(&client, "second", Role::External(place()), &world).await;
        assert_eq!(listed(&client).await, things_of("second"));
        let hands = Hands::new(client.clone());
        hands.make("t", "1", "").await;
        until("the copy", || async { hands.seen("t").await.is_some() }).await;
        second.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn a_manager_takes_over_from_another_that_goes_and_ends_when_its_controllers_are_anothers() {
    run(|client| async move {
        let world = Arc::<World>::default();
        let first = running(&client, "first", Role::External(place()), &world).await;
        // It has its own controller, and wants that of the first manager as well.
        let controllers = vec![Registered::new(Idle), Registered::new(Things(Arc::clone(&world)))];
        let second = Manager::start(options(&client, "second", Role::External(place())), controllers).await.unwrap();
        let Started::Running(second) = second else { panic!("it has something to do") };
        assert_eq!(second.controllers(), ["idle"]);
        let kept = async { second.keep().await };
        let scenario = async {
            first.stop(Duration::from_secs(5)).await;
            until("the second one to take over", || async { second.controllers() == ["idle", "things"] }).await;
            let hands = Hands::new(client.clone());
            hands.make("t", "1", "").await;
            until("the copy", || async { hands.seen("t").await.is_some() }).await;
            let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
                Api::namespaced(client.clone(), discovery::NAMESPACE);
            maps.delete(discovery::NAME, &kube::api::DeleteParams::default()).await.unwrap();
            let both = vec![("second".to_owned(), Some(vec!["idle".to_owned(), "things".to_owned()]))];
            until("the list to come back", || async {
                maps.get_opt(discovery::NAME).await.unwrap().is_some() && listed(&client).await == both
            })
            .await;
            // Another living process has its port: it accepts connections and answers slowly.
            let slow = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let taken = json!({
                "healthPort": slow.local_addr().unwrap().port(), "metricsPort": 1, "enabledControllers": ["idle"], "startTime": "",
                "healthEndpoint": "", "metricsEndpoint": "", "passthroughEndpoint": "", "id": "another",
            });
            let patch = json!({"data": {"second": taken.to_string()}});
            maps.patch(discovery::NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
            slow
        };
        let (lost, _slow) = tokio::join!(kept, scenario);
        assert!(lost.why.starts_with("other managers run what ran here"), "{}", lost.why);
    });
}

/// A controller that does nothing.
struct Idle;

#[derive(Debug)]
enum Never {}

impl rdd_runtime::Step for Never {
    const ALL: &'static [&'static str] = &[];

    fn name(&self) -> &'static str {
        match *self {}
    }
}

impl rdd_runtime::Controller for Idle {
    type Object = k8s_openapi::api::core::v1::Secret;
    type Observed = ();
    type Step = Never;

    fn declaration(&self) -> rdd_runtime::Declaration {
        rdd_runtime::Declaration::new("idle", "test")
    }

    async fn observe(&self, _: Arc<Self::Object>, _: &rdd_runtime::Context) -> Result<(), rdd_runtime::Error> {
        Ok(())
    }

    fn plan(&self, (): &()) -> rdd_runtime::Plan<Never> {
        rdd_runtime::Plan::nothing()
    }

    async fn act(&self, step: &Never, (): &(), _: &rdd_runtime::Context) -> Result<(), rdd_runtime::Error> {
        match *step {}
    }
}
