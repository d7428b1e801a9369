//! Files that are named with their digest, from a cache, a folder or the network: right or absent.
//!
//! A [`Fetcher`] turns an [`Asset`] into a path. Whatever happens on the way (connections that break, servers that lie, a
//! process that is killed, a second one that wants the same), the file under the final name has the digest that was asked
//! for, or is not there. What was downloaded already is not downloaded again.

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
