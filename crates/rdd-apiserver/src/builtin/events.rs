//! Events of `events.k8s.io`: converts them to and from Events of the core group, which are stored.

use rdd_builtin::{decode, kinds::event, types};
use serde_json::Value;

use crate::registry;

/// The API group of the newer Events.
pub(super) const GROUP: &str = "events.k8s.io";

/// The conversion between the two groups.
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

/// Converts an Event of `events.k8s.io` to the core group.
pub(super) fn to_core(object: Value) -> Value {
    formed("", event::to_core(object))
}

/// Applies the group's rules about empty fields, which differ: each group always writes some of them.
fn formed(group: &str, mut object: Value) -> Value {
    if let Some(kind) = types::kind(group, "v1", "Event") {
        decode::reform(kind, &mut object);
    }
    object
}
