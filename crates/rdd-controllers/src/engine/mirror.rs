//! Mirrors as API objects: which ones this controller owns, and how it creates and removes them.

use std::sync::Arc;

use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use rdd_docker::map::{image_name, is_container_name, is_image_name, is_volume_name, volume_name};
use rdd_runtime::{Context, Error, Key, Kind, apply::api_of, cache::Cached, finalizer, has_code, is_not_found, sweep};
use rdd_types::{
    containers::{Container, ContainerNamespace, ContainerStatus, Image, ImageStatus, MOBY, Volume, VolumeStatus},
    names::{annotation::REMOVED, field_manager, finalizer::MIRROR, label},
};
use serde::Serialize;
use serde_json::{Value, json};

/// How often the mark of a mirror is tried when other clients write to the same object.
const ATTEMPTS: u32 = 8;

/// A kind that mirrors things of the engine.
pub(super) trait Mirror: Kind + Serialize {
    /// The mirrored state.
    type Status: Serialize + Send + Sync;

    /// Whether this controller owns the object: it has our finalizer, and its name fits the thing in its status. Without a status,
    /// because its writer died in between, the name must at least have the form of a mirror's name.
    fn is_ours(&self) -> bool;

    /// Whether the object already has this status, apart from fields of other writers.
    fn says(&self, status: &Self::Status) -> bool;

    /// The spec of a new mirror, if it needs one.
    fn at_first() -> Option<Value> {
        None
    }
}

impl Mirror for Container {
    type Status = ContainerStatus;

    fn is_ours(&self) -> bool {
        is_held(self) && is_container_name(&self.name_any())
    }

    fn says(&self, status: &ContainerStatus) -> bool {
        self.status.as_ref().is_some_and(|said| {
            // Conditions and results of actions belong to other writers.
            let ours = ContainerStatus {
                conditions: Vec::new(),
                last_action: None,
                observed_generation: None,
                ..said.clone()
            };
            ours == *status
        })
    }

    /// No state is requested yet. The field is written once, so that users see it, and never over a value of another writer.
    fn at_first() -> Option<Value> {
        Some(json!({"state": "unknown"}))
    }
}

impl Mirror for Image {
    type Status = ImageStatus;

    fn is_ours(&self) -> bool {
        let name = self.name_any();
        let is_named = |status: &ImageStatus| name == image_name(&status.id, status.repo_tag.as_deref());
        is_held(self) && is_image_name(&name) && self.status.as_ref().is_none_or(is_named)
    }

    fn says(&self, status: &ImageStatus) -> bool {
        self.status.as_ref().is_some_and(|said| ImageStatus { conditions: Vec::new(), ..said.clone() } == *status)
    }
}

impl Mirror for Volume {
    type Status = VolumeStatus;

    fn is_ours(&self) -> bool {
        let name = self.name_any();
        let is_named = |status: &VolumeStatus| name == volume_name(&status.name);
        is_held(self) && is_volume_name(&name) && self.status.as_ref().is_none_or(is_named)
    }

    fn says(&self, status: &VolumeStatus) -> bool {
        self.status.as_ref() == Some(status)
    }
}

pub(super) fn has_finalizer<K: Kind>(object: &K) -> bool {
    object.finalizers().iter().any(|finalizer| finalizer == MIRROR)
}

/// Whether a process has marked the mirror for removal, and died before it deleted the object.
pub(super) fn is_removed<K: Kind>(object: &K) -> bool {
    object.annotations().contains_key(REMOVED) && !has_finalizer(object)
}

/// Whether the mirror has our finalizer, or has lost it in a removal.
pub(super) fn is_held<K: Kind>(object: &K) -> bool {
    has_finalizer(object) || is_removed(object)
}

pub(super) fn is_deleting<K: Kind>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether this controller created the container namespace.
pub(super) fn is_our_namespace(namespace: &ContainerNamespace) -> bool {
    namespace.name_any() == MOBY
        && namespace.labels().get(label::MANAGED_BY).is_some_and(|manager| manager == field_manager::ENGINE)
}

