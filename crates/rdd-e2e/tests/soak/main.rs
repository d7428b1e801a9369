//! A soak test: full load for minutes or hours, with the daemon killed at random times (`make soak`).
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail a test by panicking")]

mod figures;
mod load;

use std::{
    env,
    time::{Duration, Instant},
};

use rdd_testkit::{Daemon, api::ledger::SeededRandom};

use crate::{
    figures::{Sample, judge_descriptors, judge_memory, judge_slope},
    load::Load,
};

/// The variable with the duration in seconds.
const SECONDS: &str = "RDD_SOAK_SECONDS";
/// The percentage of the time in which the daemon is killed repeatedly. It lives through the rest, so that its memory can be compared over
/// time.
const KILLING_PERCENT: u32 = 60;
/// How long the daemon runs between two kills.
const LIFE_SECONDS_MIN: u64 = 2;
const LIFE_SECONDS_MAX: u64 = 12;
/// How often its memory is measured.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

// Finding A-10
#[test]
fn soak() {
    let Some(duration) = requested_duration(env::var(SECONDS).ok().as_deref()) else {
        say("skipped: the soak test is run by make soak");
        return;
    };
    let began = Instant::now();
    let daemon = Daemon::start();
    let mut load = Load::new(&daemon);
    load.run_for(&daemon, Duration::from_secs(1));
    load.settle(&daemon);
    let descriptors_before = figures::quiet_descriptors(&daemon, None);

    let seed = u64::from(std::process::id());
    let mut random = SeededRandom::new(seed);
    say(&format!("seed {seed}; {} s in all", duration.as_secs()));
    let mut longest_start = Duration::ZERO;
    let mut kills = 0;
    while began.elapsed() < duration * KILLING_PERCENT / 100 {
        let life = LIFE_SECONDS_MIN * 1000 + random.number() % ((LIFE_SECONDS_MAX - LIFE_SECONDS_MIN) * 1000);
        load.run_and_kill(&daemon, Duration::from_millis(life));
        kills += 1;
        let killed = Instant::now();
        daemon.rdd(&["svc", "start"]).expect_success();
        longest_start = longest_start.max(killed.elapsed());
        load.settle(&daemon);
        say(&format!("{:>5} s  kill {kills}: {} writes acknowledged", began.elapsed().as_secs(), load.acknowledged()));
    }

    let rest = duration.saturating_sub(began.elapsed()).max(SAMPLE_INTERVAL * 8);
    say(&format!("{:>5} s  one life for the remaining {} s", began.elapsed().as_secs(), rest.as_secs()));
    let level_began = Instant::now();
    let samples = load.run_sampled(&daemon, rest, SAMPLE_INTERVAL);
    // A measurement under load takes time as well.
    let interval = level_began.elapsed() / u32::try_from(samples.len()).unwrap();
    load.settle(&daemon);
    let descriptors_after = figures::quiet_descriptors(&daemon, Some(descriptors_before));

    say(&load.table());
    let memory = judge_memory(&samples);
    let slope = judge_slope(&samples, interval);
    let row = |what: &str, value: String| say(&format!("  {what:<44} {value:>12}"));
    row("kills and restarts", kills.to_string());
    row("longest start after a kill", format!("{:.2} s", longest_start.as_secs_f64()));
    row("resident memory after warm-up", memory.warm.to_string());
    row("resident memory at the end", memory.end.to_string());
    row("allowed at the end", memory.allowed.to_string());
    row("growth in the last half, as of an hour", slope.per_hour.to_string());
    row("allowed in an hour, this run's doubt included", slope.allowed_per_hour.to_string());
    row("open files at rest, first and last life", format!("{descriptors_before}, {descriptors_after}"));
    assert!(kills > 0, "the daemon was never killed");
    assert!(memory.end <= memory.allowed, "the memory grew: {memory:?}\n{samples:?}");
    assert!(slope.per_hour <= slope.allowed_per_hour, "the memory grows: {slope:?}\n{samples:?}");
    judge_descriptors(descriptors_before, descriptors_after);
    load.expect_no_panic(&daemon);
}

