//! Compares the table of types, the definitions and the decoder with upstream's published documents and code.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops where it is; coverage is printed"
)]

mod decoding;
mod documents;
mod protobuf;
mod table;
