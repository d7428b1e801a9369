//! Which kubeconfigs count, and single changes to one of them.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::clock::SystemClock;

use super::merged::{ConfigEntry, LoadError, MergedConfig};
use crate::{
    edit::Change,
    file::{self, Error},
    lock::Patience,
};

/// How long the lock of another program is waited for. A kubectl holds it for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The kubeconfigs of a user, in the order in which they are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFiles {
    /// Files that may be missing; the first to set a value wins.
    list: Vec<PathBuf>,
    /// The one file that counts instead, which must exist.
    explicit: Option<PathBuf>,
}

impl ConfigFiles {
    /// The files that `KUBECONFIG` names, or else `.kube/config` in the home folder.
    ///
    /// As kubectl does, a relative path is one of the working folder, and empty and repeated entries are passed over.
    pub fn from_environment(kubeconfig: Option<&OsStr>, home: &Path) -> Self {
        let mut list: Vec<PathBuf> = Vec::new();
        for path in kubeconfig.into_iter().flat_map(std::env::split_paths) {
            if !path.as_os_str().is_empty() && !list.contains(&path) {
                list.push(path);
            }
        }
        if list.is_empty() {
            list.push(home.join(".kube").join("config"));
        }
        Self { list, explicit: None }
    }

    /// These files, each of which may be missing.
    pub fn new(list: Vec<PathBuf>) -> Self {
        Self { list, explicit: None }
    }

    /// Only this file, as `--kubeconfig` names one.
    #[must_use]
    pub fn with_explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// The one file that counts instead of the list.
    pub fn explicit(&self) -> Option<&Path> {
        self.explicit.as_deref()
    }

    /// The files that are merged, in order.
    pub fn precedence(&self) -> &[PathBuf] {
        self.explicit.as_ref().map_or(&self.list, std::slice::from_ref)
    }

    /// Where something new is written: into the first file that exists, else into the last one.
    pub fn default_file(&self) -> &Path {
        let files = self.precedence();
        let last = files.last().map_or(Path::new(""), PathBuf::as_path);
        files.iter().find(|file| file.exists()).map_or(last, PathBuf::as_path)
    }

    /// The file that a change to an entry goes into: the one that has it, else the one for new entries.
    pub fn file_for<'a>(&'a self, entry: Option<&'a ConfigEntry>) -> &'a Path {
        entry.map_or_else(|| self.default_file(), |entry| entry.origin.as_path())
    }

    /// The merged files. An explicit one that is missing counts as empty, which is how the verbs of `kubectl config` see it.
    pub fn load_or_empty(&self) -> Result<MergedConfig, LoadError> {
        match &self.explicit {
            Some(path) if !path.exists() => Ok(MergedConfig::default()),
            _ => MergedConfig::load(self),
        }
    }

    /// Makes changes in one file as a whole, under the lock that kubectl takes; `false` if nothing differed.
    ///
    /// Every byte that the changes do not concern stays. A file that is missing is created.
    pub fn apply(path: &Path, changes: &[Change]) -> Result<bool, Error> {
        let patience = Patience { clock: SystemClock::shared(), wait: LOCK_TIMEOUT };
        let path = std::path::absolute(path).map_err(|source| Error::Resolve { path: path.to_owned(), source })?;
        file::modify(&path, &patience, |_| Ok(changes.to_vec()))
    }
}
