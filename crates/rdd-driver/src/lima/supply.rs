//! Downloads what a creation needs: `limactl` itself, and the images that a template names with their digests.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_fetch::{Asset, Check, Fetcher, Progress, Proxy, Sha256};
use rdd_instance::{Environment, Instance};
use rdd_stdx::{
    chain::Chain,
    file::{self, PRIVATE},
    owned::{self, StagingLock, TrustedFolder},
    process,
};
use serde_json::Value;
use tokio::process::Command;

use super::{image::check_image, machine::Host};
use crate::{
    Error,
    assets::{self, LimaRelease, Need},
};

/// The timeout for unpacking an archive of about ten megabytes.
const UNPACK_TAKES: Duration = Duration::from_secs(120);

/// Downloads files and reports their progress.
#[derive(Debug)]
pub(super) struct Supply {
    fetcher: Fetcher,
    /// The progress texts, by the name of the machine that waits.
    under_way: Mutex<BTreeMap<String, String>>,
}

impl Supply {
    pub(super) fn of(instance: &Instance, environment: &Environment) -> Self {
        let proxy = environment.https_proxy.as_deref().and_then(|proxy| {
            let read = Proxy::parse(proxy, environment.no_proxy.as_deref().unwrap_or_default());
            // The value is not logged, because it can contain a password.
            read.inspect_err(|_| tracing::warn!("HTTPS_PROXY names no proxy that downloads could use")).ok()
        });
        let offline = environment.offline_dir.clone().map(PathBuf::from);
        let fetcher = Fetcher::new(instance.paths.cache_dir.clone()).with_offline(offline).with_proxy(proxy);
        Self { fetcher, under_way: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The progress of the download that a machine waits for, as text for people.
    pub(super) fn progress(&self, vm: &str) -> Option<String> {
        self.table().get(vm).cloned()
    }

    /// Downloads and verifies a file for a machine. Resumes an interrupted download and reports the progress.
    async fn get(&self, vm: &str, asset: &Asset) -> Result<PathBuf, rdd_fetch::Error> {
        let _told = Told { supply: self, vm };
        let tell = |so_far: Progress| {
            self.table().insert(vm.to_owned(), words(&asset.name, so_far));
        };
        let fetched = self.fetcher.fetch(asset, tell).await;
        fetched.inspect(|_| tracing::info!(vm, file = asset.name, "got a file for a virtual machine"))
    }

    /// Downloads `limactl` if it is missing and the user did not choose one.
    pub(super) async fn ensure_limactl(&self, host: &Host, vm: &str) -> Result<(), Error> {
        if !host.lacks_limactl() {
            return Ok(());
        }
        let Some(release) = assets::lima(std::env::consts::ARCH) else { return Ok(()) };
        let LimaRelease { archive: asset, version, is_tested } = release;
        // Check the other programs first, so that nothing is downloaded that could not be used.
        host.require(Need::Machine)?;
        host.require(Need::LimaArchive)?;
        let archive = self.get(vm, &asset).await.map_err(|error| Error::Unsupported {
            missing: format!("limactl is not installed, and could not be had: {}", Chain(&error)),
            remedy: format!(
                "install Lima, name its limactl with RDD_LIMACTL, put {} into the folder that RDD_OFFLINE_DIR names, or use the backend \
                 host",
                offline_files(&asset)
            ),
        })?;
        let folder = host.own_dir.join(format!("lima-{version}"));
        unpack(&archive, &folder, &host.path).await?;
        if !is_tested {
            tracing::warn!(version, "downloaded a Lima that this version of rdd has not been tested with");
        }
        link(&folder.join("bin/limactl"), &host.places.bin_dir)
    }

    /// Puts the images of a template into Lima's cache, where Lima finds them. The first image that is available is
    /// enough. Images without a digest are left to Lima.
    pub(super) async fn ensure_images(&self, host: &Host, vm: &str, template: &str) -> Result<(), Error> {
        let (images, rest_is_limas) = images(template);
        let mut failure = None;
        for files in &images {
            match self.ensure_all(host, vm, files).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // An error counts only if Lima has no other image to try.
        match failure {
            Some(error) if !rest_is_limas => Err(error),
            _ => Ok(()),
        }
    }

    async fn ensure_all(&self, host: &Host, vm: &str, files: &[Wanted]) -> Result<(), Error> {
        for Wanted { location, digest, asset } in files {
            // Lima runs `xz` to decompress the image.
            if asset.name.ends_with(".xz") {
                host.require(Need::XzImage)?;
            }
            let entry =
                host.cache.join("lima/download/by-url-sha256").join(Sha256::of(location.as_bytes()).to_string());
            // Lima's own cache entry is used if it has the digest of the template.
            let is_known = fs::read_to_string(entry.join(DIGEST)).is_ok_and(|known| known.trim() == digest);
            if is_known && entry.join(DATA).is_file() {
                continue;
            }
            let path = self.get(vm, asset).await.map_err(|error| Error::Unsupported {
                missing: format!("the image of the machine could not be had: {}", Chain(&error)),
                remedy: format!(
                    "put {} into the folder that RDD_OFFLINE_DIR names, name images of your own with RDD_VM_IMAGE, or use the \
                     backend host",
                    asset.name
                ),
            })?;
            check_image(&path)?;
            keep(&path, &entry, location, digest)?;
        }
        Ok(())
    }
}

/// Removes the progress text of a machine when the download ends in any way.
struct Told<'a> {
    supply: &'a Supply,
    vm: &'a str,
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.supply.table().remove(self.vm);
    }
}

fn words(name: &str, Progress { bytes, total, .. }: Progress) -> String {
    let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
    match total.filter(|total| *total > 0) {
        Some(total) => {
            // In steps of 5 %, because each change is published to watchers.
            let percent = bytes.saturating_mul(20) / total * 5;
            format!("Downloading {name}: {percent} % of {} MiB", megabytes(total))
        }
        None => format!("Downloading {name}: {} MiB", megabytes(bytes)),
    }
}

/// The names of the files for the offline folder: the asset and the files to verify it.
fn offline_files(asset: &Asset) -> String {
    let beside = match &asset.check {
        Check::Sha256(_) => Vec::new(),
        Check::Published { list, .. } => vec![&list.name],
        Check::Signed { signed, .. } => {
            let keys = signed.keys.iter().map(|key| &key.file.name);
            [&signed.list.name, &signed.signature.name].into_iter().chain(keys).collect()
        }
    };
    beside.into_iter().fold(asset.name.clone(), |files, name| format!("{files} and {name}"))
}

/// The file names in an entry of Lima's cache.
const DATA: &str = "data";
const DIGEST: &str = "sha256.digest";
const URL: &str = "url";

/// A file of an image in the template.
struct Wanted {
    location: String,
    digest: String,
    asset: Asset,
}

/// The images for this architecture that rdd can download, each with its files, and whether there are other images, for
/// Lima.
fn images(template: &str) -> (Vec<Vec<Wanted>>, bool) {
    let options = serde_saphyr::options! { with_snippet: false };
    let parsed: Value = serde_saphyr::from_str_with_options(template, options).unwrap_or_default();
    let fits = |image: &&Value| image["arch"].as_str().is_none_or(|arch| arch == std::env::consts::ARCH);
    let (mut ours, mut rest_is_limas) = (Vec::new(), parsed["base"] != Value::Null);
    for image in parsed["images"].as_array().into_iter().flatten().filter(fits) {
        let parts = [image, &image["kernel"], &image["initrd"]].into_iter().filter(|part| !part.is_null());
        let files = parts.map(|part| {
            let (location, digest) = (part["location"].as_str()?, part["digest"].as_str()?);
            let asset = assets::named(location, digest)?;
            Some(Wanted { location: location.to_owned(), digest: digest.to_owned(), asset })
        });
        match files.collect::<Option<Vec<_>>>() {
            Some(files) => ours.push(files),
            None => rest_is_limas = true,
        }
    }
    (ours, rest_is_limas)
}

/// Creates an entry of Lima's cache. The digest is written last, because Lima does not trust an entry without one.
fn keep(path: &Path, entry: &Path, location: &str, digest: &str) -> Result<(), Error> {
    file::create_dir_private(entry)?;
    file::remove_if_present(&entry.join(DIGEST))?;
    let data = entry.join(DATA);
    owned::replace_with_hard_link_or_copy(&data, path).map_err(Error::at("write", &data))?;
    file::write_atomic(&entry.join(URL), location.as_bytes(), PRIVATE)?;
    Ok(file::write_atomic(&entry.join(DIGEST), digest.as_bytes(), PRIVATE)?)
}

/// Unpacks an archive into a folder. The folder appears complete or not at all.
async fn unpack(archive: &Path, folder: &Path, path: &OsStr) -> Result<(), Error> {
    // The folder's name contains the version, so an existing one is current.
    if folder.is_dir() {
        return Ok(());
    }
    let (staged, _lock) = create_staging_folder(folder).map_err(Error::at("create a folder beside", folder))?;
    let failed = |message: String| Error::Program { program: "tar".to_owned(), message };
    let mut command = process::background("tar", &staged);
    command.env("PATH", path).args(["-xzf".as_ref(), archive.as_os_str(), "--no-same-owner".as_ref()]);
    let child = Command::from(command).kill_on_drop(true).output();
    let output = tokio::time::timeout(UNPACK_TAKES, child).await;
    let output = output.map_err(|_| failed(format!("it did not end within {UNPACK_TAKES:?}")))?;
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(super::words::fit(&String::from_utf8_lossy(&output.stderr))));
    }
    // The rename publishes the folder atomically.
    fs::rename(&staged, folder).map_err(Error::at("rename", &staged))
}

