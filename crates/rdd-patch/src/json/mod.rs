//! JSON patch (RFC 6902), as Kubernetes applies it through gopkg.in/evanphx/json-patch.v4.
//!
//! # Deviations from the RFC that upstream has and this module keeps
//! - `replace` of a missing field of an object adds it; `add` without a value adds null.
//! - A negative index counts from the end; `+1` and `01` are valid indices.
//!
//! # Deviations from upstream
//! - `test` compares values. Upstream compares the bytes of scalars, so `"a<b"` does not match its own encoding
//!   `"a\u003cb"`, and it distinguishes a null that the patch itself added from other nulls.
//! - Where upstream panics (`test` on a list with a null, `replace` of the whole document without a value), this module
//!   compares the values or returns an error.

mod node;
mod pointer;

use self::{
    node::{Node, depth_of},
    pointer::{find, levels},
};
use crate::limits::{DEPTH_MAX, TooDeep, check_depth};
use rdd_meta::{go_json, go_text};
use serde_json::{Map, Value};

/// The maximum number of operations of a patch.
pub const OPERATIONS_MAX: usize = 10_000;
/// The default limit on the bytes that the `copy` operations of a patch may add, the same as kube-apiserver's.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Why a document is not a JSON patch. The server answers [`Malformed`](DecodeError::Malformed) with 400 and
/// [`TooManyOperations`](DecodeError::TooManyOperations) with 413; both messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The document or an operation has the wrong JSON type.
    #[error("json: cannot unmarshal {found} into Go value of type jsonpatch.{expected}")]
    Malformed { found: &'static str, expected: &'static str },
    /// The patch has more than [`OPERATIONS_MAX`] operations.
    #[error("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {count}")]
    TooManyOperations { count: usize },
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// Why an operation cannot be applied. The server answers each of these with 422; the messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A `test` operation found a different value.
    #[error("testing value {path} failed: test failed")]
    TestFailed { path: String },
    /// The operation is malformed, or its path does not exist.
    #[error("{0}")]
    DoesNotApply(String),
    /// The `copy` operations together exceed the limit on copied bytes.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {accumulated}, exceeding the limit {limit}"
    )]
    CopiesTooMuch { accumulated: usize, limit: usize },
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// A decoded patch: a list of operations in order.
///
/// Like upstream, the patch checks an operation only when it executes it: a malformed operation fails the patch only if
/// those before it succeed.
#[derive(Debug, Clone)]
pub struct Patch {
    operations: Vec<Map<String, Value>>,
}

impl Patch {
    /// Decodes a patch from its JSON document. Null is a patch without operations.
    ///
    /// # Errors
    /// When the document is not a list of objects, has too many operations, or exceeds the maximum depth.
    pub fn decode(document: &Value) -> Result<Self, DecodeError> {
        check_depth(document)?;
        let items = match document {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            other => return Err(DecodeError::Malformed { found: go_json::type_name(other), expected: "Patch" }),
        };
        let mut operations = Vec::with_capacity(items.len().min(OPERATIONS_MAX));
        for item in items {
            operations.push(match item {
                Value::Object(fields) => fields.clone(),
                Value::Null => Map::new(),
                other => {
                    return Err(DecodeError::Malformed { found: go_json::type_name(other), expected: "Operation" });
                }
            });
        }
        if operations.len() > OPERATIONS_MAX {
            return Err(DecodeError::TooManyOperations { count: operations.len() });
        }
        Ok(Self { operations })
    }

    /// Applies the operations in order to a copy of `document`.
    ///
    /// # Guarantees
    /// Either all operations succeed or the call fails; the result does not exceed the maximum depth.
    ///
    /// # Errors
    /// The error of the first operation that cannot be applied.
    pub fn apply(&self, document: &Value) -> Result<Value, ApplyError> {
        self.apply_limited(document, COPIED_BYTES_MAX)
    }

    /// Like [`apply`](Self::apply), with another limit on the bytes that `copy` may add; 0 means no limit.
    pub fn apply_limited(&self, document: &Value, copied_bytes_max: usize) -> Result<Value, ApplyError> {
        check_depth(document)?;
        if !document.is_object() && !document.is_array() {
            let found = go_json::type_name(document);
            return Err(ApplyError::DoesNotApply(format!(
                "json: cannot unmarshal {found} into Go value of type jsonpatch.partialDoc"
            )));
        }
        let root = Node::Closed(document.clone());
        let mut target = Target { root, copied: 0, copied_bytes_max, depth_at_most: DEPTH_MAX, walked: 0 };
        for operation in &self.operations {
            target.perform(&Operation(operation))?;
        }
        let patched = target.root.into_value();
        check_depth(&patched)?;
        Ok(patched)
    }
}

