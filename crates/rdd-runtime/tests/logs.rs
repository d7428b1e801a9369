//! A lasting failure is logged when it begins, when it changes, and when it is over.
#![allow(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod things;

use std::{
    io::Write,
    sync::{Arc, Mutex},
};

use rdd_runtime::Registered;
use rdd_testkit::{api::TestApi, controllers::Stage};
use serde_json::json;
use things::{Hands, Things, World, until};

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

impl Log {
    fn count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().filter(|line| line.contains(words)).count()
    }
}

// Finding 361-S5
#[test]
fn a_lasting_failure_is_told_once_per_change() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(move || writer.clone()).init();
    let (api, world) = (TestApi::start(), Arc::<World>::default());
    let own = Arc::clone(&world);
    let mut stage = Stage::over(&api, move || vec![Registered::new(Things(Arc::clone(&own)))]);
    stage.start();
    let hands = Hands::new(stage.client());
    stage.block_on(async {
        hands.make("a", "1", "refuse").await;
        until("many attempts", || async { world.looks("a") > 6 }).await;
        assert_eq!(log.count("failed, and is tried again"), 1);
        hands.set("a", json!({"mood": "panic"})).await;
        until("another failure", || async { log.count("panicked: it panics") > 0 && world.looks("a") > 9 }).await;
        assert_eq!(log.count("failed, and is tried again"), 2);
        hands.set("a", json!({"mood": ""})).await;
        until("recovery", || async { log.count("works again") == 1 }).await;
    });
}
