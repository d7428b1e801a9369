//! What is wanted.

use std::path::{Component, Path};

use crate::{digest::Sha256, openpgp::KeyFingerprint};

/// A file that somebody publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// What it is called, in messages and in the offline folder: a relative path such as `v1.33.4+k3s1/k3s`.
    pub name: String,
    /// Where it can be downloaded, in the order in which that is tried.
    pub urls: Vec<String>,
    /// How it is known to be right.
    pub check: Check,
    /// How long it is, if that is known.
    pub bytes: Option<u64>,
}

/// How a file is known to be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// It has this digest.
    Sha256(Sha256),
    /// It has the digest that its publisher's list has for an entry.
    Published {
        /// The list, as `sha256sum` writes it.
        list: PublishedFile,
        /// The name in the list.
        entry: String,
    },
    /// It has the digest of an entry of a list that its publisher signed. Where the signature cannot be checked (without gpgv, or
    /// without one of the three files) the digest decides alone, with a warning.
    Signed {
        /// The digest that the entry has to have as well. Without it the one in the list decides.
        pinned: Option<Sha256>,
        /// The list and who signed it.
        signed: SignedList,
        /// The name in the list.
        entry: String,
    },
}

/// A small file that a publisher has beside a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedFile {
    /// As [`Asset::name`].
    pub name: String,
    /// As [`Asset::urls`].
    pub urls: Vec<String>,
}

/// A list of digests with the OpenPGP signature of its publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedList {
    /// The list, as `sha256sum` writes it.
    pub list: PublishedFile,
    /// Its detached signature.
    pub signature: PublishedFile,
    /// The keys that may have made the signature; one is enough.
    pub keys: Vec<SigningKey>,
}

/// A key whose signatures count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// A file that holds the key, armored or not, among others or alone.
    pub file: PublishedFile,
    /// The full fingerprint. It decides, wherever the file came from.
    pub fingerprint: KeyFingerprint,
}

impl SignedList {
    /// The fingerprints of the keys, for messages.
    pub(crate) fn fingerprints(&self) -> String {
        let all: Vec<String> = self.keys.iter().map(|key| key.fingerprint.to_string()).collect();
        all.join(" or ")
    }
}

/// A name that cannot be that of a file below a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the name of a file to fetch")]
pub struct InvalidAsset(pub String);

/// The last part of a name, if all of it stays below the folder it is put into.
pub(crate) fn file_name(name: &str) -> Result<&str, InvalidAsset> {
    let path = Path::new(name);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    let last = path.file_name().and_then(|last| last.to_str()).filter(|last| !last.starts_with('.'));
    match last {
        Some(last) if is_below && !name.contains('\0') => Ok(last),
        _ => Err(InvalidAsset(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder() {
        assert_eq!(file_name("v1.33.4+k3s1/k3s"), Ok("k3s"));
        for wrong in ["", ".", "..", "../k3s", "/k3s", "a/../../k3s", "a\0b", ".hidden"] {
            assert!(file_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
