//! Resolves `fieldPath` of a rule, a small subset of JSONPath.

use crate::shape::Shape;

/// Resolves a path in the schema. Returns it as failures show it, or `None` if the schema has no such field.
pub(super) fn normalize(path: &str, schema: &Shape) -> Option<String> {
    let mut rest = path;
    let mut shown = String::new();
    let mut shape = schema;
    while !rest.is_empty() {
        let (name, after) = if let Some(bracketed) = rest.strip_prefix("['") {
            quoted(bracketed)?
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            (plain[..end].to_owned(), &plain[end..])
        };
        if name.is_empty() {
            return None;
        }
        if shape.properties.is_empty() {
            shape = shape.additional.as_deref()?;
            shown.push_str(&format!("[{name}]"));
        } else {
            shape = shape.properties.get(&name)?;
            let dot = if shown.is_empty() { "" } else { "." };
            shown.push_str(&format!("{dot}{name}"));
        }
        rest = after;
    }
    (!shown.is_empty()).then_some(shown)
}

/// Reads a name up to `']` and resolves its escapes. Returns the name and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return text[at + 1..].strip_prefix(']').map(|after| (name, after)),
            '\\' => name.push(match chars.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                plain @ ('\'' | '\\') => plain,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
    None
}
