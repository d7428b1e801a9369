//! Validates a mail address as Go's `net/mail` parses RFC 5322.

use super::parse_ip;

/// Whether a text is one address: `a@b`, `"q"@b`, `Name <a@b>`, or a group of exactly one.
pub(super) fn is_address(text: &str) -> bool {
    let mut parser = Parser { rest: text };
    match parser.address(true) {
        Some(1) => parser.skip_comments() && parser.rest.is_empty(),
        _ => false,
    }
}

struct Parser<'a> {
    rest: &'a str,
}

fn is_visible(character: char) -> bool {
    matches!(character, '!'..='~') || !character.is_ascii()
}

fn is_atom_text(character: char) -> bool {
    !matches!(character, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"')
        && is_visible(character)
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

impl Parser<'_> {
    /// Reads an address, or a group if `groups` allows it. Returns the number of addresses.
    fn address(&mut self, groups: bool) -> Option<usize> {
        self.skip_space();
        if self.rest.is_empty() {
            return None;
        }
        // A bare address is tried first; anything else begins with a display name.
        if self.specification() {
            self.skip_space();
            if self.rest.starts_with('(') && !self.one_comment() {
                return None;
            }
            return Some(1);
        }
        // The display name is optional: `<a@b>` is an address, too.
        if !self.rest.starts_with('<') && !self.phrase() {
            return None;
        }
        self.skip_space();
        if groups && self.take(':') {
            return self.group();
        }
        (self.take('<') && self.specification() && self.take('>')).then_some(1)
    }

    /// Reads the members of a group after its colon. Returns their number, which may be 0.
    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        if self.take(';') {
            // An empty group is valid, but it is not exactly one address.
            return self.skip_comments().then_some(0);
        }
        let mut count = 0;
        loop {
            self.skip_space();
            count += self.address(false)?;
            if !self.skip_comments() {
                return None;
            }
            if self.take(';') {
                return self.skip_comments().then_some(count);
            }
            if !self.take(',') {
                return None;
            }
        }
    }

    /// Reads `local@domain`. Without a match, the position does not change.
    fn specification(&mut self) -> bool {
        let start = self.rest;
        let found = self.local_part() && self.take('@') && self.domain();
        if !found {
            self.rest = start;
        }
        found
    }

    fn local_part(&mut self) -> bool {
        self.skip_space();
        if self.rest.starts_with('"') { self.quoted().is_some_and(|length| length > 0) } else { self.atom(false) }
    }

    fn domain(&mut self) -> bool {
        self.skip_space();
        match self.rest.strip_prefix('[') {
            None => self.atom(false),
            Some(rest) => {
                let Some((literal, after)) = rest.split_once(']') else { return false };
                let plain = |character: char| !matches!(character, '[' | '\\') && is_visible(character);
                self.rest = after;
                // Go accepts only IP addresses as domain literals.
                literal.chars().all(plain) && parse_ip(literal).is_some()
            }
        }
    }

    /// Reads at least one word. The caller handles what follows the words.
    fn phrase(&mut self) -> bool {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return false;
            }
            self.skip_space();
            if self.rest.is_empty() {
                // As upstream: the empty phrase is accepted here, and the caller misses the angle bracket.
                return true;
            }
            let word = if self.rest.starts_with('"') {
                self.quoted().is_some()
            } else {
                let before = self.rest;
                self.atom(true) && is_supported_word(&before[..before.len() - self.rest.len()])
            };
            if !word {
                return words > 0;
            }
            words += 1;
        }
    }

    /// Reads a quoted string. Returns the number of characters in the quotes.
    fn quoted(&mut self) -> Option<usize> {
        let mut length = 0;
        let mut escaped = false;
        // The first character is the opening quote.
        for (at, character) in self.rest.char_indices().skip(1) {
            match character {
                _ if escaped => {
                    if !is_visible(character) && !is_space(character) {
                        return None;
                    }
                    escaped = false;
                    length += 1;
                }
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(length);
                }
                '\\' => escaped = true,
                _ if is_visible(character) || is_space(character) => length += 1,
                _ => return None,
            }
        }
        None
    }

    /// Reads an atom; unless it is `permissive`, its dots must separate non-empty parts.
    fn atom(&mut self, permissive: bool) -> bool {
        let end = self.rest.find(|character| !is_atom_text(character)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        if atom.is_empty() {
            return false;
        }
        self.rest = rest;
        // Display names may have dots anywhere, addresses only between atoms.
        permissive || !(atom.starts_with('.') || atom.ends_with('.') || atom.contains(".."))
    }

    /// Reads one comment, whose words must be supported.
    fn one_comment(&mut self) -> bool {
        let Some(inside) = self.rest.strip_prefix('(') else { return false };
        match comment_end(inside) {
            Some(end) => {
                self.rest = &inside[end + 1..];
                inside[..end].split(is_space).all(is_supported_word)
            }
            None => false,
        }
    }

    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while let Some(inside) = self.rest.strip_prefix('(') {
            let Some(end) = comment_end(inside) else { return false };
            self.rest = &inside[end + 1..];
            self.skip_space();
        }
        true
    }

    fn take(&mut self, expected: char) -> bool {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }
}

/// Returns the position of the parenthesis that closes the one before the text.
fn comment_end(text: &str) -> Option<usize> {
    let mut depth = 1;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if at + 1 < text.len() => escaped = true,
            b'(' => depth += 1,
            b')' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether Go can decode a word. It refuses only RFC 2047 words (`=?charset?q?text?=`) in an unknown charset.
fn is_supported_word(word: &str) -> bool {
    let Some(inner) = word.strip_prefix("=?").and_then(|rest| rest.strip_suffix("?=")) else { return true };
    let parts: Vec<&str> = inner.splitn(3, '?').collect();
    match parts.as_slice() {
        [charset, encoding, _] if !charset.is_empty() && encoding.len() == 1 => {
            let known = ["utf-8", "iso-8859-1", "us-ascii"].iter().any(|known| charset.eq_ignore_ascii_case(known));
            known || !matches!(encoding.to_ascii_lowercase().as_str(), "q" | "b")
        }
        _ => true,
    }
}
