//! Events of `events.k8s.io` are events of the core API under other field names: one is stored, both are shown.

use rdd_builtin::{decode, kinds::event, types};
use serde_json::Value;

use crate::registry;

/// The younger group.
pub(super) const GROUP: &str = "events.k8s.io";

/// Between the two.
#[derive(Debug)]
pub(super) struct Conversion;

impl registry::Conversion for Conversion {
    fn shown(&self, object: Value) -> Value {
        formed(GROUP, event::from_core(object))
    }

    fn stored(&self, object: Value) -> Value {
        to_core(object)
    }
}

/// An event of the younger group as one of the core API.
pub(super) fn to_core(object: Value) -> Value {
    formed("", event::to_core(object))
}

/// The same fields are not written by both when they are empty.
fn formed(group: &str, mut object: Value) -> Value {
    if let Some(kind) = types::kind(group, "v1", "Event") {
        decode::reform(kind, &mut object);
    }
    object
}
