//! Source text, positions in it, and the issues that compilation reports against them in cel-go's words.

use std::fmt;

/// More issues than this are counted, not shown.
const ISSUES_SHOWN_MAX: usize = 100;
/// A line longer than this is not repeated under the message.
const SNIPPET_BYTES_MAX: usize = 16384;

/// A line (from 1) and a column (from 0), both counted in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1; -1 where an issue has no place.
    pub line: i32,
    /// The column, from 0; -1 where an issue has no place.
    pub column: i32,
}

impl Location {
    /// The place of issues that have none.
    pub const NONE: Self = Self { line: -1, column: -1 };
}

/// An expression's text, with the offsets at which its lines begin.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    text: Vec<char>,
    /// The offset after each line break.
    line_starts: Vec<u32>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        let line_starts =
            text.iter().enumerate().filter(|(_, c)| **c == '\n').map(|(index, _)| index as u32 + 1).collect();
        Self { text, line_starts }
    }

    pub(crate) fn chars(&self) -> &[char] {
        &self.text
    }

    pub(crate) fn location(&self, offset: u32) -> Location {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = if line == 0 { 0 } else { self.line_starts[line - 1] };
        Location { line: line as i32 + 1, column: (offset - start) as i32 }
    }

    fn line(&self, line: i32) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        if self.text.is_empty() || index > self.line_starts.len() {
            return None;
        }
        let start = if index == 0 { 0 } else { self.line_starts[index - 1] as usize };
        let end = self.line_starts.get(index).map_or(self.text.len(), |next| *next as usize - 1);
        Some(self.text[start..end].iter().collect())
    }
}

/// One thing that is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Where.
    pub location: Location,
    /// What, in cel-go's words.
    pub message: String,
}

/// All that is wrong with an expression; prints as cel-go does (`ERROR: <input>:1:5: …`, the line, a caret).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Issues {
    /// In the order of their places.
    pub issues: Vec<Issue>,
    truncated: usize,
    text: String,
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Issues while they are being found.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    issues: Vec<Issue>,
    truncated: usize,
}

impl Collector {
    pub(crate) fn report(&mut self, location: Location, message: impl Into<String>) {
        if self.issues.len() >= ISSUES_SHOWN_MAX {
            self.truncated += 1;
            return;
        }
        self.issues.push(Issue { location, message: message.into() });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    pub(crate) fn finish(mut self, source: &Source) -> Result<(), Issues> {
        if self.issues.is_empty() {
            return Ok(());
        }
        self.issues.sort_by_key(|issue| issue.location);
        let mut shown: Vec<String> = self.issues.iter().map(|issue| display(issue, source)).collect();
        if self.truncated > 0 {
            shown.push(format!("{} more errors were truncated", self.truncated));
        }
        Err(Issues { issues: self.issues, truncated: self.truncated, text: shown.join("\n") })
    }
}

fn display(issue: &Issue, source: &Source) -> String {
    let Location { line, column } = issue.location;
    let mut shown = format!("ERROR: <input>:{line}:{}: {}", column + 1, issue.message);
    let Some(snippet) = source.line(line).filter(|text| text.len() <= SNIPPET_BYTES_MAX) else { return shown };
    let snippet = snippet.replace('\t', " ");
    shown.push_str("\n | ");
    shown.push_str(&snippet);
    shown.push_str("\n | ");
    let mut rest = snippet.chars();
    for c in rest.by_ref().take(column.max(0) as usize) {
        shown.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
    }
    shown.push(if rest.next().is_some_and(|c| c.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
    shown
}
