//! A change of an object, and what a watch with a filter reports for it.

use std::sync::{Arc, OnceLock};

use rdd_store::Revision;

use super::{Key, Object};

/// Approximate memory of a retained snapshot beyond the one before it: the copied path of a tree of some thousand
/// objects.
const SNAPSHOT_BYTES: usize = 512;

/// Selects objects of a watch or a list.
pub type Filter = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// The type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The object was created, or begins to match the filter.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or stops matching the filter.
    Deleted,
}

/// A change as a watch delivers it. All watches of the same change share the object and its bytes.
#[derive(Debug, Clone)]
pub struct Change {
    /// The type of the change for this watch.
    pub kind: Kind,
    /// The object at the revision of the change. For a deletion: its last content.
    pub object: Arc<Object>,
}

/// A change of an object in the history. At least one of the two contents is present.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) revision: Revision,
    pub(super) previous: Option<Arc<Object>>,
    pub(super) current: Option<Arc<Object>>,
    /// The previous content under the revision of this event, built when the first watch needs it.
    departed: OnceLock<Arc<Object>>,
}

impl Event {
    /// The change from one content to the other; `None` if both are absent.
    pub(super) fn new(
        revision: Revision,
        previous: Option<Arc<Object>>,
        current: Option<Arc<Object>>,
    ) -> Option<Arc<Self>> {
        (previous.is_some() || current.is_some())
            .then(|| Arc::new(Self { revision, previous, current, departed: OnceLock::new() }))
    }

    pub(super) fn key(&self) -> &Key {
        let object = self.current.as_ref().or(self.previous.as_ref());
        object.expect("an event has at least one content").key()
    }

    /// How many bytes are in memory only because of this event and its snapshot. A deletion counts its content twice:
    /// watches receive a copy with another resourceVersion.
    pub(super) fn bytes(&self) -> usize {
        let copies = if self.current.is_none() { 2 } else { 1 };
        let previous = self.previous.as_ref().map_or(0, |object| object.wire().len() + size_of::<Object>());
        size_of::<Self>() + SNAPSHOT_BYTES + copies * previous
    }

    /// The previous content under the revision of this event, if there was one.
    pub(super) fn departed(&self) -> Option<Arc<Object>> {
        let previous = self.previous.as_ref()?;
        Some(Arc::clone(self.departed.get_or_init(|| Arc::new(previous.at_revision(self.revision)))))
    }

    /// The change as a watch with the filter `wanted` reports it; `None` if the filter selects neither content.
    pub(super) fn seen_by(&self, wanted: impl Fn(&Object) -> bool) -> Option<Change> {
        let current = self.current.as_ref().filter(|object| wanted(object));
        let was_seen = self.previous.as_ref().is_some_and(|object| wanted(object));
        match (was_seen, current) {
            (false, None) => None,
            (false, Some(object)) => Some(Change { kind: Kind::Added, object: Arc::clone(object) }),
            (true, Some(object)) => Some(Change { kind: Kind::Modified, object: Arc::clone(object) }),
            (true, None) => Some(Change { kind: Kind::Deleted, object: self.departed()? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::object::tests::mk_object;

    /// An object whose label `on` has this value, in a content that tells `body`.
    fn mk(revision: u64, on: &str, body: &str) -> Option<Arc<Object>> {
        let json = format!(r#"{{"metadata":{{"labels":{{"on":"{on}"}}}},"body":"{body}"}}"#);
        Some(mk_object("a", revision, &json))
    }

    fn check(previous: Option<Arc<Object>>, current: Option<Arc<Object>>, expected: &str) {
        let event = Event::new(Revision(7), previous, current).unwrap();
        let change = event.seen_by(|object| object.label("on") == Some("1"));
        let seen = change.map_or_else(
            || "nothing".to_owned(),
            |change| {
                let wire = String::from_utf8(change.object.wire().to_vec()).unwrap();
                let body = if wire.contains("old") { "old" } else { "new" };
                assert!(wire.contains(r#""resourceVersion":"7""#), "{wire}");
                assert_eq!(change.object.revision(), Revision(7));
                format!("{:?} {body}", change.kind)
            },
        );
        assert_eq!(seen, expected);
    }

    #[test]
    fn crossing_the_border_of_a_selection_is_an_arrival_or_a_departure() {
        check(None, mk(7, "1", "new"), "Added new");
        check(None, mk(7, "0", "new"), "nothing");
        check(mk(3, "0", "old"), mk(7, "1", "new"), "Added new");
        check(mk(3, "1", "old"), mk(7, "1", "new"), "Modified new");
        check(mk(3, "1", "old"), mk(7, "0", "new"), "Deleted old");
        check(mk(3, "0", "old"), mk(7, "0", "new"), "nothing");
        check(mk(3, "1", "old"), None, "Deleted old");
        check(mk(3, "0", "old"), None, "nothing");
        assert!(Event::new(Revision(7), None, None).is_none());
    }

    #[test]
    fn the_bytes_of_a_departure_are_made_once() {
        let event = Event::new(Revision(7), mk(3, "1", "old"), None).unwrap();
        assert!(Arc::ptr_eq(&event.departed().unwrap(), &event.departed().unwrap()));
    }
}
