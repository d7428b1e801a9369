//! Checks that no acknowledged write is lost: a ledger of what writers wrote and watchers saw, over several runs of a daemon that is
//! killed.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Ask, Events, Next, PATIENCE, Reply, Server, Wire, WireEvents};

/// The number of objects of each writer.
const OBJECTS_PER_WRITER: usize = 6;
/// The field manager of the writers' apply patches.
const FIELD_MANAGER: &str = "ledger";
/// The label that selects all objects of one writer.
const WRITER_LABEL: &str = "writer";
/// How long a watcher waits for an event before it checks whether the load has ended.
const EVENT_WAIT: Duration = Duration::from_millis(200);
/// One in this many writes deletes all objects of the writer.
const DELETE_COLLECTION_EVERY: usize = 64;

/// A random number generator (xorshift) whose sequence depends only on its seed.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        // Xorshift must not start at 0, where it would stay.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from 0 to `count - 1`; 0 if `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.number() % count.max(1) as u64).expect("it is below a usize")
    }

    /// One of these items.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// The objects of one resource in one namespace; each has its value in `data.value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCollection {
    path: String,
    api_version: String,
    kind: String,
    /// Whether the resource supports strategic merge patches, which custom resources do not.
    is_builtin: bool,
}

impl LedgerCollection {
    /// The ConfigMaps of the default namespace.
    pub fn config_maps() -> Self {
        Self {
            path: "/api/v1/namespaces/default/configmaps".to_owned(),
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            is_builtin: true,
        }
    }

    /// The objects of a custom resource.
    pub fn custom(path: &str, api_version: &str, kind: &str) -> Self {
        Self { path: path.to_owned(), api_version: api_version.to_owned(), kind: kind.to_owned(), is_builtin: false }
    }

    /// The API path of the collection.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Builds an object that belongs to no writer; the end of a test waits for it.
    pub fn mk_marker(&self, name: &str) -> Value {
        self.mk_object(name, "none", "marker")
    }

    fn mk_object(&self, name: &str, writer: &str, value: &str) -> Value {
        json!({
            "apiVersion": self.api_version, "kind": self.kind,
            "metadata": {"name": name, "labels": {WRITER_LABEL: writer}},
            "data": {"value": value},
        })
    }
}

/// The kinds of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteVerb {
    /// POST of a new object.
    Create,
    /// PUT with the last known resource version.
    Update,
    /// PATCH with JSON Patch operations.
    JsonPatch,
    /// PATCH with a JSON merge patch.
    MergePatch,
    /// PATCH with a strategic merge patch; a JSON merge patch for custom resources.
    StrategicPatch,
    /// Server-side apply, of a new or an existing object.
    Apply,
    /// DELETE of one object.
    Delete,
    /// DELETE of all objects of the writer.
    DeleteCollection,
}

impl WriteVerb {
    /// The writes that are valid for an object that does not exist.
    const CREATING: &[Self] = &[Self::Create, Self::Apply];
    /// The writes that are valid for an existing object. One in four is a delete.
    const CHANGING: &[Self] = &[
        Self::Update,
        Self::JsonPatch,
        Self::MergePatch,
        Self::StrategicPatch,
        Self::Apply,
        Self::Update,
        Self::Delete,
        Self::Delete,
    ];
}

/// The progress of the load on one collection, shared by its writers, watchers and listers.
#[derive(Debug, Default)]
pub struct LoadProgress {
    acknowledged: AtomicU64,
    newest: AtomicU64,
    lists: AtomicU64,
    stopping: AtomicBool,
}

impl LoadProgress {
    /// The number of acknowledged writes.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// The number of lists that were read and checked.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::SeqCst)
    }

    /// Ends the load without killing the daemon.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn note_acknowledged(&self, version: Option<u64>) {
        self.newest.fetch_max(version.unwrap_or_default(), Ordering::SeqCst);
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }
}

/// A writer's knowledge of one of its objects.
#[derive(Debug, Clone, Default)]
struct KnownObject {
    /// The last acknowledged value; `None` if the object does not exist.
    value: Option<String>,
    /// The value (or `None` for a delete) of the last request if it was not answered: either state is then correct.
    unanswered: Option<Option<String>>,
    /// The newest resource version in which it was seen.
    version: u64,
}

