//! Merges several kubeconfigs into one configuration.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{fields::normalize, files::ConfigFiles};
use crate::edit::{BYTES_MAX, List, value_of};

/// Why kubeconfigs cannot be loaded. Messages name files and fields and quote no values, since the files contain
/// secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The explicit file does not exist.
    #[error("stat {}: no such file or directory", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// Files cannot be read or are not kubeconfigs. One message per file.
    #[error("{}", aggregate(.0))]
    Files(Vec<String>),
}

/// Joins several errors like Go's `errors.Aggregate`.
fn aggregate(errors: &[String]) -> String {
    match errors {
        [error] => error.clone(),
        errors => format!("[{}]", errors.join(", ")),
    }
}

/// An entry of a list, with the file that it comes from.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The fields that are not zero; their types are checked.
    pub fields: Map<String, Value>,
    /// The path of the file.
    pub origin: PathBuf,
}

impl std::fmt::Debug for ConfigEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The fields may be secrets.
        write!(f, "ConfigEntry({})", self.origin.display())
    }
}

impl ConfigEntry {
    /// The string value of a field; `None` if it is absent or empty.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.fields.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
    }
}

/// The result of merging several kubeconfigs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MergedConfig {
    /// The cluster entries, by name.
    pub clusters: BTreeMap<String, ConfigEntry>,
    /// The user entries, by name.
    pub users: BTreeMap<String, ConfigEntry>,
    /// The context entries, by name.
    pub contexts: BTreeMap<String, ConfigEntry>,
    /// The context to use by default; empty if there is none.
    pub current_context: String,
    /// The files of the list that do not exist.
    pub missing: Vec<PathBuf>,
    /// Whether at least one file was read.
    pub is_any_read: bool,
}

impl MergedConfig {
    /// Loads and merges the files by client-go's rules.
    ///
    /// # Guarantees
    /// The first file with an entry of a name provides the whole entry; entries are not mixed. The first file with a
    /// `current-context` determines it.
    ///
    /// # Errors
    /// When a file cannot be read or parsed, or an explicit file is missing. A missing file of the list is not an
    /// error.
    pub fn load(files: &ConfigFiles) -> Result<Self, LoadError> {
        if let Some(path) = files.explicit().filter(|path| !path.exists()) {
            return Err(LoadError::Missing { path: path.to_owned() });
        }
        let (mut merged, mut problems) = (Self::default(), Vec::new());
        for path in files.precedence() {
            match read(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => merged.missing.push(path.clone()),
                Err(error) => problems.push(failed(path, &error.to_string())),
                Ok(text) => match Self::parse(&text, path) {
                    Ok(one) => merged.add(one),
                    Err(why) => problems.push(failed(path, &why)),
                },
            }
        }
        if problems.is_empty() { Ok(merged) } else { Err(LoadError::Files(problems)) }
    }

    /// The entries of a list, by name.
    pub fn entries(&self, list: List) -> &BTreeMap<String, ConfigEntry> {
        match list {
            List::Clusters => &self.clusters,
            List::Users => &self.users,
            List::Contexts => &self.contexts,
        }
    }

    fn add(&mut self, other: Self) {
        let keep_first = |mine: &mut BTreeMap<String, ConfigEntry>, theirs: BTreeMap<String, ConfigEntry>| {
            for (name, entry) in theirs {
                mine.entry(name).or_insert(entry);
            }
        };
        keep_first(&mut self.clusters, other.clusters);
        keep_first(&mut self.users, other.users);
        keep_first(&mut self.contexts, other.contexts);
        if self.current_context.is_empty() {
            self.current_context = other.current_context;
        }
        self.is_any_read = true;
    }

    /// Parses one file. Relative paths in it are relative to the folder of `origin`.
    pub(super) fn parse(text: &str, origin: &Path) -> Result<Self, String> {
        let value = value_of(text).map_err(|refused| refused.to_string())?;
        let mut config = Self::default();
        if value.is_null() {
            return Ok(config);
        }
        let root = value.as_object().ok_or("it must be a mapping")?;
        let is = |field: &str, wanted: &str| match root.get(field) {
            None | Some(Value::Null) => true,
            Some(value) => matches!(value.as_str(), Some(text) if text.is_empty() || text == wanted),
        };
        if !is("kind", "Config") || !is("apiVersion", "v1") {
            return Err("it is not a Config of v1".to_owned());
        }
        match root.get("current-context") {
            None | Some(Value::Null) => {}
            Some(Value::String(name)) => config.current_context.clone_from(name),
            Some(_) => return Err("current-context must be a string".to_owned()),
        }
        config.clusters = read_list(List::Clusters, root, origin)?;
        config.users = read_list(List::Users, root, origin)?;
        config.contexts = read_list(List::Contexts, root, origin)?;
        Ok(config)
    }
}

fn failed(path: &Path, why: &str) -> String {
    format!("error loading config file \"{}\": {why}", path.display())
}

/// A kubeconfig may be a pipe (`--kubeconfig <(…)`), so it need not be a regular file.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

fn read_list(list: List, root: &Map<String, Value>, origin: &Path) -> Result<BTreeMap<String, ConfigEntry>, String> {
    let key = list.key();
    let empty = Vec::new();
    let items = match root.get(key) {
        None | Some(Value::Null) => &empty,
        Some(Value::Array(items)) => items,
        Some(_) => return Err(format!("{key} must be a list")),
    };
    let mut entries = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        let place = format!("{key}[{at}]");
        let item = item.as_object().ok_or_else(|| format!("{place} must be a mapping"))?;
        let name = match item.get("name") {
            None | Some(Value::Null) => "",
            Some(name) => name.as_str().ok_or_else(|| format!("{place}.name must be a string"))?,
        };
        let inner = item.get(list.inner()).unwrap_or(&Value::Null);
        let fields = normalize(list, inner, &format!("{place}.{}", list.inner()))?;
        let entry = ConfigEntry { fields, origin: origin.to_owned() };
        if entries.insert(name.to_owned(), entry).is_some() {
            return Err(format!("{key} has two entries with the name {name:?}"));
        }
    }
    Ok(entries)
}
