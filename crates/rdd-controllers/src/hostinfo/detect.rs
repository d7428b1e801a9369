//! Detects the CPUs and the memory of this machine, in one place, so that reported and enforced limits agree.

use rdd_types::{Quantity, rdd::HostInfoStatus};

/// The resources of a machine. 0 means unknown, and sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Host {
    /// The number of logical CPUs.
    pub cpus: u64,
    /// The total memory.
    pub memory_bytes: u64,
}

/// Raw facts from the operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The online CPUs as Linux lists them, as in `0-3,8`.
    pub online: Option<String>,
    /// How many CPUs this process may use; it can be fewer.
    pub usable: Option<usize>,
    /// The content of `/proc/meminfo`, with a line like `MemTotal:  16413892 kB`.
    pub memory: Option<String>,
}

/// Parses the facts. The online CPUs count, not those that this process may use, unless the former are unknown.
pub fn host(facts: &Facts) -> Host {
    let online = facts.online.as_deref().and_then(count);
    let usable = facts.usable.and_then(|cpus| u64::try_from(cpus).ok());
    let memory = facts.memory.as_deref().and_then(total);
    Host { cpus: online.or(usable).unwrap_or(0), memory_bytes: memory.unwrap_or(0) }
}

/// The total memory in bytes; `None` if there is no such line. A `kB` in this file is 1024 bytes.
fn total(memory: &str) -> Option<u64> {
    let line = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The number of CPUs in a list like `0-3,8`; `None` if it is malformed.
fn count(list: &str) -> Option<u64> {
    let mut total: u64 = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        total = total.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(total)
}

/// Reads the facts from the operating system.
pub fn look() -> Facts {
    Facts {
        online: std::fs::read_to_string("/sys/devices/system/cpu/online").ok(),
        usable: std::thread::available_parallelism().ok().map(usize::from),
        memory: std::fs::read_to_string("/proc/meminfo").ok(),
    }
}

/// The resources of this machine.
pub fn detect() -> Host {
    host(&look())
}

impl Host {
    /// The status of the HostInfo object.
    pub fn status(self) -> HostInfoStatus {
        HostInfoStatus {
            cpus: i64::try_from(self.cpus).unwrap_or(i64::MAX),
            memory: (self.memory_bytes > 0).then(|| Quantity::binary(self.memory_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_from_the_list_of_those_online_and_else_from_those_we_may_use() {
        let table: &[(Option<&str>, Option<usize>, u64)] = &[
            (Some("0\n"), Some(1), 1),
            (Some("0-7\n"), Some(2), 8),
            (Some("0-3,8,10-11\n"), None, 7),
            (Some(""), Some(4), 4),
            (Some("0-"), Some(4), 4),
            (Some("3-0"), Some(4), 4),
            (Some("0-18446744073709551615"), Some(4), 4),
            (None, Some(4), 4),
            (None, None, 0),
        ];
        for (online, usable, cpus) in table {
            let facts = Facts { online: online.map(str::to_owned), usable: *usable, memory: None };
            assert_eq!(host(&facts), Host { cpus: *cpus, memory_bytes: 0 }, "{online:?}");
        }
    }

    #[test]
    fn memory_is_read_from_its_line_and_unknown_without_it() {
        let table: &[(&str, u64)] = &[
            ("MemTotal:       16413892 kB\nMemFree: 1 kB\n", 16_413_892 << 10),
            ("MemFree: 1 kB\nMemTotal: 2097152 kB\n", 2 << 30),
            ("MemTotal: 2097152\n", 0),
            ("MemTotal: kB\n", 0),
            ("MemTotal: 18446744073709551615 kB\n", 0),
            ("", 0),
        ];
        for (text, memory_bytes) in table {
            let facts = Facts { memory: Some((*text).to_owned()), ..Facts::default() };
            assert_eq!(host(&facts), Host { cpus: 0, memory_bytes: *memory_bytes }, "{text}");
        }
    }

    #[test]
    fn memory_is_told_in_binary_and_what_is_unknown_is_left_out() {
        let told = |cpus, memory_bytes| serde_json::to_value(Host { cpus, memory_bytes }.status()).unwrap();
        assert_eq!(told(8, 16 << 30), serde_json::json!({"cpus": 8, "memory": "16Gi"}));
        assert_eq!(told(1, 16_413_892 << 10), serde_json::json!({"cpus": 1, "memory": "16413892Ki"}));
        assert_eq!(told(0, 0), serde_json::json!({}));
    }

    #[test]
    fn this_machine_has_something() {
        let host = detect();
        assert!(host.cpus > 0, "{host:?}");
        assert_eq!(host.memory_bytes > 0, cfg!(target_os = "linux"), "{host:?}");
    }
}
