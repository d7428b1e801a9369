//! The strategy of a kind: a table of functions for what differs from generic request handling.

use rdd_meta::{FieldError, names::NameRule, time::Timestamp};
use serde_json::Value;

use crate::kinds::common;

/// The strategy of a kind, like upstream's registry strategies. Endpoints are named as subresources in paths; the object itself
/// is the empty name.
#[derive(Debug, Clone, Copy)]
pub struct Strategy {
    /// The rule for names.
    pub name_rule: NameRule,
    /// Whether an update of a missing object creates it.
    pub create_on_update: bool,
    /// Whether an update may omit the resourceVersion.
    pub unconditional_update: bool,
    /// Sets defaults.
    pub default: fn(&mut Value),
    /// Clears the fields that a client may not set on create, and sets derived ones. The name is already generated.
    pub prepare_for_create: fn(&mut Value),
    /// Restores the fields that the endpoint may not change from the old object, and increments the generation if the kind has
    /// one. Before the call, the new object has the old generation.
    pub prepare_for_update: fn(&str, &mut Value, &Value),
    /// The fields that an endpoint ignores, as dotted paths; field managers do not get to own them there.
    pub reset_fields: fn(&str) -> &'static [&'static str],
    /// Why a review is malformed, as the message of a BadRequest. Only reviews use it; it runs before all other checks.
    pub bad_request: fn(&Value) -> Option<String>,
    /// Validates a new object, including its metadata.
    pub validate_create: fn(&Value) -> Vec<FieldError>,
    /// Validates an update through an endpoint, including the metadata. Arguments: endpoint, new, old.
    pub validate_update: fn(&str, &Value, &Value) -> Vec<FieldError>,
    /// Warnings about an accepted object. Arguments: new, old.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Starts a deletion with custom rules; returns whether the object stays until it is finalized.
    pub begin_deletion: fn(&mut Value, Timestamp) -> bool,
    /// Whether an object that is being deleted and has no finalizers may be removed.
    pub may_vanish: fn(&Value) -> bool,
    /// The fields for field selectors, besides name and namespace.
    pub selectable_fields: &'static [&'static str],
    /// The value of such a field in an object.
    pub selectable_field: fn(&Value, &str) -> String,
}

impl Strategy {
    /// A namespaced kind with generic metadata rules only.
    pub const NAMESPACED: Self = Self {
        name_rule: NameRule::DnsSubdomain,
        create_on_update: false,
        unconditional_update: true,
        default: |_| {},
        prepare_for_create: |_| {},
        prepare_for_update: |_, _, _| {},
        reset_fields: |_| &[],
        bad_request: |_| None,
        validate_create: |object| common::created(object, true, Vec::new()),
        validate_update: |_, new, old| common::updated(new, old, true, Vec::new()),
        warnings: |_, _| Vec::new(),
        begin_deletion: |_, _| false,
        may_vanish: |_| true,
        selectable_fields: &[],
        selectable_field: common::selectable,
    };

    /// A cluster-scoped kind with generic metadata rules only.
    pub const CLUSTER: Self = Self {
        validate_create: |object| common::created(object, false, Vec::new()),
        validate_update: |_, new, old| common::updated(new, old, false, Vec::new()),
        ..Self::NAMESPACED
    };
}
