//! Translates character classes and escapes of Go's syntax for the `regex` crate.

use super::{PatternError, append_literal, error};

const POSIX: [(&str, &str); 14] = [
    ("alnum", "0-9A-Za-z"),
    ("alpha", "A-Za-z"),
    ("ascii", "\\x00-\\x7F"),
    ("blank", "\\x09\\x20"),
    ("cntrl", "\\x00-\\x1F\\x7F"),
    ("digit", "0-9"),
    ("graph", "!-~"),
    ("lower", "a-z"),
    ("print", "\\x20-~"),
    ("punct", "!-/:-@\\[-`\\{-~"),
    ("space", "\\x09-\\x0D\\x20"),
    ("upper", "A-Z"),
    ("word", "0-9A-Za-z_"),
    ("xdigit", "0-9A-Fa-f"),
];

/// Translates the class in brackets at the start of `text`. Returns it and the rest.
pub(super) fn bracket(text: &str) -> Result<(String, &str), PatternError> {
    let mut out = String::from("[");
    let mut rest = &text[1..];
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    let mut first = true;
    // A bracket directly after the opening one is a member and does not close the class.
    while first || !rest.starts_with(']') {
        first = false;
        if let Some((set, after)) = named(rest)? {
            out.push_str(&set);
            rest = after;
            continue;
        }
        if let Some((set, after)) = escape(rest)? {
            out.push_str(&set);
            rest = after;
            continue;
        }
        let range = rest;
        let (low, after) = member(rest, text)?;
        rest = after;
        let mut high = low;
        if rest.len() >= 2 && rest.starts_with('-') && !rest[1..].starts_with(']') {
            (high, rest) = member(&rest[1..], text)?;
            if high < low {
                return error("invalid character class range", &range[..range.len() - rest.len()]);
            }
        }
        append_literal(low, &mut out);
        if high != low {
            out.push('-');
            append_literal(high, &mut out);
        }
    }
    out.push(']');
    Ok((out, &rest[1..]))
}

/// Reads one character of a class.
fn member<'a>(text: &'a str, class: &str) -> Result<(char, &'a str), PatternError> {
    match text.chars().next() {
        None => error("missing closing ]", class),
        Some('\\') => character(text),
        Some(first) => Ok((first, &text[first.len_utf8()..])),
    }
}

/// Translates a POSIX class such as `[:alpha:]`.
fn named(text: &str) -> Result<Option<(String, &str)>, PatternError> {
    let Some(inner) = text.strip_prefix("[:") else { return Ok(None) };
    let Some(end) = inner.find(":]") else { return Ok(None) };
    let whole = &text[..end + 4];
    let (name, negated) = match inner[..end].strip_prefix('^') {
        Some(name) => (name, "^"),
        None => (&inner[..end], ""),
    };
    match POSIX.iter().find(|(known, _)| *known == name) {
        Some((_, set)) => Ok(Some((format!("[{negated}{set}]"), &text[whole.len()..]))),
        None => error("invalid character class range", whole),
    }
}

