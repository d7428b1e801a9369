//! Metrics of this process, read from `/proc`.

use std::{fs, time::Duration};

use super::{Figure, Value};

/// The unit of processor time in `/proc`. Linux always exposes hundredths of a second to user space (`USER_HZ`), independent of
/// the kernel's configuration.
const TICKS_PER_SECOND: f64 = 100.0;

/// The process metrics of Prometheus client libraries, under their usual names. Without `/proc`, only the start time.
pub(super) fn figures(started: Duration) -> Vec<Figure> {
    let start = Figure {
        name: "process_start_time_seconds",
        help: "When the process started, since the Unix epoch",
        value: Value::Gauge(started.as_secs_f64()),
    };
    let memory = resident_bytes().map(|bytes| Figure {
        name: "process_resident_memory_bytes",
        help: "Memory of the process that is in RAM",
        value: Value::Gauge(bytes),
    });
    let cpu = cpu_seconds().map(|seconds| Figure {
        name: "process_cpu_seconds",
        help: "Processor time that the process has used",
        value: Value::Counter(seconds),
    });
    let files = open_files().map(|count| Figure {
        name: "process_open_fds",
        help: "File descriptors that the process has open",
        value: Value::Gauge(count),
    });
    [Some(start), memory, cpu, files].into_iter().flatten().collect()
}

fn resident_bytes() -> Option<f64> {
    parse_resident(&fs::read_to_string("/proc/self/status").ok()?)
}

fn cpu_seconds() -> Option<f64> {
    parse_cpu(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn open_files() -> Option<f64> {
    // One entry is the descriptor of this folder, which is open during the count.
    let count = fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    u32::try_from(count).ok().map(f64::from)
}

fn parse_resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

/// Parses user and system time, fields 14 and 15. Fields are counted after the program's name (field 2), which may contain spaces
/// and parentheses.
fn parse_cpu(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(parse_resident("Name:\trdd\nVmRSS:\t    2048 kB\nThreads:\t3\n"), Some(2_097_152.0));
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 3 0 100 1 2";
        assert_eq!(parse_cpu(stat), Some(2.0));
        assert_eq!(parse_cpu("42 (rdd) S 1"), None);
        assert_eq!(parse_resident("Name:\trdd\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_all_figures() {
        let names: Vec<_> = figures(Duration::from_secs(1)).into_iter().map(|figure| figure.name).collect();
        let expected =
            ["process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds", "process_open_fds"];
        assert_eq!(names, expected);
    }
}
