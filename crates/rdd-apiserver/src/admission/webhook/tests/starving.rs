//! A webhook that does not answer delays nobody but those who need it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rdd_stdx::dns::Resolver;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{Local, Services, call::Caller},
    Stage, Way, both_ways, mk_map, said,
};
use crate::serve::limits::MUTATING_IN_FLIGHT;

const SOON: Duration = Duration::from_secs(20);

// Finding A-8
#[tokio::test]
async fn a_webhook_that_hangs_holds_a_share_of_the_writes_in_flight_and_the_rest_is_429() {
    both_ways(async |stage| {
        stage.serve("/a", |_| Box::pin(std::future::pending()));
        stage.validating("c", vec![stage.hook("/a", json!({"failurePolicy": "Ignore"}))]).await;
        let mut writes: FuturesUnordered<_> =
            (0..MUTATING_IN_FLIGHT).map(|_| async { stage.write(&mk_map()).await.unwrap_err() }).collect();
        for _ in 0..MUTATING_IN_FLIGHT / 2 {
            let refused = timeout(SOON, writes.next()).await.expect("the others are refused at once").unwrap();
            assert_eq!((refused.code, refused.details.unwrap().retry_after_seconds), (429, 1));
            let expected = "too many requests are waiting for admission webhook \"a.example.com\", try again later";
            assert_eq!(refused.message, expected);
        }
        drop(writes);
        stage.respond("/a", json!({"allowed": true}));
        assert_eq!(said(stage.write(&mk_map()).await), "ok", "who has given up holds nothing any more");
    })
    .await;
}

/// Asks a webhook whose name does not resolve while other work needs a blocking thread.
async fn check_slow_dns() {
    let mut stage = Stage::new(Way::Network).await;
    let (release, released) = mpsc::channel::<()>();
    let (released, begun) = (Mutex::new(released), Arc::new(AtomicUsize::new(0)));
    let lookups = Arc::clone(&begun);
    let resolver = Resolver::new(2, move |_| {
        lookups.fetch_add(1, Ordering::SeqCst);
        let _ = released.lock().unwrap().recv();
        Err(std::io::Error::other("released"))
    });
    let services = Arc::new(Services::new(Arc::clone(&stage.state), std::collections::BTreeMap::new()));
    stage.webhooks.caller = Caller::new(Arc::new(Local::default()), services, resolver);
    let client_config = json!({"url": "https://slow.example.com/a", "caBundle": stage.server.ca_bundle});
    let slow = stage.hook("/a", json!({"clientConfig": client_config, "timeoutSeconds": 1}));
    stage.validating("c", vec![slow]).await;
    let request = mk_map();
    let mut write = std::pin::pin!(stage.write(&request));
    let blocked = async {
        while begun.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // OpenAPI documents, for one, are made on these threads.
        tokio::task::spawn_blocking(|| 7).await.unwrap()
    };
    let other = tokio::select! {
        told = &mut write => panic!("the lookup has not ended: {told:?}"),
        other = blocked => other,
    };
    assert_eq!(other, 7);
    let told = said(write.await);
    assert!(told.ends_with("Post \"https://slow.example.com/a?timeout=1s\": context deadline exceeded"), "{told}");
    drop(release);
}

// Finding A-6
#[test]
fn a_webhook_whose_name_resolves_slowly_takes_no_blocking_thread_and_no_more_than_its_time() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async { timeout(SOON, check_slow_dns()).await.expect("nothing waits for the lookup") });
}
