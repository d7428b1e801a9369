//! The list of kubeconfigs to merge, and single changes to one of them.

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

/// How long to wait for the lock of another program. kubectl holds one for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The kubeconfigs of a user, in the order in which they are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFiles {
    /// Files that may be missing; the first with a value wins.
    list: Vec<PathBuf>,
    /// The file to use instead of the list; it must exist.
    explicit: Option<PathBuf>,
}

impl ConfigFiles {
    /// The files in `KUBECONFIG`, or else `.kube/config` in the home folder.
    ///
    /// Like in kubectl, relative paths are relative to the working folder, and empty and duplicate entries are ignored.
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

    /// Uses these files, each of which may be missing.
    pub fn new(list: Vec<PathBuf>) -> Self {
        Self { list, explicit: None }
    }

    /// Uses only this file, as with `--kubeconfig`.
    #[must_use]
    pub fn with_explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// The file that is used instead of the list.
    pub fn explicit(&self) -> Option<&Path> {
        self.explicit.as_deref()
    }

    /// The files to merge, in order.
    pub fn precedence(&self) -> &[PathBuf] {
        self.explicit.as_ref().map_or(&self.list, std::slice::from_ref)
    }

    /// The file for new entries: the first that exists, otherwise the last.
    pub fn default_file(&self) -> &Path {
        let files = self.precedence();
        let last = files.last().map_or(Path::new(""), PathBuf::as_path);
        files.iter().find(|file| file.exists()).map_or(last, PathBuf::as_path)
    }

    /// The file for a change to an entry: the one that has it, otherwise that for new entries.
    pub fn file_for<'a>(&'a self, entry: Option<&'a ConfigEntry>) -> &'a Path {
        entry.map_or_else(|| self.default_file(), |entry| entry.origin.as_path())
    }

    /// Merges the files. A missing explicit file counts as empty, as in the commands of `kubectl config`.
    pub fn load_or_empty(&self) -> Result<MergedConfig, LoadError> {
        match &self.explicit {
            Some(path) if !path.exists() => Ok(MergedConfig::default()),
            _ => MergedConfig::load(self),
        }
    }

    /// Applies changes to one file atomically, under kubectl's lock. Returns `false` if the file would not change.
    ///
    /// Every byte that the changes do not concern stays the same. A missing file is created.
    ///
    /// # Errors
    /// When the file cannot be read, edited, locked or written; it is unchanged then.
    pub fn apply(path: &Path, changes: &[Change]) -> Result<bool, Error> {
        let patience = Patience { clock: SystemClock::shared(), wait: LOCK_TIMEOUT };
        let path = std::path::absolute(path).map_err(|source| Error::Resolve { path: path.to_owned(), source })?;
        file::modify(&path, &patience, |_| Ok(changes.to_vec()))
    }
}
