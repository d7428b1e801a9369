//! Every built-in kind against upstream's own registry, over thousands of generated objects and updates.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops where it is; coverage is printed"
)]

mod compare;
mod fields;
mod grammar;
mod kinds;
mod random;
mod upstream;
