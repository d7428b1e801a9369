//! JSON text that is changed in place: where the members of its object are, and edits that leave every other byte alone.

use std::ops::Range;

use serde::de::IgnoredAny;

/// The text of one JSON object, and where its members are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object<'t> {
    text: &'t [u8],
    /// Just behind the brace that opens it.
    inside: usize,
    members: Vec<Member>,
}

/// Where a member is: both with their quotes, if they have any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    key: Range<usize>,
    value: Range<usize>,
}

/// Why a text is not taken for a JSON object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum NotAnObject {
    /// It is not JSON.
    #[error("it is not JSON")]
    Malformed(#[source] serde_json::Error),
    /// It is another kind of value.
    #[error("it is JSON, but not an object")]
    OtherValue,
}

impl<'t> Object<'t> {
    /// Finds the members. The whole text is checked first, so that no edit is made to what a reader would refuse.
    pub(super) fn parse(text: &'t [u8]) -> Result<Self, NotAnObject> {
        // It neither recurses nor builds anything, however deep the text is nested.
        serde_json::from_slice::<IgnoredAny>(text).map_err(NotAnObject::Malformed)?;
        let open = skip_space(text, 0);
        if text.get(open) != Some(&b'{') {
            return Err(NotAnObject::OtherValue);
        }
        let inside = open + 1;
        Ok(Self { text, inside, members: members(text, inside) })
    }

    /// The members that a reader in Go takes for this name, which is ASCII: capitals make no difference to it.
    pub(super) fn find(&self, name: &str) -> Vec<&Member> {
        self.members.iter().filter(|member| self.key(member).eq_ignore_ascii_case(name)).collect()
    }

    /// The text of the value of a member.
    pub(super) fn value(&self, member: &Member) -> &'t [u8] {
        &self.text[member.value.clone()]
    }

    /// The text with another value in this place.
    pub(super) fn replaced(&self, member: &Member, value: &str) -> Vec<u8> {
        splice(self.text, member.value.clone(), value.as_bytes())
    }

    /// The text without this member. What [`inserted`](Self::inserted) put in is taken out without a trace.
    pub(super) fn removed(&self, member: &Member) -> Vec<u8> {
        let index = self.members.iter().position(|other| other == member).unwrap_or_default();
        let range = match (index.checked_sub(1).map(|before| &self.members[before]), self.members.get(index + 1)) {
            (Some(before), _) => before.value.end..member.value.end,
            (None, Some(after)) => member.key.start..after.key.start,
            (None, None) => member.key.start..member.value.end,
        };
        splice(self.text, range, b"")
    }

    /// The text with one member more, behind the others and laid out like the first of them.
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

    /// The name of a member; one that is no text, such as half of a surrogate pair, is nobody's name.
    fn key(&self, member: &Member) -> String {
        serde_json::from_slice(&self.text[member.key.clone()]).unwrap_or_default()
    }
}

/// The members of an object in a text that is known to be JSON.
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

/// Where the value that begins here ends.
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