/// Creates a mirror, or adds our finalizer to an existing object.
pub(super) async fn create<K: Mirror>(cx: &Context, key: &Key, is_new: bool) -> Result<K, Error> {
    let mut body = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": key.name, "namespace": key.namespace, "finalizers": [MIRROR]},
    });
    let plain = PatchParams::apply(field_manager::ENGINE);
    let api = api_of::<K>(&cx.client, key.namespace.as_deref());
    let what = || format!("apply {}/{key}", K::kind(&()));
    // First without force: another client may have set a spec meanwhile.
    if let Some(spec) = K::at_first().filter(|_| is_new) {
        body["spec"] = spec;
        match api.patch(&key.name, &plain, &Patch::Apply(&body)).await {
            // Another client created the object with a spec, which stays.
            Err(error) if has_code(&error, 409) => {}
            other => return typed(other.map_err(|error| Error::from(error).context(what()))?),
        }
        if let Some(body) = body.as_object_mut() {
            body.remove("spec");
        }
    }
    let applied = api.patch(&key.name, &plain.force(), &Patch::Apply(&body)).await;
    typed(applied.map_err(|error| Error::from(error).context(what()))?)
}

fn typed<K: Kind>(object: kube::api::DynamicObject) -> Result<K, Error> {
    let kind = K::kind(&());
    object.try_parse().map_err(|error| Error::because(format!("read the {kind} that the server returned"), error))
}

/// Creates the container namespace of the engine.
pub(super) async fn create_namespace(cx: &Context, namespace: &str) -> Result<(), Error> {
    let mut object = ContainerNamespace::new(MOBY);
    object.metadata.namespace = Some(namespace.to_owned());
    object.metadata.labels = Some([(label::MANAGED_BY.to_owned(), field_manager::ENGINE.to_owned())].into());
    cx.apply(&object).await.map(drop)
}

/// Removes our finalizer from an object. If it is being deleted and has no other finalizer, the server deletes it.
pub(super) async fn release<K: Kind>(cx: &Context, object: &K) -> Result<(), Error> {
    finalizer::release(&cx.client, object, MIRROR).await.map(drop)
}

/// Removes a mirror, and deletes nothing from the engine.
///
/// One write removes the finalizer and marks the object; only then the object is deleted. In the other order, a process that dies in
/// between would leave an object that looks like a user's request to delete the thing itself.
pub(super) async fn remove<K: Kind>(cx: &Context, object: &K) -> Result<(), Error> {
    if is_deleting(object) {
        return cx.step("release-mirror", release(cx, object)).await;
    }
    if !is_removed(object) {
        cx.step("mark-mirror", mark(cx, object)).await?;
    }
    cx.step("remove-mirror", drop_object(cx, object)).await
}

async fn drop_object<K: Kind>(cx: &Context, object: &K) -> Result<(), Error> {
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
    let api = api_of::<K>(&cx.client, object.namespace().as_deref());
    match api.delete(&object.name_any(), &parameters).await {
        // Already deleted, or replaced by another object of the same name.
        Err(error) if is_not_found(&error) || has_code(&error, 409) => Ok(()),
        other => {
            let what = || format!("delete {}/{}", K::kind(&()), Key::of(object));
            other.map(drop).map_err(|error| Error::from(error).context(what()))
        }
    }
}

