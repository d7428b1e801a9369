//! Which image has which tag, as the engine last said it.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

/// The image of each tag. It holds what the looks of one connection have seen, written on a mirror or not: a mirror that is still on its way
/// would not be found by looking at mirrors.
#[derive(Debug, Default)]
pub(super) struct Tags(Mutex<HashMap<String, String>>);

impl Tags {
    /// Notes that the engine says that the image has these tags, and no others.
    ///
    /// A tag that moves is told of the image that gets it, and not of the one that had it. So this returns the images that were last said to have
    /// one of these tags: they want another look. Of two answers that cross, the one that is noted later may be the older one; the look that
    /// it leads to asks again, and so the newer one is noted last.
    pub(super) fn note(&self, id: &str, tags: &[&str]) -> BTreeSet<String> {
        // Nothing that can panic runs under the lock.
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
        // Asked before the tag moved, noted after.
        assert_eq!(tags.note("old", &["x:1"]), ["new".to_owned()].into());
        assert_eq!(tags.note("new", &["x:1"]), ["old".to_owned()].into());
        assert!(tags.note("old", &[]).is_empty());
    }
}
