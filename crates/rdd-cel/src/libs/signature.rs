//! Signatures of the function table, each as a line of text: `id: (int, string) -> bool`, or `id: string.(int) -> bool` for a
//! method.

use crate::types::Type;

#[derive(Debug)]
pub(super) struct Signature {
    pub(super) id: String,
    pub(super) member: bool,
    pub(super) params: Vec<Type>,
    pub(super) result: Type,
}

/// Parses a signature of the table. It panics on a mistake, which every test that loads the table detects.
pub(super) fn parse(text: &str) -> Signature {
    let (id, rest) = text.split_once(": ").expect("a signature has an id");
    let (params, result) = rest.rsplit_once(" -> ").expect("a signature has a result");
    let (receiver, args) = match params.split_once(".(") {
        Some((receiver, args)) => (Some(receiver), args),
        None => (None, &params[1..]),
    };
    let mut types: Vec<Type> = receiver.into_iter().map(parse_type).collect();
    types.extend(split(args.strip_suffix(')').expect("a list of parameters is closed")).into_iter().map(parse_type));
    Signature { id: id.into(), member: receiver.is_some(), params: types, result: parse_type(result) }
}

/// Splits at the commas that are not in brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

fn parse_type(text: &str) -> Type {
    if let Some((outer, inner)) = text.split_once('<') {
        let mut inner: Vec<Type> =
            split(inner.strip_suffix('>').expect("brackets are closed")).into_iter().map(parse_type).collect();
        return match (outer, inner.len()) {
            ("list", 1) => Type::list(inner.remove(0)),
            ("optional", 1) => Type::optional(inner.remove(0)),
            ("type", 1) => Type::type_of(inner.remove(0)),
            ("map", 2) => {
                let value = inner.remove(1);
                Type::map(inner.remove(0), value)
            }
            _ => unreachable!("no type is spelled {text}"),
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "dyn" => Type::Dyn,
        "IP" | "CIDR" => Type::Opaque(format!("net.{text}").into(), Vec::new()),
        "Quantity" | "URL" | "Semver" | "NamedFormat" => Type::object(&format!("kubernetes.{text}")),
        name if name.len() == 1 => Type::param(name),
        name => Type::object(&format!("kubernetes.authorization.{name}")),
    }
}
