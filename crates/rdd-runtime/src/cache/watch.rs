//! Keeps one cache current: list, watch, and retry with backoff after an error.

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use rdd_stdx::{backoff::Backoff, chain::Chain};

use super::{Cached, Sync, trace};
use crate::{Error, Key, Kind, error::is_not_found};

/// The backoff after errors of a watch.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));

/// Lists and watches a kind and feeds `cache`. It retries forever, and returns only if the stream of events ends.
pub(super) async fn follow<K: Kind>(client: Client, cache: Cached<K>) -> Result<(), Error> {
    // Each object is parsed on its own, so that one that does not fit its type does not hide the others.
    let api = Api::<DeserializeGuard<K>>::all(client);
    let wanted = watcher::Config { field_selector: cache.selector(), ..watcher::Config::default() };
    let mut events = pin!(watcher::watcher(api, wanted));
    let mut list = Vec::new();
    let mut delays = BACKOFF.delays();
    let mut told = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // `Init` comes before the request: it does not mean that the server answered.
                if !matches!(event, Event::Init) {
                    if told.take().is_some() {
                        tracing::info!(kind = %K::kind(&()), "the watch works again");
                    }
                    delays.reset();
                }
                trace::event(&event);
                take_in(&cache, event, &mut list);
            }
            Err(error) => {
                let missing = is_not_served(&error);
                let text = Chain(&error).to_string();
                // Log a lasting failure once: only a change of the error is logged again.
                if told.as_ref() != Some(&text) {
                    tracing::warn!(kind = %K::kind(&()), error = text, "the watch fails");
                    told = Some(text.clone());
                }
                cache.failed(if missing { Sync::NotServed } else { Sync::Failing(text) });
                tokio::time::sleep(delays.advance()).await;
            }
        }
    }
    Err(Error::message("the watch ended"))
}

fn take_in<K: Kind>(cache: &Cached<K>, event: Event<DeserializeGuard<K>>, list: &mut Vec<K>) {
    match event {
        Event::Init => list.clear(),
        Event::InitApply(object) => list.extend(readable(object)),
        Event::InitDone => cache.replaced(std::mem::take(list)),
        Event::Apply(object) => {
            if let Some(object) = readable(object) {
                cache.applied(object);
            }
        }
        Event::Delete(object) => {
            if let Some(object) = readable(object) {
                cache.deleted(&object);
            }
        }
    }
}

/// Parses an object and drops its managed fields, which no controller reads and which are often more than half of it. `None`, with a
/// warning, if it does not fit its type.
fn readable<K: Kind>(mut object: DeserializeGuard<K>) -> Option<K> {
    object.meta_mut().managed_fields = None;
    let key = Key::of(&object);
    object
        .0
        .inspect_err(|error| tracing::warn!(object = %format_args!("{}/{key}", K::kind(&())), %error, "an object cannot be read"))
        .ok()
}

fn is_not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => is_not_found(error),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Arc, Mutex},
    };

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// A server that does not serve the kind, and records the requests.
    #[derive(Clone, Default)]
    struct Without(Arc<Mutex<Vec<String>>>);

    impl Without {
        /// The requests that this cache sends within a minute.
        async fn asked_for(cache: &Cached<ConfigMap>) -> Vec<String> {
            let server = Self::default();
            let following = follow(Client::new(server.clone(), "default"), cache.clone());
            let _ = tokio::time::timeout(Duration::from_mins(1), following).await;
            server.0.lock().unwrap().clone()
        }
    }

    impl tower_service::Service<http::Request<kube::client::Body>> for Without {
        type Response = http::Response<kube::client::Body>;
        type Error = std::convert::Infallible;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<kube::client::Body>) -> Self::Future {
            self.0.lock().unwrap().push(request.uri().to_string());
            let mut response = http::Response::new(kube::client::Body::from(b"404 page not found\n".to_vec()));
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            std::future::ready(Ok(response))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_not_served_is_asked_for_less_and_less_often() {
        let cache = Cached::<ConfigMap>::new(None);
        let asked = Without::asked_for(&cache).await;
        assert!((10..25).contains(&asked.len()), "asked {} times in a minute", asked.len());
        assert_eq!(cache.sync(), Sync::NotServed);
    }

    /// A cache for one ConfigMap must not list and parse the ten thousand others.
    #[tokio::test(start_paused = true)]
    async fn of_a_kind_of_which_one_object_is_needed_no_other_is_asked_for() {
        let cases = [
            (Key::namespaced("ns", "one"), "metadata.name%3Done%2Cmetadata.namespace%3Dns"),
            (Key::cluster("one"), "metadata.name%3Done&"),
        ];
        for (key, wanted) in cases {
            let asked = Without::asked_for(&Cached::new(Some(key))).await;
            assert!(!asked.is_empty() && asked.iter().all(|uri| uri.contains(wanted)), "{asked:?}");
        }
    }

    fn guarded(object: serde_json::Value) -> DeserializeGuard<ConfigMap> {
        serde_json::from_value(object).unwrap()
    }

    // Finding 361-S4
    #[test]
    fn every_kind_of_event_is_traced_and_objects_without_anything_are_survived() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        // With a single subscriber, tracing caches the answer of the thread that reaches a callsite first, for all threads. Another test,
        // which has no subscriber, would then disable these events. With a second subscriber it asks on each thread.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
        let cache = Cached::<ConfigMap>::new(None);
        let mut list = Vec::new();
        tracing::subscriber::with_default(subscriber, || {
            for event in [
                Event::Init,
                Event::InitApply(guarded(json!({"metadata": {"namespace": "ns", "name": "listed"}}))),
                Event::InitApply(guarded(json!({"metadata": {}}))),
                Event::InitDone,
                Event::Apply(guarded(json!({"metadata": {"name": "unreadable"}, "data": 7}))),
                Event::Delete(guarded(json!({"metadata": {"name": "gone", "resourceVersion": "9"}}))),
            ] {
                trace::event(&event);
                take_in(&cache, event, &mut list);
            }
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        for expected in [
            "list begins",
            "object=ConfigMap/ns/listed what=\"listed\"",
            "list is complete",
            "object=ConfigMap/unreadable what=\"applied\"",
            "readable=false",
            "object=ConfigMap/gone what=\"deleted\" rv=\"9\"",
        ] {
            assert!(text.contains(expected), "{expected} is not in {text}");
        }
        assert_eq!(cache.list().len(), 2, "the unreadable one hides no other");
    }
}
