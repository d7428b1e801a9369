//! Talks to a container engine over its socket: what it has, what happens to it, what is done to it.
//!
//! [`Engine`] is the whole of it. Reading is lenient and in structs of ours (see [`map`]): `bollard`'s models know every field, and refuse an answer in which one
//! word is new; its streams of events and logs hold back what is complete. What changes anything goes through `bollard`. All share one pool of connections.

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
