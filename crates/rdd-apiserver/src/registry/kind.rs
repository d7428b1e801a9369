//! What the generic handlers ask of a kind in one version: the only place where kinds differ.

use std::{borrow::Cow, fmt::Debug};

use rdd_meta::{FieldError, Status, names::NameRule, time::Timestamp};
use rdd_patch::{shape::Shape, ssa};
pub use rdd_schema::{ordered::Ordered, resource::Origin, strict::Finding};
use serde_json::Value;

/// A kind in one version: how its objects are read, completed and checked. None of it does IO. All of it is pure but for
/// definitions, whose names are settled while they are prepared, by what their ledger knows and at the time that their clock
/// tells.
///
/// A write goes: `decode`, mutating admission (and `decode` again of what it changed), `prepare_for_create` or
/// `prepare_for_update`, then `validate_create` or `validate_update`, then validating admission. Names of subresources are as
/// in paths; the object itself is the empty name.
pub trait Kind: Debug + Send + Sync {
    /// Makes an object of this kind what its type says: drops what is unknown, types its metadata, fills in defaults. Returns
    /// what was dropped, for field validation, in upstream's order.
    ///
    /// The Status is a BadRequest in upstream's words: a value of the wrong type, malformed metadata.
    fn decode(&self, object: &mut Value, origin: Origin) -> Result<Vec<Finding>, Status>;

    /// The same for a text that says more than the value that was read from it: in which order its fields are, and all of
    /// those that are there twice. `None` if the kind makes no difference between the two, as custom resources do not.
    fn decode_ordered(&self, _text: &Ordered) -> Option<Result<(Value, Vec<Finding>), Status>> {
        None
    }

    /// Drops what this version does not know from an object that was stored in another one, and fills in nothing.
    fn prune(&self, _object: &mut Value) {}

    /// Fills in defaults alone.
    fn default(&self, object: &mut Value);

    /// An object as it is stored, if that is more than the object: with the defaults that upstream fills in when it reads the
    /// object back, after [`prepare_for_create`](Self::prepare_for_create) took values away.
    fn default_stored(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// Whether [`default_stored`](Self::default_stored) may do anything, so that objects which were stored without it are
    /// defaulted when they are read.
    fn defaults_when_read(&self) -> bool {
        false
    }

    /// How objects merge: server-side apply, and strategic merge patch for built-in kinds.
    fn shape(&self) -> Shape;

    /// Whether strategic merge patch is understood; it is by built-in kinds only.
    fn strategic(&self) -> bool {
        false
    }

    /// An object of the kind before anything is set, which is what a create by apply merges into.
    fn empty(&self) -> Cow<'_, Value>;

    /// What an endpoint takes no notice of, so that nobody comes to own it there.
    fn reset_fields(&self, subresource: &str) -> &ssa::Filter;

    /// Whether even a small object may take long to read or to validate: schemas that are yet to be compiled, rules that are
    /// programs. Writes of such objects run off the async workers.
    fn is_expensive(&self) -> bool {
        false
    }

    /// What names may look like.
    fn name_rule(&self) -> NameRule;

    /// Drops what a client may not set when it creates, and sets what it need not.
    fn prepare_for_create(&self, object: &mut Value);

    /// Takes from the old object what the endpoint may not change, and counts the generation up if the rest changed.
    fn prepare_for_update(&self, subresource: &str, new: &mut Value, old: &Value);

    /// What is wrong with a new object, metadata included: where a kind finds nothing, what is so of any kind's metadata.
    fn validate_create(&self, object: &Value) -> Vec<FieldError>;

    /// What is wrong with an update through an endpoint, metadata included.
    fn validate_update(&self, subresource: &str, new: &Value, old: &Value) -> Vec<FieldError>;

    /// Words of warning about an object that is accepted.
    fn warnings(&self, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Marks an object for a deletion that is not the generic one (a Namespace, a CustomResourceDefinition): sets what its
    /// kind wants beside the deletion timestamp. `true` if the object has to stay until it is marked done, whatever its
    /// finalizers say at this moment.
    fn begin_deletion(&self, _object: &mut Value, _now: Timestamp) -> bool {
        false
    }

    /// Whether an object that is being deleted and has no finalizers left may go.
    fn may_vanish(&self, _object: &Value) -> bool {
        true
    }

    /// The value of a field for a field selector, and whether that field can be selected by at all. `metadata.name` and
    /// `metadata.namespace` are answered before this is asked.
    fn selectable_fields(&self) -> &[String] {
        &[]
    }

    /// The text of one of [`selectable_fields`](Self::selectable_fields) in an object; empty if it has none.
    fn selectable_field(&self, _object: &Value, _field: &str) -> String {
        String::new()
    }

    /// The columns of tables, that of the name first.
    fn columns(&self) -> &[Column];

    /// The cells of one row, the name included, in the order of the columns.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;
}

/// A column of a table, as `TableColumnDefinition` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the name, else mostly empty.
    pub format: String,
    /// What it shows.
    pub description: String,
    /// 0 is always shown, others with `-o wide`.
    pub priority: i32,
}
