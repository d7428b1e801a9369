//! Downloads releases of K3s, verifies them by the publisher's digests, and resumes interrupted downloads.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_fetch::{Asset, Check, Fetcher, Proxy, PublishedFile};
use rdd_instance::{Environment, Instance};
use rdd_runtime::Trigger;
use rdd_stdx::{backoff::Backoff, chain::Chain, clock::SharedClock, file, owned, task::Group};

use super::releases::{Folders, PROGRAM, Release, Releases, progress};

/// The URL of K3s releases.
const PUBLISHER: &str = "https://github.com/k3s-io/k3s/releases/download";
/// The backoff after failed downloads.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

/// Finds releases in directories first, and downloads the others.
#[derive(Debug)]
pub struct Downloads {
    folders: Folders,
    /// The directory for downloaded programs.
    kept: PathBuf,
    fetcher: Fetcher,
    publisher: String,
    clock: SharedClock,
    state: Arc<Mutex<State>>,
    task: Mutex<Option<Group<()>>>,
}

#[derive(Debug, Default)]
struct State {
    version: String,
    stage: Stage,
    failures: u32,
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Fetching {
        done: u64,
        total: Option<u64>,
    },
    Failed {
        why: String,
        until: Duration,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Downloads {
    /// The releases of this instance.
    pub fn of(instance: &Instance, environment: &Environment, clock: &SharedClock) -> Self {
        let offline = environment.offline_dir.clone().map(PathBuf::from);
        let fetcher =
            Fetcher::new(instance.paths.cache_dir.clone()).with_offline(offline).with_proxy(proxy(environment));
        Self {
            folders: Folders::of(instance, environment),
            fetcher,
            kept: instance.paths.k3s_releases.clone(),
            publisher: PUBLISHER.to_owned(),
            clock: Arc::clone(clock),
            state: Arc::default(),
            task: Mutex::default(),
        }
    }
}

/// The proxy of the environment. An invalid one is ignored with a warning.
fn proxy(environment: &Environment) -> Option<Proxy> {
    let proxy = environment.https_proxy.as_deref()?;
    let read = Proxy::parse(proxy, environment.no_proxy.as_deref().unwrap_or_default());
    read.inspect_err(|_| tracing::warn!("HTTPS_PROXY names no proxy that downloads could use")).ok()
}

/// The name of this architecture in the publisher's file names.
fn publishers_word(architecture: &str) -> &'static str {
    match architecture {
        "aarch64" => "arm64",
        _ => "amd64",
    }
}

/// The name of the program for this architecture.
fn program_name(architecture: &str) -> &'static str {
    match architecture {
        "aarch64" => "k3s-arm64",
        _ => PROGRAM,
    }
}

/// The names of the image archives, the smallest format first.
fn archive_names(architecture: &str) -> [String; 3] {
    let word = publishers_word(architecture);
    ["tar.zst", "tar.gz", "tar"].map(|ending| format!("k3s-airgap-images-{word}.{ending}"))
}

/// A file of a release, verified by the digest list for its architecture.
fn asset(publisher: &str, version: &str, architecture: &str, file: &str) -> Asset {
    let list = format!("sha256sum-{}.txt", publishers_word(architecture));
    // A plus sign is valid in a path, but some servers decode it as a space.
    let folder = format!("{publisher}/{}", version.replace('+', "%2B"));
    Asset {
        name: format!("{version}/{file}"),
        urls: vec![format!("{folder}/{file}")],
        check: Check::Published {
            list: PublishedFile { name: format!("{version}/{list}"), urls: vec![format!("{folder}/{list}")] },
            entry: file.to_owned(),
        },
        bytes: None,
    }
}

/// Copies a verified file into the directory of its release, atomically.
fn install(from: &Path, folder: &Path, name: &str, mode: u32) -> Result<(), String> {
    file::create_dir_private(folder).map_err(|error| Chain(&error).to_string())?;
    let kept = owned::replace_with_copy(&folder.join(name), from, mode);
    kept.map_err(|error| format!("keep it in {}: {error}", folder.display()))
}

/// A release to download, and its directory.
#[derive(Debug, Clone)]
struct Order {
    publisher: String,
    version: String,
    architecture: &'static str,
    folder: PathBuf,
}

impl Order {
    fn asset(&self, file: &str) -> Asset {
        asset(&self.publisher, &self.version, self.architecture, file)
    }

