//! Every operation of this crate against upstream's own code, over thousands of generated cases.

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

/// An error with its lines in order: upstream lists what it found in the order of Go's maps.
fn sorted_lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
