//! Webhooks as a whole: one table of cases for both ways to reach them, and what only a network can do wrong.

mod asking;
mod choosing;
mod connection;
mod core;
mod server;
mod stage;
mod starving;

use stage::{Stage, Way, answer, mk_map, said};

/// Runs a case with webhooks in this process, then with webhooks behind HTTPS.
async fn both_ways(case: impl AsyncFn(Stage)) {
    for way in [Way::Local, Way::Network] {
        let stage = Stage::new(way).await;
        tokio::time::timeout(std::time::Duration::from_secs(60), case(stage)).await.expect("a case ends");
    }
}
