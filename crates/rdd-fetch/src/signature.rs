//! Verifies with gpgv that a pinned key signed a list of digests.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::{
    file::{self as durable, PRIVATE},
    process,
};
use tokio::{process::Command, time::timeout};

use crate::{
    asset::{SignedList, SigningKey},
    digest::{Sha256, find_in_list},
    openpgp::{KeyFingerprint, select_key},
};

/// The timeout of gpgv, which reads a few files of at most a megabyte.
const GPGV_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a file is refused although its digest may be right.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// None of the key files contains its pinned key.
    #[error("{file} does not hold this key")]
    KeyMissing {
        /// The file.
        file: String,
    },
    /// The signature does not match the list, or is damaged.
    #[error("{signature} is not a signature of {list}")]
    Bad {
        /// The signature.
        signature: String,
        /// The list.
        list: String,
    },
    /// Another key made the signature.
    #[error("{signature} was made with another key ({found})")]
    OtherKey {
        /// The signature.
        signature: String,
        /// The other key, as gpgv names it.
        found: String,
    },
    /// The key was revoked, or the signature has expired.
    #[error("the key was revoked or the signature has expired ({0})")]
    Withdrawn(&'static str),
    /// The signed list has another digest, or none.
    #[error("the signed list {list} has {} for {entry:?}, not {expected}",
            found.map_or_else(|| "no digest".to_owned(), |found| found.to_string()))]
    OtherDigest {
        /// The list.
        list: String,
        /// The entry.
        entry: String,
        /// The digest in the list.
        found: Option<Sha256>,
        /// The expected digest.
        expected: Sha256,
    },
    /// gpgv did not end in time.
    #[error("gpgv did not end within {} s", GPGV_TIMEOUT.as_secs())]
    Timeout,
    /// The files for gpgv could not be written.
    #[error("give {} to gpgv", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SignatureCheck {
    /// A pinned key signed a list that contains the digest.
    Good,
    /// The check was not possible, for this reason.
    Skipped(String),
}

/// The contents of the files of a signed list.
#[derive(Debug)]
pub(crate) struct SignedFiles<'s> {
    pub(crate) list: Vec<u8>,
    pub(crate) signature: Vec<u8>,
    /// The pinned keys, each with the content of its file.
    pub(crate) keys: Vec<(&'s SigningKey, Vec<u8>)>,
    /// Whether the files of all pinned keys were found.
    pub(crate) has_all_keys: bool,
}

/// The expected digest and name of a list entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedEntry<'a> {
    pub(crate) name: &'a str,
    pub(crate) digest: Sha256,
}

/// Verifies with gpgv that a pinned key signed the list, and that the list has this digest for the entry.
///
/// The inputs of gpgv are written to files whose paths begin with `scratch` and removed again; no other task may use
/// these paths at the same time. Without gpgv, the check is skipped. Every other problem is an error.
pub(crate) async fn check(
    gpgv: &Path,
    scratch: &Path,
    signed: &SignedList,
    files: &SignedFiles<'_>,
    expected: ExpectedEntry<'_>,
) -> Result<SignatureCheck, SignatureError> {
    let keyring = select_keys(files)?;
    let scratch = ScratchFiles::write(scratch, [&keyring, &files.signature, &files.list])?;
    let Some(status) = run_gpgv(gpgv, &scratch).await? else {
        let reason = format!("{} could not be started (Debian has it in the package gpgv)", gpgv.display());
        return Ok(SignatureCheck::Skipped(reason));
    };
    match judge_status(&status, signed) {
        // A key whose file was not found may have made the signature.
        Err(error @ SignatureError::OtherKey { .. }) if !files.has_all_keys => {
            return Ok(SignatureCheck::Skipped(format!("{error}, and not all keys could be had")));
        }
        judged => judged?,
    }
    let found = find_in_list(&String::from_utf8_lossy(&files.list), expected.name);
    if found == Some(expected.digest) {
        return Ok(SignatureCheck::Good);
    }
    Err(SignatureError::OtherDigest {
        list: signed.list.name.clone(),
        entry: expected.name.to_owned(),
        found,
        expected: expected.digest,
    })
}

/// The keyring of the pinned keys alone, without other keys in their files. An error if no file has its key.
fn select_keys(files: &SignedFiles<'_>) -> Result<Vec<u8>, SignatureError> {
    let mut keyring = Vec::new();
    for (key, content) in &files.keys {
        keyring.extend(select_key(content, key.fingerprint).unwrap_or_default());
    }
    if keyring.is_empty() {
        let names: Vec<&str> = files.keys.iter().map(|(key, _)| key.file.name.as_str()).collect();
        return Err(SignatureError::KeyMissing { file: names.join(" or ") });
    }
    Ok(keyring)
}

/// Keyring, signature and list on disk, removed on drop.
struct ScratchFiles([PathBuf; 3]);

impl ScratchFiles {
    fn write(prefix: &Path, contents: [&[u8]; 3]) -> Result<Self, SignatureError> {
        let path = |end: &str| PathBuf::from(format!("{}.{end}", prefix.display()));
        let files = Self(["keyring", "signature", "list"].map(path));
        for (path, content) in files.0.iter().zip(contents) {
            durable::write_atomic(path, content, PRIVATE)
                .map_err(|error| SignatureError::Io { path: path.clone(), source: error.source })?;
        }
        Ok(files)
    }

    fn folder(&self) -> &Path {
        self.0[0].parent().unwrap_or(Path::new("/"))
    }
}

