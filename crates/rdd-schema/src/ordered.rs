//! JSON documents that keep the order of fields and duplicate keys.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::strict::{self, Finding, Findings};

/// A JSON document as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Ordered {
    /// A scalar: neither a list nor an object.
    Leaf(Value),
    /// A list.
    Array(Vec<Ordered>),
    /// An object, whose keys may repeat.
    Object(Vec<(String, Ordered)>),
}

impl Ordered {
    /// Reads one JSON document, with the numbers, strings and limits of [`strict::read`].
    ///
    /// # Errors
    /// When the text is not one JSON document.
    pub fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        let text = strict::as_go_reads(text);
        let mut deserializer = serde_json::Deserializer::from_slice(&text);
        let document = Reader.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(document)
    }

    /// Converts to a plain value. Of duplicate keys, the last wins.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Leaf(value) => value.clone(),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(entries) => entries.iter().map(|(key, entry)| (key.clone(), entry.to_value())).collect(),
        }
    }

    /// Adds a finding for each duplicate key at any depth. `path` is the path of this value; it is unchanged afterwards.
    pub fn find_duplicates(&self, path: &mut String, findings: &mut Findings) {
        let length = path.len();
        match self {
            Self::Leaf(_) => {}
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    item.find_duplicates(path, findings);
                    path.truncate(length);
                }
            }
            Self::Object(entries) => {
                let mut seen = HashSet::new();
                for (key, entry) in entries {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    // The path is cloned only when the finding will be kept: a long key with many duplicates would cost a copy
                    // each.
                    if !seen.insert(key) && !findings.is_full() {
                        findings.add(Finding::DuplicateField(path.clone()));
                    }
                    entry.find_duplicates(path, findings);
                    path.truncate(length);
                }
            }
        }
    }
}

struct Reader;

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Ordered;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Ordered, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Ordered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Ordered, E> {
        strict::unsigned(value).map(Ordered::Leaf)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Ordered, E> {
        strict::float(value).map(Ordered::Leaf)
    }

    fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Ordered, E> {
        Ok(Ordered::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(Reader)? {
            items.push(item);
        }
        Ok(Ordered::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Ordered, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            entries.push((key, access.next_value_seed(Reader)?));
        }
        Ok(Ordered::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = br#"{"z":1,"a":[{"c":-0,"c":2.5},null],"z":{"y":"","x":18446744073709551615,"y":true}}"#;

    #[test]
    fn a_document_keeps_the_order_of_its_text_and_the_value_is_the_one_of_the_strict_reader() {
        let document = Ordered::read(TEXT).unwrap();
        let Ordered::Object(entries) = &document else { panic!("it is an object") };
        assert_eq!(entries.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["z", "a", "z"]);
        assert_eq!(document.to_value(), strict::read(TEXT).unwrap().value);
    }

    #[test]
    fn keys_that_repeat_are_found_as_the_strict_reader_finds_them() {
        let mut findings = Findings::default();
        Ordered::read(TEXT).unwrap().find_duplicates(&mut String::new(), &mut findings);
        assert_eq!(findings.into_vec(), strict::read(TEXT).unwrap().findings);
        assert!(Ordered::read(b"{} {}").is_err());
        assert!(Ordered::read("[".repeat(100_000).as_bytes()).is_err());
    }
}
