//! Compares every operation of this crate with upstream's own code, over thousands of generated cases.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops where it is; coverage is printed"
)]

mod builtin;
mod documents;
mod histories;
mod random;
mod scale;
mod schemas;
mod strategic;
mod typed;

/// Sorts the lines of an error, since upstream reports them in the order of Go maps.
fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
