//! The built-in kinds of an API server, with their schemas, defaults, validation and columns, as data and pure functions.

pub mod columns;
pub mod decode;
pub mod kinds;
pub mod openapi;
pub mod protobuf;
mod quantity;
pub mod strategy;
pub mod types;