/// Finds the unknown fields of a patch's operations, for field validation (`Strict` or `Warn`, the default) before the
/// patch is decoded. The messages are upstream's.
///
/// # Errors
/// When the patch is malformed; the message differs from that of [`decode`](Patch::decode). The server answers 400 with
/// `error decoding patch: ` and the error.
pub fn unknown_fields(document: &Value) -> Result<Vec<String>, String> {
    check_depth(document).map_err(|error| error.to_string())?;
    let items = match document {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        other => return Err(mistyped(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut unknown = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => continue,
            other => return Err(mistyped(other, "value of type handlers.jsonPatchOp")),
        };
        for (name, value) in fields {
            match name.as_str() {
                "value" => {}
                "op" | "path" | "from" if value.is_string() || value.is_null() => {}
                "op" | "path" | "from" => {
                    return Err(mistyped(value, &format!("struct field jsonPatchOp.{name} of type string")));
                }
                other => {
                    unknown.push(format!("json patch unknown field {}", go_text::quote(&format!("[{index}].{other}"))))
                }
            }
        }
    }
    Ok(unknown)
}

fn mistyped(found: &Value, expected: &str) -> String {
    format!("json: cannot unmarshal {} into Go {expected}", go_json::type_name(found))
}

struct Operation<'a>(&'a Map<String, Value>);

impl<'a> Operation<'a> {
    fn kind(&self) -> &'a str {
        self.0.get("op").and_then(Value::as_str).unwrap_or("unknown")
    }

    fn path(&self) -> Result<&'a str, String> {
        self.pointer("path", "operation missing path field: missing value")
    }

    fn from(&self) -> Result<&'a str, String> {
        self.pointer("from", "operation, missing from field: missing value")
    }

    fn pointer(&self, name: &str, missing: &str) -> Result<&'a str, String> {
        match self.0.get(name) {
            Some(Value::String(pointer)) => Ok(pointer),
            None | Some(Value::Null) => Err(missing.to_owned()),
            Some(other) => {
                Err(format!("json: cannot unmarshal {} into Go value of type string", go_json::type_name(other)))
            }
        }
    }

    fn value(&self) -> &'a Value {
        self.0.get("value").unwrap_or(&Value::Null)
    }

    fn node(&self) -> Node {
        Node::Closed(self.value().clone())
    }
}

/// How many values one patch may make [`Target::deepened`] visit.
const WALKED_MAX: usize = 50_000_000;
/// The upper bound of the depth at which [`Target::deepened`] measures the actual depth.
const SEEMING_DEPTH_MAX: usize = 2 * DEPTH_MAX;

struct Target {
    root: Node,
    copied: usize,
    copied_bytes_max: usize,
    /// An upper bound of the document's depth.
    depth_at_most: usize,
    walked: usize,
}

impl Target {
    /// Records that a value of at most this depth was stored at `path`. Must be called after every such change: a patch
    /// can copy the document into itself repeatedly, and both walking and dropping the result recurse.
    ///
    /// The bound is cheap to maintain but too high over time. When it gets too high, the actual depth is measured; the
    /// total cost of that is limited too.
    fn deepened(&mut self, path: &str, depth: usize) -> Result<(), TooDeep> {
        self.depth_at_most = self.depth_at_most.max(levels(path) + depth);
        if self.depth_at_most <= SEEMING_DEPTH_MAX {
            return Ok(());
        }
        let (depth, walked) = self.root.depth();
        self.walked += walked;
        self.depth_at_most = depth;
        if depth > DEPTH_MAX || self.walked > WALKED_MAX { Err(TooDeep) } else { Ok(()) }
    }

    fn perform(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        match operation.kind() {
            "add" => self.add(operation),
            "remove" => self.remove(operation),
            "replace" => self.replace(operation),
            "move" => self.relocate(operation),
            "test" => self.test(operation),
            "copy" => self.copy(operation),
            other => Err(refuse(format!("Unexpected kind: {other}"))),
        }
    }

