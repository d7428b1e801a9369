//! `/metrics`: metrics of the server, of its process, and of other components, in OpenMetrics format.
//!
//! | name | labels | what it is |
//! |---|---|---|
//! | `apiserver_request_total` | `verb`, `code` | requests answered |
//! | `apiserver_request_duration_seconds` | `verb` | time until the head of the response was ready, watches excepted |
//! | `apiserver_current_inflight_requests` | `request_kind`: `readOnly`, `mutating`, `longRunning` | requests in flight |
//! | `apiserver_connections` | | connections open |
//! | `kubernetes_build_info` | those of `/version` | always 1 |
//! | `process_start_time_seconds`, `process_resident_memory_bytes`, `process_cpu_seconds_total`, `process_open_fds` | | the process |

mod process;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{HeaderValue, StatusCode};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::{ConstCounter, Counter},
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Registry,
};

use crate::{
    respond::{self, Response},
    version::Version,
};

const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The buckets of the duration histogram, in seconds: fine for usual durations, coarse up to the request timeout.
const DURATION_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The usual pairs of verb and code, whose counters are cached in [`Metrics::usual`].
const USUAL: [(&str, u16); 9] = [
    ("GET", 200),
    ("LIST", 200),
    ("WATCH", 200),
    ("POST", 201),
    ("PUT", 200),
    ("PATCH", 200),
    ("APPLY", 200),
    ("DELETE", 200),
    ("DELETECOLLECTION", 200),
];

/// A metric without labels that another component contributes.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The name with its unit. The encoder appends `_total` to the name of a counter.
    pub name: &'static str,
    /// The help text, a clause without a full stop.
    pub help: &'static str,
    /// The current value.
    pub value: Value,
}

/// The value of a [`Figure`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A value that only grows.
    Counter(f64),
    /// A value that goes up and down.
    Gauge(f64),
}

/// A function that returns a component's figures; the server calls it at each scrape. It must return quickly and must not block.
pub type Figures = Box<dyn Fn() -> Vec<Figure> + Send + Sync>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: &'static str,
    code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

/// The kinds of requests in flight that are counted separately, as upstream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ReadOnly,
    Mutating,
    LongRunning,
}

impl Kind {
    const ALL: [Self; 3] = [Self::ReadOnly, Self::Mutating, Self::LongRunning];

    fn label(self) -> RequestKind {
        let request_kind = match self {
            Self::ReadOnly => "readOnly",
            Self::Mutating => "mutating",
            Self::LongRunning => "longRunning",
        };
        RequestKind { request_kind }
    }
}

/// The cached metrics of one pair in [`USUAL`], set at its first response. A lookup by labels takes longer than the increment
/// itself.
#[derive(Default)]
struct Counting {
    requests: OnceLock<Counter>,
    durations: OnceLock<Histogram>,
}

/// All metrics of one server.
pub struct Metrics {
    registry: Registry,
    /// In the order of [`USUAL`].
    usual: [Counting; USUAL.len()],
    requests: Family<Answered, Counter>,
    durations: Family<Verb, Histogram, fn() -> Histogram>,
    /// In the order of [`Kind::ALL`].
    in_flight: [Gauge; 3],
    connections: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The metrics of a process that started at `started` (since the Unix epoch).
    pub fn new(version: &Version, started: Duration, contributed: Vec<Figures>) -> Self {
        let requests = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(DURATION_BUCKETS)) as fn() -> Histogram);
        let kinds: Family<RequestKind, Gauge> = Family::default();
        let in_flight = Kind::ALL.map(|kind| kinds.get_or_create_owned(&kind.label()));
        let connections = Gauge::default();
        let mut registry = Registry::default();
        registry.register("apiserver_request", "Requests answered, by verb and code", requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time until the head of the response was ready, of requests that end by themselves",
            durations.clone(),
        );
        registry.register("apiserver_current_inflight_requests", "Requests in flight now, by kind", kinds);
        registry.register("apiserver_connections", "Connections open now", connections.clone());
        let build: Family<Vec<(&'static str, String)>, Gauge> = Family::default();
        build.get_or_create(&version.labels()).set(1);
        registry.register("kubernetes_build_info", "What was built, from what; its value is always 1", build);
        registry.register_collector(Box::new(Contributed(Box::new(move || process::figures(started)))));
        for figures in contributed {
            registry.register_collector(Box::new(Contributed(figures)));
        }
        Self { registry, usual: Default::default(), requests, durations, in_flight, connections }
    }

    /// Adds collectors of other components, for metrics with labels.
    #[must_use]
    pub fn with(mut self, collectors: Vec<Box<dyn Collector>>) -> Self {
        collectors.into_iter().for_each(|collector| self.registry.register_collector(collector));
        self
    }

    /// Counts a response, and its duration if there is one.
    pub(crate) fn answered(&self, verb: &'static str, code: u16, took: Option<Duration>) {
        let requests = || self.requests.get_or_create_owned(&Answered { verb, code });
        let durations = || self.durations.get_or_create_owned(&Verb { verb });
        let took = took.map(|took| took.as_secs_f64());
        // Comparing with a few pairs is faster than a look-up by labels.
        match USUAL.iter().position(|usual| *usual == (verb, code)).map(|at| &self.usual[at]) {
            Some(usual) => {
                usual.requests.get_or_init(requests).inc();
                took.into_iter().for_each(|took| usual.durations.get_or_init(durations).observe(took));
            }
            None => {
                requests().inc();
                took.into_iter().for_each(|took| durations().observe(took));
            }
        }
    }

    /// The gauge of requests of this kind in flight.
    pub(crate) fn in_flight(&self, kind: Kind) -> &Gauge {
        &self.in_flight[kind as usize]
    }

    /// Counts a connection as open until the result is dropped.
    pub(crate) fn connected(&self) -> Entered {
        Entered::new(self.connections.clone())
    }

    /// The response to a scrape.
    pub(crate) fn answer(&self) -> Response {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => respond::content(StatusCode::OK, CONTENT_TYPE, text),
            Err(fmt::Error) => respond::status(&rdd_meta::Status::internal("the metrics could not be written")),
        }
    }
}

/// A guard that increments a gauge when it is created and decrements it when it is dropped.
#[derive(Debug)]
pub(crate) struct Entered(Gauge);

impl Entered {
    fn new(gauge: Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Adapts [`Figures`] to the collector interface of the library.
struct Contributed(Figures);

impl fmt::Debug for Contributed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contributed")
    }
}

impl Collector for Contributed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for Figure { name, help, value } in (self.0)() {
            match value {
                Value::Counter(value) => {
                    let metric = ConstCounter::new(value);
                    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
                }
                Value::Gauge(value) => {
                    let metric = ConstGauge::new(value);
                    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
                }
            }
        }
        Ok(())
    }
}

/// Shared metrics.
pub(crate) type SharedMetrics = Arc<Metrics>;
