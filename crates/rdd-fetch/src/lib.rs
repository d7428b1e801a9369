//! Fetches files by digest from a cache, an offline folder or the network: the result is the right file or an error.
//!
//! A [`Fetcher`] turns an [`Asset`] into a path. Broken connections, malicious servers, a kill and concurrent processes
//! do not break the guarantee: a file at its final path has the expected digest. Data that was downloaded is not
//! downloaded again.

mod asset;
mod cache;
mod connect;
mod digest;
mod download;
mod error;
mod fetcher;
mod openpgp;
mod progress;
mod proxy;
mod signature;

pub use asset::{Asset, Check, InvalidAsset, PublishedFile, SignedList, SigningKey};
pub use digest::{InvalidDigest, Sha256, find_in_list};
pub use error::{Error, Failure, Mistaken};
pub use fetcher::Fetcher;
pub use openpgp::{InvalidFingerprint, KeyFingerprint};
pub use progress::Progress;
pub use proxy::{InvalidProxy, Proxy};
pub use signature::SignatureError;
