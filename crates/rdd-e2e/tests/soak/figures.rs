//! Measures a daemon's memory and file descriptors, and judges whether they stay level.

use std::{fmt, fs, time::Duration};

use rdd_testkit::{
    Daemon,
    api::{Server, Wire},
    eventually,
};

/// The memory that the allocator may keep after a peak.
const SLACK_KIB: u64 = 24 * 1024;
/// The percentage by which memory may differ between two measurements of the same load.
const GROWTH_PERCENT: u64 = 20;
/// The memory of a row of history: a small object in its wire form and its place in the trees.
const KIB_PER_HISTORY_ROW: u64 = 3;
/// The maximum growth per hour of the same load. The allocator grows by as much before it is level.
const GROWTH_KIB_PER_HOUR: u64 = 32 * 1024;
/// The tolerance of a measurement of level memory, in addition to the spread of the samples.
const SLOPE_SLACK_KIB: u64 = 4 * 1024;
/// The number of descriptors that may differ between measurements, such as a connection that is being closed.
const DESCRIPTORS_SLACK: usize = 4;
/// The timeout for the daemon to close the connections of a load.
const CLOSING_TIME: Duration = Duration::from_secs(120);

/// A measurement of the daemon under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) resident_kib: u64,
    /// Rows that are kept only for history. They may grow for five minutes, up to a limit.
    pub(crate) history_rows: u64,
}

impl Sample {
    pub(crate) fn take(pid: u32, wire: &Wire) -> Self {
        let metrics = wire.get("/metrics");
        let text = metrics.text();
        let rows = text.lines().find_map(|line| line.strip_prefix("rdd_store_dead_rows "));
        let rows = rows.and_then(|value| value.trim().parse::<f64>().ok());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rows")]
        let history_rows = rows.unwrap_or_else(|| panic!("no count of history in {text}")) as u64;
        Self { resident_kib: field_kib(pid, "VmRSS:"), history_rows }
    }
}

/// A size, formatted for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kibibytes(u64);

impl fmt::Display for Kibibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} MiB", self.0 / 1024))
    }
}

/// The memory after the warm-up and at the end.
#[derive(Debug)]
pub(crate) struct MemoryVerdict {
    pub(crate) warm: Kibibytes,
    pub(crate) end: Kibibytes,
    pub(crate) allowed: Kibibytes,
}

/// Compares the second quarter of the samples, after the warm-up, with the last one. It uses medians, since single samples catch the peak
/// of a request.
pub(crate) fn judge_memory(samples: &[Sample]) -> MemoryVerdict {
    let quarter = samples.len() / 4;
    assert!(quarter > 0, "too few samples: {samples:?}");
    let (warm, end) = (&samples[quarter..2 * quarter], &samples[samples.len() - quarter..]);
    let resident = |part: &[Sample]| median(part.iter().map(|sample| sample.resident_kib).collect());
    let history = |part: &[Sample]| median(part.iter().map(|sample| sample.history_rows).collect());
    let explained = history(end).saturating_sub(history(warm)) * KIB_PER_HISTORY_ROW;
    let allowed = resident(warm) * (100 + GROWTH_PERCENT) / 100 + SLACK_KIB + explained;
    MemoryVerdict { warm: Kibibytes(resident(warm)), end: Kibibytes(resident(end)), allowed: Kibibytes(allowed) }
}

/// The growth of memory at the end, which a comparison of two levels misses if the leak is slow.
#[derive(Debug)]
pub(crate) struct SlopeVerdict {
    /// The growth per hour, if it continues.
    pub(crate) per_hour: Kibibytes,
    pub(crate) allowed_per_hour: Kibibytes,
}

/// Judges the second half of the samples: the difference between its first and its last third, minus the part that the kept history
/// explains, is extrapolated to an hour.
///
/// The tolerance is that of two measurements, so its effect shrinks with the length of the run: the shorter the time between the thirds,
/// the higher the growth per hour that is allowed.
pub(crate) fn judge_slope(samples: &[Sample], interval: Duration) -> SlopeVerdict {
    let half = &samples[samples.len() / 2..];
    let third = half.len() / 3;
    assert!(third > 0, "too few samples: {samples:?}");
    let (first, last) = (&half[..third], &half[half.len() - third..]);
    let resident = |part: &[Sample]| median(part.iter().map(|sample| sample.resident_kib).collect());
    let history = |part: &[Sample]| median(part.iter().map(|sample| sample.history_rows).collect());
    let steps = half.len() - third;
    let slope_kib = resident(last).saturating_sub(resident(first)) as f64 / steps as f64;
    let explained = history(last).saturating_sub(history(first)) * KIB_PER_HISTORY_ROW;
    let grown = resident(last).saturating_sub(resident(first) + explained);
    let tolerance = SLOPE_SLACK_KIB + spread(first, slope_kib).max(spread(last, slope_kib));
    let between = interval * u32::try_from(steps).unwrap();
    let per_hour = |growth_kib: u64| growth_kib * 3_600_000 / u64::try_from(between.as_millis()).unwrap().max(1);
    SlopeVerdict {
        per_hour: Kibibytes(per_hour(grown)),
        allowed_per_hour: Kibibytes(GROWTH_KIB_PER_HOUR + per_hour(tolerance)),
    }
}

/// The spread of the middle half of the samples, after steady growth has been subtracted: growth must not increase its own tolerance.
fn spread(samples: &[Sample], slope_kib: f64) -> u64 {
    let level = |(number, sample): (usize, &Sample)| sample.resident_kib as f64 - slope_kib * number as f64;
    let mut levels: Vec<f64> = samples.iter().enumerate().map(level).collect();
    levels.sort_unstable_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sorted, and far below 2^52 KiB")]
    let spread = (levels[levels.len() * 3 / 4] - levels[levels.len() / 4]) as u64;
    spread
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The number of files that the daemon has open without clients. With an earlier number, waits until no more than that are open.
pub(crate) fn quiet_descriptors(daemon: &Daemon, earlier: Option<usize>) -> usize {
    let pid = daemon.pid();
    let mut last = usize::MAX;
    eventually("the daemon at rest", CLOSING_TIME, || {
        let now = descriptors(pid);
        let is_level = std::mem::replace(&mut last, now) == now;
        let is_low = earlier.is_none_or(|earlier| now <= earlier + DESCRIPTORS_SLACK);
        if is_level && is_low { Ok(now) } else { Err(format!("{now} open files, at first {earlier:?}")) }
    })
}

pub(crate) fn judge_descriptors(before: usize, after: usize) {
    assert!(after <= before + DESCRIPTORS_SLACK, "{before} files were open at first, and {after} at the end");
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

fn field_kib(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}