/// Removes our finalizer and marks the object, in one write.
async fn mark<K: Kind>(cx: &Context, object: &K) -> Result<(), Error> {
    let (api, name) = (api_of::<K>(&cx.client, object.namespace().as_deref()), object.name_any());
    let parameters = PatchParams { field_manager: Some(field_manager::ENGINE.to_owned()), ..PatchParams::default() };
    let (mut version, mut finalizers) = (object.resource_version(), object.finalizers().to_vec());
    let mut last = None;
    for _ in 0..ATTEMPTS {
        finalizers.retain(|finalizer| finalizer != MIRROR);
        let patch = json!({"metadata": {
            "uid": object.uid(), "resourceVersion": version, "finalizers": finalizers, "annotations": {REMOVED: "true"},
        }});
        match api.patch(&name, &parameters, &Patch::Merge(&patch)).await {
            Ok(_) => return Ok(()),
            Err(error) if is_not_found(&error) => return Ok(()),
            Err(error) if has_code(&error, 409) => last = Some(error),
            Err(error) => return Err(Error::from(error).context(format!("let go of {}/{name}", K::kind(&())))),
        }
        match api.get_opt(&name).await? {
            Some(newer) if newer.metadata.uid == object.uid() => {
                (version, finalizers) = (newer.resource_version(), newer.finalizers().to_vec());
            }
            _ => return Ok(()),
        }
    }
    let what = format!("let go of {}/{name}", K::kind(&()));
    Err(last.map_or_else(|| Error::message(&what), |error| Error::from(error).context(&what)))
}

/// The caches of all kinds of mirrors, in all namespaces.
#[derive(Debug, Clone)]
pub(super) struct Mirrors {
    pub(super) containers: Cached<Container>,
    pub(super) images: Cached<Image>,
    pub(super) volumes: Cached<Volume>,
    pub(super) namespaces: Cached<ContainerNamespace>,
}

impl Mirrors {
    pub(super) fn of(cx: &Context) -> Self {
        Self { containers: cx.cached(), images: cx.cached(), volumes: cx.cached(), namespaces: cx.cached() }
    }

    /// Returns when all four caches are synced.
    pub(super) async fn synced(&self) {
        tokio::join!(self.containers.synced(), self.images.synced(), self.volumes.synced(), self.namespaces.synced());
    }

    /// How many mirrors in a namespace this controller owns, or must release because they are being deleted.
    pub(super) fn count(&self, namespace: &str) -> usize {
        let is_inside = |found: &str| found == namespace;
        ours(&self.containers, is_inside).len()
            + ours(&self.images, is_inside).len()
            + ours(&self.volumes, is_inside).len()
            + self.our_namespaces(is_inside).len()
    }

    fn our_namespaces(&self, wanted: impl Fn(&str) -> bool) -> Vec<Arc<ContainerNamespace>> {
        let mut all = self.namespaces.list();
        all.retain(|object| is_our_namespace(object) && wanted(object.namespace().as_deref().unwrap_or_default()));
        all
    }

    /// Removes the mirrors in the wanted namespaces, and deletes nothing from the engine. A failure does not stop the others.
    pub(super) async fn clear(&self, cx: &Context, wanted: impl Fn(&str) -> bool) -> Result<(), Error> {
        let containers =
            sweep::for_all(ours(&self.containers, &wanted), |object| async move { remove(cx, &*object).await });
        let images = sweep::for_all(ours(&self.images, &wanted), |object| async move { remove(cx, &*object).await });
        let volumes = sweep::for_all(ours(&self.volumes, &wanted), |object| async move { remove(cx, &*object).await });
        let namespaces =
            sweep::for_all(self.our_namespaces(&wanted), |object| async move { remove(cx, &*object).await });
        let (containers, images, volumes, namespaces) = tokio::join!(containers, images, volumes, namespaces);
        containers.and(images).and(volumes).and(namespaces)
    }
}

/// The mirrors that this controller owns, and others that are being deleted and have our finalizer.
fn ours<K: Mirror>(cache: &Cached<K>, wanted: impl Fn(&str) -> bool) -> Vec<Arc<K>> {
    let mut all = cache.list();
    all.retain(|object| {
        let is_inside = wanted(object.namespace().as_deref().unwrap_or_default());
        is_inside && (object.is_ours() || (is_deleting(&**object) && has_finalizer(&**object)))
    });
    all
}
