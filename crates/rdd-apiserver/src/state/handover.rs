//! Caches the parse that a write made before its commit, so that the follower need not parse the value again.

use std::{collections::HashMap, sync::Mutex};

use bytes::Bytes;

use super::{Key, object::Reading};

const NEVER_POISONED: &str = "nothing panics while holding the readings";

/// Parse results of values that are being committed, by key.
///
/// A parse result is used only for exactly the bytes it was made from, so concurrent writers of the same key, in this
/// process or another, do no harm: if the follower finds no result, or one of other bytes, it parses the value
/// itself.
#[derive(Debug, Default)]
pub(super) struct Handover(Mutex<HashMap<Key, (Bytes, Reading)>>);

/// Keeps a parse result in the cache while its write is in progress. Of two writes of one key the later result is
/// kept, until either write ends.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    handover: &'a Handover,
    key: &'a Key,
}

impl Handover {
    /// Caches the parse result of a value.
    pub(super) fn offer<'a>(&'a self, key: &'a Key, json: &Bytes, reading: Reading) -> Offer<'a> {
        self.0.lock().expect(NEVER_POISONED).insert(key.clone(), (json.clone(), reading));
        Offer { handover: self, key }
    }

    /// Removes and returns the parse result of exactly this value, if it is cached.
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
