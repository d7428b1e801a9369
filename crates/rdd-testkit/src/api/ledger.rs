//! The ledger of a load: what was acknowledged, what watches have shown, and whether a daemon that was killed kept all of it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{Ask, Events, Next, PATIENCE, Reply, Server, Wire, WireEvents};

/// How many objects each writer has.
const OBJECTS_PER_WRITER: usize = 6;
/// The owner of the fields that writers apply.
const FIELD_MANAGER: &str = "ledger";
/// The label that all objects of one writer have.
const WRITER_LABEL: &str = "writer";
/// How long a watcher waits for an event before it looks whether the load has ended.
const EVENT_WAIT: Duration = Duration::from_millis(200);
/// One write in so many deletes everything that the writer has.
const DELETE_COLLECTION_EVERY: usize = 64;

/// Numbers that look random and are the same in every run with the same seed.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// A sequence that follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// One of so many, from 0; 0 if there is none.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.number() % count.max(1) as u64).expect("it is below a usize")
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Objects of one kind in one namespace, each with its value in `data.value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCollection {
    path: String,
    api_version: String,
    kind: String,
    /// Whether the kind takes strategic merge patches, which custom kinds do not.
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

    /// Objects of a custom kind.
    pub fn custom(path: &str, api_version: &str, kind: &str) -> Self {
        Self { path: path.to_owned(), api_version: api_version.to_owned(), kind: kind.to_owned(), is_builtin: false }
    }

    /// Where its objects are.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// An object of it that belongs to no writer.
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

/// The ways to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteVerb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH with operations.
    JsonPatch,
    /// PATCH with a merge patch.
    MergePatch,
    /// PATCH with a strategic merge patch; a merge patch for custom kinds.
    StrategicPatch,
    /// Server-side apply, of an object that is there or not.
    Apply,
    /// DELETE of one.
    Delete,
    /// DELETE of all that the writer has.
    DeleteCollection,
}

impl WriteVerb {
    /// Of an object that is not there.
    const CREATING: &[Self] = &[Self::Create, Self::Apply];
    /// Of an object that is there. Every third write deletes one or all.
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

/// How far the load on one collection is; shared by all who work on it.
#[derive(Debug, Default)]
pub struct LoadProgress {
    acknowledged: AtomicU64,
    newest: AtomicU64,
    lists: AtomicU64,
    stopping: AtomicBool,
}

impl LoadProgress {
    /// How many writes were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// How many lists were read and judged.
    pub fn lists(&self) -> u64 {
        self.lists.load(Ordering::SeqCst)
    }

    /// Ends the load without killing anybody.
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

/// What a writer knows of one of its objects.
#[derive(Debug, Clone, Default)]
struct KnownObject {
    /// The value that was acknowledged; `None` if it is not there.
    value: Option<String>,
    /// What the last, unanswered request would have made of it.
    unanswered: Option<Option<String>>,
    /// The newest version that it was seen in.
    version: u64,
}

/// What was acknowledged to one writer, over all lives of the daemon. Nobody else writes its objects.
#[derive(Debug)]
pub struct WriterLedger {
    collection: LedgerCollection,
    writer: String,
    objects: BTreeMap<String, KnownObject>,
    /// Of the acknowledged writes since the last comparison.
    versions: Vec<u64>,
    newest: u64,
    counts: BTreeMap<WriteVerb, u64>,
    unanswered: u64,
}

impl WriterLedger {
    /// A writer that has written nothing yet. `number` tells the writers of one collection apart.
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

    /// How many writes of each verb were acknowledged.
    pub fn counts(&self) -> &BTreeMap<WriteVerb, u64> {
        &self.counts
    }

    /// How many writes were sent and not answered.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Writes in every way until the server does not answer any more or the load ends.
    ///
    /// # Panics
    /// When a write is refused, or when a version is not newer than the last one of the object.
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

    /// Notes what the write makes of the objects, before it is sent.
    fn expect(&mut self, verb: WriteVerb, object: &str, value: &str) {
        match verb {
            WriteVerb::DeleteCollection => {
                // It deletes one after the other, so each of them may be there or not if it is cut off.
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

    /// Judges what the next life of the daemon has: every acknowledged write is there; of one that was not answered either
    /// state is right, and known from now on.
    ///
    /// # Panics
    /// When something that was acknowledged is lost, or the newest version is older than one that was acknowledged.
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

/// What one watcher has seen, over all lives of the daemon.
#[derive(Debug, Clone)]
pub struct WatcherLedger {
    collection: LedgerCollection,
    /// Of the last event.
    version: u64,
    /// Of the events since the last comparison.
    versions: Vec<u64>,
    objects: BTreeMap<String, u64>,
    events: u64,
    watches: u64,
}

impl WatcherLedger {
    /// Begins with a list.
    ///
    /// # Panics
    /// When the list is refused.
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

    /// How many events came.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many watches were begun where the last one had ended.
    pub fn watches(&self) -> u64 {
        self.watches
    }

    /// Watches on from where it was until the server is gone or the load ends.
    ///
    /// # Panics
    /// When an event comes again or out of order, or none comes at all.
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

    /// Watches on from where it was until it has seen an object of this name.
    ///
    /// # Panics
    /// When the object does not come, or an event comes again or out of order.
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

    /// Begins to watch after the last event; `None` if the server is gone.
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
        // A bookmark repeats the last version where nothing has happened since.
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

/// Judges that every watcher of a collection saw every write that was acknowledged to its writers since the last comparison,
/// and that what its events add up to is what is there. Nobody may write meanwhile.
///
/// # Panics
/// When a watcher missed something.
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

/// Lists the collection again and again, whole and in pages, until the server is gone or the load ends.
///
/// # Panics
/// When a list is older than what was acknowledged before it was asked for, or older than the list before it.
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

/// The version of the list; `None` if the server is gone.
fn list_whole(wire: &Wire, collection: &LedgerCollection) -> Option<u64> {
    let reply = wire.try_ask(&Ask::new("GET", &collection.path)).ok()?;
    Some(version_of(&reply.expect(200)))
}

/// Reads pages up to the last one, all of which must be of one version; `None` if the server is gone.
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
