//! The text that the scanner reads: the current position, lookahead, and the characters that YAML forbids.

use super::read::Error;

/// The chunk in which goyaml decodes its input. It reports a forbidden character when it decodes the chunk that
/// contains it.
const PIECE_BYTES: usize = 512;
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A position in the text. Lines and columns begin at 0; the index counts characters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A cursor over the characters of a text. Past the end every byte reads as NUL, which YAML forbids in a text.
#[derive(Debug)]
pub(super) struct Source<'t> {
    text: &'t str,
    /// The offset of the next byte.
    at: usize,
    mark: Mark,
    /// The end of the part that was checked for forbidden characters.
    checked_to: usize,
    /// The start of goyaml's buffer. Goyaml looks for byte order marks there, and not at the current line.
    buffer_start: usize,
    /// The offset of the first forbidden character.
    forbidden_at: Option<usize>,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let forbidden_at = text.char_indices().find(|(_, character)| is_forbidden(*character)).map(|(at, _)| at);
        Self { text, at: start, mark: Mark::default(), checked_to: 0, buffer_start: start, forbidden_at }
    }

    pub(super) fn mark(&self) -> Mark {
        self.mark
    }

    pub(super) fn column(&self) -> usize {
        self.mark.column
    }

    /// The offset of the next byte.
    pub(super) fn here(&self) -> usize {
        self.at
    }

    pub(super) fn slice(&self, from: usize, to: usize) -> &'t str {
        &self.text[from..to]
    }

    /// Checks the text far enough to look at `count` characters. Returns an error if that part has a forbidden
    /// character.
    pub(super) fn need(&mut self, count: usize) -> Result<(), Error> {
        // A character has at most four bytes.
        if self.at + 4 * count <= self.checked_to || self.has(count) {
            return Ok(());
        }
        self.buffer_start = self.at;
        while !self.has(count) && self.checked_to < self.text.len() {
            let mut end = (self.checked_to + PIECE_BYTES).min(self.text.len());
            while !self.text.is_char_boundary(end) {
                end -= 1;
            }
            // Checked by chunk as goyaml does, so that an earlier syntax error wins exactly when it does there.
            if self.forbidden_at.is_some_and(|at| at < end) {
                return Err(Error::new("yaml: control characters are not allowed"));
            }
            self.checked_to = end;
        }
        Ok(())
    }

    fn has(&self, count: usize) -> bool {
        let checked = self.text.get(self.at..self.checked_to).unwrap_or_default();
        checked.chars().take(count).count() == count
    }

    /// The byte at an offset from the current position, or NUL past the end.
    pub(super) fn byte(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or(0)
    }

    pub(super) fn is(&self, byte: u8) -> bool {
        self.byte(0) == byte
    }

    pub(super) fn is_end(&self) -> bool {
        self.is(0)
    }

    pub(super) fn is_blank(&self, offset: usize) -> bool {
        matches!(self.byte(offset), b' ' | b'\t')
    }

    pub(super) fn is_break(&self, offset: usize) -> bool {
        match self.byte(offset) {
            b'\r' | b'\n' => true,
            0xc2 => self.byte(offset + 1) == 0x85,
            0xe2 => self.byte(offset + 1) == 0x80 && matches!(self.byte(offset + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    pub(super) fn is_break_or_end(&self, offset: usize) -> bool {
        self.byte(offset) == 0 || self.is_break(offset)
    }

    pub(super) fn is_white_or_end(&self, offset: usize) -> bool {
        self.is_blank(offset) || self.is_break_or_end(offset)
    }

    /// Whether the next byte may be part of an anchor name or a tag handle: a letter, a digit, `_` or `-`.
    pub(super) fn is_word(&self) -> bool {
        matches!(self.byte(0), b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-')
    }

    /// Whether `---` or `...` is next, at the beginning of a line and with white space after it.
    pub(super) fn is_document_indicator(&self) -> bool {
        let bytes = [self.byte(0), self.byte(1), self.byte(2)];
        self.column() == 0 && (bytes == *b"---" || bytes == *b"...") && self.is_white_or_end(3)
    }

    pub(super) fn is_byte_order_mark(&self) -> bool {
        self.text[self.buffer_start..].starts_with(BYTE_ORDER_MARK)
    }

    /// Skips one character.
    pub(super) fn skip(&mut self) {
        self.at += match self.byte(0) {
            // Past the end no byte is skipped, but the mark still advances.
            0 if self.at >= self.text.len() => 0,
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Takes a line break, if one is next, and returns its normalized form; otherwise returns an empty text.
    pub(super) fn take_break(&mut self) -> &'t str {
        let (length, taken) = match (self.byte(0), self.byte(1), self.byte(2)) {
            (b'\r', b'\n', _) => (2, "\n"),
            (b'\r' | b'\n', ..) => (1, "\n"),
            (0xc2, 0x85, _) => (2, "\n"),
            (0xe2, 0x80, 0xa8 | 0xa9) => (3, &self.text[self.at..self.at + 3]),
            _ => return "",
        };
        self.at += length;
        // Of CR LF goyaml counts two characters, of NEL one, although both have two bytes.
        self.mark.index +=
            if taken == "\n" && length == 2 && self.text.as_bytes()[self.at - 1] == b'\n' { 2 } else { 1 };
        self.mark.column = 0;
        self.mark.line += 1;
        taken
    }

    /// Ends the last line at the end of the text.
    pub(super) fn end_line(&mut self) {
        if self.mark.column != 0 {
            self.mark.column = 0;
            self.mark.line += 1;
        }
    }
}

fn is_forbidden(character: char) -> bool {
    !matches!(character,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}
