//! What can go wrong, said so that somebody can do something about it.

use std::{io, path::PathBuf};

use crate::{asset::InvalidAsset, digest::Sha256, signature::SignatureError};

/// Why there is no file. What was downloaded stays, and is gone on with the next time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be used.
    #[error(transparent)]
    Invalid(#[from] InvalidAsset),
    /// The cache cannot be used.
    #[error("{action} {} (the cache of downloads has to be writable and have room)", path.display())]
    Cache {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Nobody has it.
    #[error("download {name} from {url} (without a network: put it into the folder that RDD_OFFLINE_DIR names)")]
    Download {
        /// What.
        name: String,
        /// The last place that was tried.
        url: String,
        /// What happened there.
        #[source]
        source: Failure,
    },
    /// There is no address to get it from.
    #[error("{name} is not in the cache and has no address (put it into the folder that RDD_OFFLINE_DIR names)")]
    NoAddress {
        /// What.
        name: String,
    },
    /// Somebody put another file in its place, and it is nowhere else either.
    #[error("{mistaken}; put the right one there, and the publisher's list of digests beside it")]
    Mistaken {
        /// The file.
        mistaken: Mistaken,
        /// Why it did not come from anywhere else.
        #[source]
        source: Box<Error>,
    },
    /// The publisher's list does not have it.
    #[error("the list {list} has no SHA-256 digest of {entry:?}, so nothing could be verified")]
    NotListed {
        /// The list.
        list: String,
        /// What is not in it.
        entry: String,
    },
    /// The publisher's signature is not right.
    #[error(
        "{name} is not used, because the signature of {list} by the key {keys} could not be verified (compare both with the publisher's page; \
         where the publisher has changed the key, install a newer version of this program, or {name} by hand)"
    )]
    Signature {
        /// What was wanted.
        name: String,
        /// The list that is signed.
        list: String,
        /// The fingerprints of the pinned keys.
        keys: String,
        /// What is wrong.
        #[source]
        source: Box<SignatureError>,
    },
    /// A task ended without a result.
    #[error("a task of the download ended early")]
    Ended,
}

/// A file that is not the one that its name says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not what was published: its SHA-256 digest is {found}, not {expected}", path.display())]
pub struct Mistaken {
    /// The file.
    pub path: PathBuf,
    /// Its digest.
    pub found: Sha256,
    /// The digest that it should have.
    pub expected: Sha256,
}

/// What happened to one attempt at one address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// It leads where nothing may be loaded from.
    #[error("{url} is not allowed: only https is, and http on this machine")]
    Address {
        /// The address.
        url: String,
    },
    /// It leads on and on.
    #[error("too many redirects")]
    Redirects,
    /// No connection.
    #[error("connect to {host}")]
    Connect {
        /// To whom.
        host: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The proxy does not let us through.
    #[error("the proxy {proxy} answered {answer:?}")]
    Proxy {
        /// Which.
        proxy: String,
        /// The first line of its answer.
        answer: String,
    },
    /// The conversation broke off.
    #[error("talk to {host}")]
    Talk {
        /// With whom.
        host: String,
        /// Where.
        #[source]
        source: hyper::Error,
    },
    /// Nothing came for too long.
    #[error("nothing came for {seconds} s")]
    Silence {
        /// How long that is.
        seconds: u64,
    },
    /// It does not give the file.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// It is not as long as it should be.
    #[error("it is {found} bytes long, not {expected}")]
    Length {
        /// What was said of it.
        expected: u64,
        /// What it is, or would become.
        found: u64,
    },
    /// It ended too early.
    #[error("it ended after {found} of {expected} bytes")]
    Short {
        /// What was said of it.
        expected: u64,
        /// What came.
        found: u64,
    },
    /// It is not the part that was asked for.
    #[error("the server sent another part than was asked for")]
    Part,
    /// It is not the right file.
    #[error("its SHA-256 digest is {found}, not {expected}")]
    Digest {
        /// What was published.
        expected: Sha256,
        /// What came.
        found: Sha256,
    },
    /// The list is not text.
    #[error("it is not a list of digests")]
    List,
    /// A file beside a release is not as short as those are.
    #[error("it is longer than {limit} bytes")]
    TooLong {
        /// How long it may be.
        limit: usize,
    },
}

impl Failure {
    /// Whether the same attempt may succeed a moment later.
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
