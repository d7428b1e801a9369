//! Definitions and custom resources as a server sees them, without one.

mod definition;
mod kind;
mod life;
mod support;
mod versions;