    /// Downloads the release. The program comes last, because a release with a program counts as complete.
    async fn get(&self, fetcher: &Fetcher, told: impl Fn(u64, Option<u64>) + Send + Sync) -> Result<(), String> {
        // An archive is used only if an offline directory has it. With a network, the runtime pulls images when it needs them.
        let is_brought = |name: &String| fetcher.is_offline(&self.asset(name).name);
        if let Some(archive) = archive_names(self.architecture).into_iter().find(is_brought) {
            let asset = Asset { urls: Vec::new(), ..self.asset(&archive) };
            self.put(fetcher, &asset, &archive, 0o600, |_, _| ()).await?;
        }
        let asset = self.asset(program_name(self.architecture));
        self.put(fetcher, &asset, PROGRAM, 0o700, told).await
    }

    async fn put(
        &self,
        fetcher: &Fetcher,
        asset: &Asset,
        name: &str,
        mode: u32,
        told: impl Fn(u64, Option<u64>) + Send + Sync,
    ) -> Result<(), String> {
        let path = fetcher.fetch(asset, |so_far| told(so_far.bytes, so_far.total)).await;
        let path = path.map_err(|error| Chain(&error).to_string())?;
        let (folder, name) = (self.folder.clone(), name.to_owned());
        let installed = tokio::task::spawn_blocking(move || install(&path, &folder, &name, mode)).await;
        installed.map_err(|error| error.to_string())?
    }
}

impl Releases for Downloads {
    fn look(&self, version: &str) -> Release {
        if let ready @ Release::Ready { .. } = self.folders.look(version) {
            return ready;
        }
        let state = lock(&self.state);
        match &state.stage {
            Stage::Fetching { done, total } if state.version == version => {
                Release::Fetching { done: *done, total: *total }
            }
            Stage::Failed { why, until } if state.version == version => {
                Release::Failed { why: why.clone(), again: until.saturating_sub(self.clock.steady()) }
            }
            _ => Release::Absent,
        }
    }

    fn fetch(&self, version: &str, wake: Trigger) {
        let mut state = lock(&self.state);
        if state.version == version && matches!(state.stage, Stage::Fetching { .. }) {
            return;
        }
        // Failures of another release do not delay this one.
        if state.version != version {
            *state = State { version: version.to_owned(), ..State::default() };
        }
        state.stage = Stage::Fetching { done: 0, total: None };
        let order = Order {
            publisher: self.publisher.clone(),
            // The task runs until it ends or `stop` drops it; the state shows its progress.
            version: version.to_owned(),
            architecture: std::env::consts::ARCH,
            folder: self.kept.join(version),
        };
        let (fetcher, version) = (self.fetcher.clone(), version.to_owned());
        let (shared, clock) = (Arc::clone(&self.state), Arc::clone(&self.clock));
        let mut task = Group::default();
        task.spawn("kubernetes download", async move {
            let told = |done: u64, total: Option<u64>| {
                let mut state = lock(&shared);
                let Stage::Fetching { done: before, total: of } = state.stage else { return };
                state.stage = Stage::Fetching { done, total };
                // Only a change of the shown progress enqueues the App.
                if progress(&version, before, of) != progress(&version, done, total) {
                    wake.wake();
                }
            };
            let got = order.get(&fetcher, told).await;
            {
                let mut state = lock(&shared);
                state.stage = match got {
                    Ok(()) => Stage::Idle,
                    Err(why) => {
                        tracing::warn!(version, error = why, "a release of Kubernetes could not be downloaded");
                        state.failures += 1;
                        Stage::Failed { why, until: clock.steady() + BACKOFF.after(state.failures) }
                    }
                };
            }
            wake.wake();
        });
        // The task lock is never taken while the state lock is held.
        drop(state);
        *lock(&self.task) = Some(task);
    }

