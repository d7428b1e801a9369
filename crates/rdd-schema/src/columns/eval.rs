//! Evaluates a parsed JSONPath.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Value;

use super::parse::{Bound, Node};

/// The limit of values that one step may find: a path such as `....` multiplies them.
const FOUND_MAX: usize = 100_000;

type Found<'v> = Vec<Cow<'v, Value>>;

/// An evaluation failed, with the values found so far, which an `exists` filter uses.
pub(super) struct Failed<'v> {
    pub(super) message: String,
    found: Found<'v>,
}

type Result<'v> = std::result::Result<Found<'v>, Failed<'v>>;

fn fail<'v>(found: Found<'v>, message: impl Into<String>) -> Result<'v> {
    Err(Failed { message: message.into(), found })
}

/// Evaluates the nodes in order; each works on the values that the previous one found.
pub(super) fn list<'v>(nodes: &[Node], mut found: Found<'v>) -> Result<'v> {
    for node in nodes {
        found = one(node, found)?;
        if found.len() > FOUND_MAX {
            return fail(Vec::new(), "too many results");
        }
    }
    Ok(found)
}

/// Evaluates one node.
fn one<'v>(node: &Node, input: Found<'v>) -> Result<'v> {
    // A literal stands once for each input, as upstream.
    let literal = |value: Value| Ok(vec![Cow::Owned(value); input.len()]);
    match node {
        Node::Text(text) => Ok(vec![Cow::Owned(text.as_str().into())]),
        Node::Integer(integer) => literal((*integer).into()),
        Node::Float(float) => literal((*float).into()),
        Node::Bool(flag) => literal((*flag).into()),
        Node::Field(name) => Ok(input.into_iter().filter_map(|value| entry(value, name)).collect()),
        Node::Wildcard => Ok(input.into_iter().flat_map(children).collect()),
        Node::Recursive => {
            let mut out = Vec::new();
            for value in input {
                if !descend(value, &mut out) {
                    return fail(Vec::new(), "too many results");
                }
            }
            Ok(out)
        }
        Node::Slice(bounds) => slice(bounds, input),
        Node::Union(parts) => {
            let mut out = Vec::new();
            for part in parts {
                match list(part, input.clone()) {
                    Ok(found) => out.extend(found),
                    Err(failed) => return fail(input, failed.message),
                }
            }
            Ok(out)
        }
        Node::Filter { left, operator, right } => filter(left, operator, right, input),
        Node::Identifier(name) if name == "range" => Ok(input),
        Node::Identifier(name) if name == "end" => fail(Vec::new(), "not in range, nothing to end"),
        Node::Identifier(name) => fail(input, format!("unrecognized identifier {name}")),
    }
}

fn entry<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(value) => value.as_object()?.get(name).map(Cow::Borrowed),
        Cow::Owned(value) => value.as_object()?.get(name).cloned().map(Cow::Owned),
    }
}

/// The entries of an object, the items of a list and, as upstream, the bytes of a string.
fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Object(entries)) => entries.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        other => match other.as_str() {
            Some(text) => text.bytes().map(|byte| Cow::Owned(byte.into())).collect(),
            None => Vec::new(),
        },
    }
}

/// Collects every non-empty list, object and string at or below a value, parents first. Returns false when there are too many.
fn descend<'v>(value: Cow<'v, Value>, out: &mut Found<'v>) -> bool {
    let below = match &*value {
        Value::String(text) => {
            if !text.is_empty() {
                out.push(value);
            }
            return out.len() <= FOUND_MAX;
        }
        _ => children(value.clone()),
    };
    if !below.is_empty() {
        out.push(value);
    }
    out.len() <= FOUND_MAX && below.into_iter().all(|child| descend(child, out))
}

