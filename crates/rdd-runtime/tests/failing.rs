//! Starts that fail report the cause, leave nothing behind, and succeed after the cause is gone.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use kube::{Client, client::Body};
use rdd_apiserver::{
    respond::{self, Response},
    serve::InProcess,
};
use rdd_meta::Status;
use rdd_runtime::{
    Registered,
    discovery::Registry,
    hooks::Hooks,
    manager::{Manager, Options, Place, Role, Started},
    metrics::Metrics,
    probe::Unhurt,
};
use rdd_stdx::{chain::Chain, clock::SystemClock};
use rdd_testkit::{
    api::{Server, TestApi},
    controllers::{Stage, hooks_of},
};
use serde_json::json;
use things::{judge::Judge, place};
use tower_service::Service;

/// A server that refuses webhook configurations while the test wants it.
#[derive(Clone)]
struct Refusing {
    door: InProcess,
    refuses: Arc<AtomicBool>,
}

impl Service<http::Request<Body>> for Refusing {
    type Response = Response;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let is_hook = request.uri().path().contains("/validatingwebhookconfigurations/");
        if is_hook && request.method() == http::Method::PATCH && self.refuses.load(Ordering::SeqCst) {
            let mut status = Status::forbidden("");
            status.message = "configurations are not to be written".to_owned();
            return Box::pin(async move { Ok(respond::status(&status)) });
        }
        self.door.call(request)
    }
}

fn options(client: &Client, hooks: &Arc<dyn Hooks>, health_port: u16) -> Options {
    Options {
        name: "embedded".to_owned(),
        role: Role::Embedded(Place { health_port, ..place() }),
        client: client.clone(),
        clock: SystemClock::shared(),
        hooks: Arc::clone(hooks),
        probe: Arc::new(Unhurt),
        metrics: Metrics::default(),
        progress: Arc::new(|_| {}),
    }
}

fn mk_api() -> TestApi {
    let api = TestApi::start();
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "rdd-system"}})).expect(201);
    api
}

#[test]
fn a_webhook_that_cannot_be_configured_is_named_and_nothing_is_ready_without_it() {
    let api = mk_api();
    let stage = Stage::over(&api, Vec::new);
    let refuses = Arc::new(AtomicBool::new(true));
    let refusing = Refusing { door: api.door(), refuses: Arc::clone(&refuses) };
    stage.block_on(async {
        let (client, hooks) = (Client::new(refusing, "default"), hooks_of(&api));
        let error = Manager::start(options(&client, &hooks, 0), vec![Registered::new(Judge)]).await.unwrap_err();
        let error = Chain(&error).to_string();
        assert!(error.starts_with("apply the webhook configuration thing-"), "{error}");
        assert!(error.ends_with("configurations are not to be written"), "{error}");
        let list = Registry::new(client.clone()).read().await.unwrap().unwrap();
        assert!(!list.ready, "it has registered and is not ready");
        let things = kube::Api::<things::Thing>::all(client.clone()).list(&kube::api::ListParams::default()).await;
        assert!(things.is_err_and(|error| rdd_runtime::is_not_found(&error)), "no kind without what guards it");

        refuses.store(false, Ordering::SeqCst);
        let started = Manager::start(options(&client, &hooks, 0), vec![Registered::new(Judge)]).await.unwrap();
        let Started::Running(manager) = started else { panic!("it has something to do") };
        assert!(Registry::new(client.clone()).read().await.unwrap().unwrap().ready);
        manager.stop(Duration::from_secs(5)).await;
    });
}

#[test]
fn what_stands_in_the_way_is_told_also_before_there_is_a_list_of_managers() {
    let api = mk_api();
    let stage = Stage::over(&api, Vec::new);
    let registry = Registry::new(stage.client());
    for problem in ["no disk", "no power"] {
        stage.block_on(registry.annotate(false, Some(problem))).unwrap();
        let list = api.get("/api/v1/namespaces/rdd-system/configmaps/rdd-controller-manager").expect(200);
        assert_eq!(list["metadata"]["annotations"]["rdd.rancherdesktop.io/problem"], problem);
    }
}

#[test]
fn a_port_that_is_taken_is_no_reason_not_to_start() {
    let api = mk_api();
    let stage = Stage::over(&api, Vec::new);
    let client = stage.client();
    stage.block_on(async {
        let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let hooks = hooks_of(&api);
        let started = Manager::start(options(&client, &hooks, port), vec![Registered::new(Judge)]).await.unwrap();
        let Started::Running(manager) = started else { panic!("it has something to do") };
        let list = Registry::new(client.clone()).read().await.unwrap().unwrap();
        assert_ne!(list.entries["embedded"].health_port, port);
        assert!(manager.is_well());
        manager.stop(Duration::from_secs(5)).await;
    });
}
