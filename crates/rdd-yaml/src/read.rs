//! Decodes the first document of a YAML text into JSON.

use std::{borrow::Cow, collections::HashSet};

use base64::Engine as _;
use rdd_meta::go_text::{plain_float, quote};
use serde_json::{Map, Value};

use super::{
    compose::{Composer, Content, Node, Nodes, too_deep},
    resolve::{Scalar, resolve},
};

/// The deepest nesting that is accepted: as deep as JSON may nest.
pub(super) const DEPTH_MAX: usize = 127;
/// The number of bytes of text that all aliases together may copy.
const ALIAS_BYTES_MAX: usize = 8 << 20;
/// The number of duplicate keys that are reported.
const DUPLICATES_MAX: usize = 100;

/// A decoded document.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The document as JSON. Of duplicate keys, the last one wins.
    pub value: Value,
    /// The message that goyaml gives for duplicate keys in strict mode, or `None` if there are none.
    pub duplicates: Option<String>,
}

/// The text is not a YAML document, or its document cannot be JSON. The messages are goyaml's where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Decodes the first document of a text; an empty text is null.
///
/// Time and memory are bounded by the length of the text, aliases included. Duplicate keys are not an error here: the
/// caller decides, by [`Read::duplicates`].
pub fn read(text: &str) -> Result<Read, Error> {
    let mut composer = Composer::new(text, false);
    let Some(root) = composer.next_document()? else { return Ok(Read { value: Value::Null, duplicates: None }) };
    let mut decoder = Decoder::new(composer.nodes());
    let value = decoder.value(root, 0)?;
    // sigs.k8s.io/yaml converts to JSON after it has decoded all of the YAML, so a YAML error wins over a JSON error.
    if let Some(error) = decoder.bad_key.or(decoder.bad_number) {
        return Err(error);
    }
    let duplicates = (!decoder.duplicates.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n  {}", decoder.duplicates.join("\n  ")));
    Ok(Read { value, duplicates })
}

/// Decodes nodes to JSON and keeps the errors that are reported only at the end.
struct Decoder<'n, 't> {
    nodes: &'n Nodes<'t>,
    duplicates: Vec<String>,
    /// The first key that JSON cannot represent.
    bad_key: Option<Error>,
    /// The first number that JSON cannot represent.
    bad_number: Option<Error>,
    /// The targets of the aliases that are being followed, outermost first.
    following: Vec<usize>,
    decoded: u64,
    by_alias: u64,
    alias_bytes: usize,
}

impl<'n, 't> Decoder<'n, 't> {
    fn new(nodes: &'n Nodes<'t>) -> Self {
        Self {
            nodes,
            duplicates: Vec::new(),
            bad_key: None,
            bad_number: None,
            following: Vec::new(),
            decoded: 0,
            by_alias: 0,
            alias_bytes: 0,
        }
    }

    /// Counts a decoded node against goyaml's limit on aliases, and the bytes it copies against ours.
    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.decoded += 1;
        if !self.following.is_empty() {
            self.by_alias += 1;
            self.alias_bytes = self.alias_bytes.saturating_add(bytes);
        }
        let ratio = self.by_alias as f64 / self.decoded as f64;
        let excessive = self.by_alias > 100 && self.decoded > 1000 && ratio > allowed_alias_ratio(self.decoded);
        if excessive || self.alias_bytes > ALIAS_BYTES_MAX {
            return Err(Error("yaml: document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    fn value(&mut self, at: usize, depth: usize) -> Result<Value, Error> {
        let Node { line, content, .. } = &self.nodes.all[at];
        if depth > DEPTH_MAX {
            return Err(too_deep(*line));
        }
        match content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                let (scalar, text) = self.scalar(at)?;
                let value = scalar.to_json(&text);
                if value.is_none() {
                    let unsupported = || Error(format!("json: unsupported value: {}", go_float(&scalar)));
                    self.bad_number.get_or_insert_with(unsupported);
                }
                Ok(value.unwrap_or_default())
            }
            Content::Sequence(children) => {
                self.count(0)?;
                children.iter().map(|child| self.value(*child, depth + 1)).collect()
            }
            Content::Mapping(_) => {
                let mut mapping = Filled::default();
                self.fill(at, depth, &mut mapping)?;
                Ok(Value::Object(mapping.entries))
            }
            Content::Alias { name, target } => self.follow(name, *target, |decoder| decoder.value(*target, depth)),
        }
    }

    /// Decodes the target of an alias with `then`. An alias within its own target is an error.
    fn follow<T>(
        &mut self,
        name: &str,
        target: usize,
        then: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.following.contains(&target) {
            return Err(Error(format!("yaml: anchor '{name}' value contains itself")));
        }
        self.count(0)?;
        self.following.push(target);
        let result = then(self);
        self.following.pop();
        result
    }

    /// Decodes the entries of a mapping into one that may have entries already.
    fn fill(&mut self, at: usize, depth: usize, mapping: &mut Filled) -> Result<(), Error> {
        self.count(0)?;
        if depth > DEPTH_MAX {
            return Err(too_deep(self.nodes.all[at].line));
        }
        let Content::Mapping(children) = &self.nodes.all[at].content else { return Err(want_map()) };
        for pair in children.chunks_exact(2) {
            let (key, child) = (pair[0], pair[1]);
            if self.is_merge(key) {
                self.merge(child, depth, mapping)?;
                continue;
            }
            let MapKey { name, shown, tag } = self.key(key, depth)?;
            let value = self.value(child, depth + 1)?;
            if mapping.note_key(&name, &shown, tag) && self.duplicates.len() < DUPLICATES_MAX {
                // Goyaml reports the line of the value, not that of the key.
                let line = self.nodes.all[child].line;
                self.duplicates.push(format!("line {line}: key {shown} already set in map"));
            }
            mapping.entries.insert(name, value);
        }
        Ok(())
    }

    /// Decodes the value of a merge key: `<<: *other`, or `<<: [*one, *other]`, of which the first has precedence.
    fn merge(&mut self, at: usize, depth: usize, mapping: &mut Filled) -> Result<(), Error> {
        match &self.nodes.all[at].content {
            Content::Mapping(_) => self.fill(at, depth, mapping),
            Content::Alias { name, target } => {
                self.follow(name, *target, |decoder| decoder.fill(*target, depth, mapping))
            }
            Content::Sequence(children) => {
                // In reverse order, because a later insert replaces an earlier one.
                children.iter().rev().try_for_each(|child| match &self.nodes.all[*child].content {
                    Content::Mapping(_) | Content::Alias { .. } => self.merge(*child, depth + 1, mapping),
                    _ => Err(want_map()),
                })
            }
            Content::Scalar { .. } => Err(want_map()),
        }
    }

    fn is_merge(&self, at: usize) -> bool {
        match &self.nodes.all[at].content {
            Content::Scalar { text, implicit, tag, .. } => {
                text == "<<" && (*implicit || tag.as_deref() == Some("!!merge"))
            }
            _ => false,
        }
    }

    /// Decodes a key to its name in JSON.
    fn key(&mut self, at: usize, depth: usize) -> Result<MapKey, Error> {
        match &self.nodes.all[at].content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                let (scalar, text) = self.scalar(at)?;
                let tag = scalar.tag();
                let same = |name: String| MapKey { shown: name.clone(), name, tag };
                Ok(match &scalar {
                    Scalar::Text | Scalar::Timestamp => {
                        MapKey { shown: quote(&text), name: text.into_owned(), tag: "!!str" }
                    }
                    Scalar::Null => self.refuse_key("%!s(<nil>), key: <nil>", "null"),
                    Scalar::Uint(value) => self.refuse_key(&format!("uint64, key: {value:#x}"), &value.to_string()),
                    Scalar::Bool(value) => same(value.to_string()),
                    Scalar::Int(value) => same(value.to_string()),
                    Scalar::Float(value) => MapKey { shown: go_float(&scalar), name: float_key(*value), tag },
                })
            }
            Content::Alias { name, target } if depth <= DEPTH_MAX => {
                self.follow(name, *target, |decoder| decoder.key(*target, depth + 1))
            }
            _ => {
                // Goyaml decodes the collection first, so an error in it wins.
                self.value(at, depth + 1)?;
                Err(Error("yaml: invalid map key".to_owned()))
            }
        }
    }

    /// Records the first key that YAML allows and JSON does not.
    fn refuse_key(&mut self, described: &str, name: &str) -> MapKey {
        self.bad_key.get_or_insert_with(|| Error(format!("unsupported map key of type: {described}")));
        MapKey { name: name.to_owned(), shown: name.to_owned(), tag: "!!null" }
    }

    fn scalar(&self, at: usize) -> Result<(Scalar, Cow<'n, str>), Error> {
        let Content::Scalar { text, implicit, tag, .. } = &self.nodes.all[at].content else {
            // A collection that is a key or an alias never gets here; null is a harmless answer.
            return Ok((Scalar::Null, Cow::Borrowed("")));
        };
        let borrowed = Cow::Borrowed(&**text);
        let Some(tag) = tag.as_deref() else {
            return Ok((if *implicit { resolve(text) } else { Scalar::Text }, borrowed));
        };
        match tag {
            "!!binary" => {
                let invalid = |_| Error("yaml: !!binary value contains invalid base64 data".to_owned());
                let clean: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
                let bytes = base64::engine::general_purpose::STANDARD.decode(clean).map_err(invalid)?;
                Ok((Scalar::Text, text_from_bytes(&bytes).into()))
            }
            // An explicit tag must agree with the type that the text has, except that an integer may be a float.
            "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp" => match (resolve(text), tag) {
                (scalar, tag) if scalar.tag() == tag => Ok((scalar, borrowed)),
                (Scalar::Int(value), "!!float") => Ok((Scalar::Float(value as f64), borrowed)),
                (scalar, tag) => Err(Error(format!("yaml: cannot decode {} `{text}` as a {tag}", scalar.tag()))),
            },
            _ => Ok((Scalar::Text, borrowed)),
        }
    }
}

