//! Makes one change to the text of a kubeconfig: unrelated text keeps every byte, and uncertain changes are rejected.

mod fragment;
mod model;
mod splice;
mod step;
mod tree;

use serde_json::Value;

use self::tree::Tree;

/// The maximum size of a kubeconfig. A larger file is not one.
pub const BYTES_MAX: usize = 16 << 20;

/// The lists of a kubeconfig that have named entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// Servers.
    Clusters,
    /// Credentials.
    Users,
    /// Pairs of a cluster and a user.
    Contexts,
}

impl List {
    /// All lists, in an order of writing in which no entry refers to one that does not exist yet.
    pub const ALL: [Self; 3] = [Self::Clusters, Self::Users, Self::Contexts];

    /// The key of the list in the file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Users => "users",
            Self::Contexts => "contexts",
        }
    }

    /// The key of an entry's fields, beside its `name`.
    pub const fn inner(self) -> &'static str {
        match self {
            Self::Clusters => "cluster",
            Self::Users => "user",
            Self::Contexts => "context",
        }
    }
}

/// What happens to the fields of an entry that a change does not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// All are kept.
    Keep,
    /// Only these are kept; the others are removed.
    KeepOnly(&'static [&'static str]),
}

impl Others {
    fn keeps(self, field: &str) -> bool {
        match self {
            Self::Keep => true,
            Self::KeepOnly(kept) => kept.contains(&field),
        }
    }
}

/// One change to a kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// Creates or updates the entry with this name, so that it has these fields. Of several entries with the name one
    /// remains.
    Put {
        /// The list.
        list: List,
        /// The name of the entry.
        name: String,
        /// The fields and their values.
        fields: Vec<(&'static str, String)>,
        /// What happens to the other fields of the entry.
        others: Others,
    },
    /// Removes all entries with this name.
    Remove {
        /// The list.
        list: List,
        /// The name of the entries.
        name: String,
    },
    /// Sets `current-context`; empty means none.
    SetCurrent(String),
}

impl std::fmt::Debug for Change {
    /// Leaves out the fields, which are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { list, name, .. } => write!(f, "Put({list:?}, {name:?})"),
            Self::Remove { list, name } => write!(f, "Remove({list:?}, {name:?})"),
            Self::SetCurrent(name) => write!(f, "SetCurrent({name:?})"),
        }
    }
}

/// Why a text was not changed. Neither field quotes values of the text, since the file contains secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Refused {
    /// The line number, from 1.
    pub line: usize,
    /// The reason.
    pub why: String,
}

impl Refused {
    fn at(text: &str, offset: usize, why: impl Into<String>) -> Self {
        let before = text.as_bytes().iter().take(offset);
        Self { line: 1 + before.filter(|byte| **byte == b'\n').count(), why: why.into() }
    }
}

/// Applies a change to a text. Returns the text unchanged if it already is as the change wants it.
///
/// # Guarantees
/// The function parses its result and compares it with the expected value. So as values, the old and the new text
/// differ only in what the change describes. Lines that the change does not concern stay the same, byte by byte,
/// including comments, order, anchors, quoting, line endings and a missing last one.
///
/// # Errors
/// When the text cannot be changed with certainty: it is malformed or has several documents, a key is duplicated or
/// comes from elsewhere through an alias, or a removed part has an anchor that other parts refer to.
pub fn edit(text: &str, change: &Change) -> Result<String, Refused> {
    let (mark, body) = match text.strip_prefix('\u{feff}') {
        Some(body) => ("\u{feff}", body),
        None => ("", text),
    };
    let before = value_of(body)?;
    let expected = model::apply(&before, change);
    if expected.as_ref() == Some(&before) {
        return Ok(text.to_owned());
    }
    let edited = take_steps(body, change)?;
    // The result must parse to exactly the expected value; otherwise the edit touched something else.
    if expected.is_none() || value_of(&edited).ok() != expected {
        return Err(Refused {
            line: 1,
            why: "it cannot be changed without changing more than was asked for".to_owned(),
        });
    }
    Ok(format!("{mark}{edited}"))
}

/// Parses the document into a value. [`Tree::parse`] comes first because its errors are better than the reader's.
pub(crate) fn value_of(text: &str) -> Result<Value, Refused> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > BYTES_MAX {
        return Err(Refused { line: 1, why: format!("it is larger than {BYTES_MAX} bytes") });
    }
    Tree::parse(text)?;
    let read = rdd_yaml::read(text).map_err(|error| {
        let words = error.to_string();
        let line = words.split_once("line ").and_then(|(_, rest)| rest.split(':').next()?.parse().ok());
        Refused { line: line.unwrap_or(1), why: "a value cannot be read".to_owned() }
    })?;
    Ok(read.value)
}

fn take_steps(text: &str, change: &Change) -> Result<String, Refused> {
    // Each step makes one part of the change. Only many duplicates of one entry need more steps than this.
    const STEPS_MAX: usize = 64;
    let mut text = text.to_owned();
    for _ in 0..STEPS_MAX {
        let tree = Tree::parse(&text)?;
        let value = value_of(&text)?;
        match step::next(&step::Seen { text: &text, tree: &tree, value: &value }, change)? {
            Some(splices) => text = splice::apply(&text, splices),
            None => return Ok(text),
        }
    }
    Err(Refused { line: 1, why: "it would take too many changes".to_owned() })
}

#[cfg(test)]
mod tests;
