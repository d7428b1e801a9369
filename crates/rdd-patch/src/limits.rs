//! The limit on the nesting depth of documents.

use serde_json::Value;

/// The maximum nesting depth that the operations of this crate accept.
///
/// They recurse, so unlimited depth would overflow the stack. Real objects have fewer than 60 levels, and the server's
/// JSON parser has a limit of 128.
pub const DEPTH_MAX: usize = 256;

/// A document is nested deeper than [`DEPTH_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("document is nested deeper than {DEPTH_MAX} levels")]
pub struct TooDeep;

/// Fails if a document exceeds [`DEPTH_MAX`]. Does not recurse itself.
pub(crate) fn check_depth(document: &Value) -> Result<(), TooDeep> {
    // A work list on the heap, because the document may be too deep for recursion.
    let mut pending = vec![(document, 1)];
    while let Some((value, depth)) = pending.pop() {
        if depth > DEPTH_MAX {
            return Err(TooDeep);
        }
        match value {
            Value::Array(items) => {
                pending.extend(items.iter().filter(|item| is_container(item)).map(|item| (item, depth + 1)))
            }
            Value::Object(fields) => {
                pending.extend(fields.values().filter(|field| is_container(field)).map(|field| (field, depth + 1)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn is_container(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact() {
        let nested = |depth: usize| (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert_eq!(check_depth(&nested(DEPTH_MAX)), Ok(()));
        assert_eq!(check_depth(&nested(DEPTH_MAX + 1)), Err(TooDeep));
    }
}
