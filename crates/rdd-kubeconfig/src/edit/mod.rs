//! One change to the text of a kubeconfig: what it does not concern keeps every byte, and what is not certain is refused.

mod fragment;
mod model;
mod splice;
mod step;
mod tree;

use serde_json::Value;

use self::tree::Tree;

/// What is larger is no kubeconfig, and not worth the memory.
pub const BYTES_MAX: usize = 16 << 20;

/// The lists of a kubeconfig whose entries have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// Servers.
    Clusters,
    /// Credentials.
    Users,
    /// Pairs of both.
    Contexts,
}

impl List {
    /// All of them, in the order in which they can be written so that nothing refers to what is not there yet.
    pub const ALL: [Self; 3] = [Self::Clusters, Self::Users, Self::Contexts];

    /// The key of the list in the file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::Users => "users",
            Self::Contexts => "contexts",
        }
    }

    /// The key under which an entry has its fields, beside its `name`.
    pub const fn inner(self) -> &'static str {
        match self {
            Self::Clusters => "cluster",
            Self::Users => "user",
            Self::Contexts => "context",
        }
    }
}

/// Which fields of an entry stay that are not said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// All of them.
    Keep,
    /// These.
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

/// One change.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// The entry of this name has these fields. It is made if it is not there; of several with the name one remains.
    Put {
        /// Where.
        list: List,
        /// Which.
        name: String,
        /// Field and text.
        fields: Vec<(&'static str, String)>,
        /// What becomes of its other fields.
        others: Others,
    },
    /// No entry has this name.
    Remove {
        /// Where.
        list: List,
        /// Which.
        name: String,
    },
    /// `current-context` is this; empty means none.
    SetCurrent(String),
}

impl std::fmt::Debug for Change {
    /// Without the fields, which are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Put { list, name, .. } => write!(f, "Put({list:?}, {name:?})"),
            Self::Remove { list, name } => write!(f, "Remove({list:?}, {name:?})"),
            Self::SetCurrent(name) => write!(f, "SetCurrent({name:?})"),
        }
    }
}

/// Why a text is left alone. Neither part quotes a value of it: the file is full of secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Refused {
    /// The line, from 1.
    pub line: usize,
    /// What is in the way.
    pub why: String,
}

impl Refused {
    fn at(text: &str, offset: usize, why: impl Into<String>) -> Self {
        let before = text.as_bytes().iter().take(offset);
        Self { line: 1 + before.filter(|byte| **byte == b'\n').count(), why: why.into() }
    }
}

/// The text with the change made. A text in which it is made already is returned as it is.
///
/// Guaranteed, because the result is read again and compared: as values, old and new text differ in what the change says
/// and in nothing else. Lines that the change does not concern are the same, byte by byte, comments, order, anchors,
/// quoting, line ends and a missing last one included.
///
/// Refused is what cannot be changed with certainty: malformed text, several documents, keys that are there twice or come
/// from elsewhere by an alias, an anchor in what has to go that others refer to.
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
    if expected.is_none() || value_of(&edited).ok() != expected {
        return Err(Refused {
            line: 1,
            why: "it cannot be changed without changing more than was asked for".to_owned(),
        });
    }
    Ok(format!("{mark}{edited}"))
}

/// The document as a value. [`Tree::parse`] tells what is wrong with it better than the reader does.
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
    // Each step makes one part of the change; more than these are never needed but for many entries of one name.
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
