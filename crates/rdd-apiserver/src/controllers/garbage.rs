//! The garbage collector: dependents go when their owners are gone, and owners wait for those who block them.
//! The garbage collector: deletes dependents whose owners are gone, and handles the foreground and orphan finalizers of owners.
//! The owner index of the state is the graph, so there is nothing to build and nothing to keep in step. What is looked at:
//! The owner index of the object state is the dependency graph, so the collector builds none of its own. It processes an object when
//! one of its owners is gone, when it has an owner reference, or when it is being deleted with one of the collector's finalizers.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_meta::{
    GroupVersionKind, Reason, Status, go_text,
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, Metadata, OwnerReference},
    options::DeleteOptions,
};
use serde_json::{Value, json};

use super::{Controller, queue::Queue};
use crate::{
    offload,
    registry::ResourceDef,
    rest::local::{Local, Named},
    state::{Key, Object},
};

/// The delay before an owner that waits for its dependents is processed again, at least and at most. Each run reads all
/// remaining dependents, so the owner does not run for every single one that goes.
const LULL_MIN: Duration = Duration::from_millis(20);
const LULL_MAX: Duration = Duration::from_secs(5);
/// The delay grows by one millisecond per this many remaining dependents.
const DEPENDENTS_PER_MILLISECOND: usize = 20;

/// Above this number of recorded uids, the collector drops those that have no dependents left.
const GONE_MIN: usize = 1024;

/// The controller that collects garbage.
#[derive(Debug)]
pub(super) struct Garbage {
    queue: Arc<Queue<Item>>,
    local: Local,
    /// Objects that are being deleted with one of the collector's finalizers, by uid.
    waiting: Mutex<HashMap<String, Key>>,
    gone: Mutex<Gone>,
}

/// A work item of the collector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// Enqueue the dependents of the deleted object with this uid.
    Gone(String),
    /// Process one object.
    Object(Key),
}

/// The uids of deleted owners that still had dependents. If the owner's kind is removed too, a lookup can no longer show that the
/// owner is gone; this record can.
#[derive(Debug)]
struct Gone {
    uids: HashSet<String>,
    limit: usize,
}

impl Gone {
    /// Records a uid. When the set has grown past its limit, drops the uids that have no dependents left.
    fn note(&mut self, uid: &str, has_dependents: impl Fn(&str) -> bool) {
        self.uids.insert(uid.to_owned());
        if self.uids.len() > self.limit {
            self.uids.retain(|uid| has_dependents(uid));
            self.limit = GONE_MIN.max(self.uids.len() * 2);
        }
    }
}

/// The owners of one object, by their state. Each field holds uids.
#[derive(Debug, Default, PartialEq, Eq)]
struct Owners {
    /// They exist and stay.
    solid: Vec<String>,
    /// They do not exist.
    dangling: Vec<String>,
    /// They are being deleted in the foreground and wait for their dependents.
    waiting: Vec<String>,
}

impl Garbage {
    pub(super) fn new(local: Local) -> Self {
        let gone = Mutex::new(Gone { uids: HashSet::new(), limit: GONE_MIN });
        Self { queue: Arc::default(), local, waiting: Mutex::default(), gone }
    }

    /// Enqueues every object that has an owner reference or waits for dependents. It finds what changed while no daemon ran.
    fn scan(&self) {
        let served = self.local.api().registry.served();
        for def in served.all() {
            let Some(storage) = def.storage() else { continue };
            for object in self.local.api().state.now(&storage.all()) {
                self.changed(None, Some(&object));
            }
        }
    }

    async fn look(&self, key: &Key) -> Result<(), Status> {
        let Some(object) = self.local.api().state.get(key) else { return Ok(()) };
        let Some(def) = self.def_of(key) else { return Ok(()) };
        offload::announce(object.wire().len()).await;
        let value: Value =
            serde_json::from_slice(object.wire()).map_err(|error| Status::internal(error.to_string()))?;
        let metadata = Metadata::of(&value);
        // An object that is being deleted already needs no decision about its owners.
        if metadata.is_terminating() {
            let finalizers = metadata.finalizers();
            if finalizers.contains(&FINALIZER_ORPHAN) {
                return self.orphan(&def, &object, &value).await;
            }
            if finalizers.contains(&FINALIZER_FOREGROUND) {
                return self.release(&def, &object, &value).await;
            }
            return Ok(());
        }
        let references = metadata.owner_references();
        if references.is_empty() {
            return Ok(());
        }
        let owners = self.classify(&def, &object, &references).await?;
        self.decide(&def, &object, &value, &owners).await
    }

