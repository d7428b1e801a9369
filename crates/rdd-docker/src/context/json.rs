//! In-place edits of a JSON object's text, which leave all other bytes unchanged.

use std::ops::Range;

use serde::de::IgnoredAny;

/// The text of a JSON object with the positions of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object<'t> {
    text: &'t [u8],
    /// The offset after the opening brace.
    inside: usize,
    members: Vec<Member>,
}

/// The ranges of a member's key and value, including quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    key: Range<usize>,
    value: Range<usize>,
}

/// Why a text is not a JSON object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum NotAnObject {
    /// The text is not JSON.
    #[error("it is not JSON")]
    Malformed(#[source] serde_json::Error),
    /// The text is another JSON value.
    #[error("it is JSON, but not an object")]
    OtherValue,
}

impl<'t> Object<'t> {
    /// Parses the text. It is validated as a whole first, so that no invalid file is edited.
    pub(super) fn parse(text: &'t [u8]) -> Result<Self, NotAnObject> {
        // Validation neither recurses nor allocates, however deeply the text is nested.
        serde_json::from_slice::<IgnoredAny>(text).map_err(NotAnObject::Malformed)?;
        let open = skip_space(text, 0);
        if text.get(open) != Some(&b'{') {
            return Err(NotAnObject::OtherValue);
        }
        let inside = open + 1;
        Ok(Self { text, inside, members: members(text, inside) })
    }

    /// The members that a Go reader would decode into this (ASCII) name: Go ignores case.
    pub(super) fn find(&self, name: &str) -> Vec<&Member> {
        self.members.iter().filter(|member| self.key(member).eq_ignore_ascii_case(name)).collect()
    }

    /// The text of a member's value.
    pub(super) fn value(&self, member: &Member) -> &'t [u8] {
        &self.text[member.value.clone()]
    }

    /// The text with a new value for the member.
    pub(super) fn replaced(&self, member: &Member, value: &str) -> Vec<u8> {
        splice(self.text, member.value.clone(), value.as_bytes())
    }

    /// The text without the member. Removing what [`inserted`](Self::inserted) added restores the original text.
    pub(super) fn removed(&self, member: &Member) -> Vec<u8> {
        let index = self.members.iter().position(|other| other == member).unwrap_or_default();
        let range = match (index.checked_sub(1).map(|before| &self.members[before]), self.members.get(index + 1)) {
            (Some(before), _) => before.value.end..member.value.end,
            (None, Some(after)) => member.key.start..after.key.start,
            (None, None) => member.key.start..member.value.end,
        };
        splice(self.text, range, b"")
    }

    /// The text with another member at the end, formatted like the first one.
    pub(super) fn inserted(&self, name: &str, value: &str) -> Vec<u8> {
        let (Some(first), Some(last)) = (self.members.first(), self.members.last()) else {
            return splice(self.text, self.inside..self.inside, format!("\"{name}\": {value}").as_bytes());
        };
        let before = &self.text[self.inside..first.key.start];
        let between = &self.text[first.key.end..first.value.start];
        let quoted = format!("\"{name}\"");
        let member = [b",", before, quoted.as_bytes(), between, value.as_bytes()].concat();
        splice(self.text, last.value.end..last.value.end, &member)
    }

    /// The decoded name of a member; empty if it is not valid Unicode, such as half a surrogate pair.
    fn key(&self, member: &Member) -> String {
        serde_json::from_slice(&self.text[member.key.clone()]).unwrap_or_default()
    }
}

/// Finds the members of an object in valid JSON.
fn members(text: &[u8], inside: usize) -> Vec<Member> {
    let mut members = Vec::new();
    let mut at = skip_space(text, inside);
    while text.get(at) == Some(&b'"') {
        let key = at..skip_value(text, at);
        let colon = skip_space(text, key.end);
        let start = skip_space(text, colon + 1);
        let value = start..skip_value(text, start);
        at = skip_space(text, value.end);
        if text.get(at) == Some(&b',') {
            at = skip_space(text, at + 1);
        }
        members.push(Member { key, value });
    }
    members
}

fn skip_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// The end of the value that begins at this offset.
fn skip_value(text: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    loop {
        match text.get(at) {
            Some(b'"') => at = skip_string(text, at),
            Some(b'{' | b'[') => (at, depth) = (at + 1, depth + 1),
            Some(b'}' | b']') if depth > 0 => (at, depth) = (at + 1, depth - 1),
            Some(b',' | b':' | b' ' | b'\t' | b'\r' | b'\n') if depth > 0 => at += 1,
            Some(_) => {
                let rest = &text[at..];
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                at += rest.iter().position(ends).unwrap_or(rest.len()).max(1);
            }
            None => return text.len(),
        }
        if depth == 0 {
            return at.min(text.len());
        }
    }
}

fn skip_string(text: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    loop {
        match text.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

fn splice(text: &[u8], range: Range<usize>, with: &[u8]) -> Vec<u8> {
    [&text[..range.start], with, &text[range.end..]].concat()
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
