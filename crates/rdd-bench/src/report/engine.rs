//! The goals and figures of the engine's mirror.

use serde_json::{Value, json};

use super::{Goal, Limit, MEBIBYTES, goal, mebibytes, milliseconds};
use crate::engine::{Engine, Many};

/// The goals, with the measured values if there are any. Those that need a real engine are left out if there is none.
pub(super) fn goals(engine: Option<&Engine>) -> Vec<Goal> {
    let many = |figure: fn(&Many) -> f64| engine.map(|engine| figure(&engine.many));
    let mut goals = vec![
        goal("first sync of 5,000 + 2,000, beside bare writes", "times", Limit::Below(2.0), many(ratio)),
        goal(
            "memory, 5,000 containers and 2,000 images",
            MEBIBYTES,
            Limit::Below(150.0),
            many(|many| mebibytes(many.bytes)),
        ),
        #[expect(clippy::cast_precision_loss, reason = "a count of requests is small")]
        goal(
            "one event among them, requests to the engine",
            "",
            Limit::Below(1.5),
            many(|many| many.event_requests as f64),
        ),
        #[expect(clippy::cast_precision_loss, reason = "a count of writes is small")]
        goal("one event among them, writes of the API", "", Limit::Below(6.5), many(|many| many.event_writes as f64)),
    ];
    if let Some(runs) = engine.and_then(|engine| engine.runs) {
        goals.push(goal("started container to its mirror, p50", "ms", Limit::Below(100.0), Some(runs.seen.p50 * 1e3)));
        goals.push(goal("started container to its mirror, p99", "ms", Limit::Below(500.0), Some(runs.seen.p99 * 1e3)));
    }
    if let Some(cluster) = engine.and_then(|engine| engine.cluster) {
        let name = "Kubernetes enabled to ready, above the control plane's own time";
        goals.push(goal(name, "ms", Limit::Below(1000.0), Some(cluster.ours * 1e3)));
    }
    goals
}

fn ratio(many: &Many) -> f64 {
    many.first_sync.as_secs_f64() / many.bare_loop.as_secs_f64()
}

/// The figures behind the ratios.
pub(super) fn notes(engine: &Engine) -> Vec<String> {
    let Many { first_sync, bare_loop, .. } = engine.many;
    let (first, bare) = (milliseconds(first_sync), milliseconds(bare_loop));
    vec![format!("first sync of 5,000 containers and 2,000 images: {first:.0} ms, bare writes {bare:.0} ms")]
}

/// The figures behind the ratios, as JSON.
pub(super) fn json(engine: &Engine) -> Value {
    let many = &engine.many;
    json!({
        "firstSyncSeconds": many.first_sync.as_secs_f64(),
        "bareLoopSeconds": many.bare_loop.as_secs_f64(),
        "bytes": many.bytes,
        "eventRequests": many.event_requests,
        "eventWrites": many.event_writes,
        "kubernetes": engine.cluster.map(|cluster| json!({"oursSeconds": cluster.ours, "slowestSeconds": cluster.slowest})),
        "startedToMirror": engine.runs.map(|runs| json!({"p50Seconds": runs.seen.p50, "p99Seconds": runs.seen.p99})),
    })
}