/// The acknowledged writes of one writer, over all runs of the daemon. No other client writes its objects.
#[derive(Debug)]
pub struct WriterLedger {
    collection: LedgerCollection,
    writer: String,
    objects: BTreeMap<String, KnownObject>,
    /// The resource versions of the acknowledged writes since the last comparison.
    versions: Vec<u64>,
    newest: u64,
    counts: BTreeMap<WriteVerb, u64>,
    unanswered: u64,
}

impl WriterLedger {
    /// Creates a writer without objects. `number` distinguishes the writers of one collection.
    pub fn new(collection: &LedgerCollection, number: usize) -> Self {
        Self {
            collection: collection.clone(),
            writer: format!("w{number}"),
            objects: BTreeMap::new(),
            versions: Vec::new(),
            newest: 0,
            counts: BTreeMap::new(),
            unanswered: 0,
        }
    }

    /// The number of acknowledged writes of each kind.
    pub fn counts(&self) -> &BTreeMap<WriteVerb, u64> {
        &self.counts
    }

    /// The number of writes that were sent and not answered.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Writes with every verb until the server stops answering or the load ends.
    ///
    /// # Panics
    ///
    /// If a write is rejected, or if its resource version is not newer than the object's last one.
    pub fn write(&mut self, wire: &Wire, seed: u64, progress: &LoadProgress) {
        let mut random = SeededRandom::new(seed);
        for turn in 0_u64.. {
            if progress.is_stopping() {
                return;
            }
            let object = format!("{}-{}", self.writer, random.below(OBJECTS_PER_WRITER));
            let verb = self.choose(&object, &mut random);
            let value = format!("{seed}-{turn}");
            self.expect(verb, &object, &value);
            let ask = self.mk_ask(verb, &object, &value);
            let Ok(reply) = wire.try_ask(&ask) else {
                self.unanswered += 1;
                return;
            };
            self.acknowledge(verb, &object, &ask, &reply);
            progress.note_acknowledged(self.versions.last().copied());
        }
    }

    fn choose(&self, object: &str, random: &mut SeededRandom) -> WriteVerb {
        if random.below(DELETE_COLLECTION_EVERY) == 0 {
            return WriteVerb::DeleteCollection;
        }
        let is_there = self.objects.get(object).is_some_and(|known| known.value.is_some());
        random.pick(if is_there { WriteVerb::CHANGING } else { WriteVerb::CREATING })
    }

    /// Notes the expected value before the write is sent, in case no answer comes.
    fn expect(&mut self, verb: WriteVerb, object: &str, value: &str) {
        match verb {
            WriteVerb::DeleteCollection => {
                // The server deletes one object after the other, so each may or may not exist if the request is interrupted.
                let present = self.objects.values_mut().filter(|known| known.value.is_some());
                present.for_each(|known| known.unanswered = Some(None));
            }
            WriteVerb::Delete => self.objects.entry(object.to_owned()).or_default().unanswered = Some(None),
            _ => {
                self.objects.entry(object.to_owned()).or_default().unanswered = Some(Some(value.to_owned()));
            }
        }
    }

    fn mk_ask(&self, verb: WriteVerb, object: &str, value: &str) -> Ask {
        let collection = &self.collection;
        let all = collection.path.as_str();
        let one = format!("{all}/{object}");
        let whole = collection.mk_object(object, &self.writer, value);
        let change = json!({"data": {"value": value}}).to_string();
        let patch = |content_type, body: String| Ask::new("PATCH", &one).body(content_type, body);
        match verb {
            WriteVerb::Create => Ask::new("POST", all).json(&whole),
            WriteVerb::Update => {
                let mut whole = whole;
                let version = self.objects.get(object).map_or(0, |known| known.version);
                whole["metadata"]["resourceVersion"] = version.to_string().into();
                Ask::new("PUT", &one).json(&whole)
            }
            WriteVerb::JsonPatch => {
                let operations = json!([{"op": "replace", "path": "/data/value", "value": value}]);
                patch("application/json-patch+json", operations.to_string())
            }
            WriteVerb::StrategicPatch if collection.is_builtin => {
                patch("application/strategic-merge-patch+json", change)
            }
            WriteVerb::MergePatch | WriteVerb::StrategicPatch => patch("application/merge-patch+json", change),
            WriteVerb::Apply => Ask::new("PATCH", &format!("{one}?fieldManager={FIELD_MANAGER}&force=true"))
                .body("application/apply-patch+yaml", whole.to_string()),
            WriteVerb::Delete => Ask::new("DELETE", &one),
            WriteVerb::DeleteCollection => {
                Ask::new("DELETE", &format!("{all}?labelSelector={WRITER_LABEL}%3D{}", self.writer))
            }
        }
    }