/// The requested duration; `None` if the test was not requested.
fn requested_duration(seconds: Option<&str>) -> Option<Duration> {
    let seconds = seconds.filter(|text| !text.is_empty())?;
    let parsed = seconds.parse().unwrap_or_else(|_| panic!("{SECONDS} must be a number of seconds, not {seconds:?}"));
    Some(Duration::from_secs(parsed))
}

#[allow(clippy::print_stderr, reason = "where a run of many minutes is, and what came of it, must be seen")]
pub(crate) fn say(what: &str) {
    eprintln!("{what}");
}

#[test]
fn a_soak_is_run_only_where_its_length_is_given() {
    assert_eq!(requested_duration(None), None);
    assert_eq!(requested_duration(Some("")), None);
    assert_eq!(requested_duration(Some("90")), Some(Duration::from_secs(90)));
}

/// Findings A-10: growth of memory that the kept history does not explain is detected, and so are leaked descriptors.
#[test]
fn growth_is_told_from_a_level() {
    let samples = |resident: &dyn Fn(u64) -> u64, rows: &dyn Fn(u64) -> u64| -> Vec<Sample> {
        (0..100).map(|second| Sample { resident_kib: resident(second), history_rows: rows(second) }).collect()
    };
    let level = judge_memory(&samples(&|second| 100_000 + second % 7 * 500, &|_| 0));
    assert!(level.end <= level.allowed, "{level:?}");
    let leak = judge_memory(&samples(&|second| 100_000 + second * 2_000, &|_| 0));
    assert!(leak.end > leak.allowed, "{leak:?}");
    let history = judge_memory(&samples(&|second| 100_000 + second * 1_500, &|second| second * 1_000));
    assert!(history.end <= history.allowed, "{history:?}");
}

/// Finding A-10: a leak that is too slow for a comparison of levels is detected by its slope, the more reliably the longer the run is.
#[test]
fn a_slow_leak_is_told_from_a_level_by_its_slope() {
    const MIB: u64 = 1024;
    // The last life takes two fifths of a run.
    let samples = |run_seconds: u64, resident: &dyn Fn(u64) -> u64, rows: &dyn Fn(u64) -> u64| -> Vec<Sample> {
        let seconds = 0..run_seconds * 2 / 5;
        seconds.map(|second| Sample { resident_kib: resident(second), history_rows: rows(second) }).collect()
    };
    let is_level = |samples: &[Sample]| {
        let slope = judge_slope(samples, Duration::from_secs(1));
        slope.per_hour <= slope.allowed_per_hour
    };
    let leak = |mib_per_hour: u64| move |second: u64| 120 * MIB + second * mib_per_hour * MIB / 3600 + second % 7 * 300;
    let sawtooth = |second: u64| 120 * MIB + second % 60 * 256;
    let warms_up = |second: u64| 150 * MIB - 30 * MIB / (second / 4 + 1);
    let step = |second: u64| if second < 400 { 120 * MIB } else { 123 * MIB };
    for (run_seconds, name, resident, expected) in [
        (60, "level", &leak(0) as &dyn Fn(u64) -> u64, true),
        (600, "level", &leak(0), true),
        (3600, "level", &leak(0), true),
        (60, "sawtooth", &sawtooth, true),
        (600, "sawtooth", &sawtooth, true),
        (3600, "sawtooth", &sawtooth, true),
        (60, "warm-up", &warms_up, true),
        (600, "warm-up", &warms_up, true),
        (3600, "warm-up", &warms_up, true),
        (3600, "a step of the allocator", &step, true),
        (3600, "a leak below the limit", &leak(24), true),
        (3600, "a slow leak", &leak(100), false),
        (600, "a leak", &leak(400), false),
        (60, "a fast leak", &leak(4_000), false),
    ] {
        assert_eq!(is_level(&samples(run_seconds, resident, &|_| 0)), expected, "{name} in {run_seconds} s");
    }
    // The comparison of levels does not detect the same slow leak.
    let slow = samples(3600, &leak(100), &|_| 0);
    let levels = judge_memory(&slow);
    assert!(levels.end <= levels.allowed, "{levels:?}");
    // Memory of the kept history is not a leak.
    assert!(is_level(&samples(600, &leak(1_000), &|second| second * 120)));
    assert!(!is_level(&samples(600, &leak(1_000), &|_| 50_000)));
}
