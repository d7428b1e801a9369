//! An API with a few test resources, and a client for it.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use rdd_apiserver::{
    admission::Chain,
    registry::{
        ALL_VERBS, Backing, Custom, Manners, Part, READ_VERBS, Registry, ResourceDef, Stored, SubresourceDef,
        VersionDef,
    },
    represent,
    respond::{Body, Response},
    rest::{self, Api, Order, Target, resolve::resolve},
    state::{Limits, MetadataExtract, Resource, State, Write},
};
use rdd_meta::{
    path::{RequestInfo, Verb},
    query::Query,
};
use rdd_schema::crd::Scale;
use rdd_stdx::clock::ManualClock;
use rdd_store::{Expect, MemoryStore, Revision, Store};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::kind::Thing;

pub(crate) const THINGS: &str = "/apis/example.dev/v1/namespaces/ns/things";
pub(crate) const WIDGETS: &str = "/api/v1/widgets";
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
pub(crate) const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// An API, and access to the state behind it.
pub(crate) struct World {
    pub(crate) api: Arc<Api>,
    pub(crate) stopping: CancellationToken,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_limits(Limits::default()).await
    }

    pub(crate) async fn with_limits(limits: Limits) -> Self {
        let clock = ManualClock::shared(Duration::from_secs(1_700_000_100));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(rdd_store::Limits::default(), clock.clone()));
        let state = bounded(State::open(store, Arc::new(MetadataExtract), clock.clone(), limits)).await.unwrap();
        let api = Api {
            state: Arc::new(state),
            registry: Arc::new(Registry::new([mk_things("uid-1", 0), mk_widgets(), mk_namespaces()])),
            admission: Chain::default(),
            clock,
            order: Order::default(),
        };
        Self { api: Arc::new(api), stopping: CancellationToken::new() }
    }

    /// Stores a thing in namespace `ns`.
    pub(crate) async fn put(&self, name: &str, size: i64, label: &str) -> Revision {
        self.put_in("ns", name, size, label).await
    }

    pub(crate) async fn put_in(&self, namespace: &str, name: &str, size: i64, label: &str) -> Revision {
        let json = json!({
            "apiVersion": "example.dev/v1", "kind": "Thing",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2023-11-14T22:13:20Z",
                "uid": format!("uid-{name}"), "labels": {"on": label}},
            "spec": {"size": size},
        });
        let key = resource("example.dev", "things").key(Some(namespace), name).unwrap();
        self.commit(Write::put(key, Expect::Any, json_bytes(&json))).await
    }

    pub(crate) async fn put_widget(&self, name: &str, data: &str) -> Revision {
        let json = json!({
            "apiVersion": "v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}, "data": data,
        });
        let key = resource("", "widgets").key(None, name).unwrap();
        self.commit(Write::put(key, Expect::Any, json_bytes(&json))).await
    }

    pub(crate) async fn put_namespace(&self, name: &str) -> Revision {
        let json = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {}, "status": {"phase": "Active"},
        });
        let key = resource("", "namespaces").key(None, name).unwrap();
        self.commit(Write::put(key, Expect::Any, json_bytes(&json))).await
    }

    pub(crate) async fn delete(&self, name: &str) -> Revision {
        let key = resource("example.dev", "things").key(Some("ns"), name).unwrap();
        self.commit(Write::delete(key, Expect::Any)).await
    }

    async fn commit(&self, write: Write) -> Revision {
        bounded(self.api.state.commit(write)).await.unwrap().revision
    }

    pub(crate) fn target(&self, path: &str) -> (Target, Verb) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let info = RequestInfo::parse("GET", path, &Query::parse(query)).unwrap();
        (resolve(&self.api.registry.served(), &http::Method::GET, &info).unwrap(), info.verb)
    }

    /// Sends a GET; an error becomes the response with its `Status`.
    pub(crate) async fn response(&self, path: &str, headers: &[(&str, &str)]) -> Response {
        let request = headers.iter().fold(Request::get(path), |request, (name, value)| request.header(*name, *value));
        let head = request.body(()).unwrap().into_parts().0;
        let (target, verb) = self.target(path);
        let answered = match verb {
            Verb::Get => rest::get(&self.api, &target, &head).await,
            Verb::List => rest::list(&self.api, &target, &head).await,
            _ => rest::watch(&self.api, &target, &head, self.stopping.clone()).await,
        };
        answered.unwrap_or_else(|status| represent::error(&head, &status))
    }

    pub(crate) async fn ask(&self, path: &str, headers: &[(&str, &str)]) -> Told {
        let response = self.response(path, headers).await;
        let (head, body) = response.into_parts();
        let body = bounded(body.collect()).await.unwrap().to_bytes();
        Told { code: head.status, headers: head.headers, body }
    }

    /// Sends a GET; returns the response as JSON.
    pub(crate) async fn json(&self, path: &str) -> Value {
        self.ask(path, &[]).await.json()
    }

    pub(crate) async fn accept(&self, path: &str, accept: &str) -> Told {
        self.ask(path, &[("accept", accept)]).await
    }

    pub(crate) async fn watch(&self, path: &str) -> Lines {
        self.watch_as(path, "*/*").await
    }

    /// Opens a watch of a target that was resolved before.
    pub(crate) async fn watch_of(&self, target: &Target, path: &str) -> Lines {
        let head = Request::get(path).body(()).unwrap().into_parts().0;
        let response = rest::watch(&self.api, target, &head, self.stopping.clone()).await.unwrap();
        Lines { body: response.into_body(), rest: Vec::new() }
    }

    pub(crate) async fn watch_as(&self, path: &str, accept: &str) -> Lines {
        let response = self.response(path, &[("accept", accept)]).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/json");
        Lines { body: response.into_body(), rest: Vec::new() }
    }
}

