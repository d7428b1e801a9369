//! What a daemon takes of its machine, and whether that stays level.

use std::{fmt, fs, time::Duration};

use rdd_testkit::{
    Daemon,
    api::{Server, Wire},
    eventually,
};

/// What the allocator may keep of a peak.
const SLACK_KIB: u64 = 24 * 1024;
/// By so much memory may differ between two looks at the same load.
const GROWTH_PERCENT: u64 = 20;
/// What a row of history may take in memory: a small object on the wire and its place in the trees.
const KIB_PER_HISTORY_ROW: u64 = 3;
/// What an hour of the same load may add. The allocator grows by as much before it is level.
const GROWTH_KIB_PER_HOUR: u64 = 32 * 1024;
/// What a look at a level memory may be off by, beside what the looks differ among themselves.
const SLOPE_SLACK_KIB: u64 = 4 * 1024;
/// Descriptors that may be open at one moment and not at another, such as a connection that is being closed.
const DESCRIPTORS_SLACK: usize = 4;
/// How long the daemon may take to close what the clients of a load have left.
const CLOSING_TIME: Duration = Duration::from_secs(120);

/// One look at the daemon under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) resident_kib: u64,
    /// Rows that are kept for history only. They may grow for five minutes and up to a limit.
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

/// A size for people.
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

/// Compares the second quarter of the samples, which is after the warm-up, with the last one: the medians, because single samples
/// catch the peak of a request.
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

/// How the memory grows at the end, which a comparison of two levels does not see when the leak is slow.
#[derive(Debug)]
pub(crate) struct SlopeVerdict {
    /// What an hour would add, if it went on so.
    pub(crate) per_hour: Kibibytes,
    pub(crate) allowed_per_hour: Kibibytes,
}

/// Judges the last half of the samples: what lies between its first and its last third, without what the kept history explains, is
/// extrapolated to an hour.
///
/// The tolerance is one of two looks, and so counts for less the longer the run is: the shorter the time between the thirds, the more
/// an hour may seem to add.
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

/// By how much the middle half of the samples differs once steady growth is taken out, which must not excuse itself.
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

/// How many files the daemon has open once its clients are gone. With the number of an earlier life it is waited for until as many
/// are left.
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
