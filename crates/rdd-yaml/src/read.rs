//! Reads one YAML document into JSON.

use std::{borrow::Cow, collections::HashMap};

use base64::Engine as _;
use granit_parser::{Event, Options, Parser, ScalarStyle};
use rdd_meta::go_text::{plain_float, quote};
use serde_json::{Map, Value};

use super::resolve::{Scalar, resolve};

/// As deep as JSON may be.
const DEPTH_MAX: usize = 127;
/// What aliases stand for may take so many bytes of text in all.
const ALIAS_BYTES_MAX: usize = 8 << 20;
/// Of duplicate keys, so many are told.
const DUPLICATES_MAX: usize = 100;

/// What was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The document. Of duplicate keys the last one won.
    pub value: Value,
    /// What goyaml says of duplicate keys when it is strict.
    pub duplicates: Option<String>,
}

/// Text that is no YAML document, or one that cannot be JSON. The words are goyaml's as far as we have them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Reads the first document of a text. Time and memory are bounded by its length, aliases included.
pub fn read(text: &str) -> Result<Read, Error> {
    let mut nodes = Nodes::default();
    let Some(root) = nodes.load(text)? else { return Ok(Read { value: Value::Null, duplicates: None }) };
    let mut decoder = Decoder::new(&nodes);
    let value = decoder.value(root, 0)?;
    let duplicates = (!decoder.duplicates.is_empty())
        .then(|| format!("yaml: unmarshal errors:\n  {}", decoder.duplicates.join("\n  ")));
    Ok(Read { value, duplicates })
}

/// Goyaml leaves out what it was doing, and counts the lines of its parser from 0 but those of its scanner from 1.
fn unreadable(line: usize, words: &str) -> Error {
    let (line, problem) = match words.strip_prefix("while ").and_then(|words| words.split_once(", ")) {
        Some((doing, problem)) if doing.starts_with("parsing") => (line.saturating_sub(1).max(1), problem),
        Some((_, problem)) => (line, problem),
        None => (line, words),
    };
    Error(format!("yaml: line {line}: {problem}"))
}

/// The nodes of a document; they refer to each other by their place.
#[derive(Default)]
struct Nodes<'t> {
    all: Vec<Node<'t>>,
    anchors: HashMap<usize, usize>,
}

struct Node<'t> {
    line: usize,
    content: Content<'t>,
}

enum Content<'t> {
    Scalar {
        text: Cow<'t, str>,
        plain: bool,
        tag: Option<Box<str>>,
    },
    Sequence(Vec<usize>),
    /// Keys and values in turn.
    Mapping(Vec<usize>),
    /// What it refers to.
    Alias(usize),
}

impl<'t> Nodes<'t> {
    /// Loads the first document; none if there is nothing in it.
    fn load(&mut self, text: &'t str) -> Result<Option<usize>, Error> {
        let mut options = Options::default();
        options.set_emit_comments(false);
        let mut open: Vec<usize> = Vec::new();
        let mut root = None;
        let mut line = 1;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) = event.map_err(|error| unreadable(error.marker().line(), &error.info().to_string()))?;
            // Goyaml has a block begin with its indicator, which is where what came before ended.
            let block = matches!(&event, Event::Scalar(_, ScalarStyle::Literal | ScalarStyle::Folded, ..));
            let begins = if block { line } else { span.start.line() };
            line = span.end.line();
            let made = match event {
                Event::DocumentEnd | Event::StreamEnd => break,
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop();
                    continue;
                }
                Event::Scalar(text, style, anchor, tag) => {
                    let tag = tag.map(|tag| short(&format!("{}{}", tag.handle(), tag.suffix())).into());
                    let plain = style == ScalarStyle::Plain;
                    self.add(begins, anchor, Content::Scalar { text, plain, tag })
                }
                Event::SequenceStart(_, anchor, _) => self.add(begins, anchor, Content::Sequence(Vec::new())),
                Event::MappingStart(_, anchor, _) => self.add(begins, anchor, Content::Mapping(Vec::new())),
                Event::Alias(anchor) => {
                    let target =
                        self.anchors.get(&anchor).copied().ok_or_else(|| Error("yaml: unknown anchor".to_owned()))?;
                    self.add(begins, 0, Content::Alias(target))
                }
                _ => continue,
            };
            match open.last().map(|parent| &mut self.all[*parent].content) {
                Some(Content::Sequence(children) | Content::Mapping(children)) => children.push(made),
                _ => root = Some(made),
            }
            if matches!(self.all[made].content, Content::Sequence(_) | Content::Mapping(_)) {
                open.push(made);
            }
            if open.len() > DEPTH_MAX {
                return Err(too_deep(begins));
            }
        }
        Ok(root)
    }

    fn add(&mut self, line: usize, anchor: usize, content: Content<'t>) -> usize {
        self.all.push(Node { line, content });
        if anchor != 0 {
            self.anchors.insert(anchor, self.all.len() - 1);
        }
        self.all.len() - 1
    }
}

