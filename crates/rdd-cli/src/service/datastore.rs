//! Operations on the datastore while no daemon has it open: backup, reset and restore.

use std::path::{Path, PathBuf};

use rdd_stdx::clock::SharedClock;
use rdd_store::{Store, sqlite};

use super::ControlPlane;
use crate::report::{Failure, Outcome};

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The new revision. It is far ahead of every revision that clients have seen, so that all of them list again.
    pub revision: u64,
    /// The number of objects in the restored datastore.
    pub objects: u64,
    /// The path of the previous datastore, if there was one.
    pub set_aside: Option<PathBuf>,
}

/// Access to a datastore that no other process has open. The caller holds the locks that ensure it.
#[derive(Debug, Clone)]
pub struct Offline {
    /// The clock of the store.
    pub clock: SharedClock,
    /// Whether the datastore may be on a network file system, where SQLite's locks are unreliable.
    pub allow_network: bool,
}

impl Offline {
    /// Access to the datastore of this instance, with the options that the environment sets.
    pub fn of(plane: &ControlPlane<'_>) -> Self {
        let allow_network = plane.context.environment.allow_network_home;
        Self { clock: plane.context.clock().clone(), allow_network }
    }

    fn options(&self) -> sqlite::Options {
        sqlite::Options { clock: self.clock.clone(), allow_network: self.allow_network, ..sqlite::Options::default() }
    }

    /// Copies the datastore at `path` to `target`, which must not exist.
    pub fn backup(&self, path: &Path, target: &Path) -> Outcome {
        let fail = |error| Failure::caused(format!("back up {}", path.display()), error);
        let store = sqlite::open(path, self.options())?;
        store.backup(target).wait().map_err(fail)?;
        store.close().wait().map_err(fail)
    }

    /// Replaces the datastore at `path` with an empty one. Returns its first revision.
    pub fn reset(&self, path: &Path) -> Outcome<u64> {
        Ok(sqlite::reset(path, &self.options())?.0)
    }

    /// Replaces the datastore at `path` with a verified copy of `backup`, which is not changed.
    pub fn restore(&self, backup: &Path, path: &Path) -> Outcome<Restored> {
        let restored = sqlite::restore(backup, path, &self.options()).map_err(|error| about_backup(error, backup))?;
        let (revision, objects) = (restored.revision.0, restored.live_keys);
        Ok(Restored { revision, objects, set_aside: restored.set_aside })
    }
}

/// Rewrites the store's errors about the backup file: their advice is for a datastore in use.
fn about_backup(error: sqlite::Error, backup: &Path) -> Failure {
    let reason = match &error {
        sqlite::Error::Damaged { path, reason } | sqlite::Error::Foreign { path, reason } if path == backup => reason,
        sqlite::Error::Kine { path } if path == backup => "it is a datastore of the Go version of rdd",
        _ => return error.into(),
    };
    Failure::message(format!("{} is not a backup made by `rdd svc backup`: {reason}", backup.display()))
}
