//! Splits YAML into tokens exactly as goyaml v2's scanner does, even where goyaml differs from the specification.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

use super::{
    read::Error,
    source::{Mark, Source},
    tree::ScalarStyle,
};

/// The maximum depth of indentation, and of brackets, that goyaml scans.
const LEVELS_MAX: usize = 10_000;
/// The number of characters within which goyaml looks for the colon after a simple key.
const SIMPLE_KEY_CHARACTERS_MAX: usize = 1024;

/// A token and its position in the text.
#[derive(Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind<'t>,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

/// What a [`YamlToken`] is. Names are those of goyaml's `yaml_*_TOKEN` constants.
#[derive(Debug)]
pub(super) enum TokenKind<'t> {
    StreamEnd,
    Version { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'t str),
    Anchor(&'t str),
    Tag { handle: String, suffix: String },
    Scalar { text: Cow<'t, str>, style: ScalarStyle },
}

/// The position of a possible simple key: a key without `?`, which only the colon after it reveals.
#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Whether only a key is valid at this position, so that a missing colon is an error.
    required: bool,
    token_number: usize,
    mark: Mark,
}

/// Splits a text into tokens on demand. The queue holds the tokens that were scanned and not taken yet, because a colon
/// may insert a key token before them.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    source: Source<'t>,
    tokens: VecDeque<Token<'t>>,
    /// The number of tokens that were taken.
    taken: usize,
    /// The column of the innermost block; `None` outside of all blocks.
    indent: Option<usize>,
    indents: Vec<Option<usize>>,
    /// One for the block context and one for each open bracket.
    simple_keys: Vec<SimpleKey>,
    /// The index in `simple_keys` of the possible key that begins at the token of that number.
    keys_by_token: HashMap<usize, usize>,
    simple_key_allowed: bool,
    comments: bool,
    /// Whether to accept the escapes of JSON and documents of YAML 1.2, as goyaml v3 does.
    is_v3: bool,
    ended: bool,
}

