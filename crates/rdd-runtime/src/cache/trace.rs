//! Traces every watch event of every controller at debug level.

use kube::{Resource, ResourceExt, core::DeserializeGuard, runtime::watcher::Event};
use tracing::Level;

use crate::{Key, Kind};

/// Traces one event, also of an object that has no metadata or cannot be parsed.
pub(super) fn event<K: Kind>(event: &Event<DeserializeGuard<K>>) {
    if !tracing::enabled!(Level::DEBUG) {
        return;
    }
    let (what, object) = match event {
        Event::Init => ("list begins", None),
        Event::InitDone => ("list is complete", None),
        Event::InitApply(object) => ("listed", Some(object)),
        Event::Apply(object) => ("applied", Some(object)),
        Event::Delete(object) => ("deleted", Some(object)),
    };
    let kind = K::kind(&());
    let Some(object) = object else {
        tracing::debug!(%kind, what, "watch event");
        return;
    };
    let meta = object.meta();
    tracing::debug!(
        object = %format_args!("{kind}/{}", Key::of(object)),
        what,
        rv = object.resource_version().unwrap_or_default(),
        generation = meta.generation.unwrap_or_default(),
        deleting = meta.deletion_timestamp.is_some(),
        readable = object.0.is_ok(),
        "watch event"
    );
}
