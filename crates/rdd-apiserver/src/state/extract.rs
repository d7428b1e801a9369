//! The few parts of an object that selection and ownership need, parsed once.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    fmt::Debug,
    sync::Arc,
};

use serde::Deserialize;

use super::{Key, error::Cause};

/// A short text that equal ones share.
pub type Symbol = Arc<str>;

/// The few parts of an object that selection and ownership need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// Its uid.
    pub uid: Option<Symbol>,
    /// Its labels, sorted by name.
    pub labels: Box<[(Symbol, Symbol)]>,
    /// The uids of its owner references.
    pub owners: Box<[Symbol]>,
    /// Further fields by which it can be selected, by path, sorted. Name and namespace are in the key.
    pub fields: Box<[(Symbol, Symbol)]>,
}

/// How an object's parts are read. They depend on nothing but its key and its JSON, for they may be read before it is committed,
/// in the task that publishes changes, or in both. It must not block, and what it costs is paid by every write.
pub trait Extract: Debug + Send + Sync {
    /// The parts of an object, or why its bytes are none. The texts go through `symbols`, so that equal ones are shared.
    fn extract(&self, key: &Key, json: &[u8], symbols: &mut Symbols) -> Result<Parts, Cause>;
}

/// Reads uid, labels and owners, and no further fields.
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
            // Hardly any two objects share a uid, so the table of symbols would only grow by it.
            uid: uid.map(|uid| uid.into()),
            fields: Box::default(),
        })
    }
}

/// Texts that occur many times, each kept once for as long as someone uses it.
#[derive(Debug, Default)]
pub struct Symbols {
    known: HashSet<Symbol>,
    /// Unused ones are swept out when there are so many.
    sweep_at: usize,
}

impl Symbols {
    const SWEEP_MIN: usize = 1_024;

    /// The shared form of a text.
    pub fn intern(&mut self, text: &str) -> Symbol {
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        let symbol: Symbol = text.into();
        self.add(&symbol);
        symbol
    }

    /// Puts the shared form in the place of a symbol that was made elsewhere, or takes that for the shared form.
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
