//! The baseline of a first sync: a loop of the same writes through the same in-process API, without a socket.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use rdd_apiserver::{
    auth::Identity,
    builtin::TokenReviewer,
    controllers::Endowment,
    core::{Core, Parts},
    serve::InProcess,
    version::{self, Version},
};
use rdd_stdx::{clock::SystemClock, task::Group};
use rdd_store::{Store, sqlite};
use rdd_types::{
    CustomResourceExt,
    containers::{Container, Image},
    names::finalizer::MIRROR,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The number of concurrent writes, the same as the mirror's.
const CONCURRENT_WRITES: usize = 32;
/// The daemon's stack size; schemas and bodies are traversed recursively.
const STACK_BYTES: usize = 8 << 20;
/// The namespace of all objects.
const NAMESPACE: &str = "mirrored";
const FIELD_MANAGER: &str = "bench";

/// Measures how long it takes to write these mirrors: each object, then its status.
///
/// The server is the daemon's, with a datastore in `folder`, and the client is the controllers': `kube` over [`InProcess`]. There are no
/// sockets, watches or controllers.
pub(super) fn measure(folder: &Path, mirrors: &[Value]) -> Result<Duration> {
    let runtime = daemon_runtime()?;
    runtime.block_on(async {
        let server = InProcessServer::open(folder).await?;
        let took = write_all(&server.client, mirrors).await;
        server.close().await?;
        took
    })
}

/// A runtime with the daemon's number of threads.
fn daemon_runtime() -> Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads).thread_stack_size(STACK_BYTES).enable_all().build().context("start the runtime")
}

/// An API server with the kinds of the mirror, reachable only in this process.
struct InProcessServer {
    client: Client,
    store: Arc<dyn Store>,
    // Its background tasks end when it is dropped.
    core: Core,
}

impl InProcessServer {
    async fn open(folder: &Path) -> Result<Self> {
        let clock = SystemClock::shared();
        let store = sqlite::open(&folder.join("state.db"), sqlite::Options::default()).context("open a datastore")?;
        let store: Arc<dyn Store> = Arc::new(store);
        let version = mk_version();
        let core = Core::open(Parts {
            store: Arc::clone(&store),
            clock: clock.clone(),
            version: version.clone(),
            endowment: Endowment {
                namespaces: vec!["default".to_owned(), NAMESPACE.to_owned()],
                ca_bundle: Arc::new(String::new),
                port: 6443,
            },
            tokens: None,
            reviewer: TokenReviewer::new(|_, _| None),
            plugins: Vec::new(),
        });
        let core = core.await.context("open the API server")?;
        let door = InProcess::alone(core.endpoints(), Identity::admin(), &version, clock);
        let client = Client::new(door, "default");
        for definition in [Container::crd(), Image::crd()] {
            create_definition(&client, &definition).await?;
        }
        Ok(Self { client, store, core })
    }

    /// Closes the store, after dropping the server: its tasks must not write any more.
    async fn close(self) -> Result<()> {
        drop((self.client, self.core));
        self.store.close().await.context("close the datastore")
    }
}

async fn create_definition(client: &Client, definition: &impl serde::Serialize) -> Result<()> {
    let body = serde_json::to_vec(definition).context("write a definition")?;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = http::Request::post(path).header("Content-Type", "application/json").body(body);
    let created = client.request::<Value>(request.context("make a request")?).await;
    created.map(drop).context("create a definition")
}

fn mk_version() -> Version {
    let text = str::to_owned;
    Version {
        major: text("1"),
        minor: text("35"),
        git_version: text("v1.35.4+rdd-bench"),
        git_commit: text("0"),
        git_tree_state: text("clean"),
        build_date: text("2026-01-01T00:00:00Z"),
        go_version: text("rustc"),
        compiler: text("rustc"),
        platform: version::platform(),
    }
}

/// The two bodies that the mirror applies for one object.
#[derive(Clone)]
struct MirrorWrites {
    resource: ApiResource,
    name: String,
    object: Value,
    status: Value,
}

