//! How a built-in kind departs from the generic path: small functions in a table.

use rdd_meta::{FieldError, names::NameRule, time::Timestamp};
use serde_json::Value;

use crate::kinds::common;

/// What is particular to a kind. Names of subresources are as in paths; the object itself is the empty name.
#[derive(Debug, Clone, Copy)]
pub struct Strategy {
    /// What names may look like.
    pub name_rule: NameRule,
    /// An update of what does not exist creates it.
    pub create_on_update: bool,
    /// An update without a resourceVersion replaces whatever is there.
    pub unconditional_update: bool,
    /// Fills in defaults.
    pub default: fn(&mut Value),
    /// Drops what a client may not set when it creates, and sets what it need not. The name has been generated.
    pub prepare_for_create: fn(&mut Value),
    /// Takes from the old object what the endpoint may not change, and counts the generation where the kind has one. The
    /// generation of the new object is that of the old one before this is called.
    pub prepare_for_update: fn(&str, &mut Value, &Value),
    /// The fields that an endpoint takes no notice of, as paths from the root with dots; nobody comes to own them there.
    pub reset_fields: fn(&str) -> &'static [&'static str],
    /// Why a question is not one at all, as the message of a BadRequest. Only questions have such; it comes before all
    /// other checks.
    pub bad_request: fn(&Value) -> Option<String>,
    /// What is wrong with a new object, metadata included.
    pub validate_create: fn(&Value) -> Vec<FieldError>,
    /// What is wrong with an update through an endpoint, metadata included: endpoint, new, old.
    pub validate_update: fn(&str, &Value, &Value) -> Vec<FieldError>,
    /// Words of warning about an object that is accepted: new, old.
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Marks an object for a deletion that is not the generic one; `true` if it has to stay until it is marked done.
    pub begin_deletion: fn(&mut Value, Timestamp) -> bool,
    /// Whether an object that is being deleted and has no finalizers left may go.
    pub may_vanish: fn(&Value) -> bool,
    /// The fields that can be selected by, beside name and namespace.
    pub selectable_fields: &'static [&'static str],
    /// The text of one of them in an object.
    pub selectable_field: fn(&Value, &str) -> String,
}

impl Strategy {
    /// A kind in a namespace of which only the metadata has rules.
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

    /// A kind in no namespace of which only the metadata has rules.
    pub const CLUSTER: Self = Self {
        validate_create: |object| common::created(object, false, Vec::new()),
        validate_update: |_, new, old| common::updated(new, old, false, Vec::new()),
        ..Self::NAMESPACED
    };
}
