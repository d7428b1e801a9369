//! The user's `config.json`: which context it names as the current one, and that one value changed in place.

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

/// The key of the context that docker uses when nothing else says which.
const KEY: &str = "currentContext";
/// A longer file is none that docker wrote.
const BYTES_MAX: u64 = 4 << 20;
/// How often somebody else may write the file while we do before we give up.
const ATTEMPTS: usize = 20;

/// Why the file is left as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// It could not be read.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// It is a folder, a pipe or the like, or a link to nothing.
    #[error("{} is {what}", path.display())]
    Irregular {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It is not what docker takes for its configuration.
    #[error("{} cannot be understood", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Its current context could mean one thing or another.
    #[error("{} {what}", path.display())]
    Ambiguous {
        /// The file.
        path: PathBuf,
        /// How.
        what: &'static str,
    },
    /// Its owner does not want it changed.
    #[error("{} is read-only", .0.display())]
    ReadOnly(PathBuf),
    /// It could not be written, or nobody could be kept from writing it.
    #[error("write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: replace::Error,
    },
    /// Somebody else writes it all the time.
    #[error("{} is written by somebody else over and over", .0.display())]
    Busy(PathBuf),
}

/// What the file says.
#[derive(Debug)]
pub(super) struct Config {
    path: PathBuf,
    /// Nothing, if there is no file.
    original: Option<Original>,
}

impl Config {
    /// Reads it. That there is none is fine; links are followed. A file of another user is refused.
    pub(super) fn read(path: &Path) -> Result<Self, Doubt> {
        let failed = |source| Doubt::Read { path: path.to_owned(), source };
        if let Ok(meta) = fs::symlink_metadata(path)
            && meta.is_symlink()
        {
            // The user may keep the file elsewhere. A link of another user would have root write where they like.
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

    /// The name of the current context; empty if none is named.
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

    /// The object in it; nothing where docker takes the file for empty.
    fn object(&self) -> Result<Option<Object<'_>>, Doubt> {
        let Some(original) = self.original.as_ref().filter(|original| !original.content.trim_ascii().is_empty()) else {
            return Ok(None);
        };
        let malformed = |error: NotAnObject| Doubt::Malformed { path: self.path.clone(), source: error.into() };
        Object::parse(&original.content).map(Some).map_err(malformed)
    }

    /// The text that names this context, or none; nothing if there is no need for a file.
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
                // What we wrote for want of a file goes with it.
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

/// Makes `to` the current context, or none, if `from` is it now; says whether it did.
///
/// Every other byte of the file stays as it is, and so do its mode and its owner. A reader sees the old file or the new one; what docker
/// or an editor writes at the same time is never lost: it is looked at again instead.
pub(super) fn switch(path: &Path, from: &str, to: Option<&str>) -> Result<bool, Doubt> {
    for _ in 0..ATTEMPTS {
        let config = Config::read(path)?;
        if config.current()? != from {
            return Ok(false);
        }
        let text = config.naming(to)?;
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

/// A file of our own, where there was none. Docker's own files do not end in a new line, which is how we know ours again.
fn fresh(value: &str) -> Vec<u8> {
    format!("{{\n\t\"{KEY}\": {value}\n}}\n").into_bytes()
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
