//! Releases of K3s from their publisher: verified against its list of digests, and going on where an earlier download ended.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdd_fetch::{Asset, Check, Fetcher, Proxy, PublishedList};
use rdd_instance::{Environment, Instance};
use rdd_runtime::Trigger;
use rdd_stdx::{backoff::Backoff, chain::Chain, clock::SharedClock, file, task::Group};

use super::releases::{Folders, PROGRAM, Release, Releases, progress};

/// Where K3s is published.
const PUBLISHER: &str = "https://github.com/k3s-io/k3s/releases/download";
/// How long to wait after the first failure, and at most; twice as long after each.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(5));

/// Releases in folders first, and else from the network.
#[derive(Debug)]
pub struct Downloads {
    folders: Folders,
    /// Where programs go that were downloaded.
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
    /// Those of this instance.
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

/// One that is not to be understood is not used, and said to be so.
fn proxy(environment: &Environment) -> Option<Proxy> {
    let proxy = environment.https_proxy.as_deref()?;
    let read = Proxy::parse(proxy, environment.no_proxy.as_deref().unwrap_or_default());
    read.inspect_err(|_| tracing::warn!("HTTPS_PROXY names no proxy that downloads could use")).ok()
}

/// What the program of this processor is called, and the list of digests that it is on.
fn names(architecture: &str) -> (&'static str, &'static str) {
    match architecture {
        "aarch64" => ("k3s-arm64", "sha256sum-arm64.txt"),
        _ => (PROGRAM, "sha256sum-amd64.txt"),
    }
}

/// The program of a release.
fn asset(publisher: &str, version: &str, architecture: &str) -> Asset {
    let (program, list) = names(architecture);
    // A plus sign in a path is itself, but some servers read a blank.
    let folder = format!("{publisher}/{}", version.replace('+', "%2B"));
    Asset {
        name: format!("{version}/{program}"),
        urls: vec![format!("{folder}/{program}")],
        check: Check::Published {
            list: PublishedList { name: format!("{version}/{list}"), urls: vec![format!("{folder}/{list}")] },
            entry: program.to_owned(),
        },
        bytes: None,
    }
}

/// Puts a verified file where a program is looked for, whole or not at all.
fn install(from: &Path, folder: &Path) -> Result<(), String> {
    let text = |error: std::io::Error| format!("keep it in {}: {error}", folder.display());
    file::create_dir_private(folder).map_err(|error| Chain(&error).to_string())?;
    let (part, whole) = (folder.join(".k3s.part"), folder.join(PROGRAM));
    let _ = fs::remove_file(&part);
    fs::copy(from, &part).map_err(text)?;
    fs::set_permissions(&part, fs::Permissions::from_mode(0o700)).map_err(text)?;
    fs::File::open(&part).and_then(|file| file.sync_all()).map_err(text)?;
    fs::rename(&part, &whole).map_err(text)
}

/// Gets one release.
async fn get(
    fetcher: &Fetcher,
    asset: &Asset,
    folder: &Path,
    told: impl Fn(u64, Option<u64>) + Send + Sync,
) -> Result<(), String> {
    let path = fetcher.fetch(asset, |so_far| told(so_far.bytes, so_far.total)).await;
    let path = path.map_err(|error| Chain(&error).to_string())?;
    let folder = folder.to_owned();
    let installed = tokio::task::spawn_blocking(move || install(&path, &folder)).await;
    installed.map_err(|error| error.to_string())?
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
        if state.version != version {
            *state = State { version: version.to_owned(), ..State::default() };
        }
        state.stage = Stage::Fetching { done: 0, total: None };
        let asset = asset(&self.publisher, version, std::env::consts::ARCH);
        let (fetcher, folder, version) = (self.fetcher.clone(), self.kept.join(version), version.to_owned());
        let (shared, clock) = (Arc::clone(&self.state), Arc::clone(&self.clock));
        let mut task = Group::default();
        task.spawn("kubernetes download", async move {
            let told = |done: u64, total: Option<u64>| {
                let mut state = lock(&shared);
                let Stage::Fetching { done: before, total: of } = state.stage else { return };
                state.stage = Stage::Fetching { done, total };
                if progress(&version, before, of) != progress(&version, done, total) {
                    wake.wake();
                }
            };
            let got = get(&fetcher, &asset, &folder, told).await;
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
    use super::*;

    #[test]
    fn a_release_is_asked_for_by_its_full_name_and_checked_by_its_publishers_list() {
        let asset = asset("https://example.com/d", "v1.34.6+k3s1", "x86_64");
        assert_eq!(asset.urls, ["https://example.com/d/v1.34.6%2Bk3s1/k3s"]);
        let Check::Published { list, entry } = &asset.check else { panic!("a list") };
        assert_eq!(
            (entry.as_str(), list.urls[0].as_str()),
            ("k3s", "https://example.com/d/v1.34.6%2Bk3s1/sha256sum-amd64.txt")
        );
        assert_eq!(super::asset("p", "v1.34.6+k3s1", "aarch64").name, "v1.34.6+k3s1/k3s-arm64");
    }

    #[test]
    fn a_program_is_put_in_place_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (from, folder) = (dir.path().join("from"), dir.path().join("v1"));
        fs::write(&from, "program").unwrap();
        for _ in 0..2 {
            install(&from, &folder).unwrap();
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::metadata(folder.join("k3s")).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(install(&dir.path().join("none"), &folder).is_err());
        assert_eq!(fs::read_to_string(folder.join("k3s")).unwrap(), "program", "what was there is still there");
    }

    #[test]
    fn the_wait_grows_and_has_an_end() {
        assert_eq!([1, 2, 3, 50].map(|failures| BACKOFF.after(failures).as_secs()), [5, 10, 20, 300]);
    }
}
