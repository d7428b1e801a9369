//! Inserts, removes and replaces parts of a text, with the lines and commas around them.

use std::ops::Range;

/// A range of bytes to remove, and the text to put in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Splice {
    pub(super) gone: Range<usize>,
    pub(super) new: String,
}

impl Splice {
    pub(super) fn new(gone: Range<usize>, new: impl Into<String>) -> Self {
        Self { gone, new: new.into() }
    }

    pub(super) fn insert(at: usize, new: impl Into<String>) -> Self {
        Self::new(at..at, new)
    }
}

/// Applies all splices, which must not overlap.
pub(super) fn apply(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.gone.start);
    let mut made = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for splice in splices {
        made.push_str(&text[at..splice.gone.start]);
        made.push_str(&splice.new);
        at = splice.gone.end;
    }
    made.push_str(&text[at..]);
    made
}

/// The line ending of the text.
pub(super) fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// The start of the line that contains `at`.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The end of the last line of a node that ends at `at`: after the comment on the line and before the line ending. A
/// node that ends with a line ending, such as a block scalar, ended on the line before.
pub(super) fn last_line_end(text: &str, at: usize) -> usize {
    if let Some(before) = text[..at].strip_suffix('\n') {
        return before.strip_suffix('\r').unwrap_or(before).len();
    }
    let line = text[at..].split('\n').next().unwrap_or_default();
    at + line.strip_suffix('\r').unwrap_or(line).len()
}

/// Inserts lines after the one that contains `at`, each with the indentation.
pub(super) fn insert_lines(text: &str, at: usize, indent: usize, lines: &[String]) -> Splice {
    let pad = " ".repeat(indent);
    let ends = line_end(text);
    let lines: String = lines.iter().map(|line| format!("{ends}{pad}{line}")).collect();
    Splice::insert(last_line_end(text, at), lines)
}

/// Removes the lines from the start to the end of `place`.
pub(super) fn remove_lines(text: &str, place: &Range<usize>) -> Splice {
    let (from, to) = (line_start(text, place.start), last_line_end(text, place.end));
    let Some(before) = text[..from].strip_suffix('\n') else {
        // The first line has no line ending before it, so remove the one behind it.
        let rest = &text[to..];
        let ends = rest.strip_prefix('\r').unwrap_or(rest);
        let ends = ends.strip_prefix('\n').unwrap_or(ends);
        return Splice::new(from..text.len() - ends.len(), "");
    };
    Splice::new(before.strip_suffix('\r').unwrap_or(before).len()..to, "")
}

/// The position of the first byte from `at` on that is neither white space nor in a comment, if that byte is `wanted`.
pub(super) fn find_indicator(text: &str, mut at: usize, wanted: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    loop {
        match *bytes.get(at)? {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'#' => at = text[at..].find('\n').map(|newline| at + newline)?,
            byte => return (byte == wanted).then_some(at),
        }
    }
}

/// Appends a unit to a flow collection with the brackets `outer`, with the same spacing as before the last unit.
pub(super) fn insert_flow(text: &str, outer: &Range<usize>, units: &[Range<usize>], new: &str) -> Splice {
    let Some(last) = units.last() else { return Splice::insert(outer.start + 1, new) };
    let from = units.len().checked_sub(2).map_or(outer.start + 1, |before| units[before].end);
    let gap = text[from..last.start].trim_start_matches(',');
    let is_blank = gap.bytes().all(|byte| byte.is_ascii_whitespace());
    let between = match (is_blank, units.len()) {
        (true, 1) if gap.is_empty() => " ",
        (true, _) => gap,
        (false, _) => " ",
    };
    Splice::insert(last.end, format!(",{between}{new}"))
}

/// Removes a unit from a flow collection, with one comma and the adjacent white space.
pub(super) fn remove_flow(text: &str, units: &[Range<usize>], at: usize) -> Vec<Splice> {
    let unit = &units[at];
    let comma_after = |end: usize| find_indicator(text, end, b',').map(|comma| Splice::new(comma..comma + 1, ""));
    let is_blank = |gap: &str| gap.bytes().all(|byte| byte.is_ascii_whitespace() || byte == b',');
    let whole = match (at.checked_sub(1).map(|before| units[before].end), units.get(at + 1)) {
        (Some(before), _) if is_blank(&text[before..unit.start]) => before..unit.end,
        (None, Some(next)) if is_blank(&text[unit.end..next.start]) => unit.start..next.start,
        (before, _) => {
            let comma = comma_after(before.unwrap_or(unit.end));
            return std::iter::once(Splice::new(unit.clone(), "")).chain(comma).collect();
        }
    };
    vec![Splice::new(whole, "")]
}