impl Drop for ScratchFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // Ignore errors: the next check overwrites the file.
            let _ = durable::remove_if_present(path);
        }
    }
}

/// Runs gpgv and returns its status output; `None` if it cannot be started.
async fn run_gpgv(gpgv: &Path, files: &ScratchFiles) -> Result<Option<String>, SignatureError> {
    let [keyring, signature, list] = &files.0;
    let mut command = process::background(gpgv, files.folder());
    // Ignore the user's own settings and keys.
    command.arg("--homedir").arg(files.folder()).args(["--status-fd", "1", "--keyring"]).arg(keyring);
    command.arg("--").args([signature, list]);
    let child = Command::from(command).kill_on_drop(true).output();
    match timeout(GPGV_TIMEOUT, child).await {
        Err(_) => Err(SignatureError::Timeout),
        Ok(Err(_)) => Ok(None),
        // A failed run without a status line must not count as a good signature.
        Ok(Ok(output)) => {
            let mut report = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() {
                report.push_str("\n[GNUPG:] FAILURE\n");
            }
            Ok(Some(report))
        }
    }
}

/// Evaluates gpgv's status output. Every signature must be by a pinned key, because anyone can add signatures.
fn judge_status(report: &str, signed: &SignedList) -> Result<(), SignatureError> {
    let bad = || SignatureError::Bad { signature: signed.signature.name.clone(), list: signed.list.name.clone() };
    let (mut is_good, mut is_pinned) = (false, false);
    let mut failure = None;
    for line in report.lines() {
        let mut words = line.strip_prefix("[GNUPG:] ").unwrap_or_default().split(' ');
        match words.next().unwrap_or_default() {
            // An expired key still proves the signer: the program cannot replace its pinned key, and old releases
            // outlive keys.
            "GOODSIG" | "EXPKEYSIG" => is_good = true,
            // The last field is the primary key, also when a subkey made the signature.
            "VALIDSIG" => {
                let made_by = words.next_back().and_then(|text| KeyFingerprint::parse(text).ok());
                is_pinned = signed.keys.iter().any(|key| made_by == Some(key.fingerprint));
            }
            "NO_PUBKEY" => {
                let found = words.next().unwrap_or_default().to_owned();
                return Err(SignatureError::OtherKey { signature: signed.signature.name.clone(), found });
            }
            "EXPSIG" => return Err(SignatureError::Withdrawn("EXPSIG")),
            "REVKEYSIG" => return Err(SignatureError::Withdrawn("REVKEYSIG")),
            "BADSIG" | "ERRSIG" | "FAILURE" => failure = Some(bad()),
            _ => {}
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None if is_good && is_pinned => Ok(()),
        None => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asset::PublishedFile;

    const PINNED: &str = "C020EA876CE4E06C7AB95AEF49524C6F9F638F1A";
    const OTHER: &str = "DBF6DA01BD812D633B77300FA2CAE5833B6AD416";

    fn signed() -> SignedList {
        let file = |name: &str| PublishedFile { name: name.to_owned(), urls: Vec::new() };
        SignedList {
            list: file("SUMS"),
            signature: file("SUMS.asc"),
            keys: vec![SigningKey { file: file("keys"), fingerprint: KeyFingerprint::parse(PINNED).unwrap() }],
        }
    }

    #[test]
    fn only_good_signatures_of_the_pinned_key_are_taken() {
        let valid = |signer: &str, primary: &str| {
            format!("[GNUPG:] VALIDSIG {signer} 2026-06-18 1781740800 0 4 0 22 8 00 {primary}\n")
        };
        let good = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 49524C6F9F638F1A A <a@example.com>\n";
        for (report, expected) in [
            (format!("{good}{}", valid(PINNED, PINNED)), Ok(())),
            (format!("{good}{}", valid(OTHER, PINNED)), Ok(())),
            (format!("{good}{}", valid(PINNED, OTHER)), Err("SUMS.asc is not a signature of SUMS")),
            (good.to_owned(), Err("SUMS.asc is not a signature of SUMS")),
            (valid(PINNED, PINNED), Err("SUMS.asc is not a signature of SUMS")),
            (String::new(), Err("SUMS.asc is not a signature of SUMS")),
            (format!("{good}{}[GNUPG:] FAILURE\n", valid(PINNED, PINNED)), Err("SUMS.asc is not a signature of SUMS")),
            ("[GNUPG:] BADSIG 49524C6F9F638F1A A\n".to_owned(), Err("SUMS.asc is not a signature of SUMS")),
            (
                "[GNUPG:] ERRSIG A2CAE5833B6AD416 22 8 00 1 9\n[GNUPG:] NO_PUBKEY A2CAE5833B6AD416\n".to_owned(),
                Err("SUMS.asc was made with another key (A2CAE5833B6AD416)"),
            ),
            (format!("[GNUPG:] EXPKEYSIG 49524C6F9F638F1A A\n{}", valid(PINNED, PINNED)), Ok(())),
            (
                format!("[GNUPG:] REVKEYSIG 49524C6F9F638F1A A\n{}", valid(PINNED, PINNED)),
                Err("the key was revoked or the signature has expired (REVKEYSIG)"),
            ),
            (
                format!("{good}{}[GNUPG:] BADSIG A2CAE5833B6AD416 B\n", valid(PINNED, PINNED)),
                Err("SUMS.asc is not a signature of SUMS"),
            ),
        ] {
            let judged = judge_status(&report, &signed()).map_err(|error| error.to_string());
            assert_eq!(judged, expected.map_err(str::to_owned), "{report}");
        }
    }
}