    async fn decide(&self, def: &ResourceDef, object: &Object, value: &Value, owners: &Owners) -> Result<(), Status> {
        if !owners.solid.is_empty() {
            // One solid owner keeps the object; only the references to the other owners go.
            let leave: BTreeSet<&str> = owners.dangling.iter().chain(&owners.waiting).map(String::as_str).collect();
            return if leave.is_empty() { Ok(()) } else { ignore_gone(self.disown(def, object, value, &leave).await) };
        }
        let finalizers = Metadata::of(value).finalizers();
        let dependents = self.dependents(object);
        let policy = if !owners.waiting.is_empty() && !dependents.is_empty() {
            // A dependent that is being deleted in the foreground could wait for this object in turn: unblocking breaks the cycle.
            if dependents.iter().any(|dependent| is_deleting_dependents(dependent)) {
                self.unblock(def, object, value).await?;
            }
            "Foreground"
        } else if finalizers.contains(&FINALIZER_ORPHAN) {
            "Orphan"
        } else if finalizers.contains(&FINALIZER_FOREGROUND) {
            "Foreground"
        } else {
            "Background"
        };
        let options = DeleteOptions {
            // The object may have got another owner since it was read; the preconditions make the delete fail then.
            precondition_uid: object.uid().map(str::to_owned),
            precondition_resource_version: Some(object.revision().to_string()),
            propagation_policy: Some(policy.to_owned()),
            ..DeleteOptions::default()
        };
        ignore_gone(self.local.delete(named(def, object), &options).await.map(drop))
    }

    /// Sorts the owners of an object by their state. An owner whose kind is not served counts as solid, unless the collector
    /// recorded its deletion.
    async fn classify(
        &self,
        def: &ResourceDef,
        object: &Object,
        references: &[OwnerReference],
    ) -> Result<Owners, Status> {
        let mut owners = Owners::default();
        let served = self.local.api().registry.served();
        // References that differ only in the version mean one owner. It is looked up once, because the lookup may read a large object.
        let mut seen = HashSet::new();
        for reference in references {
            let uid = reference.uid.clone();
            let GroupVersionKind { group, kind, .. } = reference.group_version_kind();
            if !seen.insert((group.clone(), kind.clone(), &reference.name, &reference.uid)) {
                continue;
            }
            offload::pause().await;
            let Some(owner_def) = served.by_kind(&group, &kind) else {
                let is_gone = self.gone().uids.contains(&uid);
                (if is_gone { &mut owners.dangling } else { &mut owners.solid }).push(uid);
                continue;
            };
            // A cluster-scoped object cannot have a namespaced owner. Upstream warns and keeps the object.
            if owner_def.namespaced && object.namespace().is_none() {
                self.complain(def, object, reference).await?;
                owners.solid.push(uid);
                continue;
            }
            let namespace = object.namespace().filter(|_| owner_def.namespaced);
            let storage = owner_def.storage();
            let key = storage.and_then(|storage| storage.key(namespace, &reference.name).ok());
            let owner = key.and_then(|key| self.local.api().state.get(&key));
            match owner.filter(|owner| owner.uid() == Some(&*uid)) {
                None => {
                    if owner_def.namespaced && self.is_elsewhere(owner_def, reference) {
                        self.complain(def, object, reference).await?;
                    }
                    owners.dangling.push(uid);
                }
                Some(owner) if is_deleting_dependents(&owner) => owners.waiting.push(uid),
                Some(_) => owners.solid.push(uid),
            }
        }
        Ok(owners)
    }

    /// Removes the owner references with these uids. The result is a conflict if the object has changed since it was read.
    async fn disown(
        &self,
        def: &ResourceDef,
        object: &Object,
        value: &Value,
        uids: &BTreeSet<&str>,
    ) -> Result<(), Status> {
        let mut kept = Metadata::of(value).owner_references();
        kept.retain(|owner| !uids.contains(owner.uid.as_str()));
        let patch = json!({"metadata": {"ownerReferences": kept, "uid": object.uid(), "resourceVersion": object.revision().to_string()}});
        self.local.merge(named(def, object), patch).await.map(drop)
    }

    /// Sets `blockOwnerDeletion` to false in all owner references, so that the owners no longer wait for this object.
    async fn unblock(&self, def: &ResourceDef, object: &Object, value: &Value) -> Result<(), Status> {
        let mut owners = Metadata::of(value).owner_references();
        if owners.iter().all(|owner| owner.block_owner_deletion != Some(true)) {
            return Ok(());
        }
        owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
        let patch = json!({"metadata": {"ownerReferences": owners, "uid": object.uid()}});
        ignore_gone(self.local.merge(named(def, object), patch).await.map(drop))
    }