/// Translates an escape for a class, such as `\d` or `\pL`; `None` if the text does not begin with one.
pub(super) fn escape(text: &str) -> Result<Option<(String, &str)>, PatternError> {
    if !text.starts_with('\\') {
        return Ok(None);
    }
    let set = match text.as_bytes().get(1) {
        Some(b'd') => "[0-9]",
        Some(b'D') => "[^0-9]",
        Some(b's') => "[\\t\\n\\x0C\\r\\x20]",
        Some(b'S') => "[^\\t\\n\\x0C\\r\\x20]",
        Some(b'w') => "[0-9A-Za-z_]",
        Some(b'W') => "[^0-9A-Za-z_]",
        Some(b'p' | b'P') => return property(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((set.to_owned(), &text[2..])))
}

/// Translates a Unicode property. `text` begins with `\p` or `\P`.
fn property(text: &str) -> Result<(String, &str), PatternError> {
    let mut negated = text.as_bytes()[1] == b'P';
    let (name, whole) = match text[2..].chars().next() {
        // Go's error quotes the missing bytes, of which there are none.
        None => return error("invalid character class range", text),
        Some('{') => match text.find('}') {
            Some(end) => (&text[3..end], &text[..=end]),
            None => return error("invalid character class range", text),
        },
        Some(single) => (&text[2..2 + single.len_utf8()], &text[..2 + single.len_utf8()]),
    };
    let name = match name.strip_prefix('^') {
        Some(rest) => {
            negated = !negated;
            rest
        }
        None => name,
    };
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ' '));
    let letter = if negated { 'P' } else { 'p' };
    // In Go a name is a general category or a script; the `regex` crate also knows others.
    let candidates = ["gc", "sc"].map(|kind| format!("\\{letter}{{{kind}={name}}}"));
    let special = matches!(name.to_ascii_lowercase().as_str(), "any" | "assigned" | "ascii");
    let found = if special {
        Some(format!("\\{letter}{{{name}}}"))
    } else {
        candidates.into_iter().find(|candidate| plain && regex_syntax::parse(candidate).is_ok())
    };
    match found {
        Some(set) => Ok((format!("[{set}]"), &text[whole.len()..])),
        None => error("invalid character class range", whole),
    }
}

/// Reads one escaped character.
pub(super) fn character(text: &str) -> Result<(char, &str), PatternError> {
    let body = &text[1..];
    let Some(first) = body.chars().next() else { return error("trailing backslash at end of expression", "") };
    let rest = &body[first.len_utf8()..];
    let simple = |character: char| Ok((character, rest));
    // A single digit other than 0 would be a back reference, which RE2 does not have.
    let octal_follows = rest.starts_with(|c: char| matches!(c, '0'..='7'));
    match first {
        '1'..='7' if !octal_follows => {}
        '0'..='7' => {
            let length = body.bytes().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
            let code = u32::from_str_radix(&body[..length], 8).unwrap_or(0);
            return Ok((char::from_u32(code).unwrap_or('\u{fffd}'), &body[length..]));
        }
        'x' => return hexadecimal(text, rest),
        'a' => return simple('\u{07}'),
        'f' => return simple('\u{0c}'),
        'n' => return simple('\n'),
        'r' => return simple('\r'),
        't' => return simple('\t'),
        'v' => return simple('\u{0b}'),
        other if other.is_ascii() && !other.is_ascii_alphanumeric() => return simple(other),
        _ => {}
    }
    error("invalid escape sequence", &text[..text.len() - rest.len()])
}

/// Reads `\x41` or `\x{1F600}`; `rest` is the text after the `x`.
fn hexadecimal<'a>(text: &'a str, rest: &'a str) -> Result<(char, &'a str), PatternError> {
    let refuse = |rest: &str| error("invalid escape sequence", &text[..text.len() - rest.len()]);
    if let Some(mut inner) = rest.strip_prefix('{') {
        let mut code: u32 = 0;
        let mut count = 0;
        loop {
            let Some(next) = inner.chars().next() else { return refuse(inner) };
            inner = &inner[next.len_utf8()..];
            if next == '}' {
                break;
            }
            match next.to_digit(16) {
                Some(digit) if code * 16 + digit <= 0x10_ffff => code = code * 16 + digit,
                _ => return refuse(inner),
            }
            count += 1;
        }
        if count == 0 {
            return refuse(inner);
        }
        return Ok((char::from_u32(code).unwrap_or('\u{fffd}'), inner));
    }
    let mut characters = rest.chars();
    let (high, low) = (characters.next(), characters.next());
    let after = characters.as_str();
    match (high.and_then(|c| c.to_digit(16)), low.and_then(|c| c.to_digit(16))) {
        (Some(high), Some(low)) => Ok((char::from_u32(high * 16 + low).unwrap_or('\u{fffd}'), after)),
        _ => refuse(after),
    }
}
