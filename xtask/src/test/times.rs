//! Measures where a run's time goes: the CPU time of each program, and the slowest tests.

use std::{fs, time::Duration};

/// Clock ticks per second in `/proc`, a constant of Linux's user-space interface.
const TICKS_PER_SECOND: f64 = 100.0;

/// A test and its duration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TestTime {
    pub(super) name: String,
    pub(super) elapsed: Duration,
}

/// The durations in the output of a test program that was run with `--report-time`.
pub(super) fn parse_times(label: &str, output: &str) -> Vec<TestTime> {
    output.lines().filter_map(|line| parse_time(label, line)).collect()
}

/// Parses `test <name> ... ok <1.234s>`.
fn parse_time(label: &str, line: &str) -> Option<TestTime> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = result.split_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    let elapsed = Duration::try_from_secs_f64(seconds).ok()?;
    Some(TestTime { name: format!("{label} {name}"), elapsed })
}

/// The CPU time of all children that have ended and were reaped, including their descendants.
pub(super) fn children_cpu() -> Duration {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Duration::from_secs_f64(children_ticks(&text).unwrap_or_default() / TICKS_PER_SECOND)
}

/// The sum of `cutime` and `cstime`, the 14th and 15th field after the name.
fn children_ticks(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_each_test_is_read_and_other_lines_are_not() {
        let output = "running 2 tests\ntest a::b ... ok <1.250s>\ntest c ... FAILED <0.001s>\ntest d ... ok\ntest result: ok. 3 passed\n";
        let expected = [("p a::b", 1_250), ("p c", 1)]
            .map(|(name, millis)| TestTime { name: name.to_owned(), elapsed: Duration::from_millis(millis) });
        assert_eq!(parse_times("p", output), expected);
    }

    #[test]
    fn processor_time_of_children_is_summed() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 10 20 150 50 20 0 1 0 5";
        assert_eq!(children_ticks(stat), Some(200.0));
    }
}