type Scanned<T = ()> = Result<T, Error>;

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str, is_v3: bool) -> Self {
        Self {
            source: Source::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            indent: None,
            indents: Vec::new(),
            simple_keys: vec![SimpleKey::default()],
            keys_by_token: HashMap::new(),
            simple_key_allowed: true,
            comments: false,
            is_v3,
            ended: false,
        }
    }

    /// Whether the text scanned so far has a comment.
    pub(super) fn has_comments(&self) -> bool {
        self.comments
    }

    /// Returns the next token without taking it.
    pub(super) fn peek(&mut self) -> Scanned<&Token<'t>> {
        while self.is_head_undecided()? {
            self.fetch()?;
        }
        self.tokens.front().ok_or_else(|| Error::new("attempted to go past the end of stream; corrupted value?"))
    }

    /// Takes the next token.
    pub(super) fn take(&mut self) -> Scanned<Token<'t>> {
        self.peek()?;
        self.taken += 1;
        self.tokens.pop_front().ok_or_else(|| Error::new("attempted to go past the end of stream; corrupted value?"))
    }

    /// Whether more text must be scanned before the first token of the queue is certain: the queue is empty, or its
    /// first token may turn out to begin a key.
    fn is_head_undecided(&mut self) -> Scanned<bool> {
        if self.tokens.is_empty() {
            return Ok(!self.ended);
        }
        match self.keys_by_token.get(&self.taken) {
            Some(key) => Ok(self.is_key_valid(*key)? && !self.ended),
            None => Ok(false),
        }
    }

    /// An error of goyaml's scanner: `yaml_parser_set_scanner_error`.
    fn failed(&self, context: Mark, problem: &str) -> Error {
        // Goyaml omits the number of the first line.
        match (self.source.mark().line, context.line) {
            (0, 0) => Error::new(format!("yaml: {problem}")),
            (0, line) => Error::new(format!("yaml: line {line}: {problem}")),
            (line, _) => Error::new(format!("yaml: line {}: {problem}", line + 1)),
        }
    }

    fn next_number(&self) -> usize {
        self.taken + self.tokens.len()
    }

    fn push(&mut self, kind: TokenKind<'t>, start: Mark) {
        self.tokens.push_back(Token { kind, start, end: self.source.mark() });
    }

    /// Inserts a token before the token of that number; without a number, or if that token was taken already, at the
    /// end.
    fn insert(&mut self, number: Option<usize>, kind: TokenKind<'t>, mark: Mark) {
        let token = Token { kind, start: mark, end: mark };
        match number.and_then(|number| number.checked_sub(self.taken)) {
            Some(at) if at <= self.tokens.len() => self.tokens.insert(at, token),
            _ => self.tokens.push_back(token),
        }
    }

    /// Scans at least one more token: `yaml_parser_fetch_next_token`.
    fn fetch(&mut self) -> Scanned {
        self.source.need(1)?;
        self.pass_blanks_and_comments()?;
        self.unroll_indent(Some(self.source.column()));
        self.source.need(4)?;
        if self.source.is_end() {
            return self.fetch_stream_end();
        }
        if self.source.column() == 0 && self.source.is(b'%') {
            return self.fetch_directive();
        }
        if self.source.is_document_indicator() {
            return self.fetch_document_indicator();
        }
        let in_flow = self.in_flow();
        let white_follows = self.source.is_white_or_end(1);
        match self.source.byte(0) {
            b'[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if white_follows => self.fetch_block_entry(),
            b'?' if in_flow || white_follows => self.fetch_key(),
            b':' if in_flow || white_follows => self.fetch_value(),
            b'*' => self.fetch_anchor(true),
            b'&' => self.fetch_anchor(false),
            b'!' => self.fetch_tag(),
            b'|' if !in_flow => self.fetch_block_scalar(true),
            b'>' if !in_flow => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted_scalar(true),
            b'"' => self.fetch_quoted_scalar(false),
            b'|' | b'>' | b'%' | b'@' | b'`' | b'\t' => {
                Err(self.failed(self.source.mark(), "found character that cannot start any token"))
            }
            _ => self.fetch_plain_scalar(),
        }
    }

    fn in_flow(&self) -> bool {
        self.simple_keys.len() > 1
    }

    // Simple keys.

    /// Whether the colon of a possible key may still come: it must be on the same line and within the limit.
    fn is_key_valid(&mut self, key: usize) -> Scanned<bool> {
        let now = self.source.mark();
        // Closing a bracket removes the key of its level.
        let Some(&SimpleKey { possible: true, required, mark, .. }) = self.simple_keys.get(key) else {
            return Ok(false);
        };
        if mark.line >= now.line && mark.index + SIMPLE_KEY_CHARACTERS_MAX >= now.index {
            return Ok(true);
        }
        // goyaml's check happens here and not at the colon, so the error names the place where the key began.
        if required {
            return Err(self.failed(mark, "could not find expected ':'"));
        }
        self.simple_keys[key].possible = false;
        Ok(false)
    }

    fn innermost(&self) -> usize {
        self.simple_keys.len() - 1
    }

    /// Records that a simple key may begin at the current position.
    fn save_simple_key(&mut self) -> Scanned {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = !self.in_flow() && self.indent == Some(self.source.column());
        let token_number = self.next_number();
        self.remove_simple_key()?;
        let at = self.innermost();
        self.simple_keys[at] = SimpleKey { possible: true, required, token_number, mark: self.source.mark() };
        self.keys_by_token.insert(token_number, at);
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Scanned {
        let at = self.innermost();
        let SimpleKey { possible, required, token_number, mark } = self.simple_keys[at];
        if possible {
            if required {
                return Err(self.failed(mark, "could not find expected ':'"));
            }
            self.simple_keys[at].possible = false;
            self.keys_by_token.remove(&token_number);
        }
        Ok(())
    }

    // Indentation.

    /// Opens a block if the column is deeper than the innermost block.
    fn roll_indent(&mut self, column: usize, number: Option<usize>, kind: TokenKind<'t>, mark: Mark) -> Scanned {
        if self.in_flow() || self.indent.is_some_and(|indent| indent >= column) {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = Some(column);
        if self.indents.len() > LEVELS_MAX {
            let context = self.simple_keys[self.innermost()].mark;
            return Err(self.failed(context, &format!("exceeded max depth of {LEVELS_MAX}")));
        }
        self.insert(number, kind, mark);
        Ok(())
    }

    /// Closes the blocks that are deeper than the column.
    fn unroll_indent(&mut self, column: Option<usize>) {
        while !self.in_flow() && self.indent > column {
            let mark = self.source.mark();
            self.insert(None, TokenKind::BlockEnd, mark);
            self.indent = self.indents.pop().flatten();
        }
    }

    // Tokens.

    fn fetch_stream_end(&mut self) -> Scanned {
        self.source.end_line();
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(TokenKind::StreamEnd, self.source.mark());
        self.ended = true;
        Ok(())
    }

    fn fetch_directive(&mut self) -> Scanned {
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_directive()
    }

    fn fetch_document_indicator(&mut self) -> Scanned {
        self.unroll_indent(None);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.source.mark();
        let kind = if self.source.is(b'-') { TokenKind::DocumentStart } else { TokenKind::DocumentEnd };
        (0..3).for_each(|_| self.source.skip());
        self.push(kind, start);
        Ok(())
    }

    /// Takes an indicator of one character.
    fn take_indicator(&mut self, kind: TokenKind<'t>) {
        let start = self.source.mark();
        self.source.skip();
        self.push(kind, start);
    }

    fn fetch_flow_start(&mut self, kind: TokenKind<'t>) -> Scanned {
        self.save_simple_key()?;
        let (token_number, mark) = (self.next_number(), self.source.mark());
        self.simple_keys.push(SimpleKey { possible: false, required: false, token_number, mark });
        if self.simple_keys.len() > LEVELS_MAX + 1 {
            return Err(self.failed(mark, &format!("exceeded max depth of {LEVELS_MAX}")));
        }
        self.simple_key_allowed = true;
        self.take_indicator(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind<'t>) -> Scanned {
        self.remove_simple_key()?;
        if self.in_flow()
            && let Some(key) = self.simple_keys.pop()
        {
            self.keys_by_token.remove(&key.token_number);
        }
        self.simple_key_allowed = false;
        self.take_indicator(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Scanned {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.take_indicator(TokenKind::FlowEntry);
        Ok(())
    }

    /// Opens a block for an indicator (`-`, `?`, `:`), or returns an error if no block can begin at the current
    /// position. Within brackets it does nothing.
    fn open_block(&mut self, kind: TokenKind<'t>, what: &str) -> Scanned {
        if self.in_flow() {
            return Ok(());
        }
        let mark = self.source.mark();
        if !self.simple_key_allowed {
            return Err(self.failed(mark, &format!("{what} are not allowed in this context")));
        }
        self.roll_indent(mark.column, None, kind, mark)
    }

    fn fetch_block_entry(&mut self) -> Scanned {
        self.open_block(TokenKind::BlockSequenceStart, "block sequence entries")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.take_indicator(TokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Scanned {
        self.open_block(TokenKind::BlockMappingStart, "mapping keys")?;
        self.remove_simple_key()?;
        self.simple_key_allowed = !self.in_flow();
        self.take_indicator(TokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Scanned {
        let at = self.innermost();
        if self.is_key_valid(at)? {
            // The token before the colon was a key: insert the key token before it, and a block start before that if it
            // is the first key.
            let SimpleKey { token_number, mark, .. } = self.simple_keys[at];
            self.insert(Some(token_number), TokenKind::Key, mark);
            self.roll_indent(mark.column, Some(token_number), TokenKind::BlockMappingStart, mark)?;
            self.simple_keys[at].possible = false;
            self.keys_by_token.remove(&token_number);
            self.simple_key_allowed = false;
        } else {
            self.open_block(TokenKind::BlockMappingStart, "mapping values")?;
            self.simple_key_allowed = !self.in_flow();
        }
        self.take_indicator(TokenKind::Value);
        Ok(())
    }

    fn fetch_anchor(&mut self, is_alias: bool) -> Scanned {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.source.mark();
        self.source.skip();
        self.source.need(1)?;
        let from = self.source.here();
        self.pass_word()?;
        let name = self.source.slice(from, self.source.here());
        let ends = self.source.is_white_or_end(0)
            || matches!(self.source.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(self.failed(start, "did not find expected alphabetic or numeric character"));
        }
        self.push(if is_alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Scanned {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_tag()
    }

    fn fetch_block_scalar(&mut self, is_literal: bool) -> Scanned {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.scan_block_scalar(is_literal)
    }

    fn fetch_quoted_scalar(&mut self, is_single: bool) -> Scanned {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_quoted_scalar(is_single)
    }

    fn fetch_plain_scalar(&mut self) -> Scanned {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_plain_scalar()
    }

    // Between tokens.

    fn pass_blanks_and_comments(&mut self) -> Scanned {
        loop {
            self.source.need(1)?;
            if self.source.column() == 0 && self.source.is_byte_order_mark() {
                self.source.skip();
            }
            self.source.need(1)?;
            // A tab is an error where it could be taken for indentation; the scanner then sees it as the start of a
            // token.
            while self.source.is(b' ') || (self.in_flow() || !self.simple_key_allowed) && self.source.is(b'\t') {
                self.source.skip();
                self.source.need(1)?;
            }
            self.pass_comment()?;
            if !self.source.is_break(0) {
                return Ok(());
            }
            self.source.need(2)?;
            self.source.take_break();
            if !self.in_flow() {
                // A new line in a block may begin with a key.
                self.simple_key_allowed = true;
            }
        }
    }

    fn pass_comment(&mut self) -> Scanned {
        if self.source.is(b'#') {
            self.comments = true;
            while !self.source.is_break_or_end(0) {
                self.source.skip();
                self.source.need(1)?;
            }
        }
        Ok(())
    }

    fn pass_blanks(&mut self) -> Scanned {
        self.source.need(1)?;
        while self.source.is_blank(0) {
            self.source.skip();
            self.source.need(1)?;
        }
        Ok(())
    }

    fn pass_word(&mut self) -> Scanned {
        self.source.need(1)?;
        while self.source.is_word() {
            self.source.skip();
            self.source.need(1)?;
        }
        Ok(())
    }

    /// Skips the blanks and the comment that may end a line, for tokens that must be the last on their line.
    fn pass_rest_of_line(&mut self, context: Mark) -> Scanned {
        self.pass_blanks()?;
        self.pass_comment()?;
        if !self.source.is_break_or_end(0) {
            return Err(self.failed(context, "did not find expected comment or line break"));
        }
        if self.source.is_break(0) {
            self.source.need(2)?;
            self.source.take_break();
        }
        Ok(())
    }

    // Directives and tags.

    fn scan_directive(&mut self) -> Scanned {
        let start = self.source.mark();
        self.source.skip();
        let from = self.source.here();
        self.pass_word()?;
        let name = self.source.slice(from, self.source.here());
        if name.is_empty() {
            return Err(self.failed(start, "could not find expected directive name"));
        }
        if !self.source.is_white_or_end(0) {
            return Err(self.failed(start, "found unexpected non-alphabetical character"));
        }
        let kind = match name {
            "YAML" => {
                self.pass_blanks()?;
                let major = self.scan_version_number(start)?;
                if !self.source.is(b'.') {
                    return Err(self.failed(start, "did not find expected digit or '.' character"));
                }
                self.source.skip();
                TokenKind::Version { major, minor: self.scan_version_number(start)? }
            }
            "TAG" => {
                self.pass_blanks()?;
                let handle = self.scan_tag_handle(true, start)?;
                self.source.need(1)?;
                if !self.source.is_blank(0) {
                    return Err(self.failed(start, "did not find expected whitespace"));
                }
                self.pass_blanks()?;
                let prefix = self.scan_tag_uri("", start)?;
                self.source.need(1)?;
                if !self.source.is_white_or_end(0) {
                    return Err(self.failed(start, "did not find expected whitespace or line break"));
                }
                TokenKind::TagDirective { handle, prefix }
            }
            _ => return Err(self.failed(start, "found unknown directive name")),
        };
        self.push(kind, start);
        self.pass_rest_of_line(start)
    }

    fn scan_version_number(&mut self, start: Mark) -> Scanned<u8> {
        self.source.need(1)?;
        let (mut number, mut digits) = (0_u8, 0);
        while self.source.byte(0).is_ascii_digit() {
            digits += 1;
            if digits > 2 {
                return Err(self.failed(start, "found extremely long version number"));
            }
            number = number * 10 + (self.source.byte(0) - b'0');
            self.source.skip();
            self.source.need(1)?;
        }
        if digits == 0 {
            return Err(self.failed(start, "did not find expected version number"));
        }
        Ok(number)
    }

    fn scan_tag(&mut self) -> Scanned {
        let start = self.source.mark();
        self.source.need(2)?;
        let (handle, suffix) = if self.source.byte(1) == b'<' {
            self.source.skip();
            self.source.skip();
            let suffix = self.scan_tag_uri("", start)?;
            if !self.source.is(b'>') {
                return Err(self.failed(start, "did not find the expected '>'"));
            }
            self.source.skip();
            (String::new(), suffix)
        } else {
            let handle = self.scan_tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.scan_tag_uri("", start)?;
                (handle, suffix)
            } else {
                match self.scan_tag_uri(&handle, start)? {
                    suffix if suffix.is_empty() => (suffix, "!".to_owned()),
                    suffix => ("!".to_owned(), suffix),
                    // A lone `!` is the non-specific tag.
                }
            }
        };
        self.source.need(1)?;
        if !self.source.is_white_or_end(0) {
            return Err(self.failed(start, "did not find expected whitespace or line break"));
        }
        self.push(TokenKind::Tag { handle, suffix }, start);
        Ok(())
    }

    fn scan_tag_handle(&mut self, is_directive: bool, start: Mark) -> Scanned<String> {
        self.source.need(1)?;
        if !self.source.is(b'!') {
            return Err(self.failed(start, "did not find expected '!'"));
        }
        let from = self.source.here();
        self.source.skip();
        self.pass_word()?;
        if self.source.is(b'!') {
            self.source.skip();
        } else if is_directive && self.source.here() - from > 1 {
            return Err(self.failed(start, "did not find expected '!'"));
        }
        Ok(self.source.slice(from, self.source.here()).to_owned())
    }

    /// Scans a tag URI. `head` is what `scan_tag_handle` already took; its exclamation mark is not part of the URI.
    fn scan_tag_uri(&mut self, head: &str, start: Mark) -> Scanned<String> {
        let mut uri: Vec<u8> = head.as_bytes().iter().skip(1).copied().collect();
        let mut found = !head.is_empty();
        self.source.need(1)?;
        while self.source.is_word() || b";/?:@&=+$,.!~*'()[]%".contains(&self.source.byte(0)) {
            if self.source.is(b'%') {
                self.scan_uri_escapes(start, &mut uri)?;
            } else {
                uri.push(self.source.byte(0));
                self.source.skip();
            }
            self.source.need(1)?;
            found = true;
        }
        if !found {
            return Err(self.failed(start, "did not find expected tag URI"));
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// Scans the percent-encoded bytes of one UTF-8 character.
    fn scan_uri_escapes(&mut self, start: Mark, uri: &mut Vec<u8>) -> Scanned {
        // The number of continuation bytes that are missing; `None` before the first byte.
        let mut left = None;
        while left != Some(0) {
            self.source.need(3)?;
            let digits = (hex_digit(self.source.byte(1)), hex_digit(self.source.byte(2)));
            let (true, (Some(high), Some(low))) = (self.source.is(b'%'), digits) else {
                return Err(self.failed(start, "did not find URI escaped octet"));
            };
            let octet = u8::try_from(high << 4 | low).unwrap_or_default();
            left = match (left, octet) {
                (None, 0..0x80) => Some(0),
                (None, 0xc0..0xe0) => Some(1),
                (None, 0xe0..0xf0) => Some(2),
                (None, 0xf0..0xf8) => Some(3),
                (None, _) => return Err(self.failed(start, "found an incorrect leading UTF-8 octet")),
                (Some(left), 0x80..0xc0) => Some(left - 1),
                (Some(_), _) => return Err(self.failed(start, "found an incorrect trailing UTF-8 octet")),
            };
            uri.push(octet);
            (0..3).for_each(|_| self.source.skip());
        }
        Ok(())
    }

    // Scalars.

    fn scan_block_scalar(&mut self, is_literal: bool) -> Scanned {
        let start = self.source.mark();
        self.source.skip();
        let (chomping, increment) = self.scan_block_header(start)?;
        self.pass_rest_of_line(start)?;
        let mut indent = increment.map(|increment| self.indent.unwrap_or(0) + increment);
        let mut end = self.source.mark();
        let mut text = String::new();
        let mut leading_break = "";
        let mut trailing_breaks = self.scan_block_breaks(&mut indent, start, &mut end)?;
        let column = indent.unwrap_or(1);
        self.source.need(1)?;
        let mut leading_blank = false;
        while self.source.column() == column && !self.source.is_end() {
            let trailing_blank = self.source.is_blank(0);
            // Lines that are indented further keep their line breaks.
            if !is_literal && !leading_blank && !trailing_blank && leading_break == "\n" {
                if trailing_breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(leading_break);
            }
            text.push_str(&trailing_breaks);
            leading_blank = trailing_blank;
            let from = self.source.here();
            while !self.source.is_break_or_end(0) {
                self.source.skip();
                self.source.need(1)?;
            }
            text.push_str(self.source.slice(from, self.source.here()));
            self.source.need(2)?;
            leading_break = self.source.take_break();
            trailing_breaks = self.scan_block_breaks(&mut indent, start, &mut end)?;
        }
        if chomping != Chomping::Strip {
            text.push_str(leading_break);
        }
        if chomping == Chomping::Keep {
            text.push_str(&trailing_breaks);
        }
        let style = if is_literal { ScalarStyle::Literal } else { ScalarStyle::Folded };
        let kind = TokenKind::Scalar { text: text.into(), style };
        self.tokens.push_back(Token { kind, start, end });
        Ok(())
    }

    /// Scans the chomping and indentation indicators after `|` or `>`, in either order.
    fn scan_block_header(&mut self, start: Mark) -> Scanned<(Chomping, Option<usize>)> {
        let (mut chomping, mut increment) = (None, None);
        for _ in 0..2 {
            self.source.need(1)?;
            match self.source.byte(0) {
                b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
                b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
                b'0' if increment.is_none() => {
                    return Err(self.failed(start, "found an indentation indicator equal to 0"));
                }
                digit @ b'1'..=b'9' if increment.is_none() => increment = Some(usize::from(digit - b'0')),
                _ => break,
            }
            self.source.skip();
        }
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    /// Skips empty lines and the indentation of the next line. If the indentation is not known yet, it becomes that of
    /// the deepest of these lines.
    fn scan_block_breaks(&mut self, indent: &mut Option<usize>, start: Mark, end: &mut Mark) -> Scanned<String> {
        *end = self.source.mark();
        let mut breaks = String::new();
        let mut deepest = 0;
        loop {
            self.source.need(1)?;
            let is_indentation = |column: usize| indent.is_none_or(|indent| column < indent);
            while is_indentation(self.source.column()) && self.source.is(b' ') {
                self.source.skip();
                self.source.need(1)?;
            }
            deepest = deepest.max(self.source.column());
            if is_indentation(self.source.column()) && self.source.is(b'\t') {
                return Err(self.failed(start, "found a tab character where an indentation space is expected"));
            }
            if !self.source.is_break(0) {
                break;
            }
            self.source.need(2)?;
            breaks.push_str(self.source.take_break());
            *end = self.source.mark();
        }
        if indent.is_none() {
            *indent = Some(deepest.max(self.indent.map_or(0, |outer| outer + 1)).max(1));
        }
        Ok(breaks)
    }

    fn scan_quoted_scalar(&mut self, is_single: bool) -> Scanned {
        let quote = if is_single { b'\'' } else { b'"' };
        let start = self.source.mark();
        self.source.skip();
        let mut text = String::new();
        loop {
            self.source.need(4)?;
            if self.source.is_document_indicator() {
                return Err(self.failed(start, "found unexpected document indicator"));
            }
            if self.source.is_end() {
                return Err(self.failed(start, "found unexpected end of stream"));
            }
            let escaped_break = self.scan_quoted_word(is_single, start, &mut text)?;
            self.source.need(1)?;
            if self.source.is(quote) {
                break;
            }
            self.scan_quoted_blanks(escaped_break, &mut text)?;
        }
        self.source.skip();
        let style = if is_single { ScalarStyle::SingleQuoted } else { ScalarStyle::DoubleQuoted };
        self.push(TokenKind::Scalar { text: text.into(), style }, start);
        Ok(())
    }

    /// Scans the text up to white space or the closing quote. Returns whether an escaped line break ended it.
    fn scan_quoted_word(&mut self, is_single: bool, start: Mark, text: &mut String) -> Scanned<bool> {
        while !self.source.is_white_or_end(0) {
            match self.source.byte(0) {
                b'\'' if is_single && self.source.byte(1) == b'\'' => {
                    text.push('\'');
                    self.source.skip();
                    self.source.skip();
                }
                b'\'' if is_single => break,
                b'"' if !is_single => break,
                b'\\' if !is_single && self.source.is_break(1) => {
                    self.source.need(3)?;
                    self.source.skip();
                    self.source.take_break();
                    return Ok(true);
                }
                b'\\' if !is_single => self.scan_escape(start, text)?,
                _ => {
                    let from = self.source.here();
                    self.source.skip();
                    text.push_str(self.source.slice(from, self.source.here()));
                }
            }
            self.source.need(2)?;
        }
        Ok(false)
    }

    fn scan_escape(&mut self, start: Mark, text: &mut String) -> Scanned {
        let (character, digits) = match self.source.byte(1) {
            b'0' => ('\0', 0),
            b'a' => ('\u{7}', 0),
            b'b' => ('\u{8}', 0),
            b't' | b'\t' => ('\t', 0),
            b'n' => ('\n', 0),
            b'v' => ('\u{b}', 0),
            b'f' => ('\u{c}', 0),
            b'r' => ('\r', 0),
            b'e' => ('\u{1b}', 0),
            plain @ (b' ' | b'"' | b'\'' | b'\\') => (char::from(plain), 0),
            b'/' if self.is_v3 => ('/', 0),
            b'N' => ('\u{85}', 0),
            b'_' => ('\u{a0}', 0),
            b'L' => ('\u{2028}', 0),
            b'P' => ('\u{2029}', 0),
            b'x' => ('\0', 2),
            b'u' => ('\0', 4),
            b'U' => ('\0', 8),
            _ => return Err(self.failed(start, "found unknown escape character")),
        };
        self.source.skip();
        self.source.skip();
        if digits == 0 {
            text.push(character);
            return Ok(());
        }
        self.source.need(digits)?;
        let code = (0..digits).try_fold(0_u32, |code, at| Some(code << 4 | hex_digit(self.source.byte(at))?));
        let Some(code) = code else {
            return Err(self.failed(start, "did not find expected hexdecimal number"));
        };
        // Halves of surrogate pairs are not characters, not even two of them in a row.
        let Some(character) = char::from_u32(code) else {
            return Err(self.failed(start, "found invalid Unicode character escape code"));
        };
        text.push(character);
        (0..digits).for_each(|_| self.source.skip());
        Ok(())
    }

    /// Scans white space in quotes. Line breaks fold, whatever the indentation of the next line.
    fn scan_quoted_blanks(&mut self, escaped_break: bool, text: &mut String) -> Scanned {
        let mut on_new_line = escaped_break;
        let (mut leading_break, mut trailing_breaks) = ("", String::new());
        // Blanks before a line break are dropped, blanks within a line are kept.
        let from = self.source.here();
        let mut blanks_end = from;
        while self.source.is_blank(0) || self.source.is_break(0) {
            if self.source.is_blank(0) {
                self.source.skip();
                if !on_new_line {
                    blanks_end = self.source.here();
                }
            } else {
                self.source.need(2)?;
                let taken = self.source.take_break();
                if on_new_line {
                    trailing_breaks.push_str(taken);
                } else {
                    (on_new_line, leading_break) = (true, taken);
                }
            }
            self.source.need(1)?;
        }
        if on_new_line {
            fold(text, leading_break, &trailing_breaks);
        } else {
            text.push_str(self.source.slice(from, blanks_end));
        }
        Ok(())
    }

    fn scan_plain_scalar(&mut self) -> Scanned {
        let start = self.source.mark();
        let from = self.source.here();
        let indent = self.indent.map_or(0, |indent| indent + 1);
        let mut end = start;
        // The text borrows from the source until two lines have to be joined.
        let mut joined: Option<String> = None;
        let mut until = from;
        let mut on_new_line = false;
        let (mut leading_break, mut trailing_breaks) = ("", String::new());
        loop {
            self.source.need(4)?;
            if self.source.is_document_indicator() || self.source.is(b'#') {
                // Only white space before it makes `#` a comment; a scalar begins or continues here only after white
                // space.
                break;
            }
            while !self.source.is_white_or_end(0) && !self.ends_plain() {
                if on_new_line {
                    let text = joined.get_or_insert_with(|| self.source.slice(from, until).to_owned());
                    fold(text, leading_break, &trailing_breaks);
                    trailing_breaks.clear();
                    (on_new_line, leading_break, until) = (false, "", self.source.here());
                }
                self.source.skip();
                if let Some(text) = &mut joined {
                    text.push_str(self.source.slice(until, self.source.here()));
                }
                (until, end) = (self.source.here(), self.source.mark());
                self.source.need(2)?;
            }
            if !(self.source.is_blank(0) || self.source.is_break(0)) {
                break;
            }
            self.source.need(1)?;
            while self.source.is_blank(0) || self.source.is_break(0) {
                if self.source.is_blank(0) {
                    if on_new_line && self.source.column() < indent && self.source.is(b'\t') {
                        return Err(self.failed(start, "found a tab character that violates indentation"));
                    }
                    self.source.skip();
                } else {
                    self.source.need(2)?;
                    let taken = self.source.take_break();
                    if on_new_line {
                        trailing_breaks.push_str(taken);
                    } else {
                        (on_new_line, leading_break) = (true, taken);
                    }
                }
                self.source.need(1)?;
            }
            if !self.in_flow() && self.source.column() < indent {
                break;
            }
        }
        let text = joined.map_or_else(|| Cow::Borrowed(self.source.slice(from, until)), Cow::Owned);
        self.tokens.push_back(Token { kind: TokenKind::Scalar { text, style: ScalarStyle::Plain }, start, end });
        // The scalar ended at a line break, so the next line may begin with a key.
        if on_new_line {
            self.simple_key_allowed = true;
        }
        Ok(())
    }

    /// Whether the next character ends a plain scalar.
    fn ends_plain(&self) -> bool {
        match self.source.byte(0) {
            b':' => self.source.is_white_or_end(1),
            b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.in_flow(),
            _ => false,
        }
    }
}

/// What happens to the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

/// Joins two lines: a single line break becomes a blank; of several line breaks, the first is dropped.
fn fold(text: &mut String, leading_break: &str, trailing_breaks: &str) {
    if leading_break == "\n" {
        text.push_str(if trailing_breaks.is_empty() { " " } else { trailing_breaks });
    } else {
        text.push_str(leading_break);
        text.push_str(trailing_breaks);
    }
}

fn hex_digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(16)
}