fn too_deep(line: usize) -> Error {
    Error(format!("yaml: line {line}: exceeded max depth of {DEPTH_MAX}"))
}

/// `tag:yaml.org,2002:int` is `!!int`.
fn short(tag: &str) -> String {
    tag.strip_prefix("tag:yaml.org,2002:").map_or_else(|| tag.to_owned(), |suffix| format!("!!{suffix}"))
}

struct Decoder<'n, 't> {
    nodes: &'n Nodes<'t>,
    duplicates: Vec<String>,
    /// The aliases that are being followed.
    following: Vec<usize>,
    decoded: u64,
    by_alias: u64,
    alias_bytes: usize,
}

impl<'n, 't> Decoder<'n, 't> {
    fn new(nodes: &'n Nodes<'t>) -> Self {
        Self { nodes, duplicates: Vec::new(), following: Vec::new(), decoded: 0, by_alias: 0, alias_bytes: 0 }
    }

    /// Counts a node against goyaml's bounds, and what it copies against ours.
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
        let Node { line, content } = &self.nodes.all[at];
        if depth > DEPTH_MAX {
            return Err(too_deep(*line));
        }
        match content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                let (scalar, text) = self.scalar(at)?;
                let unsupported = || Error(format!("json: unsupported value: {}", go_float(&scalar)));
                scalar.to_json(&text).ok_or_else(unsupported)
            }
            Content::Sequence(children) => {
                self.count(0)?;
                children.iter().map(|child| self.value(*child, depth + 1)).collect()
            }
            Content::Mapping(_) => {
                let mut entries = Map::new();
                self.fill(at, depth, &mut entries)?;
                Ok(Value::Object(entries))
            }
            Content::Alias(target) => self.follow(*target, |decoder| decoder.value(*target, depth)),
        }
    }

    fn follow<T>(&mut self, target: usize, then: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.following.contains(&target) {
            return Err(Error("yaml: anchor value contains itself".to_owned()));
        }
        self.count(0)?;
        self.following.push(target);
        let result = then(self);
        self.following.pop();
        result
    }

    /// Puts the entries of a mapping into one that may have some already.
    fn fill(&mut self, at: usize, depth: usize, entries: &mut Map<String, Value>) -> Result<(), Error> {
        self.count(0)?;
        if depth > DEPTH_MAX {
            return Err(too_deep(self.nodes.all[at].line));
        }
        let Content::Mapping(children) = &self.nodes.all[at].content else { return Err(want_map()) };
        for pair in children.chunks_exact(2) {
            let (key, child) = (pair[0], pair[1]);
            if self.is_merge(key) {
                self.merge(child, depth, entries)?;
                continue;
            }
            let (name, shown) = self.key(key, depth)?;
            let value = self.value(child, depth + 1)?;
            if entries.contains_key(&name) && self.duplicates.len() < DUPLICATES_MAX {
                let line = self.nodes.all[child].line;
                self.duplicates.push(format!("line {line}: key {shown} already set in map"));
            }
            entries.insert(name, value);
        }
        Ok(())
    }

    /// `<<: *other` and `<<: [*one, *other]`, of which the first has precedence.
    fn merge(&mut self, at: usize, depth: usize, entries: &mut Map<String, Value>) -> Result<(), Error> {
        match &self.nodes.all[at].content {
            Content::Mapping(_) => self.fill(at, depth, entries),
            Content::Alias(target) => self.follow(*target, |decoder| decoder.fill(*target, depth, entries)),
            Content::Sequence(children) => {
                children.iter().rev().try_for_each(|child| match &self.nodes.all[*child].content {
                    Content::Mapping(_) | Content::Alias(_) => self.merge(*child, depth + 1, entries),
                    _ => Err(want_map()),
                })
            }
            Content::Scalar { .. } => Err(want_map()),
        }
    }

    fn is_merge(&self, at: usize) -> bool {
        match &self.nodes.all[at].content {
            Content::Scalar { text, plain, tag } => {
                text == "<<" && (*plain && tag.is_none() || tag.as_deref() == Some("!!merge"))
            }
            _ => false,
        }
    }

    /// The JSON key that a key becomes, and how Go shows the original.
    fn key(&mut self, at: usize, depth: usize) -> Result<(String, String), Error> {
        match &self.nodes.all[at].content {
            Content::Scalar { text, .. } => {
                self.count(text.len())?;
                let (scalar, text) = self.scalar(at)?;
                let key = match &scalar {
                    Scalar::Null => {
                        return Err(Error("unsupported map key of type: %!s(<nil>), key: <nil>".to_owned()));
                    }
                    Scalar::Text | Scalar::Timestamp => return Ok((text.to_string(), quote(&text))),
                    Scalar::Bool(value) => value.to_string(),
                    Scalar::Int(value) => value.to_string(),
                    Scalar::Uint(value) => value.to_string(),
                    Scalar::Float(_) => go_float(&scalar),
                };
                Ok((key.clone(), key))
            }
            Content::Alias(target) if depth <= DEPTH_MAX => {
                self.follow(*target, |decoder| decoder.key(*target, depth + 1))
            }
            _ => Err(Error("yaml: invalid map key".to_owned())),
        }
    }

    fn scalar(&self, at: usize) -> Result<(Scalar, Cow<'n, str>), Error> {
        let Content::Scalar { text, plain, tag } = &self.nodes.all[at].content else {
            return Ok((Scalar::Null, Cow::Borrowed("")));
        };
        let borrowed = Cow::Borrowed(&**text);
        let Some(tag) = tag.as_deref() else {
            return Ok((if *plain { resolve(text) } else { Scalar::Text }, borrowed));
        };
        match tag {
            "!!binary" => {
                let invalid = |_| Error("yaml: !!binary value contains invalid base64 data".to_owned());
                let clean: String = text.chars().filter(|character| !matches!(character, '\n' | '\r')).collect();
                let bytes = base64::engine::general_purpose::STANDARD.decode(clean).map_err(invalid)?;
                Ok((Scalar::Text, String::from_utf8_lossy(&bytes).into_owned().into()))
            }
            "!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp" => match (resolve(text), tag) {
                (scalar, tag) if scalar.tag() == tag => Ok((scalar, borrowed)),
                (Scalar::Int(value), "!!float") => Ok((Scalar::Float(value as f64), borrowed)),
                (scalar, tag) => Err(Error(format!("yaml: cannot decode {} `{text}` as a {tag}", scalar.tag()))),
            },
            _ => Ok((Scalar::Text, borrowed)),
        }
    }
}

fn want_map() -> Error {
    Error("yaml: map merge requires map or sequence of maps as the value".to_owned())
}

fn go_float(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Float(value) if value.is_nan() => "NaN".to_owned(),
        Scalar::Float(value) if value.is_infinite() => if *value > 0.0 { "+Inf" } else { "-Inf" }.to_owned(),
        Scalar::Float(value) => plain_float(*value),
        _ => String::new(),
    }
}

/// How much of the work may come from aliases: nearly all in a small document, a tenth in a large one.
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