    fn acknowledge(&mut self, verb: WriteVerb, object: &str, ask: &Ask, reply: &Reply) {
        assert!(matches!(reply.code, 200 | 201), "{} {}: {}", ask.method, ask.path, reply.text());
        *self.counts.entry(verb).or_default() += 1;
        for known in self.objects.values_mut() {
            if let Some(value) = known.unanswered.take() {
                known.value = value;
            }
        }
        if matches!(verb, WriteVerb::Delete | WriteVerb::DeleteCollection) {
            return;
        }
        let version = version_of(&reply.json());
        let known = self.objects.get_mut(object).expect("it was noted before it was sent");
        assert!(version > known.version, "{object} went from version {} to {version}", known.version);
        known.version = version;
        self.newest = self.newest.max(version);
        self.versions.push(version);
    }

    /// Checks the data of the daemon's next run: every acknowledged write is there; of an unanswered one either state is correct and
    /// becomes the known one.
    ///
    /// # Panics
    ///
    /// If an acknowledged write is lost, or if the newest resource version is older than an acknowledged one.
    pub fn settle(&mut self, server: &dyn Server) {
        let all = &self.collection.path;
        let head = version_of(&server.get(all).expect(200));
        assert!(head >= self.newest, "the newest version is {head}, but {} was acknowledged", self.newest);
        for (object, known) in &mut self.objects {
            let reply = server.get(&format!("{all}/{object}"));
            let found = (reply.code == 200).then(|| {
                let shown = reply.json();
                known.version = known.version.max(version_of(&shown));
                shown["data"]["value"].as_str().unwrap_or_default().to_owned()
            });
            let unanswered = known.unanswered.take();
            let is_right = found == known.value || unanswered.as_ref() == Some(&found);
            assert!(is_right, "{object} is {found:?}, not {:?} nor {unanswered:?}", known.value);
            known.value = found;
        }
    }
}

/// The events that one watcher has seen, over all runs of the daemon.
#[derive(Debug, Clone)]
pub struct WatcherLedger {
    collection: LedgerCollection,
    /// The resource version of the last event.
    version: u64,
    /// The resource versions of the events since the last comparison.
    versions: Vec<u64>,
    objects: BTreeMap<String, u64>,
    events: u64,
    watches: u64,
}

impl WatcherLedger {
    /// Starts with a list.
    ///
    /// # Panics
    ///
    /// If the list fails.
    pub fn list(server: &dyn Server, collection: &LedgerCollection) -> Self {
        let list = server.get(&collection.path).expect(200);
        Self {
            collection: collection.clone(),
            version: version_of(&list),
            versions: Vec::new(),
            objects: versions_by_name(&list),
            events: 0,
            watches: 0,
        }
    }

    /// The number of events.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The number of watches that were started, each where the previous one ended.
    pub fn watches(&self) -> u64 {
        self.watches
    }

    /// Watches from the last seen version until the server is gone or the load ends.
    ///
    /// # Panics
    ///
    /// If an event is repeated or out of order, or if no event arrives for [`PATIENCE`].
    pub fn follow(&mut self, wire: &Wire, progress: &LoadProgress) {
        while let Some(mut events) = self.begin(wire) {
            let mut last = Instant::now();
            loop {
                match events.next(EVENT_WAIT) {
                    Next::Event(event) => {
                        self.take(&event);
                        last = Instant::now();
                    }
                    Next::Ended => break,
                    Next::Quiet => {
                        assert!(last.elapsed() < PATIENCE, "no event came in {PATIENCE:?} of a load");
                    }
                }
                if progress.is_stopping() {
                    return;
                }
            }
        }
    }

    /// Watches from the last seen version until it sees an object of this name.
    ///
    /// # Panics
    ///
    /// If the object does not arrive, or if an event is repeated or out of order.
    pub fn watch_until(&mut self, wire: &Wire, name: &str) {
        let mut events = self.begin(wire).expect("the server answers");
        loop {
            let event = events.expect();
            self.take(&event);
            if name_of(&event["object"]) == name {
                return;
            }
        }
    }

