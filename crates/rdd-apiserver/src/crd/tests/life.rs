//! Tests of a definition's life cycle: serving, renaming, deletion and cleanup.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdd_meta::Status;
use rdd_stdx::{clock::SystemClock, task::Group};
use rdd_store::{Expect, MemoryStore, Revision};
use serde_json::{Value, json};

use super::support::{mk_definition, mk_definition_kind, mk_version};
use crate::{
    crd::{self, CLEANUP_FINALIZER, Controller, Definitions, Deleter, Deletion, Ledger},
    registry::{Kind as _, Origin, Registry, ResourceDef, form},
    state::{Key, Limits, ListOptions, MetadataExtract, Object, Resource, State, Write},
};

struct World {
    state: Arc<State>,
    registry: Arc<Registry>,
    ledger: Ledger,
    definitions: Arc<Definitions>,
    deleter: Arc<Sweeper>,
    tasks: Group<Result<(), crate::state::Error>>,
}

/// A deleter that deletes objects without admission, or fails if the test wants it to.
#[derive(Debug)]
struct Sweeper {
    state: Arc<State>,
    fails: AtomicBool,
}

impl Deleter for Sweeper {
    fn delete_all<'f>(&'f self, def: &'f Arc<ResourceDef>) -> Deletion<'f> {
        Box::pin(async move {
            if self.fails.load(Ordering::SeqCst) {
                return Err(Status::bad_request("not today"));
            }
            let page = self.state.list(&def.storage().unwrap().all(), ListOptions::default()).await.unwrap();
            for object in page.objects {
                self.state.commit(Write::delete(object.key().clone(), Expect::Any)).await.unwrap();
            }
            Ok(())
        })
    }
}

impl World {
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new(rdd_store::Limits::default(), SystemClock::shared()));
        let state = State::open(store, Arc::new(MetadataExtract), SystemClock::shared(), Limits::default()).await;
        Self::over(Arc::new(state.unwrap()))
    }

    fn over(state: Arc<State>) -> Self {
        let (registry, ledger) = (Arc::new(Registry::new([])), Ledger::default());
        let definitions = Definitions::new(Arc::clone(&state), Arc::clone(&registry), ledger.clone());
        let deleter = Arc::new(Sweeper { state: Arc::clone(&state), fails: AtomicBool::new(false) });
        Self { state, registry, ledger, definitions, deleter, tasks: Group::default() }
    }

    fn run_controller(&mut self) {
        let deleter = Arc::clone(&self.deleter) as Arc<dyn Deleter>;
        let controller = Controller::new(Arc::clone(&self.definitions), deleter, SystemClock::shared());
        self.tasks.spawn("controller", controller.run());
    }

    /// Writes like the handlers, including the hook after the commit.
    async fn put(&self, key: &Key, object: &Value) -> Arc<Object> {
        let committed = self.state.commit(Write::put(key.clone(), Expect::Any, form::write(object))).await.unwrap();
        committed.object.unwrap()
    }

    async fn create(&self, mut definition: Value) -> Value {
        let kind = mk_definition_kind(&self.ledger);
        kind.decode(&mut definition, Origin::Request).unwrap();
        kind.prepare_for_create(&mut definition);
        definition["metadata"]["uid"] = definition["metadata"]["name"].clone();
        let key = definition_key(definition["metadata"]["name"].as_str().unwrap());
        self.definitions.observe(&*self.put(&key, &definition).await);
        definition
    }

    async fn update(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let old = self.get(name).unwrap();
        let mut new = old.clone();
        change(&mut new);
        mk_definition_kind(&self.ledger).prepare_for_update("", &mut new, &old);
        new["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        self.definitions.observe(&*self.put(&definition_key(name), &new).await);
    }

    async fn delete(&self, name: &str) {
        let mut definition = self.get(name).unwrap();
        let metadata = definition["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        let now = rdd_meta::time::Timestamp::new(1_700_000_000, 0);
        mk_definition_kind(&self.ledger).begin_deletion(&mut definition, now);
        self.definitions.observe(&*self.put(&definition_key(name), &definition).await);
    }

    fn get(&self, name: &str) -> Option<Value> {
        self.state.get(&definition_key(name)).map(|object| serde_json::from_slice(object.wire()).unwrap())
    }

    fn def(&self) -> Option<Arc<ResourceDef>> {
        self.registry.served().get("g.io", "foos").cloned()
    }

    async fn put_foo(&self, name: &str) -> Key {
        let key = Resource::new("g.io", "foos").unwrap().key(Some("n"), name).unwrap();
        self.put(&key, &json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {"name": name, "namespace": "n"}}))
            .await;
        key
    }

    fn terminating(&self) -> Option<(String, String)> {
        let definition = self.get("foos.g.io")?;
        let conditions = definition["status"]["conditions"].as_array()?;
        let condition = conditions.iter().find(|condition| condition["type"] == "Terminating")?;
        let text = |field: &str| condition[field].as_str().unwrap().to_owned();
        Some((text("reason"), text("message")))
    }
}