/// A decoded key of a mapping.
struct MapKey {
    /// The name of the key in JSON.
    name: String,
    /// The key as Go formats it in error messages.
    shown: String,
    tag: &'static str,
}

/// A mapping under construction. To goyaml, `1` and `"1"` are two keys, which JSON cannot distinguish; this type
/// detects duplicates as goyaml does.
#[derive(Default)]
struct Filled {
    entries: Map<String, Value>,
    /// Keys that are not strings, with their tags.
    others: HashSet<(&'static str, String)>,
    /// Names in `entries` that no string key has set yet.
    without_text: HashSet<String>,
}

impl Filled {
    /// Records a key before it is inserted, and returns whether goyaml considers it a duplicate.
    fn note_key(&mut self, name: &str, shown: &str, tag: &'static str) -> bool {
        let is_known = self.entries.contains_key(name);
        if tag == "!!str" {
            // Only an earlier string is a duplicate of a string: `1: a` before `"1": b` is not.
            return is_known && !self.without_text.remove(name);
        }
        if !is_known {
            self.without_text.insert(name.to_owned());
        }
        !self.others.insert((tag, shown.to_owned()))
    }
}

/// A float as a key: formatted as a 32-bit float, as upstream does.
#[allow(clippy::cast_possible_truncation, reason = "that is what upstream does")]
fn float_key(value: f64) -> String {
    let short = value as f32;
    if short.is_nan() {
        ".nan".to_owned()
    } else if short.is_infinite() {
        if short > 0.0 { ".inf" } else { "-.inf" }.to_owned()
    } else {
        // The shortest digits of the 32-bit float are also the shortest of the 64-bit float that they parse to.
        format!("{short:e}").parse().map_or_else(|_| String::new(), plain_float)
    }
}

/// Bytes as text. Each invalid byte becomes a replacement character, as in Go's JSON.
fn text_from_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn want_map() -> Error {
    Error("yaml: map merge requires map or sequence of maps as the value".to_owned())
}

/// A float as Go formats it in error messages.
fn go_float(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Float(value) if value.is_nan() => "NaN".to_owned(),
        Scalar::Float(value) if value.is_infinite() => if *value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        Scalar::Float(value) => plain_float(*value),
        _ => String::new(),
    }
}

