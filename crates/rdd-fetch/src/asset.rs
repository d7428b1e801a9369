//! The description of a file to fetch: its name, its URLs, and how it is verified.

use std::path::{Component, Path};

use crate::{digest::Sha256, openpgp::KeyFingerprint};

/// A published file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    /// Its name in messages and in the offline folder: a relative path such as `v1.33.4+k3s1/k3s`.
    pub name: String,
    /// The URLs to download it from, in order of preference.
    pub urls: Vec<String>,
    /// How the file is verified.
    pub check: Check,
    /// Its length, if known.
    pub bytes: Option<u64>,
}

/// How a file is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The file has this digest.
    Sha256(Sha256),
    /// The file has the digest that the publisher's list has for an entry.
    Published {
        /// The list, in the format of `sha256sum`.
        list: PublishedFile,
        /// The entry's name in the list.
        entry: String,
    },
    /// The file has the digest of an entry in a list that its publisher signed. If the signature cannot be checked
    /// (without gpgv, or without one of the three files), the digest alone decides, with a warning.
    Signed {
        /// The digest that the entry must have in addition. If absent, the digest in the list decides.
        pinned: Option<Sha256>,
        /// The list and its signers.
        signed: SignedList,
        /// The entry's name in the list.
        entry: String,
    },
}

/// A small file that a publisher offers with a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedFile {
    /// See [`Asset::name`].
    pub name: String,
    /// See [`Asset::urls`].
    pub urls: Vec<String>,
}

/// A list of digests with the publisher's OpenPGP signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedList {
    /// The list, in the format of `sha256sum`.
    pub list: PublishedFile,
    /// Its detached signature.
    pub signature: PublishedFile,
    /// The keys whose signature is accepted; one signature is enough.
    pub keys: Vec<SigningKey>,
}

/// A key whose signature is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// A file that contains the key, armored or binary, possibly with others.
    pub file: PublishedFile,
    /// The full fingerprint. It alone decides, not the source of the file.
    pub fingerprint: KeyFingerprint,
}

impl SignedList {
    /// The fingerprints of the keys, for messages.
    pub(crate) fn fingerprints(&self) -> String {
        let all: Vec<String> = self.keys.iter().map(|key| key.fingerprint.to_string()).collect();
        all.join(" or ")
    }
}

/// A name that is not valid for a file below a folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the name of a file to fetch")]
pub struct InvalidAsset(pub String);

/// The last part of a name. Refuses names that lead out of the folder.
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
