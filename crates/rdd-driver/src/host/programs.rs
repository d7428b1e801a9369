//! Finds the programs that an engine needs, and names the package to install when one is missing.

use std::{
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::Error;

/// The folders of system programs; a user's `PATH` often lacks them.
const ADMINISTRATION: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";
/// The folder in which Debian installs the script for engines without root.
const CONTRIBUTED: &str = "/usr/share/docker.io/contrib";

const ROOTLESS_PACKAGES: &str = "docker.io rootlesskit slirp4netns uidmap";

/// Program names and the Debian packages that contain them.
const PACKAGES: &[(&str, &str)] = &[
    ("containerd", "containerd"),
    ("dockerd", "docker.io"),
    ("ip", "iproute2"),
    ("iptables", "iptables"),
    ("iptables-restore", "iptables"),
    ("rootlesskit", ROOTLESS_PACKAGES),
    ("runc", "runc"),
];

/// The search path for programs.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    path: OsString,
    /// An additional folder for the script that starts an engine without root.
    contributed: PathBuf,
}

impl Programs {
    /// Searches this `PATH`, then the system folders.
    pub(super) fn new(path: Option<&OsStr>) -> Self {
        let mut whole = path.unwrap_or_default().to_owned();
        if !whole.is_empty() {
            whole.push(":");
        }
        // Last, so that the user's own programs take precedence.
        whole.push(ADMINISTRATION);
        Self { path: whole, contributed: PathBuf::from(CONTRIBUTED) }
    }

    /// A search path without any programs.
    #[cfg(test)]
    pub(super) fn nowhere() -> Self {
        Self { path: OsString::from("/nonexistent"), contributed: PathBuf::from("/nonexistent") }
    }

    /// Searches only this `PATH`.
    pub(super) fn exactly(path: &OsStr) -> Self {
        Self { path: path.to_owned(), contributed: PathBuf::from(CONTRIBUTED) }
    }

    /// Reports whether the search path has a program of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.look(name).is_some()
    }

    /// The `PATH` for child processes, which run programs by name.
    pub(super) fn path(&self) -> &OsStr {
        &self.path
    }

    /// Finds the program of this name.
    ///
    /// # Errors
    /// [`Error::Unsupported`], with the package to install as its remedy.
    pub(super) fn find(&self, name: &str) -> Result<PathBuf, Error> {
        self.look(name).ok_or_else(|| {
            let package = PACKAGES.iter().find(|(program, _)| *program == name).map_or(name, |(_, package)| package);
            Error::Unsupported {
                missing: format!("{name} is not installed"),
                remedy: format!("install it (on Debian and Ubuntu: apt-get install {package})"),
            }
        })
    }

    /// Finds the script that starts an engine without root.
    pub(super) fn find_rootless(&self) -> Result<PathBuf, Error> {
        const SCRIPT: &str = "dockerd-rootless.sh";
        let contributed = self.contributed.join(SCRIPT);
        let found = self.look(SCRIPT).or_else(|| is_program(&contributed).then_some(contributed));
        found.ok_or_else(|| Error::Unsupported {
            missing: format!(
                "only root can run a container engine here: {SCRIPT}, which could do without, is not installed"
            ),
            remedy: format!(
                "run as root, or install it (on Debian and Ubuntu: apt-get install {ROOTLESS_PACKAGES}), or name a \
                 running engine in param.HOST_ENGINE_SOCKET"
            ),
        })
    }

    fn look(&self, name: &str) -> Option<PathBuf> {
        // A relative entry of PATH would depend on the daemon's working folder.
        let folders = std::env::split_paths(&self.path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|program| is_program(program))
    }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        assert_eq!(
            Programs::nowhere().find("dockerd").unwrap_err().to_string(),
            "dockerd is not installed; install it (on Debian and Ubuntu: apt-get install docker.io)"
        );
    }

    #[test]
    fn programs_of_the_administrator_are_found_without_being_on_the_path() {
        let programs = Programs::new(Some(OsStr::new("relative:/nonexistent")));
        assert!(programs.find("sh").unwrap().is_absolute());
        assert!(Programs::new(None).find("sh").is_ok());
    }
}