/// A complete response.
pub(crate) struct Told {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Told {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }
}

/// The events of a watch.
pub(crate) struct Lines {
    body: Body,
    rest: Vec<u8>,
}

impl Lines {
    /// Reads the next event; `None` at a clean end.
    pub(crate) async fn event(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.frame().await?;
            self.rest.extend_from_slice(&frame);
        }
    }

    /// Reads the next frame of the body.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        // A long timeout costs nothing while time is paused.
        let frame = tokio::time::timeout(Duration::from_hours(24), self.body.frame()).await.unwrap();
        Some(frame?.unwrap().into_data().unwrap())
    }

    /// Reads the next event and abbreviates it to type, name and version; for a Status to its message.
    pub(crate) async fn short(&mut self) -> String {
        let Some(event) = self.event().await else { return "end".to_owned() };
        let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
        if kind == "ERROR" {
            return format!("ERROR {} {}", object["code"], object["message"].as_str().unwrap());
        }
        let metadata = &object["metadata"];
        let version = metadata["resourceVersion"].as_str().unwrap();
        let end = if metadata["annotations"]["k8s.io/initial-events-end"] == "true" { " end" } else { "" };
        format!("{kind} {}@{version}{end}", metadata["name"].as_str().unwrap_or_default())
    }
}

pub(crate) fn resource(group: &str, plural: &str) -> Resource {
    Resource::new(group, plural).unwrap()
}

fn json_bytes(value: &Value) -> Vec<u8> {
    rdd_apiserver::registry::form::write(value)
}

/// A namespaced custom resource with two versions and a scale subresource.
pub(crate) fn mk_things(uid: &str, revision: u64) -> ResourceDef {
    let paths = Scale {
        spec_replicas_path: ".spec.size".to_owned(),
        status_replicas_path: ".status.size".to_owned(),
        label_selector_path: None,
    };
    let scale = SubresourceDef { name: "scale", verbs: READ_VERBS, part: Part::Scale(Arc::new(paths)) };
    let version = |name: &str, stored, subresources| VersionDef {
        name: name.to_owned(),
        kind: Arc::new(Thing),
        deprecation: None,
        stored,
        subresources,
    };
    ResourceDef {
        group: "example.dev".to_owned(),
        plural: "things".to_owned(),
        singular: "thing".to_owned(),
        kind: "Thing".to_owned(),
        list_kind: "ThingList".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: ALL_VERBS,
        backing: Backing::Stored(resource("example.dev", "things")),
        versions: vec![version("v1", Stored::Same, vec![scale]), version("v2", Stored::Renamed, Vec::new())],
        storage_version: "v1".to_owned(),
        manners: Manners::default(),
        custom: Some(Custom::new(uid.to_owned(), Revision(revision), false)),
    }
}

/// A cluster-scoped built-in resource.
fn mk_widgets() -> ResourceDef {
    let things = mk_things("", 0);
    ResourceDef {
        group: String::new(),
        plural: "widgets".to_owned(),
        singular: "widget".to_owned(),
        kind: "Widget".to_owned(),
        list_kind: "WidgetList".to_owned(),
        namespaced: false,
        backing: Backing::Stored(resource("", "widgets")),
        manners: Manners { untyped_items: true, ..Manners::default() },
        custom: None,
        ..things
    }
}

/// A resource whose kind is in the table of types, and which therefore has a protobuf form.
fn mk_namespaces() -> ResourceDef {
    ResourceDef {
        plural: "namespaces".to_owned(),
        singular: "namespace".to_owned(),
        kind: "Namespace".to_owned(),
        list_kind: "NamespaceList".to_owned(),
        backing: Backing::Stored(resource("", "namespaces")),
        ..mk_widgets()
    }
}

/// Awaits a future, with a timeout.
pub(crate) async fn bounded<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it happens within 30 s")
}
