//! A complete server over a store in memory, with an admission plug-in that interferes with writes.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rdd_apiserver::{
    admission::{Admit, Attributes, Judgement, Operation, Reform},
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{Core, Parts},
    rest::local::{Local, Named},
    version::Version,
};
use rdd_meta::{Status, options::DeleteOptions};
use rdd_stdx::clock::SystemClock;
use rdd_store::MemoryStore;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server, and a client in its process.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) client: Local,
    pub(crate) meddler: Arc<Meddler>,
}

/// An action to run once during a write: after admission, before the store.
pub(crate) type Meddling = Box<dyn FnOnce(Local) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// An admission plug-in that runs actions during writes, and records what it is called for.
#[derive(Default)]
pub(crate) struct Meddler {
    client: OnceLock<Local>,
    meddling: Mutex<Option<(Operation, String, Meddling)>>,
    /// In this many creates with a generated name, another ConfigMap takes the name first.
    pub(crate) rivals: AtomicUsize,
    /// The resource, name and options of every delete.
    pub(crate) deletes: Mutex<Vec<(String, String, Value)>>,
}

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meddler")
    }
}

impl Meddler {
    /// Runs this action during the next such operation on an object of this name.
    pub(crate) fn meddle<F: Future<Output = ()> + Send + 'static>(
        &self,
        operation: Operation,
        name: &str,
        act: impl FnOnce(Local) -> F + Send + 'static,
    ) {
        let act: Meddling = Box::new(|client| Box::pin(act(client)));
        *self.meddling.lock().unwrap() = Some((operation, name.to_owned(), act));
    }
}

impl Meddler {
    /// The generated name of an object, if a rival should take it.
    fn rivalled(&self, attributes: &Attributes<'_>) -> Option<String> {
        let metadata = &attributes.object.as_ref()?["metadata"];
        metadata["generateName"].as_str()?;
        let next = |left: usize| left.checked_sub(1);
        self.rivals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok()?;
        metadata["name"].as_str().map(str::to_owned)
    }
}

/// The name of objects whose managed fields the meddler replaces by invalid ones.
pub(crate) const SPOILED: &str = "spoiled";

impl Admit for Meddler {
    fn handles(&self, _: &Attributes<'_>) -> bool {
        true
    }

    fn mutate<'f>(&'f self, attributes: &'f mut Attributes<'_>, _: Reform<'f>) -> Judgement<'f> {
        if attributes.name == SPOILED
            && let Some(object) = &mut attributes.object
        {
            object["metadata"]["managedFields"] = json!([{"manager": "meddler"}]);
        }
        Box::pin(async { Ok(()) })
    }

    fn validate<'f>(&'f self, attributes: &'f Attributes<'_>) -> Judgement<'f> {
        if attributes.operation == Operation::Delete {
            let noted = (attributes.resource.resource.clone(), attributes.name.to_owned(), attributes.options.clone());
            self.deletes.lock().unwrap().push(noted);
        }
        if let Some(name) = self.rivalled(attributes) {
            let client = self.client.get().unwrap().clone();
            return Box::pin(async move {
                let rival = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
                client.create(maps(""), rival).await.map(drop)
            });
        }
        let mut meddling = self.meddling.lock().unwrap();
        let wanted = |(operation, name, _): &mut (Operation, String, Meddling)| {
            *operation == attributes.operation && *name == attributes.name
        };
        let Some((_, _, act)) = meddling.take_if(wanted) else { return Box::pin(async { Ok(()) }) };
        let client = self.client.get().unwrap().clone();
        Box::pin(async move {
            act(client).await;
            Ok(())
        })
    }
}

/// The version that the server reports.
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

impl World {
    pub(crate) async fn open() -> Self {
        let text = str::to_owned;
        let meddler = Arc::new(Meddler::default());
        let parts = Parts {
            store: Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared())),
            clock: SystemClock::shared(),
            version: version(),
            endowment: Endowment { namespaces: vec![text("default")], ca_bundle: Arc::new(String::new), port: 6443 },
            tokens: None,
            reviewer: TokenReviewer::new(|_, _| None),
            plugins: vec![Arc::clone(&meddler) as Arc<dyn Admit>],
        };
        let core = bounded(Core::open(parts)).await.unwrap();
        let client = Local::new(Arc::clone(core.api()), "test");
        meddler.client.set(client.clone()).unwrap();
        Self { core, client, meddler }
    }

    /// Creates a ConfigMap in `default` with these owners, each of which it blocks from deletion, and returns its uid.
    pub(crate) async fn map(&self, name: &str, owners: &[(&str, &str)]) -> String {
        let owners: Vec<Value> = owners.iter().map(|(name, uid)| reference("v1", "ConfigMap", name, uid)).collect();
        self.map_owned(name, json!(owners)).await
    }

    pub(crate) async fn map_owned(&self, name: &str, owners: Value) -> String {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": owners},
        });
        let made = bounded(self.client.create(maps(""), object)).await.unwrap();
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.client.get(maps(name)).is_ok()
    }

    pub(crate) async fn delete(&self, name: &str, policy: &str) {
        bounded(self.client.delete(maps(name), &propagating(policy))).await.unwrap();
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        bounded(self.client.create(namespaces(""), object)).await.unwrap();
    }

    /// Creates the definition of widgets of `example.dev`, whose spec has these properties.
    pub(crate) async fn define(&self, properties: Value) {
        bounded(self.client.create(definitions(""), definition(properties))).await.unwrap();
    }
}

pub(crate) fn definition(properties: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": properties}},
                }},
            }],
        },
    })
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

pub(crate) fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true})
}

pub(crate) fn propagating(policy: &str) -> DeleteOptions {
    DeleteOptions { propagation_policy: Some(policy.to_owned()), ..DeleteOptions::default() }
}

pub(crate) fn maps(name: &str) -> Named<'_> {
    Named { group: "", resource: "configmaps", namespace: Some("default"), name, subresource: "" }
}

pub(crate) fn namespaces(name: &str) -> Named<'_> {
    Named { group: "", resource: "namespaces", namespace: None, name, subresource: "" }
}

pub(crate) fn definitions(name: &str) -> Named<'_> {
    let group = "apiextensions.k8s.io";
    Named { group, resource: "customresourcedefinitions", namespace: None, name, subresource: "" }
}

pub(crate) fn widgets(name: &str) -> Named<'_> {
    Named { group: "example.dev", resource: "widgets", namespace: Some("default"), name, subresource: "" }
}

/// Awaits a future, with a timeout.
pub(crate) async fn bounded<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

/// Polls until the condition holds, with a timeout.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    let looking = async {
        while !is_so() {
            looks.tick().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "in time: {what}");
}

/// Starts a write and drops it after yielding this many times, whether or not it is complete.
pub(crate) async fn abandon<T>(write: impl Future<Output = Result<T, Status>>, steps: usize) {
    let going_away = async {
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = write => {}
        () = going_away => {}
    }
}
