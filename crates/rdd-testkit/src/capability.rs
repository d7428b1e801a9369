//! Capabilities that tests need from the machine, and the skip if one is missing.

use std::{ffi::OsStr, fs, path::Path};

/// A feature that a machine may lack.
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
    Capability {
        name: "gpg",
        remedy: "run make setup",
        is_there: || ["gpg", "gpgconf", "gpgv"].iter().all(|name| is_on_path(name)),
    },
    Capability { name: "etcd", remedy: "run make setup", is_there: || is_on_path("etcd") },
    Capability { name: "bash", remedy: "install bash", is_there: || is_on_path("bash") },
    Capability { name: "zsh", remedy: "run make setup", is_there: || is_on_path("zsh") },
    Capability { name: "fish", remedy: "run make setup", is_there: || is_on_path("fish") },
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

/// Whether a test that needs the capability `name` can continue: `if !require("tmpfs") { return; }`.
///
/// Prints the reason if the capability is missing.
///
/// # Panics
///
/// Under CI if it is missing, since a test that never runs proves nothing; and always for a name that is not in the table.
/// Under CI when it is missing, and always for a name that is not in the table.
#[track_caller]
#[must_use]
pub fn require(name: &str) -> bool {
    let reason = missing(find(name));
    if let Some(reason) = &reason {
        skip(reason);
    }
    reason.is_none()
}

/// Reports that the rest of a test is skipped, for a need that only the test itself can detect. The test returns after this call.
///
/// # Panics
///
/// Under CI, where no test may be skipped.
/// Under CI, where no test may be skipped.
#[track_caller]
#[expect(clippy::print_stderr, reason = "a skip that nobody sees is a test that nobody runs")]
pub fn skip(reason: &str) {
    assert!(!is_ci(), "{reason}, and under CI no test is skipped");
    eprintln!("skipped: {reason}");
}

/// Whether this is a CI run: `CI` is set to a value other than the empty string, `0` or `false`.
pub fn is_ci() -> bool {
    means_ci(std::env::var_os("CI").as_deref())
}

fn means_ci(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| !["", "0", "false"].iter().any(|no| value.eq_ignore_ascii_case(no)))
}

#[track_caller]
fn find(name: &str) -> &'static Capability {
    let found = CAPABILITIES.iter().find(|capability| capability.name == name);
    found.unwrap_or_else(|| panic!("no capability is called {name:?}"))
}

/// Why a test that needs this capability cannot run; `None` if it can.
fn missing(capability: &Capability) -> Option<String> {
    let reason = format!("this machine lacks {} ({})", capability.name, capability.remedy);
    (!(capability.is_there)()).then_some(reason)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may mount file systems. That needs CAP_SYS_ADMIN, which root in a container may lack.
fn can_mount() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_ADMIN & 1 == 1)
}

/// Whether a test can run its own container engine in its own network namespace, with a program to run in it.
fn can_run_engine() -> bool {
    let programs = ["dockerd", "containerd", "docker", "iptables", "ip", "unshare", "busybox"];
    is_root() && can_mount() && programs.iter().all(|program| is_on_path(program))
}

/// Whether `PATH` has an executable of this name.
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
    fn a_missing_capability_has_a_reason_that_names_the_remedy() {
        let absent = Capability { name: "wings", remedy: "grow some", is_there: || false };
        assert_eq!(missing(&absent).as_deref(), Some("this machine lacks wings (grow some)"));
        assert_eq!(missing(&Capability { is_there: || true, ..absent }), None);
    }

    // Finding A-12
    #[test]
    fn ci_is_recognized_by_any_value_that_means_yes() {
        for yes in ["true", "1", "TRUE", "yes", "github"] {
            assert!(means_ci(Some(OsStr::new(yes))), "{yes}");
        }
        for no in ["", "0", "false", "False"] {
            assert!(!means_ci(Some(OsStr::new(no))), "{no}");
        }
        assert!(!means_ci(None));
    }

    /// Finding A-12: runs this test program again with another value of `CI`, since the environment belongs to the whole process.
    #[test]
    fn a_skip_fails_under_ci_and_is_printed_elsewhere() {
        let run = |ci: &str| {
            let mut command = rdd_stdx::process::foreground(std::env::current_exe().unwrap());
            let test = "capability::tests::skips_what_the_environment_asks_for";
            command.args(["--exact", test, "--nocapture"]).env("CI", ci).env(SKIP_REASON, "no wings here");
            command.output().unwrap()
        };
        for ci in ["1", "true"] {
            let output = run(ci);
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && text.contains("no wings here, and under CI"), "CI={ci}: {text}");
        }
        let output = run("0");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && text.contains("skipped: no wings here"), "{text}");
    }

    /// The skip reason for the child process of the test above.
    const SKIP_REASON: &str = "RDD_TESTKIT_SKIP_REASON";

    #[test]
    fn skips_what_the_environment_asks_for() {
        if let Ok(reason) = std::env::var(SKIP_REASON) {
            skip(&reason);
        }
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
