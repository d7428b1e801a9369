//! The metrics of a manager, under the names that controller-runtime uses.
//!
//! | name | labels | meaning |
//! |---|---|---|
//! | `controller_runtime_reconcile_total` | `controller`, `result`: `success`, `error`, `conflict`, `requeue_after` | reconciles |
//! | `controller_runtime_reconcile_errors_total` | `controller` | reconciles that failed |
//! | `controller_runtime_reconcile_panics_total` | `controller` | reconciles that panicked |
//! | `controller_runtime_reconcile_time_seconds` | `controller` | duration of reconciles |
//! | `controller_runtime_active_workers` | `controller` | objects that are being reconciled |
//! | `workqueue_depth` | `name` | objects that wait for a worker |
//! | `workqueue_retrying` | `name` | objects that wait for a retry |

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{TypedMetric, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::queue::Queue;

/// Buckets of the duration histogram, in seconds: from a reconcile that changes nothing to one that creates a VM.
const DURATION_BUCKETS: [f64; 12] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    name: &'static str,
}

/// The metrics of one manager. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    reconciles: Family<Ended, Counter>,
    errors: Family<Of, Counter>,
    panics: Family<Of, Counter>,
    durations: Family<Of, Histogram, fn() -> Histogram>,
    queues: Mutex<Vec<(&'static str, Arc<Queue>)>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Inner {
            reconciles: Family::default(),
            errors: Family::default(),
            panics: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            queues: Mutex::default(),
        }))
    }
}

/// The result of a reconcile, as in the label `result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Result {
    Success,
    Again,
    Conflict,
    Error,
    Panic,
}

impl Metrics {
    /// Reports the sizes of this queue. A controller that is started again replaces its earlier queue.
    pub(crate) fn follow(&self, controller: &'static str, queue: Arc<Queue>) {
        let mut queues = self.0.queues.lock().unwrap_or_else(PoisonError::into_inner);
        // The earlier queue of this controller is no longer in use.
        queues.retain(|(name, _)| *name != controller);
        queues.push((controller, queue));
    }

    /// Counts a reconcile with its result and duration.
    pub(crate) fn ended(&self, controller: &'static str, result: Result, took: Duration) {
        let word = match result {
            Result::Success => "success",
            Result::Again => "requeue_after",
            Result::Conflict => "conflict",
            Result::Error | Result::Panic => "error",
        };
        self.0.reconciles.get_or_create(&Ended { controller, result: word }).inc();
        self.0.durations.get_or_create(&Of { controller }).observe(took.as_secs_f64());
        // As in controller-runtime, a panic counts as an error too; a conflict does not.
        if matches!(result, Result::Error | Result::Panic) {
            self.0.errors.get_or_create(&Of { controller }).inc();
        }
        if result == Result::Panic {
            self.0.panics.get_or_create(&Of { controller }).inc();
        }
    }

    /// A collector for a registry that is served elsewhere.
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(self.clone())
    }

    /// All metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(self.collector());
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &registry) {
            Ok(()) => text,
            Err(fmt::Error) => String::new(),
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::result::Result<(), fmt::Error> {
        // The queues know their sizes, so these gauges are computed at each scrape.
        let Inner { reconciles, errors, panics, durations, queues } = &*self.0;
        let (active, depth, retrying) = <(Family<Of, Gauge>, Family<Named, Gauge>, Family<Named, Gauge>)>::default();
        for (name, queue) in queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let standing = queue.standing();
            let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
            active.get_or_create(&Of { controller: name }).set(number(standing.running));
            depth.get_or_create(&Named { name }).set(number(standing.ready));
            retrying.get_or_create(&Named { name }).set(number(standing.failing));
        }
        let mut put = |name: &str, help: &str, metric: &dyn Any| metric.put(&mut encoder, name, help);
        put("controller_runtime_reconcile", "Reconciles by controller and result", reconciles)?;
        put("controller_runtime_reconcile_errors", "Reconciles that failed", errors)?;
        put("controller_runtime_reconcile_panics", "Reconciles that panicked", panics)?;
        put("controller_runtime_reconcile_time_seconds", "How long reconciles took", durations)?;
        put("controller_runtime_active_workers", "Objects that are being worked on", &active)?;
        put("workqueue_depth", "Objects that wait to be worked on", &depth)?;
        put("workqueue_retrying", "Objects that wait after a failure", &retrying)
    }
}

/// A metric of any type, for the closure that encodes all of them.
trait Any {
    fn put(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> std::result::Result<(), fmt::Error>;
}

impl<M: EncodeMetric + TypedMetric> Any for M {
    fn put(&self, encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str) -> std::result::Result<(), fmt::Error> {
        self.encode(encoder.encode_descriptor(name, help, None, self.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn figures_are_told_per_controller() {
        let metrics = Metrics::default();
        let queue = Arc::new(Queue::default());
        queue.wake(Key::cluster("a"));
        metrics.follow("notary", Arc::clone(&queue));
        metrics.ended("notary", Result::Success, Duration::from_millis(2));
        metrics.ended("notary", Result::Panic, Duration::from_millis(2));
        let text = metrics.text();
        for line in [
            "controller_runtime_reconcile_total{controller=\"notary\",result=\"success\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"notary\"} 1",
            "controller_runtime_reconcile_panics_total{controller=\"notary\"} 1",
            "controller_runtime_reconcile_time_seconds_count{controller=\"notary\"} 2",
            "workqueue_depth{name=\"notary\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}
