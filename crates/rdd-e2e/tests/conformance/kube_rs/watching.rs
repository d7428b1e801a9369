//! Tests kube's watches: streaming lists, reflectors, and a restart of the daemon.

use futures::{StreamExt, TryStreamExt, future::Either, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PartialObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt,
        reflector::{self, ObjectRef},
        watcher::{self, Event, watcher},
    },
};
use serde_json::json;

use super::{config_map, scenario};

/// An event as text.
fn word<K: kube::Resource>(event: &Event<K>) -> String {
    match event {
        Event::Init => "begin".to_owned(),
        Event::InitApply(object) => format!("has {}", object.meta().name.as_deref().unwrap_or_default()),
        Event::InitDone => "done".to_owned(),
        Event::Apply(object) => format!("applied {}", object.meta().name.as_deref().unwrap_or_default()),
        Event::Delete(object) => format!("deleted {}", object.meta().name.as_deref().unwrap_or_default()),
    }
}

fn labelled(name: &str) -> ConfigMap {
    let mut map = config_map(name, "x");
    map.metadata.labels = Some([("watched".to_owned(), "yes".to_owned())].into());
    map
}

async fn watch_a_life(maps: Api<ConfigMap>, config: watcher::Config) {
    maps.create(&PostParams::default(), &labelled("old")).await.unwrap();
    let events = watcher(maps.clone(), config.labels("watched"));
    pin_mut!(events);
    for expected in ["begin", "has old", "done"] {
        assert_eq!(word(&events.try_next().await.unwrap().unwrap()), expected);
    }
    maps.create(&PostParams::default(), &labelled("new")).await.unwrap();
    assert_eq!(word(&events.try_next().await.unwrap().unwrap()), "applied new");
    let unlabel = Patch::Merge(json!({ "metadata": { "labels": { "watched": null } } }));
    maps.patch("old", &PatchParams::default(), &unlabel).await.unwrap();
    assert_eq!(word(&events.try_next().await.unwrap().unwrap()), "deleted old", "it left the selection");
    maps.delete("new", &DeleteParams::default()).await.unwrap();
    assert_eq!(word(&events.try_next().await.unwrap().unwrap()), "deleted new");
}

#[test]
fn a_watcher_lists_by_streaming_and_then_follows() {
    scenario(|client| watch_a_life(Api::default_namespaced(client), watcher::Config::default().streaming_lists()));
}

#[test]
fn a_watcher_lists_by_pages_and_then_follows() {
    scenario(|client| watch_a_life(Api::default_namespaced(client), watcher::Config::default().page_size(1)));
}

#[test]
fn a_watcher_of_metadata_sees_no_data() {
    scenario(|client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        maps.create(&PostParams::default(), &labelled("one")).await.unwrap();
        let config = watcher::Config::default().labels("watched").streaming_lists();
        let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::default_namespaced(client);
        let events = watcher(metadata, config);
        pin_mut!(events);
        for expected in ["begin", "has one", "done"] {
            assert_eq!(word(&events.try_next().await.unwrap().unwrap()), expected);
        }
    });
}

#[test]
fn a_reflector_holds_what_there_is() {
    scenario(|client| async move {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.create(&PostParams::default(), &labelled("one")).await.unwrap();
        let (store, writer) = reflector::store();
        let config = watcher::Config::default().labels("watched").streaming_lists();
        let stream = watcher(maps.clone(), config).default_backoff().reflect(writer).applied_objects();
        let follow = stream.for_each(|_| std::future::ready(()));
        let use_it = async {
            store.wait_until_ready().await.unwrap();
            assert_eq!(store.state().len(), 1);
            let patch = Patch::Merge(json!({ "data": { "k": "changed" } }));
            let changed = maps.patch("one", &PatchParams::default(), &patch).await.unwrap();
            let key = ObjectRef::from_obj(&changed);
            loop {
                let held = store.get(&key).and_then(|held| held.resource_version());
                if held == changed.resource_version() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        pin_mut!(follow, use_it);
        match futures::future::select(follow, use_it).await {
            Either::Left(_) => panic!("the watch ended"),
            Either::Right(((), _)) => {}
        }
    });
}

#[test]
fn many_watchers_of_one_kind_hear_the_same() {
    scenario(|client| async move {
        let namespaces: Api<Namespace> = Api::all(client);
        let streams = (0..8).map(|_| {
            let config = watcher::Config::default().labels("watched").streaming_lists();
            Box::pin(watcher(namespaces.clone(), config))
        });
        let mut streams: Vec<_> = streams.collect();
        for stream in &mut streams {
            assert_eq!(word(&stream.try_next().await.unwrap().unwrap()), "begin");
            assert_eq!(word(&stream.try_next().await.unwrap().unwrap()), "done");
        }
        let mut made = Namespace::default();
        made.metadata.name = Some("heard".to_owned());
        made.metadata.labels = Some([("watched".to_owned(), "yes".to_owned())].into());
        namespaces.create(&PostParams::default(), &made).await.unwrap();
        for stream in &mut streams {
            assert_eq!(word(&stream.try_next().await.unwrap().unwrap()), "applied heard");
        }
    });
}
