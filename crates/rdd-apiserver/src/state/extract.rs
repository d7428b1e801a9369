//! Parses the few fields of an object that selectors and ownership need, once per write.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt::Debug,
    sync::Arc,
};

use serde::Deserialize;

use super::{Key, error::Cause};

/// A string that is shared between all objects that contain it.
pub type Symbol = Arc<str>;

/// The fields of an object that selectors and ownership need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Its uid.
    pub uid: Option<Symbol>,
    /// Its labels, sorted by name.
    pub labels: Box<[(Symbol, Symbol)]>,
    /// The uids of its owner references.
    pub owners: Box<[Symbol]>,
    /// Further fields for field selectors, by path, sorted. Name and namespace are in the key.
    pub fields: Box<[(Symbol, Symbol)]>,
}

/// Extracts an object's [`Parts`] from its JSON.
///
/// The result must depend on nothing but the key and the JSON: the write extracts before the commit, the follower may
/// extract again when it publishes the change. `extract` must not block, and every write pays its cost.
pub trait Extract: Debug + Send + Sync {
    /// The parts of an object, or an error if the JSON is not a valid object. Implementations intern strings in
    /// `symbols`, so that equal ones share memory.
    fn extract(&self, key: &Key, json: &[u8], symbols: &mut Symbols) -> Result<Parts, Cause>;
}

/// Extracts uid, labels and owners, and no further fields.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetadataExtract;

#[derive(Deserialize)]
struct Outer<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    uid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    labels: Option<BTreeMap<Cow<'a, str>, Option<Cow<'a, str>>>>,
    #[serde(borrow)]
    owner_references: Option<Vec<Owner<'a>>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

impl Extract for MetadataExtract {
    fn extract(&self, _: &Key, json: &[u8], symbols: &mut Symbols) -> Result<Parts, Cause> {
        let outer: Outer<'_> = serde_json::from_slice(json).map_err(|error| Arc::new(error) as Cause)?;
        let Metadata { uid, labels, owner_references } = outer.metadata;
        let pair = |(name, value): (Cow<'_, str>, Option<Cow<'_, str>>)| {
            (symbols.intern(&name), symbols.intern(&value.unwrap_or_default()))
        };
        Ok(Parts {
            labels: labels.unwrap_or_default().into_iter().map(pair).collect(),
            owners: owner_references.unwrap_or_default().iter().map(|owner| symbols.intern(&owner.uid)).collect(),
            // Uids are unique, so interning them would only grow the table.
            uid: uid.map(|uid| uid.into()),
            fields: Box::default(),
        })
    }
}

/// Interns strings: equal strings share one allocation while any object uses it.
#[derive(Debug, Default)]
pub struct Symbols {
    known: HashSet<Symbol>,
    /// The table size at which the next sweep drops unused strings.
    sweep_at: usize,
}

impl Symbols {
    const SWEEP_MIN: usize = 1_024;

    /// The shared string equal to `text`.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        let symbol: Symbol = text.into();
        self.add(&symbol);
        symbol
    }

    /// Replaces a string that another interner made by the shared one, or makes it the shared one.
    pub(super) fn share(&mut self, symbol: &mut Symbol) {
        match self.known.get(symbol) {
            Some(known) => *symbol = Arc::clone(known),
            None => self.add(symbol),
        }
    }

    fn add(&mut self, symbol: &Symbol) {
        if self.known.len() >= self.sweep_at.max(Self::SWEEP_MIN) {
            self.known.retain(|symbol| Arc::strong_count(symbol) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        self.known.insert(Arc::clone(symbol));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Resource;

    fn extract(json: &str) -> Result<Parts, Cause> {
        let key = Resource::new("", "pods").unwrap().key(Some("ns"), "a").unwrap();
        MetadataExtract.extract(&key, json.as_bytes(), &mut Symbols::default())
    }

    #[test]
    fn uid_labels_and_owners_are_read_and_absent_ones_are_empty() {
        let parts = extract(
            r#"{"spec":{"x":[1]},"metadata":{"uid":"u","labels":{"b":"2","a":"\u0031"},"ownerReferences":[{"uid":"o","kind":"K"}]}}"#,
        );
        let parts = parts.unwrap();
        assert_eq!(parts.uid.as_deref(), Some("u"));
        assert_eq!(*parts.labels, [("a".into(), "1".into()), ("b".into(), "2".into())]);
        assert_eq!(*parts.owners, ["o".into()]);
        assert_eq!(extract(r#"{"metadata":{"labels":null}}"#).unwrap(), Parts::default());
        assert!(extract(r#"{"metadata":{}} trailing"#).is_err());
        assert!(extract(r#"{"metadata":{"labels":{"a":1}}}"#).is_err());
    }

    #[test]
    fn equal_texts_are_one_and_unused_ones_go() {
        let mut symbols = Symbols::default();
        let kept = symbols.intern("kept");
        assert!(Arc::ptr_eq(&kept, &symbols.intern("kept")));
        for number in 0..10_000 {
            symbols.intern(&number.to_string());
        }
        assert!(symbols.known.len() <= Symbols::SWEEP_MIN, "{}", symbols.known.len());
        assert!(Arc::ptr_eq(&kept, &symbols.intern("kept")));
    }

    #[test]
    fn a_symbol_that_was_made_elsewhere_becomes_the_shared_one() {
        let mut symbols = Symbols::default();
        let (known, mut same, mut new): (_, Symbol, Symbol) = (symbols.intern("a"), "a".into(), "b".into());
        symbols.share(&mut same);
        assert!(Arc::ptr_eq(&known, &same));
        symbols.share(&mut new);
        assert!(Arc::ptr_eq(&new, &symbols.intern("b")));
    }
}
