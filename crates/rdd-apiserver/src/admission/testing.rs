//! Test support for plug-ins: a state, and requests with attributes.

use std::{sync::Arc, time::Duration};

use rdd_meta::gvk::{GroupVersionKind, GroupVersionResource};
use rdd_stdx::clock::SystemClock;
use rdd_store::{Expect, MemoryStore};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Attributes, Operation, Warnings};
use crate::{
    auth::Identity,
    state::{Limits, MetadataExtract, Resource, State, Write},
};

/// An empty state.
pub(crate) async fn mk_state() -> Arc<State> {
    let store = Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()));
    let opened = State::open(store, Arc::new(MetadataExtract), SystemClock::shared(), Limits::default());
    Arc::new(opened.await.unwrap())
}

/// Puts an object into a state.
pub(crate) async fn put(state: &State, group: &str, plural: &str, namespace: Option<&str>, name: &str, json: &str) {
    let key = Resource::new(group, plural).unwrap().key(namespace, name).unwrap();
    state.commit(Write::put(key, Expect::Any, json.to_owned())).await.unwrap();
}

/// A request that yields attributes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) kind: GroupVersionKind,
    pub(crate) resource: GroupVersionResource,
    pub(crate) subresource: &'static str,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
    pub(crate) dry_run: bool,
    pub(crate) time_left: Duration,
    pub(crate) warnings: Warnings,
}

impl Request {
    /// A request for a cluster-scoped resource of the core group, version v1.
    pub(crate) fn new(operation: Operation, plural: &str, kind: &str, name: &str) -> Self {
        Self {
            operation,
            kind: GroupVersionKind::new("", "v1", kind),
            resource: GroupVersionResource::new("", "v1", plural),
            subresource: "",
            name: name.to_owned(),
            namespace: None,
            object: None,
            old: None,
            dry_run: false,
            time_left: Duration::from_secs(30),
            warnings: Warnings::default(),
        }
    }

    pub(crate) fn group(mut self, group: &str) -> Self {
        group.clone_into(&mut self.kind.group);
        group.clone_into(&mut self.resource.group);
        self
    }

    pub(crate) fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    pub(crate) fn object(mut self, object: Value) -> Self {
        self.object = Some(object);
        self
    }

    /// Runs a function with the attributes of the request.
    pub(crate) async fn with<T>(&self, work: impl AsyncFnOnce(&mut Attributes<'_>) -> T) -> T {
        let user = Identity::admin();
        let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut attributes = Attributes {
            operation: self.operation,
            kind: &self.kind,
            resource: &self.resource,
            subresource: self.subresource,
            name: &self.name,
            namespace: self.namespace.as_deref(),
            object: self.object.clone(),
            old: self.old.clone().map(Arc::new),
            options: &options,
            dry_run: self.dry_run,
            user: &user,
            deadline: Instant::now() + self.time_left,
            warnings: &self.warnings,
        };
        work(&mut attributes).await
    }
}
