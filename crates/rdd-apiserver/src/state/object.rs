//! An object in memory: the bytes that go on the wire, and the fields that were parsed once.

use std::sync::Arc;

use bytes::Bytes;
use rdd_store::Revision;

use super::{
    Error, Extract, Key, Parts, Symbol, Symbols,
    error::Cause,
    layout::{Layout, layout},
};

const BEFORE_VERSION: &str = "\"resourceVersion\":\"";

/// An immutable object at a revision.
#[derive(Debug, Clone)]
pub struct Object {
    key: Key,
    revision: Revision,
    wire: Bytes,
    type_meta_end: u32,
    version_at: u32,
    parts: Parts,
}

/// The parse result of an object's stored JSON. It does not depend on the revision.
#[derive(Debug)]
pub(super) struct Reading {
    layout: Layout,
    parts: Parts,
}

impl Reading {
    /// Parses stored JSON, which has no resourceVersion.
    pub(super) fn of(key: &Key, json: &[u8], extract: &dyn Extract, symbols: &mut Symbols) -> Result<Self, Error> {
        let unreadable = |source: Cause| Error::Unreadable { key: key.as_str().to_owned(), source };
        let layout = layout(json).map_err(|error| unreadable(Arc::new(error)))?;
        let parts = extract.extract(key, json, symbols).map_err(unreadable)?;
        Ok(Self { layout, parts })
    }

    /// Replaces its strings by the shared ones of another interner than the one it was parsed with.
    pub(super) fn shared_through(mut self, symbols: &mut Symbols) -> Self {
        let Parts { uid: _, labels, owners, fields } = &mut self.parts;
        let pairs = labels.iter_mut().chain(fields).flat_map(|(name, value)| [name, value]);
        pairs.chain(owners).for_each(|text| symbols.share(text));
        self
    }
}

impl Object {
    /// Builds an object from its stored JSON and the parse result, inserting the resourceVersion.
    pub(super) fn new(key: Key, revision: Revision, json: &[u8], reading: Reading) -> Self {
        let Reading { layout, parts } = reading;
        let comma = if layout.metadata_empty { "" } else { "," };
        let digits = revision.to_string();
        let (before, after) = json.split_at(layout.metadata);
        let wire = [before, BEFORE_VERSION.as_bytes(), digits.as_bytes(), b"\"", comma.as_bytes(), after].concat();
        Self {
            key,
            revision,
            wire: wire.into(),
            type_meta_end: small(layout.type_meta_end),
            version_at: small(layout.metadata + BEFORE_VERSION.len()),
            parts,
        }
    }

    /// The same content with another resourceVersion.
    pub(super) fn at_revision(&self, revision: Revision) -> Self {
        let start = self.version_at as usize;
        let end = start + self.revision.to_string().len();
        let wire = [&self.wire[..start], revision.to_string().as_bytes(), &self.wire[end..]].concat();
        Self { revision, wire: wire.into(), ..self.clone() }
    }

    /// Its key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The revision of its last change. For the object of a deletion event: the revision of the deletion.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The JSON for the wire, with the resourceVersion. Cloning it copies no bytes.
    pub fn wire(&self) -> &Bytes {
        &self.wire
    }

    /// The JSON from the first member after the type on: prepend `{`, or `{"apiVersion":"…","kind":"…",`. Copies no
    /// bytes.
    pub fn wire_after_type(&self) -> Bytes {
        self.wire.slice(self.type_meta_end as usize..)
    }

    /// Whether its stored JSON is exactly `json`, which has no resourceVersion. Then writing it would change nothing.
    pub fn is_stored_as(&self, json: &[u8]) -> bool {
        let version = self.version_at as usize;
        let start = version - BEFORE_VERSION.len();
        let mut end = version + self.revision.to_string().len() + 1;
        if self.wire.get(end) == Some(&b',') {
            end += 1;
        }
        let (before, after) = (&self.wire[..start], &self.wire[end..]);
        json.len() == before.len() + after.len() && json.starts_with(before) && json.ends_with(after)
    }

    /// Its namespace, if it is in one.
    pub fn namespace(&self) -> Option<&str> {
        self.key.namespace()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Its uid.
    pub fn uid(&self) -> Option<&str> {
        self.parts.uid.as_deref()
    }

    /// Its labels, sorted by name.
    pub fn labels(&self) -> &[(Symbol, Symbol)] {
        &self.parts.labels
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        find(&self.parts.labels, name)
    }

    /// The value of an extracted field.
    pub fn field(&self, path: &str) -> Option<&str> {
        find(&self.parts.fields, path)
    }

    /// The uids of its owner references.
    pub fn owners(&self) -> &[Symbol] {
        &self.parts.owners
    }
}

fn find<'a>(pairs: &'a [(Symbol, Symbol)], name: &str) -> Option<&'a str> {
    let at = pairs.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
    Some(&pairs[at].1)
}

fn small(offset: usize) -> u32 {
    u32::try_from(offset).expect("the store takes no value of 4 GiB")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::state::{MetadataExtract, Resource};

    pub(in crate::state) fn mk_object(name: &str, revision: u64, json: &str) -> Arc<Object> {
        let key = Resource::new("", "pods").unwrap().key(Some("ns"), name).unwrap();
        let reading = Reading::of(&key, json.as_bytes(), &MetadataExtract, &mut Symbols::default()).unwrap();
        Arc::new(Object::new(key, Revision(revision), json.as_bytes(), reading))
    }

    #[test]
    fn the_revision_is_put_into_the_metadata_and_can_be_replaced() {
        let object = mk_object("a", 9, r#"{"kind":"A","metadata":{"name":"a"},"spec":{}}"#);
        assert_eq!(object.wire(), r#"{"kind":"A","metadata":{"resourceVersion":"9","name":"a"},"spec":{}}"#);
        let later = object.at_revision(Revision(1000)).at_revision(Revision(1234));
        assert_eq!(later.wire(), r#"{"kind":"A","metadata":{"resourceVersion":"1234","name":"a"},"spec":{}}"#);
        assert_eq!(later.revision(), Revision(1234));
        assert_eq!(mk_object("a", 1, r#"{"metadata":{}}"#).wire(), r#"{"metadata":{"resourceVersion":"1"}}"#);
    }

    #[test]
    fn the_type_can_be_cut_off() {
        let object = mk_object("a", 9, r#"{"apiVersion":"v1","kind":"A","metadata":{}}"#);
        assert_eq!(object.wire_after_type(), r#""metadata":{"resourceVersion":"9"}}"#);
        assert_eq!(mk_object("a", 9, r#"{"metadata":{}}"#).wire_after_type(), r#""metadata":{"resourceVersion":"9"}}"#);
    }

    #[test]
    fn labels_are_found_by_name() {
        let object = mk_object("a", 1, r#"{"metadata":{"labels":{"z":"1","app":"web"}}}"#);
        assert_eq!((object.label("app"), object.label("z"), object.label("y")), (Some("web"), Some("1"), None));
    }
}