fn definition_key(name: &str) -> Key {
    Resource::new("apiextensions.k8s.io", "customresourcedefinitions").unwrap().key(None, name).unwrap()
}

fn foos() -> Value {
    mk_definition(vec![mk_version("v1", json!({"type": "object"}))])
}

/// A second definition in the same group.
fn bars(names: Value) -> Value {
    let mut definition = foos();
    definition["metadata"]["name"] = "bars.g.io".into();
    definition["spec"]["names"] = names;
    definition
}

async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn what_was_written_is_served_when_its_writer_is_answered() {
    // Finding O-12
    let world = World::new().await;
    world.create(foos()).await;
    let def = world.def().unwrap();
    assert_eq!((def.kind.as_str(), def.custom.as_ref().unwrap().uid.as_str()), ("Foo", "foos.g.io"));
    world.update("foos.g.io", |definition| definition["spec"]["names"]["categories"] = json!(["all"])).await;
    assert_eq!(world.def().unwrap().categories, ["all"]);
    world.update("foos.g.io", |definition| definition["spec"]["versions"][0]["served"] = false.into()).await;
    assert!(world.def().is_none());
}

#[tokio::test]
async fn a_change_that_is_none_of_the_schemas_business_keeps_what_was_compiled_and_its_revision() {
    let world = World::new().await;
    world.create(foos()).await;
    let before = world.def().unwrap();
    world.update("foos.g.io", |definition| definition["metadata"]["labels"] = json!({"a": "b"})).await;
    assert!(Arc::ptr_eq(&before, &world.def().unwrap()));
    world
        .update("foos.g.io", |definition| {
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["title"] = "x".into()
        })
        .await;
    let after = world.def().unwrap();
    assert!(!Arc::ptr_eq(&before.versions[0].kind, &after.versions[0].kind));
    assert!(after.custom.as_ref().unwrap().revision > before.custom.as_ref().unwrap().revision);
}

#[tokio::test]
async fn a_restart_serves_what_is_stored_before_anything_runs() {
    let world = World::new().await;
    world.create(foos()).await;
    let again = World::over(Arc::clone(&world.state));
    assert!(again.def().is_none());
    again.definitions.load().await.unwrap();
    assert_eq!(again.def().unwrap().custom.as_ref().unwrap().revision, Revision(1));
    again.definitions.load().await.unwrap();
    assert_eq!(again.registry.served().all().count(), 1);
}

#[tokio::test]
async fn what_others_write_is_served_too() {
    let mut world = World::new().await;
    world.run_controller();
    let writer = World::over(Arc::clone(&world.state));
    writer.create(foos()).await;
    eventually("the definition is served", || world.def().is_some()).await;
}

#[tokio::test]
async fn a_deleted_definition_takes_its_objects_with_it() {
    let mut world = World::new().await;
    world.run_controller();
    world.create(foos()).await;
    let keys = [world.put_foo("a").await, world.put_foo("b").await];
    world.delete("foos.g.io").await;
    let def = world.def();
    if let Some(def) = def {
        let refused = crd::refuse_create(&def, "c").unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (403, "foos.g.io \"c\" is forbidden: create not allowed while custom resource definition is terminating")
        );
    }
    eventually("the definition goes", || world.get("foos.g.io").is_none()).await;
    assert!(keys.iter().all(|key| world.state.get(key).is_none()));
    eventually("nothing is served", || world.def().is_none()).await;

    world.create(foos()).await;
    assert!(crd::refuse_create(&world.def().unwrap(), "c").is_ok());
    world.delete("foos.g.io").await;
    eventually("the second definition goes", || world.get("foos.g.io").is_none()).await;
}

