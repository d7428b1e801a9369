//! Escapes property names as CEL identifiers: `my-name` becomes `my__dash__name`.

/// The keywords and reserved words of CEL.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a word is a keyword or reserved in CEL.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Escapes a property name as an identifier; `None` if that is impossible.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(escaped)
}

/// The property name of an identifier; `None` if the identifier has an invalid escape.
#[must_use]
pub fn unescape(identifier: &str) -> Option<String> {
    let mut plain = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while !rest.is_empty() {
        let Some((word, length)) = escaped_word(rest) else {
            let c = rest.chars().next().expect("the rest is not empty");
            plain.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        match word {
            "underscores" => plain.push_str("__"),
            "dot" => plain.push('.'),
            "dash" => plain.push('-'),
            "slash" => plain.push('/'),
            word if is_reserved(word) && length == identifier.len() => plain.push_str(word),
            _ => return None,
        }
        rest = &rest[length..];
    }
    Some(plain)
}

/// Finds `__word__` at the start, where `word` has no underscore. Returns the word and the length of the whole.
fn escaped_word(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("__")?;
    let end = inner.find('_')?;
    (end > 0 && inner[end..].starts_with("__")).then(|| (&inner[..end], end + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_can_be_written_out_is_found_again() {
        for (name, identifier) in [
            ("plain", "plain"),
            ("my-name", "my__dash__name"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("x__y", "x__underscores__y"),
            ("namespace", "__namespace__"),
            ("_a_b", "_a_b"),
            ("___", "__underscores___"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier));
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
    }

    #[test]
    fn names_that_no_identifier_can_stand_for_are_refused() {
        for name in ["", "1a", "a b", "é", "a$"] {
            assert_eq!(escape(name), None, "{name:?}");
        }
        for identifier in ["__unknown__", "a__if__", "__if__a"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