impl MirrorWrites {
    fn new(mirror: &Value) -> Result<Self> {
        let resource = match mirror["kind"].as_str() {
            Some("Container") => ApiResource::erase::<Container>(&()),
            Some("Image") => ApiResource::erase::<Image>(&()),
            other => anyhow::bail!("{other:?} is not a kind that is mirrored here"),
        };
        let name = mirror["metadata"]["name"].as_str().context("a mirror has a name")?.to_owned();
        let mut object = json!({"apiVersion": resource.api_version, "kind": resource.kind,
                                "metadata": {"name": name, "namespace": NAMESPACE}});
        let mut status = object.clone();
        object["metadata"]["finalizers"] = json!([MIRROR]);
        if mirror["spec"].is_object() {
            object["spec"] = mirror["spec"].clone();
        }
        status["status"] = mirror["status"].clone();
        if let Some(status) = status["status"].as_object_mut() {
            // Another controller writes the conditions.
            status.remove("conditions");
        }
        Ok(Self { resource, name, object, status })
    }

    /// Applies the object, then its status.
    async fn apply(&self, client: &Client) -> Result<()> {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &self.resource);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let applied = api.patch(&self.name, &parameters, &Patch::Apply(&self.object)).await;
        let object = applied.with_context(|| format!("apply {}", self.name))?;
        // Like the mirror, with the UID, so that an object that replaced this one under the same name is not changed.
        let mut status = self.status.clone();
        status["metadata"]["uid"] = json!(object.metadata.uid);
        let applied = api.patch_status(&self.name, &parameters, &Patch::Apply(&status)).await;
        applied.map(drop).with_context(|| format!("apply the status of {}", self.name))
    }
}

async fn write_all(client: &Client, mirrors: &[Value]) -> Result<Duration> {
    let writes = mirrors.iter().map(MirrorWrites::new).collect::<Result<Vec<_>>>()?;
    let began = Instant::now();
    let mut writers = Group::default();
    for first in 0..CONCURRENT_WRITES {
        let client = client.clone();
        let part: Vec<MirrorWrites> = writes.iter().skip(first).step_by(CONCURRENT_WRITES).cloned().collect();
        writers.spawn("writer", async move {
            for write in part {
                write.apply(&client).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = writers.next().await {
        ended.outcome.context("write")??;
    }
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use kube::api::ListParams;

    use super::*;

    fn mk_mirrors() -> Vec<Value> {
        let container = |number: usize| {
            json!({"kind": "Container", "metadata": {"name": format!("container-{number}")}, "spec": {"state": "unknown"},
                   "status": {"name": format!("filled-{number}"), "namespace": "moby", "image": "sha256:1", "path": "sleep",
                              "status": "running", "conditions": []}})
        };
        let image = |number: usize| {
            json!({"kind": "Image", "metadata": {"name": format!("image-{number}")},
                   "status": {"id": format!("sha256:{number}"), "namespace": "moby", "architecture": "amd64", "os": "linux",
                              "size": number}})
        };
        (0..40).map(container).chain((0..5).map(image)).collect()
    }

    // Finding A-13
    #[test]
    fn the_yardstick_writes_objects_and_statuses_in_process() {
        let folder = tempfile::tempdir().unwrap();
        let mirrors = mk_mirrors();
        daemon_runtime().unwrap().block_on(async {
            let server = InProcessServer::open(folder.path()).await.unwrap();
            assert!(write_all(&server.client, &mirrors).await.unwrap() > Duration::ZERO);
            for (resource, count) in [(ApiResource::erase::<Container>(&()), 40), (ApiResource::erase::<Image>(&()), 5)]
            {
                let api = Api::<DynamicObject>::namespaced_with(server.client.clone(), NAMESPACE, &resource);
                let written = api.list(&ListParams::default()).await.unwrap().items;
                assert_eq!(written.len(), count);
                for object in written {
                    let name = object.metadata.name.as_deref().unwrap();
                    let mirror = mirrors.iter().find(|mirror| mirror["metadata"]["name"] == name).unwrap();
                    let mut expected = mirror["status"].clone();
                    expected.as_object_mut().unwrap().remove("conditions");
                    assert_eq!(object.data["status"], expected, "{name}");
                    assert_eq!(object.metadata.finalizers.as_deref(), Some([MIRROR.to_owned()].as_slice()), "{name}");
                }
            }
            server.close().await.unwrap();
        });
        assert!(measure(&folder.path().join("second"), &mirrors).unwrap() > Duration::ZERO);
        let broken = [json!({"kind": "Container", "metadata": {"name": "A name that no object has"}})];
        assert!(measure(&folder.path().join("third"), &broken).is_err(), "a write that is refused is no measurement");
    }
}