/// Evaluates a slice or an index.
fn slice<'v>(bounds: &[Bound; 3], input: Found<'v>) -> Result<'v> {
    let mut out = Vec::new();
    for value in &input {
        let Value::Array(items) = &**value else {
            // Upstream skips nulls and fails for every other type.
            if value.is_null() {
                continue;
            }
            return fail(input.clone(), "value is not array or slice");
        };
        let length = items.len() as i64;
        let from_end = |bound: i64| if bound < 0 { bound.saturating_add(length) } else { bound };
        let start = from_end(bounds[0].value.unwrap_or(0));
        let end = match bounds[1] {
            Bound { value: None, .. } => length,
            // The end that follows index -1 is 0, which means the end of the list.
            Bound { value: Some(0), derived: true } => length,
            Bound { value: Some(end), .. } => from_end(end),
        };
        // Upstream returns what it has so far, without the remaining values.
        if start == end {
            return Ok(out);
        }
        let outside = |index: i64| format!("array index out of bounds: index {index}, length {length}");
        if start >= length || start < 0 {
            return fail(input, outside(start));
        }
        if end > length || end < 0 {
            return fail(input, outside(end - 1));
        }
        if start > end {
            return fail(input, format!("starting index {start} is greater than ending index {end}"));
        }
        let step = bounds[2].value.unwrap_or(1);
        let Some(step) = usize::try_from(step).ok().filter(|step| *step > 0) else {
            return fail(input, "step must be > 0");
        };
        let picked = (start as usize..end as usize).step_by(step);
        match value {
            Cow::Borrowed(Value::Array(items)) => out.extend(picked.map(|at| Cow::Borrowed(&items[at]))),
            _ => out.extend(picked.map(|at| Cow::Owned(items[at].clone()))),
        }
    }
    Ok(out)
}

fn filter<'v>(left: &[Node], operator: &str, right: &[Node], input: Found<'v>) -> Result<'v> {
    let mut out = Vec::new();
    for value in &input {
        if !value.is_array() {
            return fail(input.clone(), "value is not array or slice and cannot be filtered");
        }
        for item in children(value.clone()) {
            let lefts = list(left, vec![item.clone()]);
            // `exists` succeeds on the values found before a failure.
            if operator == "exists" {
                let found = lefts.unwrap_or_else(|failed| failed.found);
                if !found.is_empty() {
                    out.push(item);
                }
                continue;
            }
            let sides = lefts.and_then(|lefts| Ok((single(lefts)?, list(right, vec![item.clone()]))));
            let (left, rights) = match sides {
                Ok((Some(left), rights)) => (left, rights),
                Ok((None, _)) => continue,
                Err(failed) => return fail(input, failed.message),
            };
            let right = match rights.and_then(single) {
                Ok(Some(right)) => right,
                Ok(None) => continue,
                Err(failed) => return fail(input, failed.message),
            };
            match compare(&left, operator, &right) {
                Ok(true) => out.push(item),
                Ok(false) => {}
                // The items that matched so far count for an enclosing `exists`.
                Err(message) => return fail(out, message),
            }
        }
    }
    Ok(out)
}

/// A side of a comparison must be at most one value.
fn single(mut found: Found<'_>) -> std::result::Result<Option<Cow<'_, Value>>, Failed<'_>> {
    if found.len() > 1 {
        return Err(Failed { message: "can only compare one element at a time".to_owned(), found });
    }
    Ok(found.pop())
}

fn compare(left: &Value, operator: &str, right: &Value) -> std::result::Result<bool, String> {
    if !matches!(operator, "<" | ">" | "==" | "!=" | "<=" | ">=") {
        return Err(format!("unrecognized filter operator {operator}"));
    }
    let incompatible = || "incompatible types for comparison".to_owned();
    let order = match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => match operator {
            "==" => return Ok(left == right),
            "!=" => return Ok(left != right),
            _ => return Err("invalid type for comparison".to_owned()),
        },
        (Value::String(left), Value::String(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()),
            _ => return Err(incompatible()),
        },
        (Value::Null | Value::Array(_) | Value::Object(_), _)
        | (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            return Err("invalid type for comparison".to_owned());
        }
        _ => return Err(incompatible()),
    };
    Ok(match operator {
        "<" => order == Some(Ordering::Less),
        ">" => order == Some(Ordering::Greater),
        "==" => order == Some(Ordering::Equal),
        "!=" => order != Some(Ordering::Equal),
        "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}
