//! Raises the limit of open files for this process, and restores it for its children.

use std::{os::unix::process::CommandExt, process::Command, sync::OnceLock};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit that macOS accepts if the hard limit is unlimited.
const FALLBACK_LIMIT: u64 = 10_240;

/// The limits at the start of this process, if it raised its own.
static INHERITED: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files to the hard limit, and returns the new limit.
///
/// The soft limit is low, often 1024, for programs that use `select`. Children that [`process`](crate::process) starts
/// later get the original limit.
pub fn raise_limit() -> u64 {
    let before = getrlimit(Resource::Nofile);
    if before.current != before.maximum {
        let fallback = Rlimit { current: Some(FALLBACK_LIMIT), maximum: before.maximum };
        let raised = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum })
            .or_else(|error| if before.maximum.is_none() { setrlimit(Resource::Nofile, fallback) } else { Err(error) });
        match raised {
            Ok(()) => {
                INHERITED.get_or_init(|| before);
            }
            Err(error) => tracing::warn!(%error, limit = before.current, "the limit of open files cannot be raised"),
        }
    }
    limit()
}

/// The maximum number of open files of this process.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Restores the original limit in a child process.
#[allow(unsafe_code, reason = "std has no other way to set a limit of a child before it runs")]
pub(crate) fn restore_in_child(command: &mut Command) {
    let Some(inherited) = INHERITED.get() else { return };
    // SAFETY: the closure runs between fork and exec, where it must neither allocate memory nor take a lock. It makes
    // one system call with values that exist already.
    unsafe { command.pre_exec(|| Ok(setrlimit(Resource::Nofile, *inherited)?)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    // Finding A-8
    #[test]
    fn the_limit_is_raised_here_and_restored_in_children() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let soft = hard.unwrap_or(FALLBACK_LIMIT) / 2;
        setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: hard }).unwrap();
        let raised = raise_limit();
        assert!(raised > soft, "{raised} after {soft}");
        let child = process::foreground("sh").args(["-c", "ulimit -S -n"]).output().unwrap();
        assert_eq!(String::from_utf8(child.stdout).unwrap().trim(), soft.to_string());
        assert_eq!(raise_limit(), raised, "again is no different");
        let child = process::foreground("sh").args(["-c", "ulimit -S -n"]).output().unwrap();
        assert_eq!(String::from_utf8(child.stdout).unwrap().trim(), soft.to_string());
    }
}
