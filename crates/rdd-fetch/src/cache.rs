//! The cache of fetched files by digest: complete files, partial downloads, and a lock for each file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rdd_stdx::file::{self as durable, PRIVATE};

use crate::{
    digest::{Hasher, Sha256},
    error::{Error, Mistaken},
};

const PAUSE: Duration = Duration::from_millis(20);

/// The place of one file in the cache. The path contains the digest, so that two versions never share it.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    folder: PathBuf,
    name: String,
    digest: Sha256,
}

/// The result of adopting a file from another place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Adopted {
    /// The file is now in the cache.
    Taken,
    /// There is no such file.
    Absent,
    /// The file has another digest.
    Wrong(Mistaken),
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Cache { action, path: path.to_owned(), source }
}

impl Slot {
    pub(crate) fn new(cache: &Path, digest: Sha256, name: &str) -> Self {
        Self { folder: cache.join("sha256").join(digest.to_string()), name: name.to_owned(), digest }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    fn partial(&self) -> PathBuf {
        self.folder.join(format!(".{}.partial", self.name))
    }

    /// The path prefix of temporary files that a fetch of this file needs. The caller must hold the lock.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join(format!(".{}", self.name))
    }

    /// Locks the file against other fetches, also in other processes. Dropping the handle or ending the process unlocks
    /// it.
    pub(crate) async fn lock(&self) -> Result<File, Error> {
        if !self.folder.exists() {
            let made = durable::create_dir_private(&self.folder);
            made.map_err(|error| Error::Cache { action: error.action, path: error.path, source: error.source })?;
        }
        let path = self.folder.join(".lock");
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(PRIVATE).open(&path);
        let file = open.map_err(failed("lock", &path))?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                // Wait without a timeout: the other fetch has timeouts, and it fetches the same file.
                Err(TryLockError::WouldBlock) => tokio::time::sleep(PAUSE).await,
                Err(TryLockError::Error(source)) => return Err(failed("lock", &path)(source)),
            }
        }
    }

    /// Whether the file exists and has the right digest.
    pub(crate) fn is_right(&self) -> bool {
        digest_of(&self.path()).is_ok_and(|found| found == self.digest)
    }

    /// Removes a file with a wrong digest. The caller must hold the lock.
    pub(crate) fn discard(&self) -> Result<(), Error> {
        durable::remove_if_present(&self.path()).map_err(|error| failed("remove", &self.path())(error.source))
    }

    /// A unique path for a copy. It also removes older copies: one whose fetch was dropped may still be written, and
    /// without its path it cannot be renamed into place.
    fn copy_path(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let prefix = format!(".{}.copy-", self.name);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(entry.path());
            }
        }
        self.folder.join(format!("{prefix}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Copies a file from another place into the cache, if its digest is right.
    pub(crate) fn adopt(&self, from: &Path) -> Result<Adopted, Error> {
        // An unreadable file counts as absent: the network may have it.
        let Ok(mut source) = File::open(from) else { return Ok(Adopted::Absent) };
        if !source.metadata().is_ok_and(|meta| meta.is_file()) {
            return Ok(Adopted::Absent);
        }
        let path = self.copy_path();
        let write = failed("write", &path);
        // The digest is computed over the copied bytes, so the file cannot change between check and copy.
        let copied = (|| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&path)?;
            let mut hasher = Hasher::new();
            let mut buffer = vec![0; 256 << 10];
            loop {
                let count = source.read(&mut buffer)?;
                if count == 0 {
                    break;
                }
                hasher.update(&buffer[..count]);
                file.write_all(&buffer[..count])?;
            }
            let found = hasher.finish();
            if found != self.digest {
                fs::remove_file(&path)?;
                return Ok(Adopted::Wrong(Mistaken { path: from.to_owned(), found, expected: self.digest }));
            }
            file.sync_all()?;
            fs::rename(&path, self.path())?;
            Ok(Adopted::Taken)
        })();
        copied.map_err(write)
    }
}

/// The digest of a file.
pub(crate) fn digest_of(path: &Path) -> io::Result<Sha256> {
    let mut hasher = Hasher::new();
    hash(&mut File::open(path)?, &mut hasher)?;
    Ok(hasher.finish())
}

fn hash(file: &mut File, hasher: &mut Hasher) -> io::Result<u64> {
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(length);
        }
        hasher.update(&buffer[..count]);
        length += count as u64;
    }
}

/// A partial download. After a crash at any moment it is a prefix of the file, or its digest shows that it is not.
pub(crate) struct Partial {
    slot: Slot,
    file: File,
    hasher: Hasher,
    pub(crate) length: u64,
    /// Whether it consists of parts from several responses.
    pub(crate) is_pieced: bool,
    /// The URL it came from and the validator of the file there.
    pub(crate) origin: Option<(String, String)>,
}

impl Partial {
    /// Opens the partial download, empty or continued. The caller must hold the lock.
    pub(crate) fn open(slot: &Slot) -> Result<Self, Error> {
        let path = slot.partial();
        let opened = (|| {
            let mut options = OpenOptions::new();
            let mut file = options.read(true).write(true).create(true).truncate(false).mode(PRIVATE).open(&path)?;
            let mut hasher = Hasher::new();
            // Hashing also moves the position to the end, where new data is appended.
            let length = hash(&mut file, &mut hasher)?;
            let origin = fs::read_to_string(origin_path(&path)).unwrap_or_default();
            let origin = origin.split_once('\n').map(|(url, validator)| (url.to_owned(), validator.to_owned()));
            Ok(Self { slot: slot.clone(), file, hasher, length, is_pieced: length > 0, origin })
        })();
        opened.map_err(failed("open", &path))
    }

    /// Truncates it to start over.
    pub(crate) fn restart(&mut self) -> Result<(), Error> {
        let restarted = self.file.set_len(0).and_then(|()| self.file.rewind());
        (self.hasher, self.length, self.is_pieced) = (Hasher::new(), 0, false);
        restarted.map_err(failed("truncate", &self.slot.partial()))
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Err(source) = self.file.write_all(bytes) {
            // Part of the data may have been written; truncate, because the length does not include it.
            let _ = self.file.set_len(self.length);
            return Err(failed("write", &self.slot.partial())(source));
        }
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Records the origin, so that a later range request is conditional on the same version of the file.
    pub(crate) fn came_from(&mut self, url: &str, validator: &str) {
        let origin = (url.to_owned(), validator.to_owned());
        if self.origin.as_ref() != Some(&origin) {
            // If this fails, a mixed file is still detected by its digest.
            let text = format!("{url}\n{validator}");
            let _ = durable::write_atomic(&origin_path(&self.slot.partial()), text.as_bytes(), PRIVATE);
            self.origin = Some(origin);
        }
    }

    pub(crate) fn digest(&self) -> Sha256 {
        self.hasher.clone().finish()
    }

    /// Renames the file to its final name. The caller must have checked the digest.
    pub(crate) fn commit(self) -> Result<PathBuf, Error> {
        let (partial, path) = (self.slot.partial(), self.slot.path());
        self.file.sync_all().and_then(|()| fs::rename(&partial, &path)).map_err(failed("write", &path))?;
        durable::sync_dir(&self.slot.folder).map_err(|error| failed("write", &path)(error.source))?;
        let _ = fs::remove_file(origin_path(&partial));
        Ok(path)
    }
}

fn origin_path(partial: &Path) -> PathBuf {
    partial.with_extension("partial-from")
}
