//! The table of types, the definitions and the decoder against upstream's own: its published documents, and its code.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops where it is; coverage is printed"
)]

mod decoding;
mod documents;
mod protobuf;
mod table;
