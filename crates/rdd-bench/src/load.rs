//! The write load that every database gets: the same keys, values and measurement window.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use bytes::Bytes;
use rdd_stdx::task::Group;

/// The number of keys.
pub(crate) const KEYS: u64 = 1_000;
/// The size of each value.
pub(crate) const VALUE_BYTES: usize = 1_024;

/// The key of this number.
pub(crate) fn key(number: u64) -> String {
    format!("/registry/bench/objects/default/object-{number:06}")
}

/// An incompressible value that depends on the number.
pub(crate) fn value(number: u64) -> Bytes {
    let mut state = Mix(number);
    let mut bytes = Vec::with_capacity(VALUE_BYTES);
    while bytes.len() < VALUE_BYTES {
        bytes.extend_from_slice(&state.next().to_le_bytes());
    }
    bytes.into()
}

/// A SplitMix64 generator, so that every database gets the same numbers.
#[derive(Debug)]
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The endless sequence of writes of one writer.
#[derive(Debug)]
pub(crate) struct Writes {
    keys: Mix,
    value: Bytes,
}

impl Writes {
    pub(crate) fn of(writer: usize) -> Self {
        let seed = u64::try_from(writer).expect("few writers");
        Self { keys: Mix(seed), value: value(seed) }
    }
}

impl Iterator for Writes {
    type Item = (String, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        Some((key(self.keys.next() % KEYS), self.value.clone()))
    }
}

/// The measurement window: writes count after the warm-up, until the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    begins: Instant,
    ends: Instant,
}

impl Window {
    /// Starts a warm-up of a fifth of the measured time, then the window.
    pub(crate) fn starting_now(measured: Duration) -> Self {
        let begins = Instant::now() + measured / 5;
        Self { begins, ends: begins + measured }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.ends
    }

    /// Whether a write that was acknowledged at this time counts.
    pub(crate) fn counts(&self, acknowledged: Instant) -> bool {
        self.begins <= acknowledged && acknowledged < self.ends
    }

    /// Combines the latencies of several writers.
    pub(crate) fn sum(&self, writers: Vec<Vec<f64>>) -> Round {
        Round { measured: self.ends - self.begins, latencies: writers.concat() }
    }
}

/// The result of one window.
#[derive(Debug)]
pub(crate) struct Round {
    measured: Duration,
    /// The latencies of the writes, in seconds.
    pub(crate) latencies: Vec<f64>,
}

impl Round {
    /// Durable writes per second.
    #[expect(clippy::cast_precision_loss, reason = "there are no 2^52 writes in a few seconds")]
    pub(crate) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.measured.as_secs_f64()
    }
}

/// A database client that returns once a value is durable.
pub(crate) trait Put: Send + Sync + 'static {
    fn put(&self, key: String, value: Bytes) -> impl Future<Output = Result<()>> + Send;
}

/// Runs this many writers, each of which waits for the acknowledgement before its next write.
pub(crate) async fn drive<P: Put>(targets: &[Arc<P>], writers: usize, measured: Duration) -> Result<Round> {
    let window = Window::starting_now(measured);
    let mut group = Group::default();
    for (writer, target) in (0..writers).zip(targets.iter().cycle()) {
        let target = Arc::clone(target);
        group.spawn("writer", async move {
            let mut latencies = Vec::new();
            for (key, value) in Writes::of(writer) {
                let started = Instant::now();
                target.put(key, value).await?;
                let acknowledged = Instant::now();
                if window.counts(acknowledged) {
                    latencies.push((acknowledged - started).as_secs_f64());
                }
                if window.is_over() {
                    break;
                }
            }
            Ok::<_, anyhow::Error>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(ended) = group.next().await {
        match ended.outcome {
            Ok(result) => latencies.push(result?),
            Err(failure) => bail!("a writer: {failure}"),
        }
    }
    Ok(window.sum(latencies))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicU64);

    impl Put for Counter {
        async fn put(&self, _key: String, value: Bytes) -> Result<()> {
            assert_eq!(value.len(), VALUE_BYTES);
            self.0.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn only_writes_inside_the_window_count() {
        let counter = Arc::new(Counter::default());
        let round = runtime().block_on(drive(&[Arc::clone(&counter)], 4, Duration::from_millis(100))).unwrap();
        let made = usize::try_from(counter.0.load(Ordering::Relaxed)).unwrap();
        assert!(!round.latencies.is_empty());
        assert!(round.latencies.len() < made, "the warm-up was left out");
        assert!((round.rate() - round.latencies.len() as f64 * 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_write_that_fails_fails_the_round() {
        struct Broken;
        impl Put for Broken {
            async fn put(&self, _key: String, _value: Bytes) -> Result<()> {
                bail!("disk full")
            }
        }
        let error = runtime().block_on(drive(&[Arc::new(Broken)], 2, Duration::from_secs(5))).unwrap_err();
        assert_eq!(error.to_string(), "disk full");
    }

    #[test]
    fn every_database_gets_the_same_writes_within_the_keys() {
        let first: Vec<_> = Writes::of(3).take(100).collect();
        assert_eq!(first, Writes::of(3).take(100).collect::<Vec<_>>());
        assert_ne!(first, Writes::of(4).take(100).collect::<Vec<_>>());
        let all: std::collections::BTreeSet<String> = Writes::of(0).take(20_000).map(|(key, _)| key).collect();
        assert_eq!(all.len() as u64, KEYS);
    }
}
