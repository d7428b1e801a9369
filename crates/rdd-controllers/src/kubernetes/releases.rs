//! Finds releases of K3s on this machine, and defines how the controller gets others.

use std::{
    fmt::Debug,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_instance::{Environment, Instance};
use rdd_runtime::Trigger;

/// The name of the program in the directory of a release.
pub(super) const PROGRAM: &str = "k3s";
/// When a missing release is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The state of a release on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// It is absent, and no download runs.
    Absent,
    /// It is being downloaded.
    Fetching {
        /// The downloaded bytes.
        done: u64,
        /// The total, once it is known.
        total: Option<u64>,
    },
    /// It is available and verified.
    Ready {
        /// The path of the program.
        program: PathBuf,
        /// The image archives; may be empty.
        images: Vec<PathBuf>,
    },
    /// The download failed, or the release cannot be found.
    Failed {
        /// The error.
        why: String,
        /// The time until the next attempt is due.
        again: Duration,
    },
}

/// Provides releases of K3s.
pub trait Releases: Debug + Send + Sync {
    /// The state of the release with this full version (`v1.34.6+k3s1`). It does not block.
    fn look(&self, version: &str) -> Release;

    /// Starts the download in the background; `wake` enqueues the App when the progress changes. Does nothing if it is running.
    fn fetch(&self, version: &str, wake: Trigger);

    /// Stops downloads, because no reconcile waits for them any more. A later download resumes.
    fn stop(&self);
}

/// Releases in directories: those that a user provides, and those that were downloaded before.
#[derive(Debug)]
pub struct Folders {
    places: Vec<PathBuf>,
}

impl Folders {
    /// The directories of this instance.
    pub fn of(instance: &Instance, environment: &Environment) -> Self {
        let chosen = environment.k3s_dir.clone().map(PathBuf::from);
        Self::at(chosen.into_iter().chain([instance.paths.k3s_releases.clone()]).collect())
    }

    /// Releases in these directories.
    pub(super) fn at(places: Vec<PathBuf>) -> Self {
        Self { places }
    }

    fn find(&self, version: &str) -> Option<Release> {
        // The version becomes a directory name, so it must not contain a path.
        if !version.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-')) || version.contains("..")
        {
            return None;
        }
        self.places.iter().find_map(|place| in_folder(&place.join(version)))
    }
}

fn in_folder(folder: &Path) -> Option<Release> {
    let program = folder.join(PROGRAM);
    let is_program = |meta: std::fs::Metadata| meta.is_file() && meta.permissions().mode() & 0o111 != 0;
    if !std::fs::metadata(&program).is_ok_and(is_program) {
        return None;
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut images: Vec<PathBuf> = entries.filter(|path| is_archive(path)).collect();
    images.sort();
    Some(Release::Ready { program, images })
}

fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && [".tar", ".tar.gz", ".tar.zst", ".tgz"].iter().any(|ending| name.ends_with(ending))
}

impl Releases for Folders {
    fn look(&self, version: &str) -> Release {
        self.find(version).unwrap_or_else(|| {
            let places: Vec<String> = self.places.iter().map(|place| place.display().to_string()).collect();
            Release::Failed { why: format!("it is in none of {}", places.join(", ")), again: LOOK_AGAIN }
        })
    }

    fn fetch(&self, _version: &str, _wake: Trigger) {}

    fn stop(&self) {}
}

/// The progress for the condition's message, coarse, because each change is written to the status.
pub(super) fn progress(version: &str, done: u64, total: Option<u64>) -> String {
    const MEBI: u64 = 1 << 20;
    match total {
        // In steps of five percent, so that not every chunk causes a write.
        Some(total) if total > 0 => {
            let percent = u128::from(done.min(total)) * 100 / u128::from(total) / 5 * 5;
            format!("Downloading Kubernetes {version}: {percent}% of {} MiB", total.div_ceil(MEBI))
        }
        _ => format!("Downloading Kubernetes {version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_few_steps() {
        let version = "v1.34.6+k3s1";
        assert_eq!(progress(version, 0, None), "Downloading Kubernetes v1.34.6+k3s1");
        assert_eq!(progress(version, 7, Some(0)), "Downloading Kubernetes v1.34.6+k3s1");
        assert_eq!(progress(version, 44 << 20, Some(70 << 20)), "Downloading Kubernetes v1.34.6+k3s1: 60% of 70 MiB");
        assert_eq!(
            progress(version, u64::MAX, Some(u64::MAX)),
            format!("Downloading Kubernetes {version}: 100% of {} MiB", u64::MAX.div_ceil(1 << 20))
        );
        let texts: std::collections::BTreeSet<_> = (0..=1000).map(|done| progress(version, done, Some(1000))).collect();
        assert_eq!(texts.len(), 21);
    }

    #[test]
    fn a_release_in_a_folder_is_found_with_its_images_and_a_missing_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders { places: vec![dir.path().join("none"), dir.path().to_owned()] };
        let release = dir.path().join("v1.34.6+k3s1");
        std::fs::create_dir(&release).unwrap();
        let Release::Failed { why, .. } = folders.look("v1.34.6+k3s1") else { panic!("nothing is there") };
        assert!(why.contains("none"), "{why}");
        std::fs::write(release.join("k3s"), "").unwrap();
        assert!(matches!(folders.look("v1.34.6+k3s1"), Release::Failed { .. }), "what is no program is none");
        std::fs::set_permissions(release.join("k3s"), std::fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["k3s-airgap-images-amd64.tar.zst", "sha256sum-amd64.txt"] {
            std::fs::write(release.join(name), "").unwrap();
        }
        let images = vec![release.join("k3s-airgap-images-amd64.tar.zst")];
        assert_eq!(folders.look("v1.34.6+k3s1"), Release::Ready { program: release.join("k3s"), images });
        for odd in ["..", "../v1.34.6+k3s1", "a/b", "\0"] {
            assert!(matches!(folders.look(odd), Release::Failed { .. }), "{odd}");
        }
    }
}
