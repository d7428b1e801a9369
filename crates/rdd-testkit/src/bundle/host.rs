//! The machine's part of a support bundle: pressure, memory, load and kernel log.

use std::{fs, path::Path};

use rdd_stdx::process::background;

use super::{output_or_reason, read_or_reason};

const KERNEL_LOG_LINES: usize = 200;

/// Pressure stall information of every resource that the kernel tracks.
pub(super) fn pressure() -> String {
    let Ok(entries) = fs::read_dir("/proc/pressure") else {
        return "(this kernel keeps no /proc/pressure)\n".to_owned();
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.iter().map(|path| format!("{}\n{}", path.display(), read_or_reason(path))).collect()
}

/// The load average and the memory statistics.
pub(super) fn memory() -> String {
    ["/proc/loadavg", "/proc/meminfo"].map(|path| format!("{path}\n{}", read_or_reason(path))).concat()
}

/// The end of the kernel's log, if it is readable; it shows whether the OOM killer ended a process.
pub(super) fn kernel_log() -> String {
    let log = output_or_reason(background("dmesg", Path::new("/")).arg("--ctime"));
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(KERNEL_LOG_LINES)..].join("\n") + "\n"
}
