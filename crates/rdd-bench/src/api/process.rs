//! Reads the CPU time and memory of a process from `/proc`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};

/// The kernel's unit of CPU time in `/proc`: 10 ms on every Linux.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time of a process, including threads that have ended.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = read(pid, "stat")?;
    ticks(&stat).map(|ticks| TICK * ticks).context("read the processor time of a process")
}

/// The CPU time of the current threads of a process, in nanoseconds. More precise than [`cpu`], but without ended threads.
pub(crate) fn cpu_of_threads(pid: u32) -> Result<Duration> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder(pid).join("task")).context("look at the threads of a process")? {
        let path = entry.context("look at the threads of a process")?.path().join("schedstat");
        // A thread that has just ended is skipped.
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        total += text.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap_or_default();
    }
    Ok(Duration::from_nanos(total))
}

/// The resident memory of a process.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    resident(&read(pid, "status")?).context("read the memory of a process")
}

fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = folder(pid).join(file);
    std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// The sum of user and kernel time. The process name, which may contain any character, is in parentheses before all numbers.
fn ticks(stat: &str) -> Option<u32> {
    let (_, numbers) = stat.rsplit_once(") ")?;
    let mut numbers = numbers.split(' ').skip(11);
    let mut next = || numbers.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

fn resident(status: &str) -> Option<u64> {
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    kibibytes.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_off_what_the_kernel_writes() {
        assert_eq!(resident("Name:\trdd\nVmRSS:\t   12 kB\nThreads:\t3\n"), Some(12_288));
        assert_eq!(resident("Name:\trdd\n"), None);
        assert_eq!(ticks("7 (a) b) S 1 7 7 0 -1 4 0 0 0 0 30 12 0 0 20 0 3 0"), Some(42));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn our_own_time_passes_and_memory_is_there() {
        let (pid, before) = (std::process::id(), cpu_of_threads(std::process::id()).unwrap());
        let begun = std::time::Instant::now();
        while cpu_of_threads(pid).unwrap() == before {
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        assert!(cpu(pid).is_ok() && resident_bytes(pid).unwrap() > 100_000);
        assert!(cpu(u32::MAX).is_err());
    }
}