    fn stop(&self) {
        *lock(&self.task) = None;
        *lock(&self.state) = State::default();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    #[test]
    fn a_release_is_asked_for_by_its_full_name_and_checked_by_its_publishers_list() {
        let asset = asset("https://example.com/d", "v1.34.6+k3s1", "x86_64", program_name("x86_64"));
        assert_eq!(asset.urls, ["https://example.com/d/v1.34.6%2Bk3s1/k3s"]);
        let Check::Published { list, entry } = &asset.check else { panic!("a list") };
        assert_eq!(
            (entry.as_str(), list.urls[0].as_str()),
            ("k3s", "https://example.com/d/v1.34.6%2Bk3s1/sha256sum-amd64.txt")
        );
        let other = super::asset("p", "v1.34.6+k3s1", "aarch64", program_name("aarch64"));
        assert_eq!(other.name, "v1.34.6+k3s1/k3s-arm64");
        assert_eq!(archive_names("aarch64")[0], "k3s-airgap-images-arm64.tar.zst");
    }

    #[test]
    fn a_program_is_put_in_place_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (from, folder) = (dir.path().join("from"), dir.path().join("v1"));
        fs::write(&from, "program").unwrap();
        for _ in 0..2 {
            install(&from, &folder, PROGRAM, 0o700).unwrap();
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::metadata(folder.join("k3s")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(install(&dir.path().join("none"), &folder, PROGRAM, 0o700).is_err());
        assert_eq!(fs::read_to_string(folder.join("k3s")).unwrap(), "program", "what was there is still there");
    }

    // Finding A-1
    #[test]
    fn a_link_planted_beside_a_program_is_not_followed_and_leftovers_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (from, victim, folder) = (dir.path().join("from"), dir.path().join("victim"), dir.path().join("v1"));
        fs::create_dir(&folder).unwrap();
        fs::write(&from, "program").unwrap();
        fs::write(&victim, "victim").unwrap();
        let (planted, left) = (folder.join(".k3s.part"), folder.join(".k3s.0123456789abcdef.tmp"));
        symlink(&victim, &planted).unwrap();
        fs::write(&left, "half of a prog").unwrap();
        install(&from, &folder, PROGRAM, 0o700).unwrap();
        assert_eq!(fs::read_to_string(folder.join("k3s")).unwrap(), "program");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "victim");
        assert_eq!((fs::read_link(&planted).unwrap(), left.exists()), (victim, false));
    }

    /// An offline directory with a program, an archive, and a list of digests.
    fn offline(listed_archive: &[u8]) -> (tempfile::TempDir, Order, Fetcher) {
        let dir = tempfile::tempdir().unwrap();
        let offline = dir.path().join("offline");
        fs::create_dir(&offline).unwrap();
        let archive = &archive_names("x86_64")[2];
        fs::write(offline.join("k3s"), "program").unwrap();
        fs::write(offline.join(archive), "images").unwrap();
        let digest = |bytes: &[u8]| rdd_fetch::Sha256::of(bytes);
        let list = format!("{}  k3s\n{}  {archive}\n", digest(b"program"), digest(listed_archive));
        fs::write(offline.join("sha256sum-amd64.txt"), list).unwrap();
        let fetcher = Fetcher::new(dir.path().join("cache")).with_offline(Some(offline));
        let order = Order {
            publisher: "http://127.0.0.1:1".to_owned(),
            version: "v1.34.6+k3s1".to_owned(),
            architecture: "x86_64",
            folder: dir.path().join("v1.34.6+k3s1"),
        };
        (dir, order, fetcher)
    }

    #[tokio::test]
    async fn an_offline_folder_brings_the_program_and_its_images() {
        let (dir, order, fetcher) = offline(b"images");
        order.get(&fetcher, |_, _| ()).await.unwrap();
        let Release::Ready { program, images } = Folders::at(vec![dir.path().to_owned()]).look(&order.version) else {
            panic!("it is there");
        };
        assert_eq!(fs::read_to_string(program).unwrap(), "program");
        assert_eq!(images, [order.folder.join("k3s-airgap-images-amd64.tar")]);
    }

    #[tokio::test]
    async fn images_with_another_digest_are_refused_by_name_and_nothing_is_there_then() {
        let (dir, order, fetcher) = offline(b"others");
        let why = order.get(&fetcher, |_, _| ()).await.unwrap_err();
        assert!(why.contains("offline/k3s-airgap-images-amd64.tar is not what was published"), "{why}");
        let folders = Folders::at(vec![dir.path().to_owned()]);
        assert!(matches!(folders.look(&order.version), Release::Failed { .. }));
    }

    #[test]
    fn the_wait_grows_and_has_an_end() {
        assert_eq!([1, 2, 3, 50].map(|failures| BACKOFF.after(failures).as_secs()), [5, 10, 20, 300]);
    }
}
