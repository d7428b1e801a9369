//! What a test needs from its machine, and what happens when it is missing.

use std::{fs, path::Path};

/// A thing that a machine has or has not.
struct Capability {
    name: &'static str,
    /// How to get it, for the message.
    remedy: &'static str,
    is_there: fn() -> bool,
}

const CAPABILITIES: &[Capability] = &[
    Capability { name: "root", remedy: "run as root", is_there: is_root },
    Capability { name: "tmpfs", remedy: "run as root where mounting is allowed", is_there: can_mount },
    Capability { name: "go", remedy: "run make setup", is_there: || is_on_path("go") },
    Capability { name: "kubectl", remedy: "run make setup", is_there: || is_on_path("kubectl") },
    Capability { name: "docker", remedy: "run make setup", is_there: || is_on_path("docker") },
    Capability { name: "etcd", remedy: "run make setup", is_there: || is_on_path("etcd") },
    Capability { name: "eu-stack", remedy: "run make setup", is_there: || is_on_path("eu-stack") },
    Capability {
        name: "docker-engine",
        remedy: "install and start a Docker engine",
        is_there: || Path::new("/var/run/docker.sock").exists(),
    },
    Capability {
        name: "own-engine",
        remedy: "run make setup, as root where mounting is allowed",
        is_there: can_run_engine,
    },
    Capability {
        name: "rootless-engine",
        remedy: "run make setup, as root where mounting is allowed",
        is_there: || {
            can_run_engine() && ["rootlesskit", "slirp4netns", "newuidmap"].iter().all(|name| is_on_path(name))
        },
    },
    Capability {
        name: "kvm",
        remedy: "run where /dev/kvm can be opened",
        is_there: || fs::File::open("/dev/kvm").is_ok(),
    },
];

/// Whether a test that needs `name` can go on: `if !require("tmpfs") { return; }`.
///
/// Where the capability is missing the reason is printed; under `CI=true` a missing one is a failure, since a test that
/// never runs anywhere proves nothing.
///
/// # Panics
/// Under CI when it is missing, and always for a name that is not in the table.
#[track_caller]
#[must_use]
#[expect(clippy::print_stderr, reason = "a skip that nobody sees is a test that nobody runs")]
pub fn require(name: &str) -> bool {
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    match decide(find(name), is_ci) {
        Decision::Run => true,
        Decision::Skip(reason) => {
            eprintln!("skipped: {reason}");
            false
        }
        Decision::Fail(reason) => panic!("{reason}, and under CI nothing is skipped"),
    }
}

#[track_caller]
fn find(name: &str) -> &'static Capability {
    let found = CAPABILITIES.iter().find(|capability| capability.name == name);
    found.unwrap_or_else(|| panic!("no capability is called {name:?}"))
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Run,
    Skip(String),
    Fail(String),
}

fn decide(capability: &Capability, is_ci: bool) -> Decision {
    if (capability.is_there)() {
        return Decision::Run;
    }
    let reason = format!("this machine lacks {} ({})", capability.name, capability.remedy);
    if is_ci { Decision::Fail(reason) } else { Decision::Skip(reason) }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mounting needs CAP_SYS_ADMIN, which root in a container may lack.
fn can_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_ADMIN & 1 == 1)
}

/// A container engine of a test's own, in a network namespace of its own, with something to run in it.
fn can_run_engine() -> bool {
    let programs = ["dockerd", "containerd", "docker", "iptables", "ip", "unshare", "busybox"];
    is_root() && can_mount() && programs.iter().all(|program| is_on_path(program))
}

/// Whether a program of this name can be run from `PATH`.
pub fn is_on_path(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        fs::metadata(folder.join(program)).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_skipped_with_a_reason_and_fails_under_ci() {
        let missing = Capability { name: "wings", remedy: "grow some", is_there: || false };
        let reason = "this machine lacks wings (grow some)".to_owned();
        assert_eq!(decide(&missing, false), Decision::Skip(reason.clone()));
        assert_eq!(decide(&missing, true), Decision::Fail(reason));
        let there = Capability { is_there: || true, ..missing };
        assert_eq!(decide(&there, true), Decision::Run);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(is_on_path("sh"));
        assert!(!is_on_path("no-such-program"));
    }

    #[test]
    #[should_panic(expected = "no capability is called \"typo\"")]
    fn a_name_that_is_not_in_the_table_is_a_mistake() {
        let _ = require("typo");
    }
}
