//! Provides the images of a Kubernetes release, for machines without a network.
//!
//! K3s loads the archives in its images folder into its own containerd only. When pods use the instance's Docker
//! engine, this module loads the archives into that engine before K3s starts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use rdd_stdx::file;
use serde::{Deserialize, Serialize};

use super::{
    ask,
    k3s::{self, Pods},
    machine::{Machine, read_json, write_json},
};
use crate::Error;

/// The identity of an archive when it was loaded. An archive that differs in any field is loaded again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Archive {
    path: PathBuf,
    bytes: u64,
    changed: i64,
    inode: u64,
}

/// The record of the archives that were loaded, so that the next start can skip them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Loaded {
    archives: Vec<Archive>,
    /// The images in the archives: their names, or their IDs if they have none.
    images: BTreeSet<String>,
}

impl Archive {
    fn look(path: &Path) -> Result<Self, Error> {
        use std::os::unix::fs::MetadataExt as _;
        let meta = fs::metadata(path).map_err(Error::at("look at", path))?;
        Ok(Self { path: path.to_owned(), bytes: meta.len(), changed: meta.mtime(), inode: meta.ino() })
    }
}

/// Makes the archives available to the runtime of the pods. Archives that the engine has already are skipped.
pub(super) async fn provide(machine: &Machine, pods: &Pods, archives: &[PathBuf]) -> Result<(), Error> {
    match pods {
        Pods::Own => place(machine, archives),
        Pods::Docker(socket) => {
            // Archives of an earlier start with another runtime are no longer needed.
            place(machine, &[])?;
            load(&note_of(machine), socket, archives).await
        }
    }
}

fn note_of(machine: &Machine) -> PathBuf {
    machine.engine.folder.join("k3s-images.json")
}

/// Replaces the content of the folder from which K3s loads images, by links to the archives or copies.
fn place(machine: &Machine, archives: &[PathBuf]) -> Result<(), Error> {
    let folder = k3s::images_folder(&machine.engine);
    file::remove_dir_if_present(&folder)?;
    if archives.is_empty() {
        return Ok(());
    }
    file::create_dir_private(&folder)?;
    for archive in archives {
        let Some(target) = k3s::image_target(&machine.engine, archive) else { continue };
        // A hard link fails across file systems.
        if fs::hard_link(archive, &target).is_err() {
            fs::copy(archive, &target).map_err(Error::at("copy images to", &target))?;
        }
    }
    Ok(())
}

async fn load(note: &Path, socket: &Path, archives: &[PathBuf]) -> Result<(), Error> {
    if archives.is_empty() {
        return Ok(());
    }
    let wanted: Vec<Archive> = archives.iter().map(|path| Archive::look(path)).collect::<Result<_, _>>()?;
    let before: Loaded = read_json(note).unwrap_or_default();
    // The user may have removed images since they were loaded.
    if before.archives == wanted && ask::has_images(socket, &before.images).await {
        return Ok(());
    }
    let mut images = BTreeSet::new();
    for path in archives {
        tracing::info!(archive = %path.display(), "loading the images of Kubernetes into the engine");
        let loaded = ask::load_images(socket, path).await;
        let failed = |message| Error::Program { program: format!("loading images from {}", path.display()), message };
        images.extend(loaded.map_err(failed)?);
    }
    write_json(note, &Loaded { archives: wanted, images })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_was_replaced_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.tar");
        fs::write(&path, "one").unwrap();
        let first = Archive::look(&path).unwrap();
        assert_eq!(Archive::look(&path).unwrap(), first);
        let other = dir.path().join("b.tar");
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_ne!(Archive::look(&path).unwrap(), first);
        let error = Archive::look(&other).unwrap_err().to_string();
        assert!(error.contains("b.tar"), "{error}");
    }
}
