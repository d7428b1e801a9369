//! The seam between the generic handlers and one kind in one version.

use std::{borrow::Cow, fmt::Debug};

use rdd_meta::{FieldError, Status, names::NameRule, time::Timestamp};
use rdd_patch::{shape::Shape, ssa};
pub use rdd_schema::{ordered::Ordered, resource::Origin, strict::Finding};
use serde_json::Value;

/// A kind in one version: how its objects are decoded, defaulted, validated and printed. It is the only place where kinds
/// differ.
///
/// # Flow
///
/// A write calls `decode`; mutating admission, and `decode` again for what admission changed; `prepare_for_create` or
/// `prepare_for_update`; `validate_create` or `validate_update`; then validating admission. A subresource is named as in its
/// path; the empty name is the object itself.
///
/// # Guarantees and assumptions
///
/// No method does IO. All methods are pure, except for the kind of CustomResourceDefinitions: it accepts names while it
/// prepares an object, from its ledger and its clock. Methods other than `decode` receive objects that `decode` accepted.
///
/// # Errors
///
/// `decode` returns a Status for the client. Validation returns every field error, in upstream's order; the handler makes one
/// 422 of them.
pub trait Kind: Debug + Send + Sync {
    /// Brings an object into the form of this kind: drops unknown fields, types the metadata, fills in defaults. Returns the
    /// dropped fields for field validation, in upstream's order.
    ///
    /// The Status is a BadRequest in upstream's words, for a value of the wrong type or malformed metadata.
    fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, Status>;

    /// The same for the text of a body, which shows the order of its fields and all duplicates. `None` if the kind treats both
    /// alike, as custom resources do.
    fn decode_ordered(&self, _text: &Ordered) -> Option<Result<(Value, Vec<Finding>), Status>> {
        None
    }

    /// Drops fields that this version does not know from an object that was stored in another version. Fills in no defaults.
    fn prune(&self, _object: &mut Value) {}

    /// Fills in defaults and changes nothing else.
    fn default(&self, object: &mut Value);

    /// The object to store, if it differs from `object`: with the defaults that upstream fills in when it reads the object
    /// back, after [`prepare_for_create`](Self::prepare_for_create) removed values.
    fn default_stored(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// Whether [`default_stored`](Self::default_stored) may change an object. Reads then apply it to objects that an
    /// older release stored without it.
    fn defaults_when_read(&self) -> bool {
        false
    }

    /// How objects merge: for server-side apply, and for strategic merge patch on built-in kinds.
    fn shape(&self) -> Shape;

    /// Whether the kind supports strategic merge patch. Only built-in kinds do.
    fn strategic(&self) -> bool {
        false
    }

    /// An object of the kind with no field set; a create by apply merges into it.
    fn empty(&self) -> Cow<'_, Value>;

    /// The fields that an endpoint ignores, so that no field manager comes to own them there.
    fn reset_fields(&self, subresource: &str) -> &ssa::Filter;

    /// Whether even a small object may take long to decode or validate: its schema is not compiled yet, or it has CEL rules.
    /// Writes of such objects run off the async workers.
    fn is_expensive(&self) -> bool {
        false
    }

    /// The syntax of object names.
    fn name_rule(&self) -> NameRule;

    /// Drops fields that a client may not set on create, and sets fields that the server sets.
    fn prepare_for_create(&self, object: &mut Value);

    /// Restores from `old` what this endpoint may not change, and increments the generation if anything else changed.
    fn prepare_for_update(&self, subresource: &str, new: &mut Value, old: &Value);

    /// The errors of a new object, metadata included; the errors of the kind come first.
    fn validate_create(&self, object: &Value) -> Vec<FieldError>;

    /// The errors of an update through this endpoint, metadata included.
    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError>;

    /// Warnings about an accepted object.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Marks an object whose deletion is not the generic one (a Namespace, a CustomResourceDefinition): sets the fields that
    /// its kind needs beside the deletion timestamp. Returns `true` if the object must stay until its controller finishes it,
    /// whatever finalizers it has now.
    fn begin_deletion(&self, _object: &mut Value, _now: Timestamp) -> bool {
        false
    }

    /// Whether an object that is being deleted and has no finalizers left may be removed.
    fn may_vanish(&self, _object: &Value) -> bool {
        true
    }

    /// The fields that field selectors may use, beside `metadata.name` and `metadata.namespace`, which the caller handles.
    fn selectable_fields(&self) -> &[String] {
        &[]
    }

    /// The value of one of [`selectable_fields`](Self::selectable_fields); empty if the object does not have it.
    fn selectable_field(&self, _object: &Value, _field: &str) -> String {
        String::new()
    }

    /// The columns of tables; the name comes first.
    fn columns(&self) -> &[Column];

    /// The cells of one row, the name included, in the order of [`columns`](Self::columns).
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;
}

/// A column of a table: Kubernetes' `TableColumnDefinition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the column of the name, mostly empty for others.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 for a column that is always shown; others need `-o wide`.
    pub priority: i32,
}
