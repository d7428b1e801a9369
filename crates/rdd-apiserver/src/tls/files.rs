//! The certificates on disk: reads them, checks them, and renews those that cannot be kept.

use std::{
    fs, io,
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rdd_stdx::{
    file::{self, PRIVATE},
    owned,
};

use super::{
    decide::{CA_LEFT_AT_START, Decision, Found, decide},
    inspect,
    issue::{self, Pair},
};

/// The file of the authority's certificate.
pub const CA_CERTIFICATE: &str = "ca.crt";
/// The file of the authority's key.
pub const CA_KEY: &str = "ca.key";
/// The file of the serving certificate, followed by that of the authority. Kubeconfigs embed its content as the trusted
/// certificates.
pub const SERVING_CERTIFICATE: &str = "apiserver.crt";
/// The file of the serving key.
pub const SERVING_KEY: &str = "apiserver.key";

/// The reason that no certificates are available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or the folder could not be written.
    #[error("keep the certificates in {}", folder.display())]
    Write {
        /// The tls folder.
        folder: PathBuf,
        /// The file operation that failed.
        #[source]
        source: file::Error,
    },
    /// A file exists, but the operating system does not let us read it.
    #[error("read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A certificate could not be issued.
    #[error("make the {what} certificate")]
    Issue {
        /// The certificate: `authority`, `serving` or `client`.
        what: &'static str,
        /// The error of the library.
        #[source]
        source: rcgen::Error,
    },
    /// The TLS library does not accept the certificates.
    #[error("set up TLS with the certificates in {}", folder.display())]
    Serve {
        /// The tls folder.
        folder: PathBuf,
        /// The error of the library.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The certificates in use, as read from disk or just written there.
#[derive(Debug, Clone)]
pub(super) struct Material {
    pub(super) authority: Pair,
    /// The certificate is the content of the whole file: the leaf, then the authority.
    pub(super) serving: Pair,
    pub(super) serving_valid: Range<Duration>,
    pub(super) authority_not_after: Duration,
}

/// Ensures that `folder` has certificates that are valid at `now`, and the serving one for at least `least_left` longer.
///
/// Valid certificates are reused; others are replaced, with the reason in the log. `keep_authority` is for a renewal while
/// serving: clients already trust the authority in use, so only the leaf may change.
pub(super) fn ensure(
    folder: &Path,
    now: Duration,
    least_left: Duration,
    keep_authority: Option<&Pair>,
) -> Result<Material, Error> {
    file::create_dir_private(folder).map_err(|source| Error::Write { folder: folder.to_owned(), source })?;
    let authority = match keep_authority {
        Some(authority) => authority.clone(),
        None => ensure_authority(folder, now)?,
    };
    let authority_not_after = validity(&inspect::authority(&authority.certificate, &authority.key)).end;
    let serving = ensure_serving(folder, now, least_left, &authority, authority_not_after)?;
    let serving_valid = validity(&inspect::serving(&serving.certificate, &serving.key, &authority.certificate));
    Ok(Material { authority, serving, serving_valid, authority_not_after })
}

fn ensure_authority(folder: &Path, now: Duration) -> Result<Pair, Error> {
    let read = read_pair(folder, CA_CERTIFICATE, CA_KEY)?;
    let found = read.judged_by(|pair| inspect::authority(&pair.certificate, &pair.key));
    let reason = match kept(read, decide(&found, now, CA_LEFT_AT_START)) {
        Ok(pair) => return Ok(pair),
        Err(reason) => reason,
    };
    tracing::info!(reason, "making a new certificate authority");
    let pair = issue::authority(now).map_err(|source| Error::Issue { what: "authority", source })?;
    write_pair(folder, &pair, CA_CERTIFICATE, CA_KEY)?;
    Ok(pair)
}

fn ensure_serving(
    folder: &Path,
    now: Duration,
    least_left: Duration,
    authority: &Pair,
    authority_not_after: Duration,
) -> Result<Pair, Error> {
    let read = read_pair(folder, SERVING_CERTIFICATE, SERVING_KEY)?;
    let found = read.judged_by(|pair| inspect::serving(&pair.certificate, &pair.key, &authority.certificate));
    let reason = match kept(read, decide(&found, now, least_left)) {
        Ok(pair) => return Ok(pair),
        Err(reason) => reason,
    };
    tracing::info!(reason, "making a new serving certificate");
    let leaf = issue::serving(authority, now, authority_not_after)
        .map_err(|source| Error::Issue { what: "serving", source })?;
    // Clients trust the content of this file, so it includes the authority.
    let pair = Pair { certificate: format!("{}{}", leaf.certificate, authority.certificate), key: leaf.key };
    write_pair(folder, &pair, SERVING_CERTIFICATE, SERVING_KEY)?;
    Ok(pair)
}

/// Returns the pair if it can be kept, otherwise the reason to renew it.
fn kept(read: Read, decision: Decision) -> Result<Pair, String> {
    match (read, decision) {
        (Read::Pair(pair), Decision::Keep) => Ok(pair),
        // `decide` does not keep what it could not read; this arm only makes the match complete.
        (Read::Missing | Read::NotText, Decision::Keep) => Err("there is nothing to keep".to_owned()),
        (_, Decision::Renew { reason }) => Err(reason),
    }
}

/// The result of reading the two files of a pair.
enum Read {
    Missing,
    NotText,
    Pair(Pair),
}

impl Read {
    fn judged_by(&self, judge: impl FnOnce(&Pair) -> Found) -> Found {
        match self {
            Self::Missing => Found::Missing,
            Self::NotText => Found::Unreadable("the file is not text".to_owned()),
            Self::Pair(pair) => judge(pair),
        }
    }
}

/// Reads a certificate and its key. A file that is absent or not text will be replaced. A file without read permission is an
/// error, because it is not ours to replace.
fn read_pair(folder: &Path, certificate: &str, key: &str) -> Result<Read, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        match owned::read_to_string(&path) {
            Ok(text) => Ok(Ok(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Err(Read::Missing)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Err(Read::NotText)),
            Err(source) => Err(Error::Read { path, source }),
        }
    };
    Ok(match (read(certificate)?, read(key)?) {
        (Ok(certificate_text), Ok(key_text)) => {
            for name in [certificate, key] {
                keep_private(&folder.join(name))?;
            }
            Read::Pair(Pair { certificate: certificate_text, key: key_text })
        }
        (Err(problem), _) | (_, Err(problem)) => problem,
    })
}

/// Restores the permissions of a file that is reused: a restored backup, for example, may have widened them.
fn keep_private(path: &Path) -> Result<(), Error> {
    let fail = |source| Error::Read { path: path.to_owned(), source };
    let permissions = fs::metadata(path).map_err(fail)?.permissions();
    if permissions.mode() & 0o7777 == PRIVATE {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE)).map_err(fail)
}

fn validity(found: &Found) -> Range<Duration> {
    match found {
        Found::Readable(facts) => facts.not_before..facts.not_after,
        Found::Missing | Found::Unreadable(_) => Duration::ZERO..Duration::ZERO,
    }
}

/// Writes a pair, the key first. A crash in between leaves a pair that does not match, which the next start detects and renews.
fn write_pair(folder: &Path, pair: &Pair, certificate: &str, key: &str) -> Result<(), Error> {
    for (name, content) in [(key, &pair.key), (certificate, &pair.certificate)] {
        file::write_atomic(&folder.join(name), content.as_bytes(), PRIVATE)
            .map_err(|source| Error::Write { folder: folder.to_owned(), source })?;
    }
    Ok(())
}