    /// Starts a watch after the last event; `None` if the server is gone.
    fn begin(&mut self, wire: &Wire) -> Option<WireEvents> {
        let (all, version) = (&self.collection.path, self.version);
        let path = format!("{all}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let begun = wire.try_watch(&path).ok();
        self.watches += u64::from(begun.is_some());
        begun
    }

    fn take(&mut self, event: &Value) {
        let object = &event["object"];
        assert_ne!(event["type"], "ERROR", "{event}");
        let now = version_of(object);
        // A bookmark repeats the last version if nothing has happened since.
        let is_in_order = now > self.version || (event["type"] == "BOOKMARK" && now == self.version);
        assert!(is_in_order, "{now} after {}: an event came again or out of order: {event}", self.version);
        self.version = now;
        self.events += 1;
        match event["type"].as_str() {
            Some("BOOKMARK") => return,
            Some("DELETED") => drop(self.objects.remove(&name_of(object))),
            _ => drop(self.objects.insert(name_of(object), now)),
        }
        self.versions.push(now);
    }
}

/// Checks that every watcher of a collection saw every acknowledged write since the last comparison, and that its events add up to the
/// current list.
///
/// Assumes that no client writes to the collection meanwhile.
///
/// # Panics
///
/// If a watcher missed a write.
pub fn compare(
    server: &dyn Server,
    collection: &LedgerCollection,
    writers: &mut [WriterLedger],
    watchers: &mut [WatcherLedger],
) {
    let listed = versions_by_name(&server.get(&collection.path).expect(200));
    for watcher in watchers.iter_mut().filter(|watcher| watcher.collection == *collection) {
        for writer in writers.iter().filter(|writer| writer.collection == *collection) {
            for version in &writer.versions {
                let is_seen = watcher.versions.binary_search(version).is_ok();
                assert!(is_seen, "a watcher of {} missed version {version}", collection.path);
            }
        }
        assert_eq!(watcher.objects, listed, "what the events add up to is not what is there");
        watcher.versions.clear();
    }
    for writer in writers.iter_mut().filter(|writer| writer.collection == *collection) {
        writer.versions.clear();
    }
}

/// Lists the collection repeatedly, whole and in pages, until the server is gone or the load ends.
///
/// # Panics
///
/// If a list is older than a write that was acknowledged before the request, or older than the previous list.
pub fn list_repeatedly(wire: &Wire, collection: &LedgerCollection, progress: &LoadProgress) {
    let mut last = 0;
    while !progress.is_stopping() {
        let acknowledged = progress.newest.load(Ordering::SeqCst);
        let Some(version) = list_whole(wire, collection) else { return };
        assert!(version >= acknowledged, "a list has version {version}, but {acknowledged} was acknowledged before");
        assert!(version >= last, "a list has version {version}, and the one before had {last}");
        last = version;
        if list_in_pages(wire, collection).is_none() {
            return;
        }
        progress.lists.fetch_add(2, Ordering::SeqCst);
    }
}

/// Lists the collection and returns the list's version; `None` if the server is gone.
fn list_whole(wire: &Wire, collection: &LedgerCollection) -> Option<u64> {
    let reply = wire.try_ask(&Ask::new("GET", &collection.path)).ok()?;
    Some(version_of(&reply.expect(200)))
}

/// Lists the collection in pages, which must all have the same version; `None` if the server is gone.
fn list_in_pages(wire: &Wire, collection: &LedgerCollection) -> Option<()> {
    let first = format!("{}?limit=5", collection.path);
    let (mut path, mut version) = (first.clone(), None);
    loop {
        let page = wire.try_ask(&Ask::new("GET", &path)).ok()?.expect(200);
        let found = version_of(&page);
        assert_eq!(*version.get_or_insert(found), found, "the pages of one list are of different versions");
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => path = format!("{first}&continue={next}"),
            _ => return Some(()),
        }
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

#[track_caller]
fn version_of(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no resourceVersion: {object}"))
}

fn versions_by_name(list: &Value) -> BTreeMap<String, u64> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| (name_of(item), version_of(item))).collect()
}
