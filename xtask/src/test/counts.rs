//! Parses how many tests passed and failed from a test program's output.

use std::ops::Add;

use serde::{Deserialize, Serialize};

/// The number of passed and failed tests of a program or a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }
}

/// The counts of the result line, or the sum over all parts; `None` if there is no such line.
///
/// For a program without parts only the last line counts, since a test may print the output of another test program.
pub(super) fn parse(output: &str, has_parts: bool) -> Option<Counts> {
    let mut lines = output.lines().filter_map(parse_line);
    if has_parts { lines.reduce(Add::add) } else { lines.next_back() }
}

fn parse_line(line: &str) -> Option<Counts> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let field = counts.split(';').map(str::trim).find_map(|field| field.strip_suffix(word))?;
        field.trim().parse().ok()
    };
    Some(Counts { passed: count("passed")?, failed: count("failed")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s";
    const BAD: &str =
        "test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";

    #[test]
    fn the_last_line_counts_and_parts_are_summed() {
        let output = format!("running 3 tests\n{BAD}\nnoise\n{GOOD}\n\n");
        assert_eq!(parse(&output, false), Some(Counts { passed: 3, failed: 0 }));
        assert_eq!(parse(&output, true), Some(Counts { passed: 8, failed: 2 }));
    }

    #[test]
    fn no_result_line_is_no_result() {
        for output in ["", "3 passed; 0 failed", "test result: ok. many passed; 0 failed"] {
            assert_eq!(parse(output, false), None, "{output}");
        }
    }
}
