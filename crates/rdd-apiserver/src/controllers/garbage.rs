//! The garbage collector: dependents go when their owners are gone, and owners wait for those who block them.
//!
//! The owner index of the state is the graph, so there is nothing to build and nothing to keep in step. What is looked at:
//! an object whose owner went, that names an owner, or that is being deleted with a finalizer of ours.

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

/// How long an owner is left alone, at least and at most, while those it waits for go one by one: each look at it is a look at
/// all of them.
const LULL_MIN: Duration = Duration::from_millis(20);
const LULL_MAX: Duration = Duration::from_secs(5);
/// For so many dependents an owner is left alone a millisecond longer.
const DEPENDENTS_PER_MILLISECOND: usize = 20;

/// Beyond so many owners that went it is looked which of them still have dependents.
const GONE_MIN: usize = 1024;

/// Collects what nobody owns any more.
#[derive(Debug)]
pub(super) struct Garbage {
    queue: Arc<Queue<Item>>,
    local: Local,
    /// Objects that are being deleted with a finalizer of ours, by uid.
    waiting: Mutex<HashMap<String, Key>>,
    gone: Mutex<Gone>,
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// The dependents of what went; this was its uid.
    Gone(String),
    /// One object.
    Object(Key),
}

/// The uids of owners that went and left dependents. Their kind may go too before all of those were looked at, and then nobody
/// else could say that they are gone.
#[derive(Debug)]
struct Gone {
    uids: HashSet<String>,
    limit: usize,
}

impl Gone {
    /// Notes one, and now and then forgets those without dependents.
    fn note(&mut self, uid: &str, has_dependents: impl Fn(&str) -> bool) {
        self.uids.insert(uid.to_owned());
        if self.uids.len() > self.limit {
            self.uids.retain(|uid| has_dependents(uid));
            self.limit = GONE_MIN.max(self.uids.len() * 2);
        }
    }
}

/// What the owners of an object are like.
#[derive(Debug, Default, PartialEq, Eq)]
struct Owners {
    /// There, and staying.
    solid: Vec<String>,
    /// Gone.
    dangling: Vec<String>,
    /// Being deleted in the foreground: they wait for this one.
    waiting: Vec<String>,
}

impl Garbage {
    pub(super) fn new(local: Local) -> Self {
        let gone = Mutex::new(Gone { uids: HashSet::new(), limit: GONE_MIN });
        Self { queue: Arc::default(), local, waiting: Mutex::default(), gone }
    }

    /// Whatever names an owner or waits for dependents, at start: what happened while nobody looked is found here.
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
            let leave: BTreeSet<&str> = owners.dangling.iter().chain(&owners.waiting).map(String::as_str).collect();
            return if leave.is_empty() { Ok(()) } else { ignore_gone(self.disown(def, object, value, &leave).await) };
        }
        let finalizers = Metadata::of(value).finalizers();
        let dependents = self.dependents(object);
        let policy = if !owners.waiting.is_empty() && !dependents.is_empty() {
            // A circle in which all wait for each other is cut here.
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
            precondition_uid: object.uid().map(str::to_owned),
            precondition_resource_version: Some(object.revision().to_string()),
            propagation_policy: Some(policy.to_owned()),
            ..DeleteOptions::default()
        };
        ignore_gone(self.local.delete(named(def, object), &options).await.map(drop))
    }

    /// Where each owner stands. One whose kind nobody serves, and that nobody saw going, counts as solid.
    async fn classify(
        &self,
        def: &ResourceDef,
        object: &Object,
        references: &[OwnerReference],
    ) -> Result<Owners, Status> {
        let mut owners = Owners::default();
        let served = self.local.api().registry.served();
        // References that differ only in a version are one owner, which may be large: it is looked up once.
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

    /// Removes references to owners that do not count any more. A conflict if somebody else has changed the object.
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

    /// Lets go of whoever waits for this object: its references block no longer.
    async fn unblock(&self, def: &ResourceDef, object: &Object, value: &Value) -> Result<(), Status> {
        let mut owners = Metadata::of(value).owner_references();
        if owners.iter().all(|owner| owner.block_owner_deletion != Some(true)) {
            return Ok(());
        }
        owners.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
        let patch = json!({"metadata": {"ownerReferences": owners, "uid": object.uid()}});
        ignore_gone(self.local.merge(named(def, object), patch).await.map(drop))
    }

    /// An owner that leaves its dependents alone: they forget it, then it may go.
    async fn orphan(&self, def: &ResourceDef, object: &Object, value: &Value) -> Result<(), Status> {
        let uid = object.uid().unwrap_or_default();
        for dependent in self.dependents(object) {
            let Some(dependent_def) = self.def_of(dependent.key()) else { continue };
            let parsed: Value =
                serde_json::from_slice(dependent.wire()).map_err(|error| Status::internal(error.to_string()))?;
            match self.disown(&dependent_def, &dependent, &parsed, &BTreeSet::from([uid])).await {
                Err(status) if status.reason == Some(Reason::NotFound) => {}
                // One that still names the owner would be collected as soon as that is gone: it stays until all have let go.
                other => other?,
            }
        }
        self.finish(def, object, value, FINALIZER_ORPHAN).await
    }

    /// An owner that waits: if nobody blocks it any more it may go, otherwise they are looked at.
    async fn release(&self, def: &ResourceDef, object: &Object, value: &Value) -> Result<(), Status> {
        let uid = object.uid().unwrap_or_default();
        let dependents = self.dependents(object);
        let blocks = |dependent: &Object| {
            let parsed: Value = serde_json::from_slice(dependent.wire()).unwrap_or_default();
            let owners = Metadata::of(&parsed).owner_references();
            owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
        };
        if !dependents.iter().any(|dependent| blocks(dependent)) {
            return self.finish(def, object, value, FINALIZER_FOREGROUND).await;
        }
        // Those that wait themselves are left alone: in a circle they would pass the look at each other around for ever.
        let others = dependents.iter().filter(|dependent| !is_deleting_dependents(dependent));
        self.queue.add_all(others.map(|dependent| Item::Object(dependent.key().clone())));
        Ok(())
    }

    /// What went leaves its dependents to be looked at.
    fn bereave(&self, uid: &str) {
        let state = &self.local.api().state;
        self.gone().note(uid, |uid| state.count_dependents(uid) > 0);
        self.queue.add_all(state.dependents(uid).iter().map(|dependent| Item::Object(dependent.key().clone())));
    }

    /// Has an owner looked at that waited for what has changed: at once if that was the last one.
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
        let patch = json!({"metadata": {"finalizers": kept, "resourceVersion": object.revision().to_string()}});
        ignore_gone(self.local.merge(named(def, object), patch).await.map(drop))
    }

    /// Whether an owner is in another namespace than it can be in. Nobody finds objects by uid alone, so its name is looked up in each
    /// namespace; one that was seen going is in none.
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

    /// Tells people of a reference that can never be right, once.
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
            // It was told before, or nobody is there to be told: the object's namespace is going.
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
        // Whom it named before may have waited for it, and need not wait any more.
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

/// Whether an object is being deleted with a finalizer of the collector, as far as its bytes show without parsing.
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

/// What is gone, or was changed meanwhile, needs nothing more: the change itself puts it into the queue again.
fn ignore_gone(outcome: Result<(), Status>) -> Result<(), Status> {
    match outcome {
        Err(status) if matches!(status.reason, Some(Reason::NotFound | Reason::Conflict)) => Ok(()),
        other => other,
    }
}