    fn add(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        let Ok(path) = operation.path() else {
            return Err(refuse("add operation failed to decode path: missing value"));
        };
        let Some((container, key)) = find(&mut self.root, path) else {
            return Err(refuse(format!(
                "add operation does not apply: doc is missing path: \"{path}\": missing value"
            )));
        };
        container
            .add(&key, operation.node())
            .map_err(|error| refuse(format!("error in add for path: '{path}': {error}")))?;
        self.deepened(path, depth_of(operation.value()).0)?;
        Ok(())
    }

    fn remove(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        let Ok(path) = operation.path() else {
            return Err(refuse("remove operation failed to decode path: missing value"));
        };
        let Some((container, key)) = find(&mut self.root, path) else {
            return Err(refuse(format!(
                "remove operation does not apply: doc is missing path: \"{path}\": missing value"
            )));
        };
        match container.remove(&key) {
            Ok(_) => Ok(()),
            Err(error) => Err(refuse(format!("error in remove for path: '{path}': {error}"))),
        }
    }

    fn replace(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        let path =
            operation.path().map_err(|error| refuse(format!("replace operation failed to decode path: {error}")))?;
        if path.is_empty() {
            let value = operation.value();
            if !value.is_object() && !value.is_array() {
                // Upstream formats a nil error here; the message is kept.
                return Err(refuse("replace operation value must be object or array: %!w(<nil>)"));
            }
            self.root = operation.node();
            return Ok(());
        }
        let Some((container, key)) = find(&mut self.root, path) else {
            return Err(refuse(format!(
                "replace operation does not apply: doc is missing path: {path}: missing value"
            )));
        };
        if container.get(&key).is_err() {
            return Err(refuse(format!("replace operation does not apply: doc is missing key: {path}: missing value")));
        }
        container
            .set(&key, operation.node())
            .map_err(|error| refuse(format!("error in remove for path: '{path}': {error}")))?;
        self.deepened(path, depth_of(operation.value()).0)?;
        Ok(())
    }

    fn relocate(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        let from =
            operation.from().map_err(|error| refuse(format!("move operation failed to decode from: {error}")))?;
        let Some((container, key)) = find(&mut self.root, from) else {
            return Err(refuse(format!(
                "move operation does not apply: doc is missing from path: {from}: missing value"
            )));
        };
        // Upstream gets before it removes; the get decides the error of a bad index.
        container.get(&key).map_err(|error| refuse(format!("error in move for path: '{key}': {error}")))?;
        let value =
            container.remove(&key).map_err(|error| refuse(format!("error in move for path: '{key}': {error}")))?;
        let path =
            operation.path().map_err(|error| refuse(format!("move operation failed to decode path: {error}")))?;
        let Some((container, key)) = find(&mut self.root, path) else {
            return Err(refuse(format!(
                "move operation does not apply: doc is missing destination path: {path}: missing value"
            )));
        };
        container.add(&key, value).map_err(|error| refuse(format!("error in move for path: '{path}': {error}")))?;
        self.deepened(path, self.depth_at_most.saturating_sub(levels(from)))?;
        Ok(())
    }

    fn test(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        let path =
            operation.path().map_err(|error| refuse(format!("test operation failed to decode path: {error}")))?;
        let is_same = if path.is_empty() {
            self.root.equals(operation.value())
        } else {
            let Some((container, key)) = find(&mut self.root, path) else {
                return Err(refuse(format!("test operation does not apply: is missing path: {path}: missing value")));
            };
            let found =
                container.get(&key).map_err(|error| refuse(format!("error in test for path: '{path}': {error}")))?;
            found.unwrap_or(&Node::NULL).equals(operation.value())
        };
        if is_same { Ok(()) } else { Err(ApplyError::TestFailed { path: path.to_owned() }) }
    }