#[tokio::test]
async fn a_clean_up_that_fails_says_so_and_goes_on() {
    let mut world = World::new().await;
    world.deleter.fails.store(true, Ordering::SeqCst);
    world.create(foos()).await;
    world.put_foo("a").await;
    world.delete("foos.g.io").await;
    assert_eq!(world.terminating().unwrap().0, "InstanceDeletionPending");
    // The controller starts only now: it also finds definitions that were deleted before.
    world.run_controller();
    let failed = ("InstanceDeletionFailed".to_owned(), "could not issue all deletes: not today".to_owned());
    eventually("the failure shows", || world.terminating().as_ref() == Some(&failed)).await;
    world.deleter.fails.store(false, Ordering::SeqCst);
    eventually("the definition goes", || world.get("foos.g.io").is_none()).await;
}

#[tokio::test]
async fn what_others_hold_stays_after_the_clean_up() {
    let mut world = World::new().await;
    world.run_controller();
    world.create(foos()).await;
    world.update("foos.g.io", |definition| definition["metadata"]["finalizers"] = json!(["other.io/x"])).await;
    world.delete("foos.g.io").await;
    let done = ("InstanceDeletionCompleted".to_owned(), "removed all instances".to_owned());
    eventually("the clean-up is done", || world.terminating().as_ref() == Some(&done)).await;
    assert_eq!(world.get("foos.g.io").unwrap()["metadata"]["finalizers"], json!(["other.io/x"]));
}

#[tokio::test]
async fn a_name_is_given_to_who_waits_for_it_when_it_becomes_free() {
    let mut world = World::new().await;
    world.run_controller();
    world.create(foos()).await;
    let rival = world.create(bars(json!({"plural": "bars", "kind": "Bar", "shortNames": ["foo"]}))).await;
    assert_eq!(rival["status"]["conditions"][0]["message"], r#""foo" is already in use"#);
    assert_eq!(rival["status"]["conditions"][0]["reason"], "ShortNamesConflict");
    assert!(world.registry.served().get("g.io", "bars").is_none());
    world.delete("foos.g.io").await;
    let served = || world.registry.served().get("g.io", "bars").is_some_and(|def| def.short_names == ["foo"]);
    eventually("the other is served", served).await;
    let rival = world.get("bars.g.io").unwrap();
    assert_eq!(rival["status"]["conditions"][1]["status"], "True");
}

#[tokio::test]
async fn of_two_that_were_accepted_at_once_the_later_gives_way() {
    let mut world = World::new().await;
    // The names of each were settled before the ledger knew the other.
    let blind = |definition: Value| super::support::settled(definition);
    let definitions = [foos(), bars(json!({"plural": "bars", "kind": "Foo", "listKind": "BarList"}))];
    for definition in definitions.map(blind) {
        let key = definition_key(definition["metadata"]["name"].as_str().unwrap());
        world.definitions.observe(&*world.put(&key, &definition).await);
    }
    world.run_controller();
    eventually("one gives way", || world.registry.served().get("g.io", "bars").is_none()).await;
    assert!(world.def().is_some());
    let loser = world.get("bars.g.io").unwrap();
    let reasons: Vec<&str> =
        loser["status"]["conditions"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["KindConflict", "NotAccepted"]);
    assert_eq!(CLEANUP_FINALIZER, "customresourcecleanup.apiextensions.k8s.io");
}

// Finding E-10
#[tokio::test]
async fn an_object_that_an_older_release_stored_without_its_status_has_one_when_it_is_read() {
    let status =
        json!({"type": "object", "default": {"phase": "Pending"}, "properties": {"phase": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"status": status}});
    let world = World::new().await;
    world.create(mk_definition(vec![mk_version("v1", schema)])).await;
    let old = world.state.get(&world.put_foo("old").await).unwrap();
    let again = World::over(Arc::clone(&world.state));
    again.definitions.load().await.unwrap();
    let def = again.def().unwrap();
    assert!(old.revision() > def.custom.as_ref().unwrap().revision, "its schema has not changed since");
    let shown: Value = serde_json::from_slice(&form::wire(&def, &def.versions[0], &old).unwrap()).unwrap();
    assert_eq!(shown["status"], json!({"phase": "Pending"}));
    let fresh = again.state.get(&again.put_foo("fresh").await).unwrap();
    assert!(form::is_stored_as_shown(&def, &def.versions[0], &fresh), "what this release stored is sent as it is");
}
