//! A cache of compressed documents, limited by their total size, with least-recently-used eviction.

use bytes::Bytes;

use super::form::Form;

/// A cached document with the hash of its content.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) hash: String,
    pub(super) gzip: Bytes,
}

/// The path and form of a document.
type Key = (String, Form);

/// Documents by path and form, the most recently used last.
#[derive(Debug)]
pub(super) struct Cache {
    entries: Vec<(Key, Entry)>,
    bytes_max: usize,
}

impl Cache {
    /// An empty cache for at most this many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { entries: Vec::new(), bytes_max }
    }

    /// The document of a path in a form, if it is cached with this hash. An entry with another hash is outdated and is removed.
    pub(super) fn get(&mut self, path: &str, form: Form, hash: &str) -> Option<Bytes> {
        let at = self.entries.iter().position(|(found, _)| is(found, path, form))?;
        // Removed and pushed again, so that the order is that of the last use.
        let found = self.entries.remove(at);
        if found.1.hash != hash {
            return None;
        }
        let gzip = found.1.gzip.clone();
        self.entries.push(found);
        Some(gzip)
    }

    /// Inserts a document, then evicts the least recently used ones until all fit.
    pub(super) fn put(&mut self, path: &str, form: Form, entry: Entry) {
        self.entries.retain(|(found, _)| !is(found, path, form));
        self.entries.push(((path.to_owned(), form), entry));
        while self.bytes() > self.bytes_max {
            self.entries.remove(0);
        }
    }

    /// Removes the documents that are no longer current.
    pub(super) fn retain(&mut self, is_current: impl Fn(&str, &str) -> bool) {
        self.entries.retain(|((path, _), entry)| is_current(path, &entry.hash));
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|(_, entry)| entry.gzip.len()).sum()
    }
}

fn is(key: &Key, path: &str, form: Form) -> bool {
    key.0 == path && key.1 == form
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hash: &str, size: usize) -> Entry {
        Entry { hash: hash.to_owned(), gzip: vec![0; size].into() }
    }

    #[test]
    fn what_was_asked_for_longest_ago_goes_first() {
        let mut cache = Cache::new(10);
        cache.put("a", Form::Json, entry("1", 4));
        cache.put("b", Form::Json, entry("1", 4));
        assert!(cache.get("a", Form::Json, "1").is_some());
        cache.put("c", Form::Json, entry("1", 4));
        assert!(cache.get("b", Form::Json, "1").is_none());
        assert!(cache.get("a", Form::Json, "1").is_some() && cache.get("c", Form::Json, "1").is_some());
        cache.put("d", Form::Json, entry("1", 11));
        assert!(cache.entries.is_empty());
    }

    #[test]
    fn a_document_of_another_hash_is_dropped() {
        let mut cache = Cache::new(10);
        cache.put("a", Form::Json, entry("1", 4));
        assert!(cache.get("a", Form::Json, "2").is_none());
        assert!(cache.get("a", Form::Json, "1").is_none());
        cache.put("a", Form::Json, entry("1", 4));
        cache.put("b", Form::Json, entry("1", 4));
        cache.retain(|path, _| path == "b");
        assert_eq!(cache.entries.len(), 1);
    }

    #[test]
    fn each_form_of_a_document_is_kept() {
        let mut cache = Cache::new(10);
        cache.put("a", Form::Json, entry("1", 4));
        assert!(cache.get("a", Form::Protobuf, "1").is_none());
        cache.put("a", Form::Protobuf, entry("1", 5));
        assert_eq!(cache.get("a", Form::Json, "1").map(|gzip| gzip.len()), Some(4));
        assert_eq!(cache.get("a", Form::Protobuf, "1").map(|gzip| gzip.len()), Some(5));
    }
}
