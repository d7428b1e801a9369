//! Tests of commits and reads: writers read their own writes, others see them, and the history is kept for its time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rdd_apiserver::state::{
    Cause, Error, Extract, Item, Key, Limits, ListOptions, MetadataExtract, Parts, Resource, RevisionWant, State,
    Symbols, WatchFrom, Write,
};
use rdd_stdx::{
    clock::{ManualClock, SystemClock},
    task::Failure,
};
use rdd_store::{Action, Expect, Revision, Store, Txn};

use crate::support::{bounded, delete, json, key, list, maps, mk_store, next, open, put, put_behind_its_back, take};

#[tokio::test]
async fn a_commit_returns_the_object_with_its_revision_in_the_bytes_and_every_read_has_it() {
    let state = open(&mk_store()).await;
    let write = Write::put(key("a"), Expect::Absent, r#"{"metadata":{"name":"a"}}"#);
    let made = bounded(state.commit(write)).await.unwrap();
    let object = made.object.unwrap();
    assert_eq!(object.wire(), &format!(r#"{{"metadata":{{"resourceVersion":"{}","name":"a"}}}}"#, made.revision));
    assert!(Arc::ptr_eq(&object, &state.get(&key("a")).unwrap()));
    assert_eq!(list(&state, &maps().all(), RevisionWant::Any).await.unwrap(), [format!("a@{}", made.revision)]);

    let gone = bounded(state.commit(Write::delete(key("a"), Expect::Revision(made.revision)))).await.unwrap();
    assert_eq!(gone.object.unwrap().revision(), gone.revision);
    assert!(gone.revision > made.revision && state.get(&key("a")).is_none());
    let again = bounded(state.commit(Write::delete(key("b"), Expect::Any))).await.unwrap();
    assert!(again.object.is_none());
}

#[tokio::test]
async fn a_write_that_expects_otherwise_or_is_no_object_changes_nothing() {
    let state = open(&mk_store()).await;
    let first = put(&state, "a", &json(1, "x")).await;
    let conflict = bounded(state.commit(Write::put(key("a"), Expect::Absent, json(1, "y")))).await.unwrap_err();
    assert!(matches!(conflict, Error::Conflict { actual: Some(actual), .. } if actual == first), "{conflict}");
    for bad in ["", "{}", r#"{"metadata":{"resourceVersion":"1"}}"#, r#"{"metadata":{"labels":7}}"#] {
        let refused = bounded(state.commit(Write::put(key("a"), Expect::Any, bad))).await.unwrap_err();
        assert!(matches!(refused, Error::Unreadable { .. }), "{bad}: {refused}");
    }
    assert_eq!(state.get(&key("a")).unwrap().revision(), first);
    assert_eq!(state.revision(), first);
}

#[tokio::test]
async fn two_states_over_one_store_see_each_others_writes() {
    let store = mk_store();
    let (one, other) = (open(&store).await, open(&store).await);
    let mut watch = other.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    assert_eq!(next(&mut watch).await.unwrap(), "synced@0");
    for number in 1..=20 {
        let (writer, reader) = if number % 2 == 0 { (&one, &other) } else { (&other, &one) };
        put(writer, "a", &json(1, &number.to_string())).await;
        assert_eq!(list(reader, &maps().all(), RevisionWant::Latest).await.unwrap(), [format!("a@{number}")]);
        let sign = if number == 1 { '+' } else { '~' };
        assert_eq!(next(&mut watch).await.unwrap(), format!("{sign}a@{number}"));
    }
}

#[tokio::test]
async fn a_value_that_is_no_object_is_left_out_and_hides_nothing_else() {
    let store = mk_store();
    let put = |key: &str, value: &'static str| Txn::put(key, Expect::Any, value);
    let a = key("a");
    put_behind_its_back(&store, vec![put("/elsewhere", "1"), put(a.as_str(), "garbage")], false);
    let state = open(&store).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    let values = ["{\"metadata\":{}}", "{}", "", "{\"metadata\":{\"name\":\"a\"}}"];
    put_behind_its_back(&store, values.map(|value| put(a.as_str(), value)).into(), false);
    assert_eq!(take(&mut watch, 4).await, ["synced@2", "+a@3", "-a@4", "+a@6"]);
}

#[tokio::test]
async fn one_transaction_over_two_resources_is_one_revision_for_both() {
    let store = mk_store();
    let state = open(&store).await;
    let pods = Resource::new("", "pods").unwrap();
    let value = Action::Put { value: r#"{"metadata":{}}"#.into(), ttl: None };
    let txn = Txn::default()
        .with(key("a").as_str(), Expect::Any, value.clone())
        .with(pods.key(Some("ns"), "p").unwrap().as_str(), Expect::Any, value.clone())
        .with(key("b").as_str(), Expect::Any, value);
    put_behind_its_back(&store, vec![txn], false);
    assert_eq!(list(&state, &maps().all(), RevisionWant::Latest).await.unwrap(), ["a@1", "b@1"]);
    assert_eq!(list(&state, &pods.all(), RevisionWant::Exact(Revision(1))).await.unwrap(), ["p@1"]);
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    assert_eq!((next(&mut watch).await.unwrap(), watch.progress()), ("+a@1".to_owned(), None));
    assert_eq!((next(&mut watch).await.unwrap(), watch.progress()), ("+b@1".to_owned(), Some(Revision(1))));
}

#[tokio::test]
async fn a_revision_in_the_future_is_waited_for_and_then_refused() {
    let state = open(&mk_store()).await;
    let newest = put(&state, "a", &json(1, "x")).await;
    let wanted = Revision(newest.0 + 1);
    for want in [RevisionWant::NotOlderThan(wanted), RevisionWant::Exact(wanted)] {
        let options = ListOptions { want, wait: Duration::from_millis(20), ..ListOptions::default() };
        let refused = bounded(state.list(&maps().all(), options)).await.unwrap_err();
        assert!(matches!(refused, Error::TooLarge { current, .. } if current == newest), "{refused}");
    }
    let (all, value) = (maps().all(), json(1, "x"));
    let (seen, _) = tokio::join!(list(&state, &all, RevisionWant::NotOlderThan(wanted)), put(&state, "b", &value));
    assert_eq!(seen.unwrap(), ["a@1", "b@2"]);
}

#[tokio::test]
async fn older_revisions_are_listed_page_by_page_until_their_time_is_over() {
    let clock = ManualClock::shared(Duration::ZERO);
    let store = mk_store();
    let opened = State::open(store, Arc::new(MetadataExtract), clock.clone(), Limits::default());
    let state = bounded(opened).await.unwrap();
    put(&state, "a", &json(1, "x")).await;
    let second = put(&state, "b", &json(1, "x")).await;
    let page = |start: Option<String>| {
        let state = &state;
        async move {
            let want = RevisionWant::Exact(second);
            let options = ListOptions { want, limit: Some(1), start: start.as_deref(), ..ListOptions::default() };
            bounded(state.list(&maps().all(), options)).await
        }
    };
    let first_page = page(None).await.unwrap();
    assert_eq!((first_page.objects[0].name(), first_page.remaining), ("a", Some(1)));
    delete(&state, "b").await;
    clock.advance(Duration::from_mins(6));
    let last = put(&state, "c", &json(1, "x")).await;

    // The deletion was the newest revision six minutes ago, so all earlier revisions have expired.
    let expired = page(first_page.next.clone()).await.unwrap_err();
    assert!(matches!(expired, Error::Expired { oldest, .. } if oldest == Revision(second.0 + 1)), "{expired}");
    let still = list(&state, &maps().all(), RevisionWant::Exact(Revision(second.0 + 1))).await.unwrap();
    assert_eq!(still, ["a@1"]);
    // The same holds for a resource without objects.
    let pods = Resource::new("", "pods").unwrap().all();
    assert!(list(&state, &pods, RevisionWant::Exact(second)).await.is_err());
    assert!(list(&state, &pods, RevisionWant::Exact(last)).await.unwrap().is_empty());
    // A watch of a quiet resource resumes nevertheless: no change that it would miss was dropped.
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    assert_eq!(take(&mut watch, 4).await, ["+a@1", "+b@2", "-b@3", "+c@4"]);
}

#[tokio::test]
async fn a_quiet_resource_lets_go_of_what_is_too_old_by_itself() {
    let clock = ManualClock::shared(Duration::ZERO);
    let limits = Limits { history_floor: 1, trim_every: Duration::from_millis(5), ..Limits::default() };
    let state = bounded(State::open(mk_store(), Arc::new(MetadataExtract), clock.clone(), limits)).await.unwrap();
    for name in ["a", "b", "c"] {
        put(&state, name, &json(1, "x")).await;
    }
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    assert_eq!(next(&mut watch).await.unwrap(), "+a@1");
    clock.advance(Duration::from_mins(6));
    let expired = async {
        loop {
            match state.watch(&maps().all(), WatchFrom::After(Revision(1)), None) {
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                Err(error) => break error,
            }
        }
    };
    let expired = bounded(expired).await;
    assert!(matches!(expired, Error::Expired { oldest: Revision(2), .. }), "{expired}");
    assert!(state.watch(&maps().all(), WatchFrom::After(Revision(2)), None).is_ok());
    assert_eq!(list(&state, &maps().all(), RevisionWant::Any).await.unwrap(), ["a@1", "b@2", "c@3"]);
}

#[tokio::test]
async fn pages_of_one_list_are_of_one_revision_whatever_happens_between_them() {
    let state = open(&mk_store()).await;
    for name in ["a", "b", "c"] {
        put(&state, name, &json(1, "x")).await;
    }
    let (mut want, mut start, mut seen) = (RevisionWant::Latest, None::<String>, Vec::new());
    loop {
        let options = ListOptions { want, limit: Some(1), start: start.as_deref(), ..ListOptions::default() };
        let page = bounded(state.list(&maps().all(), options)).await.unwrap();
        seen.extend(page.objects.iter().map(|object| object.name().to_owned()));
        assert_eq!((page.revision, page.remaining), (Revision(3), Some(3 - seen.len())));
        want = RevisionWant::Exact(page.revision);
        let Some(next) = page.next else { break };
        start = Some(next);
        delete(&state, "b").await;
        put(&state, "bb", &json(1, "x")).await;
    }
    assert_eq!(seen, ["a", "b", "c"]);
}

#[tokio::test]
async fn dependents_are_found_by_the_uid_of_their_owner_in_all_resources() {
    let store = mk_store();
    let state = open(&store).await;
    let owned = r#"{"metadata":{"ownerReferences":[{"uid":"u1"},{"uid":"u2"}]}}"#;
    put(&state, "a", owned).await;
    let pod = Resource::new("", "pods").unwrap().key(Some("ns"), "p").unwrap();
    bounded(state.commit(Write::put(pod, Expect::Any, owned))).await.unwrap();
    let names = |state: &State, uid: &str| {
        state.dependents(uid).iter().map(|object| object.name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((names(&state, "u1"), names(&state, "u3")), ("a p".to_owned(), String::new()));
    put(&state, "a", r#"{"metadata":{"ownerReferences":[{"uid":"u2"}]}}"#).await;
    assert_eq!((names(&state, "u1"), names(&state, "u2")), ("p".to_owned(), "a p".to_owned()));
    let reopened = open(&store).await;
    assert_eq!(names(&reopened, "u2"), "a p");
    delete(&reopened, "a").await;
    assert_eq!(names(&reopened, "u2"), "p");
}

#[tokio::test]
async fn an_object_with_a_time_to_live_goes_by_itself_and_watchers_are_told() {
    let state = open(&mk_store()).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(0)), None).unwrap();
    let write = Write::put_for(key("a"), Expect::Absent, json(1, "x"), Duration::from_millis(20));
    bounded(state.commit(write)).await.unwrap();
    assert_eq!(take(&mut watch, 2).await, ["+a@1", "-a@2"]);
    assert!(state.get(&key("a")).is_none());
}

#[tokio::test]
async fn when_the_store_is_closed_everyone_is_told() {
    let store = mk_store();
    let state = open(&store).await;
    put(&state, "a", &json(1, "x")).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    store.close().await.unwrap();
    let ended = bounded(state.ended()).await.unwrap();
    assert!(matches!(ended.outcome, Ok(rdd_store::Error::Closed)), "{ended:?}");
    assert_eq!(take(&mut watch, 2).await, ["+a@1", "synced@1"]);
    assert!(matches!(next(&mut watch).await, Err(Error::Closed)));
    assert!(matches!(state.commit(Write::delete(key("a"), Expect::Any)).await, Err(Error::Closed)));
    assert!(matches!(state.reach(Revision(9), Duration::from_secs(30)).await, Err(Error::Closed)));
    assert!(state.get(&key("a")).is_some());
}

/// Extracts metadata as usual, and counts the objects.
#[derive(Debug, Default)]
struct Counting(AtomicUsize);

impl Extract for Counting {
    fn extract(&self, key: &Key, json: &[u8], symbols: &mut Symbols) -> Result<Parts, Cause> {
        self.0.fetch_add(1, Ordering::Relaxed);
        MetadataExtract.extract(key, json, symbols)
    }
}

#[tokio::test]
async fn a_value_is_read_once_whoever_writes_it_and_shares_its_texts_with_the_others() {
    let (store, extract) = (mk_store(), Arc::new(Counting::default()));
    let opened = State::open(store.clone(), Arc::clone(&extract) as _, SystemClock::shared(), Limits::default());
    let state = bounded(opened).await.unwrap();
    let count = || extract.0.load(Ordering::Relaxed);
    let labelled = r#"{"metadata":{"labels":{"app":"web"}}}"#;
    put(&state, "a", labelled).await;
    put(&state, "b", labelled).await;
    assert_eq!(count(), 2);
    put_behind_its_back(&store, vec![Txn::put(key("c").as_str(), Expect::Any, labelled)], false);
    bounded(state.catch_up(Duration::from_secs(30))).await.unwrap();
    assert_eq!(count(), 3);
    let [a, b, c] = ["a", "b", "c"].map(|name| state.get(&key(name)).unwrap());
    for other in [&b, &c] {
        let (mine, theirs) = (&a.labels()[0], &other.labels()[0]);
        assert!(Arc::ptr_eq(&mine.0, &theirs.0) && Arc::ptr_eq(&mine.1, &theirs.1));
    }
}

#[tokio::test]
async fn writes_of_one_key_that_race_are_each_seen_as_they_were_written() {
    let state = Arc::new(open(&mk_store()).await);
    let mut watch = state.watch(&maps().all(), WatchFrom::Now, None).unwrap();
    let writes = (0..50).map(|number| {
        let json = format!(r#"{{"metadata":{{"labels":{{"number":"{number}"}}}},"spec":{{"number":{number}}}}}"#);
        state.commit(Write::put(key("a"), Expect::Any, json))
    });
    for (number, committed) in bounded(futures_util::future::join_all(writes)).await.into_iter().enumerate() {
        let object = committed.unwrap().object.unwrap();
        assert_eq!(object.label("number"), Some(number.to_string().as_str()));
        let wire: serde_json::Value = serde_json::from_slice(object.wire()).unwrap();
        assert_eq!(wire["spec"]["number"], number);
    }
    assert_eq!(next(&mut watch).await.unwrap(), "synced@0");
    let mut told = Vec::new();
    for _ in 0..50 {
        let Item::Change(change) = bounded(watch.next()).await.unwrap() else {
            panic!("there is nothing else to tell")
        };
        let wire: serde_json::Value = serde_json::from_slice(change.object.wire()).unwrap();
        assert_eq!(change.object.label("number"), Some(wire["spec"]["number"].to_string().as_str()));
        told.push(wire["spec"]["number"].as_u64().unwrap());
    }
    told.sort_unstable();
    assert_eq!(told, (0..50).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_commit_that_history_has_let_go_of_returns_what_it_wrote() {
    let limits = Limits { history_events: 0, history_floor: 0, ..Limits::default() };
    let opened = State::open(mk_store(), Arc::new(MetadataExtract), SystemClock::shared(), limits);
    let state = bounded(opened).await.unwrap();
    let write = Write::put(key("a"), Expect::Absent, r#"{"metadata":{"labels":{"a":"1"}}}"#);
    let made = bounded(state.commit(write)).await.unwrap();
    let object = made.object.unwrap();
    let shown = format!(r#"{{"metadata":{{"resourceVersion":"{}","labels":{{"a":"1"}}}}}}"#, made.revision);
    assert_eq!((object.wire(), object.label("a"), object.revision()), (&shown.into(), Some("1"), made.revision));
    assert!(!Arc::ptr_eq(&object, &state.get(&key("a")).unwrap()), "it was made anew");
}

/// Extracts metadata as usual, but panics for one object.
#[derive(Debug)]
struct Fragile;

impl Extract for Fragile {
    fn extract(&self, key: &Key, json: &[u8], symbols: &mut Symbols) -> Result<Parts, Cause> {
        assert_ne!(key.name(), "poison", "cannot stand it");
        MetadataExtract.extract(key, json, symbols)
    }
}

#[tokio::test]
async fn when_the_following_task_breaks_down_everyone_is_told() {
    let store = mk_store();
    let opened = State::open(store.clone(), Arc::new(Fragile), SystemClock::shared(), Limits::default());
    let state = bounded(opened).await.unwrap();
    put(&state, "a", &json(1, "x")).await;
    let mut watch = state.watch(&maps().all(), WatchFrom::After(Revision(1)), None).unwrap();
    let poison = Txn::put(key("poison").as_str(), Expect::Any, json(1, "x"));
    put_behind_its_back(&store, vec![poison], false);
    assert!(matches!(next(&mut watch).await, Err(Error::Closed)));
    let ended = bounded(state.ended()).await.unwrap();
    assert!(matches!(&ended.outcome, Err(Failure::Panicked(why)) if why.contains("cannot stand it")), "{ended:?}");
    assert!(state.get(&key("a")).is_some());
}
