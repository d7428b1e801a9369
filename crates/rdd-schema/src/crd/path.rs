//! Resolves paths of rules and selectable fields in a schema: `.spec.name` and `.spec['name']`.

use crate::{field::Path, props::Props};

/// The result of a path.
#[derive(Debug)]
pub(super) struct Resolved<'s> {
    /// The path as field errors print it.
    pub(super) text: String,
    /// The first field of the path.
    pub(super) root: String,
    /// The schema at the path; `None` below `additionalProperties: true`.
    pub(super) schema: Option<&'s Props>,
}

/// Resolves a path, as upstream's `ValidFieldPath`. `brackets` allows `['name']`. The error is upstream's text.
pub(super) fn resolve<'s>(path: &str, schema: Option<&'s Props>, brackets: bool) -> Result<Resolved<'s>, String> {
    let mut tokens = Tokens { rest: path };
    let mut resolved = Resolved { text: String::new(), root: String::new(), schema };
    let mut first = true;
    while let Some(token) = tokens.next() {
        let end = || "unexpected end of JSON path".to_owned();
        let name = match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let literal = tokens.next().ok_or_else(end)?;
                let inner = literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {literal}"))?;
                unescape(inner).map_err(|error| format!("invalid string literal: {error}"))?
            }
            "." => tokens.next().ok_or_else(end)?.to_owned(),
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        step(&mut resolved, &name)?;
        if std::mem::take(&mut first) {
            resolved.root = resolved.text.clone();
        }
        if token == "[" {
            match tokens.next() {
                Some("]") => {}
                Some(other) => return Err(format!("expected ] but got {other}")),
                None => return Err(end()),
            }
        }
    }
    Ok(resolved)
}

/// Appends one field to the resolved path. Declared properties hide `additionalProperties`.
fn step(resolved: &mut Resolved<'_>, name: &str) -> Result<(), String> {
    let nowhere = || "does not refer to a valid field".to_owned();
    let schema = resolved.schema.ok_or_else(nowhere)?;
    let named = !schema.properties.is_empty();
    if !named && schema.additional_properties.is_none() {
        return Err(nowhere());
    }
    let last = if named { Path::Child(&Path::Nil, name) } else { Path::Key(&Path::Nil, name) };
    let text = last.to_string();
    if named && !resolved.text.is_empty() && !name.is_empty() {
        resolved.text.push('.');
    }
    resolved.text.push_str(&text);
    resolved.schema =
        if named { Some(schema.properties.get(name).ok_or_else(nowhere)?) } else { schema.additional_schema() };
    Ok(())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match characters.next() {
            Some('a') => '\u{07}',
            Some('b') => '\u{08}',
            Some('f') => '\u{0c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{0b}',
            Some('\'') => '\'',
            Some('\\') => '\\',
            Some(other) => return Err(format!("invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(out)
}

/// Splits a path into the delimiters `.`, `[` and `]`, quoted strings, and the names between them.
struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let bytes = self.rest.as_bytes();
        let length = match bytes[0] {
            b'\'' => (1..bytes.len())
                .find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\')
                .map_or(bytes.len(), |at| at + 1),
            b'.' | b'[' | b']' => 1,
            _ => self.rest.find(['.', '[', ']']).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        Some(token)
    }
}