    fn copy(&mut self, operation: &Operation<'_>) -> Result<(), ApplyError> {
        let from =
            operation.from().map_err(|error| refuse(format!("copy operation failed to decode from: {error}")))?;
        let Some((container, key)) = find(&mut self.root, from) else {
            return Err(refuse(format!(
                "copy operation does not apply: doc is missing from path: {from}: missing value"
            )));
        };
        let found =
            container.get(&key).map_err(|error| refuse(format!("error in copy for from: '{from}': {error}")))?;
        // Copy before the destination is looked up, since both borrow the document mutably.
        let value = found.cloned().unwrap_or(Node::NULL).into_value();
        let Ok(path) = operation.path() else {
            return Err(refuse("copy operation failed to decode path: missing value"));
        };
        if find(&mut self.root, path).is_none() {
            return Err(refuse(format!(
                "copy operation does not apply: doc is missing destination path: {path}: missing value"
            )));
        }
        self.copied += copied_size(&value);
        if self.copied_bytes_max > 0 && self.copied > self.copied_bytes_max {
            return Err(ApplyError::CopiesTooMuch { accumulated: self.copied, limit: self.copied_bytes_max });
        }
        let Some((container, key)) = find(&mut self.root, path) else {
            return Ok(()); // looked up just above
        };
        let (depth, _) = depth_of(&value);
        let value = Node::Closed(value);
        container.add(&key, value).map_err(|error| refuse(format!("error while adding value during copy: {error}")))?;
        self.deepened(path, depth)?;
        Ok(())
    }
}

fn refuse(text: impl Into<String>) -> ApplyError {
    ApplyError::DoesNotApply(text.into())
}

/// The size of a copied value as upstream counts it: the length of its JSON, and 0 for null.
fn copied_size(value: &Value) -> usize {
    if value.is_null() {
        return 0;
    }
    let mut text = String::new();
    go_json::write_value(&mut text, value);
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn apply(document: Value, patch: Value) -> Result<Value, String> {
        Patch::decode(&patch).map_err(|error| error.to_string())?.apply(&document).map_err(|error| error.to_string())
    }

    #[test]
    fn operations_apply_in_order() {
        let patch = json!([
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "copy", "from": "/a/0", "path": "/b"},
            {"op": "move", "from": "/a/1", "path": "/c~1d"},
            {"op": "test", "path": "/b", "value": 1},
            {"op": "remove", "path": "/a/-1"},
        ]);
        assert_eq!(apply(json!({"a": [1, 2]}), patch), Ok(json!({"a": [1], "b": 1, "c/d": 2})));
    }

    #[test]
    fn replacing_a_missing_field_adds_it_but_a_missing_index_is_refused() {
        assert_eq!(apply(json!({}), json!([{"op": "replace", "path": "/a", "value": 1}])), Ok(json!({"a": 1})));
        assert_eq!(
            apply(json!({"a": []}), json!([{"op": "replace", "path": "/a/0", "value": 1}])),
            Err("replace operation does not apply: doc is missing key: /a/0: missing value".to_owned())
        );
    }

    #[test]
    fn a_failed_test_is_told_apart_from_a_missing_path() {
        let patch = Patch::decode(&json!([{"op": "test", "path": "/a", "value": 2}])).unwrap();
        assert_eq!(patch.apply(&json!({"a": 1})), Err(ApplyError::TestFailed { path: "/a".to_owned() }));
        assert!(matches!(
            Patch::decode(&json!([{"op": "test", "path": "/a/b", "value": 2}])).unwrap().apply(&json!({"a": 1})),
            Err(ApplyError::DoesNotApply(_))
        ));
    }

    #[test]
    fn too_many_operations_are_refused_before_any_is_applied() {
        let patch = Value::Array(vec![json!({}); OPERATIONS_MAX + 1]);
        assert_eq!(Patch::decode(&patch).unwrap_err(), DecodeError::TooManyOperations { count: OPERATIONS_MAX + 1 });
    }

    #[test]
    fn copies_that_double_the_document_run_into_the_limit() {
        let copies =
            (0..200).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/a/x{index}")})).collect();
        let result = Patch::decode(&Value::Array(copies)).unwrap().apply(&json!({"a": {"b": "x".repeat(100)}}));
        assert!(matches!(result, Err(ApplyError::CopiesTooMuch { .. })));
    }

    // Finding A-11
    #[test]
    fn the_sizes_of_all_copies_are_summed_against_the_limit() {
        let document = json!({"a": "x".repeat(98)}); // 100 bytes of JSON
        let copies = |count: usize| {
            let copies = (0..count).map(|index| json!({"op": "copy", "from": "/a", "path": format!("/b{index}")}));
            Patch::decode(&Value::Array(copies.collect())).unwrap().apply_limited(&document, 300)
        };
        assert!(copies(3).is_ok(), "three copies are exactly the limit");
        assert_eq!(copies(4), Err(ApplyError::CopiesTooMuch { accumulated: 400, limit: 300 }));
    }
}
