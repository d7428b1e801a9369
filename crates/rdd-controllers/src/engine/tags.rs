//! Tracks which image has which tag, according to the engine's last responses.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

/// The image of each tag. It holds what the synchronizations of one connection have seen, whether or not it is written to a mirror yet.
/// The mirrors alone would not be enough: one that is being written cannot be found.
#[derive(Debug, Default)]
pub(super) struct Tags(Mutex<HashMap<String, String>>);

impl Tags {
    /// Records that the image has exactly these tags.
    ///
    /// When a tag moves, the engine reports an event for the image that gets it, but none for the image that loses it. So this returns
    /// the images that had one of these tags before: they must be synchronized again. If two responses arrive out of order, the older one
    /// may be recorded last; the synchronization that it causes asks the engine again, so the newer state is recorded in the end.
    pub(super) fn note(&self, id: &str, tags: &[&str]) -> BTreeSet<String> {
        // Poisoning is ignored: nothing that can panic runs under the lock.
        let mut holders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        holders.retain(|tag, holder| holder != id || tags.contains(&tag.as_str()));
        let before = tags.iter().filter_map(|tag| holders.insert((*tag).to_owned(), id.to_owned()));
        before.filter(|holder| holder != id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_had_a_tag_is_named_when_another_gets_it_and_only_then() {
        let tags = Tags::default();
        let note = |id: &str, has: &[&str]| tags.note(id, has).into_iter().collect::<Vec<_>>();
        assert_eq!(note("a", &["x:1", "x:2"]), [""; 0]);
        assert_eq!(note("a", &["x:1", "x:2"]), [""; 0], "it is its own");
        assert_eq!(note("b", &["x:1"]), ["a"]);
        assert_eq!(note("c", &["x:1", "x:2"]), ["a", "b"]);
        assert_eq!(note("c", &[]), [""; 0]);
        assert_eq!(note("a", &["x:1", "x:2"]), [""; 0], "nobody has what was taken off");
    }

    #[test]
    fn answers_that_cross_lead_to_another_look_at_both() {
        let tags = Tags::default();
        assert!(tags.note("new", &["x:1"]).is_empty());
        // Asked before the tag moved, recorded after.
        assert_eq!(tags.note("old", &["x:1"]), ["new".to_owned()].into());
        assert_eq!(tags.note("new", &["x:1"]), ["old".to_owned()].into());
        assert!(tags.note("old", &[]).is_empty());
    }
}
