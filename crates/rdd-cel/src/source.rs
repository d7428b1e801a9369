//! Source text, positions in it, and the issues that compilation reports, formatted as in cel-go.

use std::fmt;

/// Further issues are counted, but not kept.
const ISSUES_SHOWN_MAX: usize = 100;
/// A longer line is not shown under the message.
const SNIPPET_BYTES_MAX: usize = 16384;

/// A line and a column, counted in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1; -1 if an issue has no position.
    pub line: i32,
    /// The column, from 0; -1 if an issue has no position.
    pub column: i32,
}

impl Location {
    /// For issues without a position.
    pub const NONE: Self = Self { line: -1, column: -1 };
}

/// The text of an expression, and the offsets of its lines.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    text: Vec<char>,
    /// The offset after each line break, where the next line begins.
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
        // The lines are in order, so the number of starts before the offset is the line.
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

/// An error in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Its position.
    pub location: Location,
    /// The text, as in cel-go.
    pub message: String,
}

/// All errors in an expression. It displays as in cel-go: `ERROR: <input>:1:5: …`, the line, and a caret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Issues {
    /// Sorted by position.
    pub issues: Vec<Issue>,
    truncated: usize,
    text: String,
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Collects issues while an expression is compiled.
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

    /// Succeeds without issues; otherwise sorts and formats them.
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
        // Wide characters get wide dots and a wide caret, so that the caret stands under its character.
        shown.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
    }
    shown.push(if rest.next().is_some_and(|c| c.len_utf8() > 1) { '\u{ff3e}' } else { '^' });
    shown
}
