//! Fetches an asset from the cache, the offline folder or the network, and verifies it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use http_body_util::{BodyExt, Limited};
use rdd_stdx::{
    chain::Chain,
    clock::{SharedClock, SystemClock},
    file as durable,
};
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tokio::{sync::OnceCell, time::timeout};

use crate::{
    asset::{Asset, Check, PublishedFile, SignedList, file_name},
    cache::{Adopted, Partial, Slot, digest_of},
    connect::{Means, Wanted, get, without_secrets},
    digest::{Sha256, find_in_list},
    download::{Manner, Order, download},
    error::{Error, Failure},
    progress::{Meter, Progress},
    proxy::Proxy,
    signature::{self, ExpectedEntry, SignatureCheck, SignedFiles},
};

/// The maximum size of a list of digests, a signature or a file of keys.
const SMALL_FILE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of attempts for a signature's files. Small, because a missing one causes only a warning.
const SIGNATURE_ATTEMPTS_MAX: usize = 3;
/// The program that verifies signatures.
const GPGV: &str = "gpgv";

/// Fetches files. Cheap to clone. Clones and other processes can share one cache.
#[derive(Clone)]
pub struct Fetcher {
    cache: PathBuf,
    offline: Option<PathBuf>,
    proxy: Option<Proxy>,
    gpgv: PathBuf,
    authorities: Vec<CertificateDer<'static>>,
    manner: Manner,
    silence: Duration,
    clock: SharedClock,
    tls: Arc<OnceCell<Arc<ClientConfig>>>,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("cache", &self.cache).field("offline", &self.offline).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Creates a fetcher with this cache folder, which is created on demand.
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self {
            cache: cache.into(),
            offline: None,
            proxy: None,
            gpgv: GPGV.into(),
            authorities: Vec::new(),
            manner: Manner { attempts: 8, pause: Duration::from_millis(250) },
            silence: Duration::from_secs(30),
            clock: SystemClock::shared(),
            tls: Arc::default(),
        }
    }

    /// Sets a folder that is searched before the network.
    #[must_use]
    pub fn with_offline(mut self, folder: Option<PathBuf>) -> Self {
        self.offline = folder;
        self
    }

    /// Sets the proxy.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Option<Proxy>) -> Self {
        self.proxy = proxy;
        self
    }

    /// Sets the program to verify signatures; the default is the `gpgv` on `PATH`.
    #[must_use]
    pub fn with_gpgv(mut self, program: impl Into<PathBuf>) -> Self {
        self.gpgv = program.into();
        self
    }

    /// Trusts these certificate authorities in addition to the system's.
    #[must_use]
    pub fn with_authorities(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.authorities = authorities;
        // Discard a TLS configuration without the new authorities.
        self.tls = Arc::default();
        self
    }

    /// Sets the retry limits: the attempts in a row without progress, the timeout without data, and the pause after the
    /// first failure.
    #[must_use]
    pub fn with_patience(mut self, attempts: usize, silence: Duration, pause: Duration) -> Self {
        (self.manner, self.silence) = (Manner { attempts, pause }, silence);
        self
    }

    /// Fetches an asset and returns the path of the verified file in the cache.
    ///
    /// # Flow
    /// The file comes from the cache, else from the offline folder (by its name, or the last part of it), else from the
    /// first URL that delivers it. A download resumes where an earlier one ended, also that of another process.
    ///
    /// # Guarantees
    /// The returned file has the expected digest; the digest is checked at every call. Concurrent fetches of one file
    /// wait for each other, also across processes. Dropping the future is safe at any time.
    ///
    /// The signature of a signed asset is checked before the file is searched outside the cache. A wrong signature is
    /// an error. One that cannot be checked is logged as a warning when the file enters the cache, and its digest alone
    /// decides.
    ///
    /// # Errors
    /// See [`Error`]; a later call resumes the download.
    pub async fn fetch(&self, asset: &Asset, progress: impl Fn(Progress) + Send + Sync) -> Result<PathBuf, Error> {
        let name = file_name(&asset.name)?;
        let digest = match &asset.check {
            Check::Sha256(digest) | Check::Signed { pinned: Some(digest), .. } => *digest,
            Check::Published { list, entry }
            | Check::Signed { pinned: None, signed: SignedList { list, .. }, entry } => {
                self.published(list, entry).await?
            }
        };
        let slot = Slot::new(&self.cache, digest, name);
        let look = |slot: &Slot| {
            let slot = slot.clone();
            blocking(move || slot.is_right())
        };
        if look(&slot).await? {
            return Ok(slot.path());
        }
        let lock = slot.lock().await?;
        // Check again: another fetch may have completed the file while this one waited for the lock.
        if look(&slot).await? {
            return Ok(slot.path());
        }
        // A file with this path has the wrong digest, for example after damage of the disk.
        slot.discard()?;
        let signature = match &asset.check {
            Check::Signed { signed, entry, .. } => {
                let expected = ExpectedEntry { name: entry, digest };
                self.check_signature(asset, signed, expected, &slot).await?
            }
            Check::Sha256(_) | Check::Published { .. } => SignatureCheck::Good,
        };
        let path = self.obtain(asset, digest, &slot, &progress).await?;
        drop(lock);
        if let SignatureCheck::Skipped(reason) = signature {
            tracing::warn!(
                file = asset.name,
                reason,
                "the signature was not checked: the SHA-256 digest alone decided"
            );
        }
        Ok(path)
    }

    /// Gets the file from the offline folder or the network. The caller must hold the lock.
    async fn obtain(
        &self,
        asset: &Asset,
        digest: Sha256,
        slot: &Slot,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<PathBuf, Error> {
        let places = self.places(&asset.name);
        let adopting = slot.clone();
        let mistaken = match blocking(move || adopt(&adopting, &places)).await?? {
            Adopted::Taken => return Ok(slot.path()),
            Adopted::Wrong(mistaken) => Some(mistaken),
            Adopted::Absent => None,
        };
        // A wrong file in the offline folder matters only if the download fails as well.
        self.load(asset, digest, slot, progress).await.map_err(|source| match mistaken {
            Some(mistaken) => Error::Mistaken { mistaken, source: Box::new(source) },
            None => source,
        })
    }

    /// Checks the publisher's signature. The caller must hold the lock.
    async fn check_signature(
        &self,
        asset: &Asset,
        signed: &SignedList,
        expected: ExpectedEntry<'_>,
        slot: &Slot,
    ) -> Result<SignatureCheck, Error> {
        // If the archive is in the offline folder, the host has no network or must not use it.
        let places = self.places(&asset.name);
        let is_right = move |place: &PathBuf| digest_of(place).is_ok_and(|found| found == expected.digest);
        let is_offline = blocking(move || places.iter().any(is_right)).await?;
        let files = match self.signed_files(signed, is_offline).await {
            Ok(files) => files,
            // An invalid name is a programming error, not a missing file.
            Err(error @ Error::Invalid(_)) => return Err(error),
            Err(error) => return Ok(SignatureCheck::Skipped(Chain(&error).to_string())),
        };
        let checked = signature::check(&self.gpgv, &slot.scratch(), signed, &files, expected).await;
        checked.map_err(|source| {
            // The cached list may be outdated: remove it, so that the next attempt downloads it again.
            let _ = fs::remove_file(self.kept_list(&signed.list));
            let (name, list) = (asset.name.clone(), signed.list.name.clone());
            Error::Signature { name, list, keys: signed.fingerprints(), source: Box::new(source) }
        })
    }

    /// Gets the files of a signed list. They are not cached, because they are needed only when a file enters the cache.
    async fn signed_files<'s>(&self, signed: &'s SignedList, is_offline: bool) -> Result<SignedFiles<'s>, Error> {
        let SignedList { list, signature, keys } = signed;
        let file = async |file: &PublishedFile| {
            // Without URLs the file can only come from the offline folder.
            let urls = if is_offline { Vec::new() } else { file.urls.clone() };
            self.small_file(&PublishedFile { name: file.name.clone(), urls }).await
        };
        let (signature, list) = (file(signature).await?, file(list).await?);
        let (mut found, mut missing) = (Vec::new(), None);
        for key in keys {
            match file(&key.file).await {
                Ok(content) => found.push((key, content)),
                Err(error) => missing = Some(error),
            }
        }
        match missing {
            // One key is enough; without any key, the signature cannot be checked.
            Some(error) if found.is_empty() || matches!(error, Error::Invalid(_)) => Err(error),
            missing => Ok(SignedFiles { keys: found, has_all_keys: missing.is_none(), signature, list }),
        }
    }

    /// Gets a small file from the offline folder or the network.
    async fn small_file(&self, file: &PublishedFile) -> Result<Vec<u8>, Error> {
        file_name(&file.name)?;
        let is_small = |place: &PathBuf| {
            fs::metadata(place).is_ok_and(|meta| meta.is_file() && meta.len() <= SMALL_FILE_BYTES_MAX as u64)
        };
        let place = self.places(&file.name).into_iter().find(is_small);
        match place.and_then(|place| fs::read(place).ok()) {
            Some(bytes) => Ok(bytes),
            None => self.download_small(file, self.manner.attempts.min(SIGNATURE_ATTEMPTS_MAX), Ok).await,
        }
    }

    /// Downloads the file. The caller must hold the lock.
    async fn load(
        &self,
        asset: &Asset,
        digest: Sha256,
        slot: &Slot,
        progress: &(impl Fn(Progress) + Send + Sync),
    ) -> Result<PathBuf, Error> {
        if asset.urls.is_empty() {
            return Err(Error::NoAddress { name: asset.name.clone() });
        }
        let opening = slot.clone();
        let partial = blocking(move || Partial::open(&opening)).await??;
        let order = Order { name: &asset.name, urls: &asset.urls, digest, bytes: asset.bytes };
        let mut meter = Meter::new(progress, self.clock.clone());
        download(&self.means().await?, &order, self.manner, partial, &mut meter).await
    }

    /// Whether the offline folder contains a file with this name; its digest is not checked.
    pub fn is_offline(&self, name: &str) -> bool {
        file_name(name).is_ok() && self.places(name).iter().any(|place| place.is_file())
    }

    /// The paths in the offline folder that match this name.
    fn places(&self, name: &str) -> Vec<PathBuf> {
        let Some(folder) = &self.offline else { return Vec::new() };
        let last = Path::new(name).file_name().map(|last| folder.join(last));
        let mut places = vec![folder.join(name)];
        places.extend(last.filter(|last| *last != places[0]));
        places
    }

    /// The digest of an entry in a publisher's list. Lists of releases do not change, so a list that has the entry is
    /// cached.
    async fn published(&self, list: &PublishedFile, entry: &str) -> Result<Sha256, Error> {
        file_name(&list.name)?;
        let kept = self.kept_list(list);
        let places = [kept.clone()].into_iter().chain(self.places(&list.name));
        for place in places {
            let text = fs::read(&place).unwrap_or_default();
            if let Some(digest) = find_in_list(&String::from_utf8_lossy(&text), entry) {
                return Ok(digest);
            }
        }
        let read = |bytes| String::from_utf8(bytes).map_err(|_| Failure::List);
        let text = self.download_small(list, self.manner.attempts, read).await?;
        let not_listed = || Error::NotListed { list: list.name.clone(), entry: entry.to_owned() };
        let digest = find_in_list(&text, entry).ok_or_else(not_listed)?;
        self.keep(&kept, &text)?;
        Ok(digest)
    }

    /// The path of a cached list.
    fn kept_list(&self, list: &PublishedFile) -> PathBuf {
        let key = Sha256::of(list.urls.first().unwrap_or(&list.name).as_bytes());
        self.cache.join("lists").join(key.to_string())
    }

    fn keep(&self, path: &Path, text: &str) -> Result<(), Error> {
        let failed =
            |error: durable::Error| Error::Cache { action: error.action, path: error.path, source: error.source };
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            durable::create_dir_private(folder).map_err(failed)?;
        }
        durable::write_atomic(path, text.as_bytes(), durable::PRIVATE).map_err(failed)
    }

    /// Downloads and parses a small file.
    async fn download_small<T>(
        &self,
        file: &PublishedFile,
        attempts: usize,
        read: impl Fn(Vec<u8>) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let means = self.means().await?;
        let mut last = None;
        for failures in 1..=attempts {
            let mut is_worth_it = false;
            for url in &file.urls {
                match self.small_file_at(&means, url).await.and_then(&read) {
                    Ok(content) => return Ok(content),
                    Err(failure) => {
                        is_worth_it |= failure.is_transient();
                        last = Some((url, failure));
                    }
                }
            }
            // Retry only if at least one URL failed with a transient error.
            if !is_worth_it || failures == attempts {
                break;
            }
            tokio::time::sleep(self.manner.pause_after(failures)).await;
        }
        Err(match last {
            Some((url, source)) => Error::Download { name: file.name.clone(), url: without_secrets(url), source },
            None => Error::NoAddress { name: file.name.clone() },
        })
    }

    async fn small_file_at(&self, means: &Means, url: &str) -> Result<Vec<u8>, Failure> {
        let mut answer = get(means, url, &Wanted::default()).await?;
        let status = answer.response.status().as_u16();
        if status != 200 {
            return Err(Failure::Status(status));
        }
        let body = Limited::new(answer.response.body_mut(), SMALL_FILE_BYTES_MAX).collect();
        let silence = Failure::Silence { seconds: self.silence.as_secs() };
        let body = timeout(self.silence, body).await.map_err(|_| silence)?;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(source) => Failure::Talk { host: answer.host.clone(), source: *source },
            // The only other error of `Limited` is its length limit.
            Err(_) => Failure::TooLong { limit: SMALL_FILE_BYTES_MAX },
        })?;
        Ok(body.to_bytes().to_vec())
    }

    async fn means(&self) -> Result<Means, Error> {
        let authorities = self.authorities.clone();
        let make = || async { blocking(move || Arc::new(tls(authorities))).await };
        let tls = self.tls.get_or_try_init(make).await?.clone();
        Ok(Means { tls, proxy: self.proxy.clone(), silence: self.silence })
    }
}

fn tls(authorities: Vec<CertificateDer<'static>>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    // Unreadable certificates are skipped; servers that need them are refused with an error of their own.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(authorities);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.expect("ring has the default versions").with_root_certificates(roots).with_no_client_auth()
}

/// Adopts the first of these files with the right digest. If there is none, returns the first wrong one.
fn adopt(slot: &Slot, places: &[PathBuf]) -> Result<Adopted, Error> {
    let mut wrong = Adopted::Absent;
    for place in places {
        match slot.adopt(place)? {
            Adopted::Taken => return Ok(Adopted::Taken),
            Adopted::Absent => {}
            one @ Adopted::Wrong(_) if wrong == Adopted::Absent => wrong = one,
            Adopted::Wrong(_) => {}
        }
    }
    Ok(wrong)
}

/// Runs file operations on a blocking thread.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(act).await.map_err(|_| Error::Ended)
}
