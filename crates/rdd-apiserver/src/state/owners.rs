//! Index of owner references.

use std::collections::{BTreeSet, HashMap};

use super::{Key, Object, Symbol, event::Event};

/// The keys of the dependents of an owner, by the owner's uid.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<Symbol, BTreeSet<Key>>);

impl Owners {
    /// Updates the index for a change.
    pub(super) fn apply(&mut self, event: &Event) {
        if let Some(previous) = &event.previous {
            self.remove(previous);
        }
        if let Some(current) = &event.current {
            self.add(current);
        }
    }

    pub(super) fn add(&mut self, object: &Object) {
        for owner in object.owners() {
            self.0.entry(Symbol::clone(owner)).or_default().insert(object.key().clone());
        }
    }

    fn remove(&mut self, object: &Object) {
        for owner in object.owners() {
            if let Some(keys) = self.0.get_mut(owner) {
                keys.remove(object.key());
                if keys.is_empty() {
                    self.0.remove(owner);
                }
            }
        }
    }

    /// How many objects have an owner reference to this uid.
    pub(super) fn count(&self, uid: &str) -> usize {
        self.0.get(uid).map_or(0, BTreeSet::len)
    }

    /// The keys of the objects that have an owner reference to this uid, in order.
    pub(super) fn dependents(&self, uid: &str) -> Vec<Key> {
        self.0.get(uid).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rdd_store::Revision;

    use super::*;
    use crate::state::object::tests::mk_object;

    fn mk(owners: &[&str]) -> Option<Arc<Object>> {
        let references: Vec<String> = owners.iter().map(|uid| format!(r#"{{"uid":"{uid}"}}"#)).collect();
        Some(mk_object("a", 1, &format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, references.join(","))))
    }

    #[test]
    fn references_come_and_go_with_the_object() {
        let mut owners = Owners::default();
        let mut check = |previous, current, expected: [usize; 2]| {
            owners.apply(&Event::new(Revision(1), previous, current).unwrap());
            assert_eq!(["x", "y"].map(|uid| owners.dependents(uid).len()), expected);
            owners.0.len()
        };
        check(None, mk(&["x"]), [1, 0]);
        check(mk(&["x"]), mk(&["x", "y"]), [1, 1]);
        check(mk(&["x", "y"]), mk(&["y"]), [0, 1]);
        assert_eq!(check(mk(&["y"]), None, [0, 0]), 0);
    }
}