/// Creates an empty staging folder beside the final one, and removes those of interrupted attempts. The lock protects
/// it from being removed in the same way.
fn create_staging_folder(folder: &Path) -> io::Result<(PathBuf, StagingLock)> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent_folder = TrustedFolder::create(parent)?;
    let lock = parent_folder.lock_staging(name)?;
    let (staged, _) = parent_folder.create_staging_folder(name)?;
    Ok((parent.join(staged), lock))
}

/// Links a program into a folder.
fn link(program: &Path, folder: &Path) -> Result<(), Error> {
    file::create_dir_private(folder)?;
    let place = folder.join(program.file_name().unwrap_or_default());
    owned::replace_with_link(&place, program).map_err(Error::at("link", &place))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    // Finding A-1
    #[test]
    fn a_link_planted_in_an_entry_of_the_cache_is_not_followed_and_leftovers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (image, victim, entry) = (dir.path().join("image"), dir.path().join("victim"), dir.path().join("entry"));
        fs::create_dir(&entry).unwrap();
        fs::write(&image, "image").unwrap();
        fs::write(&victim, "victim").unwrap();
        let (planted, left) = (entry.join("data.rdd"), entry.join(".data.0123456789abcdef.tmp"));
        symlink(&victim, &planted).unwrap();
        fs::write(&left, "half of an im").unwrap();
        keep(&image, &entry, "https://example.com/image", "sha256:1").unwrap();
        assert_eq!(fs::read_to_string(entry.join(DATA)).unwrap(), "image");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
        assert_eq!((fs::read_link(&planted).unwrap(), left.exists()), (victim, false));
    }

    // Finding A-1
    #[tokio::test]
    async fn a_link_planted_beside_an_unpacked_archive_is_not_followed_and_leftovers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (archive, victim, lima) =
            (dir.path().join("a.tgz"), dir.path().join("victim"), dir.path().join("own/lima-2.1.3"));
        fs::create_dir_all(dir.path().join("own")).unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("kept"), "").unwrap();
        fs::write(dir.path().join("bin/limactl"), "limactl").unwrap();
        let mut tar = process::background("tar", dir.path());
        assert!(tar.args(["-czf", "a.tgz", "bin"]).status().unwrap().success());
        // The number at the end of the name was mistaken for an extension.
        let (planted, left) = (lima.with_extension("part"), dir.path().join("own/.lima-2.1.3.0123456789abcdef.tmp"));
        symlink(&victim, &planted).unwrap();
        fs::create_dir_all(left.join("bin")).unwrap();
        let path = std::env::var_os("PATH").unwrap();
        fs::write(dir.path().join("broken.tgz"), "broken").unwrap();
        unpack(&dir.path().join("broken.tgz"), &lima, &path).await.unwrap_err();
        unpack(&archive, &lima, &path).await.unwrap();
        unpack(&archive, &lima, &path).await.unwrap();
        assert_eq!(fs::read_to_string(lima.join("bin/limactl")).unwrap(), "limactl");
        assert_eq!(fs::read_link(&planted).unwrap(), victim);
        assert_eq!((left.exists(), victim.join("kept").exists()), (false, true));
        assert_eq!(fs::read_dir(dir.path().join("own")).unwrap().count(), 2);
    }

    #[test]
    fn how_far_a_download_is_can_be_read() {
        let so_far = |bytes, total| words("a.img", Progress { bytes, total, rate: 0 });
        assert_eq!(so_far(52 << 20, Some(100 << 20)), "Downloading a.img: 50 % of 100 MiB");
        assert_eq!(so_far(1, None), "Downloading a.img: 1 MiB");
        assert_eq!(so_far(0, Some(0)), "Downloading a.img: 0 MiB");
    }

    #[test]
    fn images_of_this_processor_with_digests_are_ours_and_the_rest_is_limas() {
        let digest = "a".repeat(64);
        let image = |arch: &str, rest: &str| {
            format!("- location: https://example.com/x.img\n  arch: {arch}\n  digest: sha256:{digest}\n{rest}")
        };
        let here = std::env::consts::ARCH;
        let kernel = format!("  kernel: {{location: \"https://example.com/k\", digest: \"sha256:{digest}\"}}\n");
        let (ours, rest) = images(&format!("images:\n{}{}", image(here, &kernel), image("other", "")));
        assert_eq!((ours.len(), ours[0].len(), rest), (1, 2, false));
        let (ours, rest) =
            images(&format!("images:\n{}- location: /srv/x.img\n", image(here, "  kernel: {location: /k}\n")));
        assert_eq!((ours.len(), rest), (0, true));
        for odd in ["", "[", "images: 7", "images: [x]", "base: template://default\n"] {
            assert!(images(odd).0.is_empty(), "{odd}");
        }
    }
}
