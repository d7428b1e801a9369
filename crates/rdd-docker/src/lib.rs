//! A client of a container engine over its Docker socket: lists and inspects objects, follows events and logs, and acts on
//! objects.
//!
//! [`Engine`] is the whole API. Reads parse leniently into structs of our own (see [`map`]): `bollard`'s models list every field
//! and reject an answer with one unknown enum value, and its event and log streams buffer items that are already complete. Writes
//! go through `bollard`. Both share one connection pool.

mod client;
pub mod context;
mod error;
mod events;
#[cfg(feature = "fake")]
pub mod fake;
mod logs;
pub mod map;
mod read;
#[cfg(feature = "suite")]
pub mod suite;
mod time;
mod transport;
mod version;

pub use self::{
    client::Engine,
    error::Error,
    events::{Event, EventKind, Events},
    logs::{Chunk, LogOptions, Logs, Output},
    read::{Container, Image, ImageListed, Runs},
    time::{EngineTime, Skew},
    version::ApiVersion,
};