    /// Finishes a deletion with policy `Orphan`: removes the owner from its dependents, then removes the finalizer from the owner.
    async fn orphan(&self, def: &ResourceDef, object: &Object, value: &Value) -> Result<(), Status> {
        let uid = object.uid().unwrap_or_default();
        for dependent in self.dependents(object) {
            let Some(dependent_def) = self.def_of(dependent.key()) else { continue };
            let parsed: Value =
                serde_json::from_slice(dependent.wire()).map_err(|error| Status::internal(error.to_string()))?;
            match self.disown(&dependent_def, &dependent, &parsed, &BTreeSet::from([uid])).await {
                Err(status) if status.reason == Some(Reason::NotFound) => {}
                // Stop at any other error: a dependent that still names the owner would be collected once the owner is gone.
                other => other?,
            }
        }
        self.finish(def, object, value, FINALIZER_ORPHAN).await
    }

    /// Continues a deletion with policy `Foreground`: removes the finalizer if no dependent blocks the owner, otherwise enqueues the
    /// dependents.
    async fn release(&self, def: &ResourceDef, object: &Object, value: &Value) -> Result<(), Status> {
        let uid = object.uid().unwrap_or_default();
        let dependents = self.dependents(object);
        let blocks = |dependent: &Object| {
            // An object that does not parse has no owner references here, so it cannot block its owner for ever.
            let parsed: Value = serde_json::from_slice(dependent.wire()).unwrap_or_default();
            let owners = Metadata::of(&parsed).owner_references();
            owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
        };
        if !dependents.iter().any(|dependent| blocks(dependent)) {
            return self.finish(def, object, value, FINALIZER_FOREGROUND).await;
        }
        // Dependents that wait for their own dependents are skipped: the members of a cycle would enqueue each other for ever.
        let others = dependents.iter().filter(|dependent| !is_deleting_dependents(dependent));
        self.queue.add_all(others.map(|dependent| Item::Object(dependent.key().clone())));
        Ok(())
    }

    /// Records the uid of a deleted owner and enqueues its dependents.
    fn bereave(&self, uid: &str) {
        let state = &self.local.api().state;
        self.gone().note(uid, |uid| state.count_dependents(uid) > 0);
        self.queue.add_all(state.dependents(uid).iter().map(|dependent| Item::Object(dependent.key().clone())));
    }

