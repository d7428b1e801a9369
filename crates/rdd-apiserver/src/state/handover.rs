//! What a write has read of its value before it was stored, for the task that makes the value visible: it need not read it again.

use std::{collections::HashMap, sync::Mutex};

use bytes::Bytes;

use super::{Key, object::Reading};

const NEVER_POISONED: &str = "nothing panics while holding the readings";

/// Readings of values that are on their way through the store, by key.
///
/// A reading counts for nothing but the very bytes that it was made of, so it does not matter who else writes the same key, here
/// or behind our back: whose reading is not there, or another's, has its value read anew.
#[derive(Debug, Default)]
pub(super) struct Handover(Mutex<HashMap<Key, (Bytes, Reading)>>);

/// A reading that is kept for as long as its write waits. Of two writes of one key the later is kept, until either is over.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    handover: &'a Handover,
    key: &'a Key,
}

impl Handover {
    /// Keeps what was read of a value.
    pub(super) fn offer<'a>(&'a self, key: &'a Key, json: &Bytes, reading: Reading) -> Offer<'a> {
        self.0.lock().expect(NEVER_POISONED).insert(key.clone(), (json.clone(), reading));
        Offer { handover: self, key }
    }

    /// What was read of this value, if that is kept.
    pub(super) fn take(&self, key: &Key, json: &[u8]) -> Option<Reading> {
        let mut kept = self.0.lock().expect(NEVER_POISONED);
        kept.get(key).filter(|(read, _)| read == json)?;
        kept.remove(key).map(|(_, reading)| reading)
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.handover.0.lock().expect(NEVER_POISONED).remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{MetadataExtract, Resource, Symbols};

    fn mk_key(name: &str) -> Key {
        Resource::new("", "pods").unwrap().key(Some("ns"), name).unwrap()
    }

    fn read(key: &Key, json: &Bytes) -> Reading {
        Reading::of(key, json, &MetadataExtract, &mut Symbols::default()).unwrap()
    }

    #[test]
    fn a_reading_is_taken_once_and_only_for_the_bytes_that_were_read() {
        let (handover, key) = (Handover::default(), mk_key("a"));
        let json = Bytes::from_static(br#"{"metadata":{"labels":{"a":"1"}}}"#);
        let offer = handover.offer(&key, &json, read(&key, &json));
        assert!(handover.take(&key, br#"{"metadata":{"labels":{"a":"2"}}}"#).is_none(), "somebody else wrote this");
        assert!(handover.take(&mk_key("b"), &json).is_none());
        let elsewhere = json.to_vec();
        assert!(handover.take(&key, &elsewhere).is_some(), "the same bytes, wherever they are");
        assert!(handover.take(&key, &json).is_none());
        drop(offer);
    }

    #[test]
    fn of_two_writes_of_one_key_the_later_is_kept_and_nothing_once_they_are_over() {
        let (handover, key) = (Handover::default(), mk_key("a"));
        let [first, second] = [r#"{"metadata":{"uid":"1"}}"#, r#"{"metadata":{"uid":"2"}}"#].map(Bytes::from);
        let first_offer = handover.offer(&key, &first, read(&key, &first));
        let second_offer = handover.offer(&key, &second, read(&key, &second));
        assert!(handover.take(&key, &first).is_none());
        assert!(handover.take(&key, &second).is_some());
        drop((first_offer, second_offer));
        drop(handover.offer(&key, &first, read(&key, &first)));
        assert!(handover.take(&key, &first).is_none());
        assert!(handover.0.lock().unwrap().is_empty());
    }
}
