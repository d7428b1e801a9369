//! The kinds that every API server has: their schemas, defaults, rules and columns, as data and pure functions.

pub mod columns;
pub mod decode;
pub mod kinds;
pub mod openapi;
pub mod protobuf;
mod quantity;
pub mod strategy;
pub mod types;
