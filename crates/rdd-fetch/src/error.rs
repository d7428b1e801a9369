//! The errors of fetching, with remedies for the user.

use std::{io, path::PathBuf};

use crate::{asset::InvalidAsset, digest::Sha256, signature::SignatureError};

/// The reason why a file could not be fetched. A partial download stays and is resumed by the next call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidAsset),
    /// The cache is not usable.
    #[error("{action} {} (the cache of downloads has to be writable and have room)", path.display())]
    Cache {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The download failed.
    #[error("download {name} from {url} (without a network: put it into the folder that RDD_OFFLINE_DIR names)")]
    Download {
        /// The file.
        name: String,
        /// The last URL that was tried.
        url: String,
        /// The failure there.
        #[source]
        source: Failure,
    },
    /// The asset has no URL.
    #[error("{name} is not in the cache and has no address (put it into the folder that RDD_OFFLINE_DIR names)")]
    NoAddress {
        /// The file.
        name: String,
    },
    /// The offline folder contains another file under this name, and the download failed as well.
    #[error("{mistaken}; put the right one there, and the publisher's list of digests beside it")]
    Mistaken {
        /// The file.
        mistaken: Mistaken,
        /// Why the download failed.
        #[source]
        source: Box<Error>,
    },
    /// The publisher's list has no digest of the file.
    #[error("the list {list} has no SHA-256 digest of {entry:?}, so nothing could be verified")]
    NotListed {
        /// The list.
        list: String,
        /// The missing entry.
        entry: String,
    },
    /// The publisher's signature is not valid.
    #[error(
        "{name} is not used, because the signature of {list} by the key {keys} could not be verified (compare both with the publisher's page; \
         where the publisher has changed the key, install a newer version of this program, or {name} by hand)"
    )]
    Signature {
        /// The file.
        name: String,
        /// The signed list.
        list: String,
        /// The fingerprints of the pinned keys.
        keys: String,
        /// The problem with the signature.
        #[source]
        source: Box<SignatureError>,
    },
    /// A task ended without a result.
    #[error("a task of the download ended early")]
    Ended,
}

/// A file with another digest than expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not what was published: its SHA-256 digest is {found}, not {expected}", path.display())]
pub struct Mistaken {
    /// The file.
    pub path: PathBuf,
    /// Its actual digest.
    pub found: Sha256,
    /// Its expected digest.
    pub expected: Sha256,
}

/// How one attempt at one URL failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Downloads from this URL are not allowed.
    #[error("{url} is not allowed: only https is, and http on this machine")]
    Address {
        /// The address.
        url: String,
    },
    /// There are too many redirects.
    #[error("too many redirects")]
    Redirects,
    /// The connection failed.
    #[error("connect to {host}")]
    Connect {
        /// The server or proxy.
        host: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The proxy refused the connection.
    #[error("the proxy {proxy} answered {answer:?}")]
    Proxy {
        /// The proxy.
        proxy: String,
        /// The first line of its reply.
        answer: String,
    },
    /// The HTTP exchange failed.
    #[error("talk to {host}")]
    Talk {
        /// The server.
        host: String,
        /// The error of the HTTP library.
        #[source]
        source: hyper::Error,
    },
    /// No data arrived within the timeout.
    #[error("nothing came for {seconds} s")]
    Silence {
        /// The timeout.
        seconds: u64,
    },
    /// The server returned an error status.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// The file has another length than expected.
    #[error("it is {found} bytes long, not {expected}")]
    Length {
        /// The expected length.
        expected: u64,
        /// The actual length, or the length so far.
        found: u64,
    },
    /// The connection ended early.
    #[error("it ended after {found} of {expected} bytes")]
    Short {
        /// The announced length.
        expected: u64,
        /// The received length.
        found: u64,
    },
    /// The server sent another range than requested.
    #[error("the server sent another part than was asked for")]
    Part,
    /// The file has another digest than expected.
    #[error("its SHA-256 digest is {found}, not {expected}")]
    Digest {
        /// The expected digest.
        expected: Sha256,
        /// The actual digest.
        found: Sha256,
    },
    /// The list is not valid UTF-8.
    #[error("it is not a list of digests")]
    List,
    /// A small file exceeds the size limit.
    #[error("it is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

impl Failure {
    /// Whether a retry may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Talk { .. }
            | Self::Silence { .. }
            | Self::Short { .. }
            | Self::Part
            | Self::Proxy { .. } => true,
            Self::Status(status) => matches!(status, 408 | 416 | 425 | 429 | 500..=599),
            Self::Address { .. }
            | Self::Redirects
            | Self::Length { .. }
            | Self::Digest { .. }
            | Self::List
            | Self::TooLong { .. } => false,
        }
    }
}