    /// Enqueues an owner that waits for its dependents: at once if none are left, otherwise after a delay.
    fn wake(&self, uid: &str, owner: Key) {
        match self.local.api().state.count_dependents(uid) {
            0 => self.queue.add(Item::Object(owner)),
            left => {
                let milliseconds = u64::try_from(left / DEPENDENTS_PER_MILLISECOND).unwrap_or(u64::MAX);
                let lull = Duration::from_millis(milliseconds);
                self.queue.add_later(Item::Object(owner), lull.clamp(LULL_MIN, LULL_MAX));
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Key>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> MutexGuard<'_, Gone> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn finish(&self, def: &ResourceDef, object: &Object, value: &Value, finalizer: &str) -> Result<(), Status> {
        let mut kept = Metadata::of(value).finalizers();
        kept.retain(|found| *found != finalizer);
        // The resource version keeps a finalizer that another writer removed from coming back.
        let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object.revision().to_string()}});
        ignore_gone(self.local.merge(named(def, object), patch).await.map(drop))
    }

    /// Whether the owner exists in a namespace that the reference cannot refer to. There is no index by uid, so this looks up the
    /// name in every namespace; a deleted owner that was recorded needs no lookup.
    fn is_elsewhere(&self, owner_def: &ResourceDef, reference: &OwnerReference) -> bool {
        if self.gone().uids.contains(&reference.uid) {
            return false;
        }
        let api = self.local.api();
        let served = api.registry.served();
        let namespaces = served.get("", "namespaces").and_then(|def| def.storage());
        let (Some(namespaces), Some(owners)) = (namespaces, owner_def.storage()) else { return false };
        api.state.now(&namespaces.all()).iter().any(|namespace| {
            let key = owners.key(Some(namespace.name()), &reference.name).ok();
            key.and_then(|key| api.state.get(&key)).is_some_and(|owner| owner.uid() == Some(&*reference.uid))
        })
    }

    /// Creates a Warning event for an owner reference that can never be valid; at most one event per object.
    async fn complain(&self, def: &ResourceDef, object: &Object, reference: &OwnerReference) -> Result<(), Status> {
        let place = object.namespace().unwrap_or_default();
        let message = format!(
            "ownerRef [{}/{}, namespace: {place}, name: {}, uid: {}] does not exist in namespace {}",
            reference.api_version,
            reference.kind,
            reference.name,
            reference.uid,
            go_text::quote(place)
        );
        let told_in = object.namespace().unwrap_or("default");
        let name = format!("{}.{}", object.name(), object.uid().unwrap_or_default());
        let now = self.local.api().now();
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": told_in},
            "involvedObject": {
                "apiVersion": def.api_version(&def.storage_version), "kind": def.kind,
                "name": object.name(), "uid": object.uid(),
            },
            "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
            "source": {"component": "garbage-collector-controller"},
            "firstTimestamp": now.format_time(), "lastTimestamp": now.format_time(), "count": 1,
        });
        if let Some(namespace) = object.namespace() {
            event["involvedObject"]["namespace"] = namespace.into();
        }
        let events = Named { group: "", resource: "events", namespace: Some(told_in), name: "", subresource: "" };
        match self.local.create(events, event).await {
            // The event exists already, or the object's namespace is terminating or gone.
            Err(Status { reason: Some(Reason::AlreadyExists | Reason::Forbidden | Reason::NotFound), .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    fn dependents(&self, object: &Object) -> Vec<Arc<Object>> {
        object.uid().map(|uid| self.local.api().state.dependents(uid)).unwrap_or_default()
    }

    fn def_of(&self, key: &Key) -> Option<Arc<ResourceDef>> {
        let resource = key.resource();
        let served = self.local.api().registry.served();
        served.all().find(|def| def.storage() == Some(&resource)).cloned()
    }
}

impl Controller for Garbage {
    type Item = Item;
    const NAME: &'static str = "garbage-collector";

    fn queue(&self) -> &Arc<Queue<Item>> {
        &self.queue
    }

    fn start(&self) {
        self.scan();
    }

    fn changed(&self, previous: Option<&Object>, current: Option<&Object>) {
        match (previous.and_then(Object::uid), current) {
            (_, Some(current)) => {
                let waits = is_waiting(current);
                if waits {
                    let uid = current.uid().unwrap_or_default().to_owned();
                    self.waiting().insert(uid, current.key().clone());
                }
                if waits || !current.owners().is_empty() {
                    self.queue.add(Item::Object(current.key().clone()));
                }
            }
            (Some(uid), None) => {
                self.waiting().remove(uid);
                if self.local.api().state.count_dependents(uid) > 0 {
                    self.queue.add(Item::Gone(uid.to_owned()));
                }
            }
            (None, None) => {}
        }
        // The owners that the object named before may have waited for it.
        for uid in previous.into_iter().flat_map(Object::owners) {
            let owner = self.waiting().get(&**uid).cloned();
            owner.into_iter().for_each(|owner| self.wake(uid, owner));
        }
    }

    async fn handle(&self, item: &Item) -> Result<(), Status> {
        match item {
            Item::Gone(uid) => {
                self.bereave(uid);
                Ok(())
            }
            Item::Object(key) => self.look(key).await,
        }
    }
}

fn named<'a>(def: &'a ResourceDef, object: &'a Object) -> Named<'a> {
    Named {
        group: &def.group,
        resource: &def.plural,
        namespace: object.namespace(),
        name: object.name(),
        subresource: "",
    }
}

/// Whether an object is being deleted with a finalizer of the collector. It searches the bytes without parsing, so it can be true
/// for other objects, but is never false for one that waits.
fn is_waiting(object: &Object) -> bool {
    let wire = object.wire();
    let has = |needle: &str| memchr::memmem::find(wire, needle.as_bytes()).is_some();
    has("\"deletionTimestamp\":\"") && (has("\"foregroundDeletion\"") || has("\"orphan\""))
}

fn is_deleting_dependents(object: &Object) -> bool {
    if !is_waiting(object) {
        return false;
    }
    let value: Value = serde_json::from_slice(object.wire()).unwrap_or_default();
    let metadata = Metadata::of(&value);
    metadata.is_terminating() && metadata.finalizers().contains(&FINALIZER_FOREGROUND)
}

/// Turns `NotFound` and `Conflict` into success: the concurrent change enqueues the object again by itself.
fn ignore_gone(outcome: Result<(), Status>) -> Result<(), Status> {
    match outcome {
        Err(status) if matches!(status.reason, Some(Reason::NotFound | Reason::Conflict)) => Ok(()),
        other => other,
    }
}
