//! The datastore while no daemon has it open: copied, looked at, replaced.

use std::path::{Path, PathBuf};

use rdd_stdx::clock::SharedClock;
use rdd_store::{Store, sqlite};

use super::ControlPlane;
use crate::report::{Failure, Outcome};

/// What a restore did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The newest revision now. It is far ahead of any that a client has seen, so that every client starts over.
    pub revision: u64,
    /// How many objects are there now.
    pub objects: u64,
    /// Where the datastore that was there is now.
    pub set_aside: Option<PathBuf>,
}

/// The ways into a datastore that nobody else has open.
#[derive(Debug, Clone)]
pub struct Offline {
    /// Where the time comes from.
    pub clock: SharedClock,
    /// Whether it may lie on a network file system.
    pub allow_network: bool,
}

impl Offline {
    /// The ways into the datastore of an instance.
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

    /// Puts an empty datastore in the place of whatever is at `path`; gives the revision it begins at.
    pub fn reset(&self, path: &Path) -> Outcome<u64> {
        Ok(sqlite::reset(path, &self.options())?.0)
    }

    /// Puts `backup` in the place of the datastore at `path`. It is verified first and not changed.
    pub fn restore(&self, backup: &Path, path: &Path) -> Outcome<Restored> {
        let restored = sqlite::restore(backup, path, &self.options()).map_err(|error| about_backup(error, backup))?;
        let (revision, objects) = (restored.revision.0, restored.live_keys);
        Ok(Restored { revision, objects, set_aside: restored.set_aside })
    }
}

/// The store's advice is for a datastore in use; a file that was given to be restored needs other words.
fn about_backup(error: sqlite::Error, backup: &Path) -> Failure {
    let reason = match &error {
        sqlite::Error::Damaged { path, reason } | sqlite::Error::Foreign { path, reason } if path == backup => reason,
        sqlite::Error::Kine { path } if path == backup => "it is a datastore of the Go version of rdd",
        _ => return error.into(),
    };
    Failure::message(format!("{} is not a backup made by `rdd svc backup`: {reason}", backup.display()))
}