/// The share of decoded nodes that may come from aliases: nearly all in a small document, a tenth in a large one
/// (goyaml's `allowedAliasRatio`).
fn allowed_alias_ratio(decoded: u64) -> f64 {
    const LOW: u64 = 400_000;
    const HIGH: u64 = 4_000_000;
    match decoded {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        between => 0.99 - 0.89 * ((between - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        assert_eq!(read(text).map(|read| read.value), Ok(expected), "{text}");
    }

    #[test]
    fn documents_become_the_json_that_upstream_makes_of_them() {
        check(
            "a: yes\nb: 'yes'\nc: 010\nd: [1, 2.50, ~]\n",
            json!({"a": true, "b": "yes", "c": 8, "d": [1, 2.5, null]}),
        );
        check("{\"a\":1,\"b\":[true,{}]}", json!({"a": 1, "b": [true, {}]}));
        check("1: x\ntrue: w\n1.5: z\n", json!({"1": "x", "true": "w", "1.5": "z"}));
        check("a: |\n  x\n  y\nb: >-\n  x\n  y\n", json!({"a": "x\ny\n", "b": "x y"}));
        check(
            "a: !!str 5\nb: !!int \"5\"\nc: !!binary aGk=\nd: !custom 5\n",
            json!({"a": "5", "b": 5, "c": "hi", "d": "5"}),
        );
        check("a: 2001-01-01\n", json!({"a": "2001-01-01"}));
        check("", Value::Null);
        check("# nothing\n", Value::Null);
        check("a: 1\n---\nb: [\n", json!({"a": 1}));
    }

    #[test]
    fn aliases_and_merges_are_followed() {
        check("a: &x {k: 1}\nb: *x\nc: {<<: *x, l: 2}\n", json!({"a": {"k": 1}, "b": {"k": 1}, "c": {"k": 1, "l": 2}}));
        check(
            "a: &x {k: 1}\nb: &y {k: 2, m: 3}\nc: {<<: [*x, *y]}\n",
            json!({"a": {"k": 1}, "b": {"k": 2, "m": 3}, "c": {"k": 1, "m": 3}}),
        );
        check("&k a: 1\nb: *k\n", json!({"a": 1, "b": "a"}));
    }

    #[test]
    fn duplicate_keys_are_told_with_their_line_and_the_last_wins() {
        let found = read("a: 1\nb:\n  c: 1\n  c: 2\na:\n  d: 3\n").unwrap();
        assert_eq!(found.value, json!({"a": {"d": 3}, "b": {"c": 2}}));
        let expected =
            "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 6: key \"a\" already set in map";
        assert_eq!(found.duplicates.as_deref(), Some(expected));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in ["a: b: c", "[1, 2", "a: *none", "\"x", "a: !!int x", "? {a: 1}\n: 2\n", "~: 1", "a: .nan", "<<: 1"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(read("a: !!int x").unwrap_err().to_string(), "yaml: cannot decode !!str `x` as a !!int");
    }

    // Finding E-12: here without Go. The oracle compares many more.
    #[test]
    fn what_readers_disagree_on_is_read_as_goyaml_reads_it() {
        check("a:\n  b: \"x\n  y\"\nc: 'x\ny\n\n z'\n", json!({"a": {"b": "x y"}, "c": "x y\nz"}));
        check("a: |\n  x", json!({"a": "x"}));
        check("a: |+\n  x\n\n", json!({"a": "x\n\n"}));
        check("a: \"\\U0001F600\\N\\'\"", json!({"a": "😀\u{85}'"}));
        check("a: x\u{85}b: 'y\u{85}z'\u{85}", json!({"a": "x", "b": "y z"}));
        check("a: 'x\u{2028}y'", json!({"a": "x\u{2028}y"}));
        for (text, problem) in [
            (r#"a: "\/""#, "yaml: found unknown escape character"),
            (r#"a: "\ud83d\ude00""#, "yaml: found invalid Unicode character escape code"),
            ("a: 1\nb: \"\\ud83d\"", "yaml: line 2: found invalid Unicode character escape code"),
            ("a: *none", "yaml: unknown anchor 'none' referenced"),
            ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
            ("a: \u{1}", "yaml: control characters are not allowed"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), problem, "{text}");
        }
    }

    #[test]
    fn bombs_are_refused_quickly() {
        let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..30 {
            let previous = format!("*a{}", level - 1);
            laughs.push_str(&format!("a{level}: &a{level} [{}]\n", [previous.as_str(); 10].join(",")));
        }
        assert_eq!(read(&laughs).unwrap_err().to_string(), "yaml: document contains excessive aliasing");
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a,".repeat(10_000));
        assert_eq!(read(&long).unwrap_err().to_string(), "yaml: document contains excessive aliasing");
        assert!(read(&"[".repeat(100_000)).is_err());
        assert!(read(&"- ".repeat(100_000)).is_err());
        assert!(read("a: &a [*a]").is_err());
        let mut deep = "a0: &a0 x\n".to_owned();
        for level in 1..1000 {
            deep.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
        }
        assert!(read(&deep).is_err(), "aliases cannot hide how deep it is");
    }
}
