//! The user's Docker `config.json`: reads the current context and changes only that value, in place.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rdd_stdx::owned;

use super::{
    json::{NotAnObject, Object},
    replace::{self, Original},
};

/// The key of the current context.
const KEY: &str = "currentContext";
/// The maximum size of a file that docker could have written.
const BYTES_MAX: u64 = 4 << 20;
/// How many concurrent writes of other programs to tolerate before giving up.
const ATTEMPTS: usize = 20;

/// Why the file is left unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// The file could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The path is a folder, a pipe or the like, or a dangling link.
    #[error("{} is {what}", path.display())]
    Irregular {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The file is not a valid Docker configuration.
    #[error("{} cannot be understood", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parse error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The current context is ambiguous.
    #[error("{} {what}", path.display())]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// The file is read-only.
    #[error("{} is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// The file could not be written or locked.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: replace::Error,
    },
    /// Another program keeps writing the file.
    #[error("{} is written by somebody else over and over", .0.display())]
    Busy(PathBuf),
}

/// The file as it was read.
#[derive(Debug)]
pub(super) struct Config {
    path: PathBuf,
    /// The content; `None` if there is no file.
    original: Option<Original>,
}

impl Config {
    /// Reads the file and follows links. A missing file is accepted; a file of another user is refused.
    pub(super) fn read(path: &Path) -> Result<Self, Doubt> {
        let failed = |source| Doubt::Read { path: path.to_owned(), source };
        if let Ok(meta) = fs::symlink_metadata(path)
            && meta.is_symlink()
        {
            // The user may keep the file elsewhere. Following another user's link would make root write wherever that user likes.
            owned::check_link(path, &meta).map_err(failed)?;
        }
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return match fs::symlink_metadata(path) {
                    Ok(_) => Err(Doubt::Irregular { path: path.to_owned(), what: "a link to nothing" }),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        Ok(Self { path: path.to_owned(), original: None })
                    }
                    Err(error) => Err(failed(error)),
                };
            }
            Err(error) => return Err(failed(error)),
        };
        let meta = fs::metadata(&target).map_err(failed)?;
        if !meta.is_file() {
            return Err(Doubt::Irregular { path: path.to_owned(), what: "not a file" });
        }
        if meta.len() > BYTES_MAX {
            return Err(Doubt::Irregular { path: path.to_owned(), what: "far too long" });
        }
        let original = Original::read(&target).map_err(failed)?;
        Ok(Self { path: target, original: Some(original) })
    }

    /// The name of the current context; empty if there is none.
    pub(super) fn current(&self) -> Result<String, Doubt> {
        let Some(object) = self.object()? else { return Ok(String::new()) };
        let ambiguous = |what| Doubt::Ambiguous { path: self.path.clone(), what };
        match object.find(KEY).as_slice() {
            [] => Ok(String::new()),
            [member] => match serde_json::from_slice::<Option<String>>(object.value(member)) {
                Ok(name) => Ok(name.unwrap_or_default()),
                Err(_) => Err(ambiguous("names a current context that is not a text")),
            },
            _ => Err(ambiguous("names a current context more than once")),
        }
    }

    /// The JSON object in the file; `None` where docker treats the file as empty.
    fn object(&self) -> Result<Option<Object<'_>>, Doubt> {
        let Some(original) = self.original.as_ref().filter(|original| !original.content.trim_ascii().is_empty()) else {
            return Ok(None);
        };
        let malformed = |error: NotAnObject| Doubt::Malformed { path: self.path.clone(), source: error.into() };
        Object::parse(&original.content).map(Some).map_err(malformed)
    }

    /// The file content with this current context, or without one; `None` if no file is needed.
    fn naming(&self, name: Option<&str>) -> Result<Option<Vec<u8>>, Doubt> {
        let object = self.object()?;
        let value = name.map(quoted);
        let Some(object) = object else { return Ok(value.map(|value| fresh(&value))) };
        let found = object.find(KEY);
        Ok(Some(match (found.first(), value) {
            (Some(member), Some(value)) => object.replaced(member, &value),
            (None, Some(value)) => object.inserted(KEY, &value),
            (Some(member), None) => {
                let text = object.removed(member);
                // If we created the file only for this value, remove the whole file.
                if self.content() == fresh(&String::from_utf8_lossy(object.value(member))) {
                    return Ok(None);
                }
                text
            }
            (None, None) => self.content().to_vec(),
        }))
    }

    fn content(&self) -> &[u8] {
        self.original.as_ref().map_or(&[], |original| &original.content)
    }

    fn refuse_read_only(&self) -> Result<(), Doubt> {
        let is_locked = |original: &Original| original.meta.permissions().mode() & 0o200 == 0;
        if self.original.as_ref().is_some_and(is_locked) {
            return Err(Doubt::ReadOnly(self.path.clone()));
        }
        Ok(())
    }
}

/// Changes the current context from `from` to `to`, or to none; returns false if `from` is not current.
///
/// Every other byte of the file stays the same, and so do its mode and owner. Readers see the old file or the new one. A
/// concurrent write by docker or an editor is never lost: the function reads the file again and retries.
pub(super) fn switch(path: &Path, from: &str, to: Option<&str>) -> Result<bool, Doubt> {
    for _ in 0..ATTEMPTS {
        let config = Config::read(path)?;
        if config.current()? != from {
            return Ok(false);
        }
        let text = config.naming(to)?;
        // Already correct: a write would only change the file times.
        if text.as_deref() == config.original.as_ref().map(|original| original.content.as_slice()) {
            return Ok(true);
        }
        config.refuse_read_only()?;
        let done = match (&config.original, &text) {
            (Some(original), Some(text)) => replace::exchange(&config.path, original, text),
            (Some(original), None) => replace::remove(&config.path, original),
            (None, Some(text)) => replace::create(&config.path, text),
            (None, None) => Ok(true),
        };
        if done.map_err(|source| Doubt::Write { path: config.path.clone(), source })? {
            return Ok(true);
        }
    }
    Err(Doubt::Busy(path.to_owned()))
}

/// The content of a file that we create. Docker's own files do not end in a newline, which identifies ours.
fn fresh(value: &str) -> Vec<u8> {
    format!("{{\n\t\"{KEY}\": {value}\n}}\n").into_bytes()
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
