//! A JSON reader that finds duplicate keys, and the error texts of upstream's strict decoder.

use std::{borrow::Cow, cell::RefCell, fmt};

use bytes::Bytes;
use rdd_meta::go_text;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How many findings are kept, as upstream.
const FINDINGS_MAX: usize = 100;
/// How many bytes of paths are kept. Only a document that is made to exhaust memory reaches this limit.
const PATH_BYTES_MAX: usize = 16 << 20;

/// Something that strict field validation refuses; the document is readable nevertheless.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A key that occurs twice in one object; the last one wins.
    DuplicateField(String),
    /// A key that the schema does not know.
    UnknownField(String),
    /// A key that the type of a built-in kind does not know.
    UnknownMember(String),
    /// The error text of the YAML reader for a duplicate key.
    Yaml(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::DuplicateField(path) => write!(f, "duplicate field {}", go_text::quote(path)),
            // Upstream does not escape this path: the texts of pruning and of built-in kinds differ.
            Finding::UnknownField(path) => write!(f, "unknown field \"{path}\""),
            Finding::UnknownMember(path) => write!(f, "unknown field {}", go_text::quote(path)),
            Finding::Yaml(text) => f.write_str(text),
        }
    }
}

/// The error of `fieldValidation=Strict`, or `None` without findings.
pub fn decoding_error(findings: &[Finding]) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let texts: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Some(format!("strict decoding error: {}", texts.join(", ")))
}

/// Findings as upstream's decoder keeps them: without duplicates, in order of discovery, and bounded.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    /// The total length of all paths that were added, duplicates included.
    bytes: usize,
}

impl Findings {
    /// Adds a finding, unless it is known or the limit is reached.
    pub fn add(&mut self, finding: Finding) {
        self.bytes += match &finding {
            Finding::DuplicateField(text)
            | Finding::UnknownField(text)
            | Finding::UnknownMember(text)
            | Finding::Yaml(text) => text.len(),
        };
        if !self.is_full() && !self.kept.contains(&finding) {
            self.kept.push(finding);
        }
    }

    /// Whether further findings would be dropped. A caller asks before it builds a path; otherwise a key of a megabyte with a
    /// million repetitions below it would cost a megabyte each.
    pub fn is_full(&self) -> bool {
        self.kept.len() >= FINDINGS_MAX || self.bytes > PATH_BYTES_MAX
    }

    /// All findings, in order.
    pub fn into_vec(self) -> Vec<Finding> {
        self.kept
    }
}

/// A document, and what strict validation refuses in it, in document order.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The parsed value.
    pub value: Value,
    /// What strict validation refuses.
    pub findings: Vec<Finding>,
    /// The JSON text, for readers that need the order of fields or duplicate keys. `None` if there is no such text; then the
    /// fields are in the order of their names.
    pub text: Option<Bytes>,
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self { value, findings: Vec::new(), text: None }
    }
}

/// Reads one JSON document.
///
/// Numbers are as upstream's: an integer that fits `i64` stays an integer (`-0` is 0), every other number is a float. An
/// escaped lone surrogate reads as U+FFFD, as in Go. Of duplicate keys, the last wins. Nesting is limited to 127 levels by
/// `serde_json` (upstream: 10,000).
///
/// # Errors
/// When the text is not one JSON document.
/// When the text is not one JSON document.
pub fn read(text: &[u8]) -> Result<Document, serde_json::Error> {
    let state = RefCell::new(State { path: Vec::new(), findings: Findings::default() });
    let text = as_go_reads(text);
    let mut deserializer = serde_json::Deserializer::from_slice(&text);
    let value = Reader(&state).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Document { value, findings: state.into_inner().findings.into_vec(), text: None })
}

/// Rewrites what `serde_json` reads differently from Go, without moving any byte, so that positions in errors stay: a lone
/// surrogate becomes U+FFFD, and the integer `-0` becomes a space and `0`.
pub(crate) fn as_go_reads(text: &[u8]) -> Cow<'_, [u8]> {
    let mut text = Cow::Borrowed(text);
    let (mut at, mut in_string) = (0, false);
    while let Some(rest) = text.get(at..) {
        if in_string {
            // Inside a string only its end and escapes matter. Skipping to them is fast, and most of a text is in strings.
            at += memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        }
        let Some(byte) = text.get(at) else { break };
        at += match (byte, in_string) {
            (b'"', _) => {
                in_string = !in_string;
                1
            }
            (b'\\', true) => match (surrogate(&text[at..]), surrogate(text.get(at + 6..).unwrap_or_default())) {
                // Any other escape: skip the escaped character, which may be a quote.
                (None, _) => 2,
                (Some(Half::High), Some(Half::Low)) => 12,
                (Some(_), _) => {
                    text.to_mut()[at + 2..at + 6].copy_from_slice(b"fffd");
                    6
                }
            },
            (b'-', false) if is_negative_zero(&text[at..]) => {
                text.to_mut()[at] = b' ';
                2
            }
            _ => 1,
        };
    }
    text
}

/// Half of a surrogate pair.
enum Half {
    High,
    Low,
}

/// Which half of a pair the text begins with, escaped as `\uXXXX`.
fn surrogate(text: &[u8]) -> Option<Half> {
    let digits = text.get(..6)?.strip_prefix(b"\\u")?;
    if !matches!(digits[0], b'd' | b'D') || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    match digits[1] {
        b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(Half::High),
        b'c'..=b'f' | b'C'..=b'F' => Some(Half::Low),
        _ => None,
    }
}

/// Whether the text begins with the integer `-0`.
fn is_negative_zero(text: &[u8]) -> bool {
    text.starts_with(b"-0") && !text.get(2).is_some_and(|next| matches!(next, b'.' | b'e' | b'E' | b'0'..=b'9'))
}

enum Step {
    Key(String),
    Index(usize),
}

/// The state that all readers of one document share.
struct State {
    path: Vec<Step>,
    findings: Findings,
}

impl State {
    fn duplicate(&mut self, key: &str) {
        if self.findings.is_full() {
            return;
        }
        let mut text = String::new();
        for (at, step) in self.path.iter().enumerate() {
            match step {
                Step::Key(name) => {
                    if at > 0 {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        if !self.path.is_empty() {
            text.push('.');
        }
        text.push_str(key);
        self.findings.add(Finding::DuplicateField(text));
    }
}

/// An integer as upstream keeps it: what exceeds `i64` becomes a float.
pub(crate) fn unsigned<E: serde::de::Error>(value: u64) -> Result<Value, E> {
    i64::try_from(value).map_or_else(|_| float(value as f64), |integer| Ok(integer.into()))
}

/// A finite float; an infinite one is an error.
pub(crate) fn float<E: serde::de::Error>(value: f64) -> Result<Value, E> {
    Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
}

struct Reader<'s>(&'s RefCell<State>);

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        unsigned(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        float(value)
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            // The index goes onto the path before the item is read, because the item may contain duplicates.
            self.0.borrow_mut().path.push(Step::Index(items.len()));
            let item = access.next_element_seed(Reader(self.0));
            self.0.borrow_mut().path.pop();
            match item? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if entries.contains_key(&key) {
                self.0.borrow_mut().duplicate(&key);
            }
            self.0.borrow_mut().path.push(Step::Key(key));
            let entry = access.next_value_seed(Reader(self.0));
            let Some(Step::Key(key)) = self.0.borrow_mut().path.pop() else {
                return Err(A::Error::custom("unbalanced path"));
            };
            entries.insert(key, entry?);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_reported_once_with_their_path_and_the_last_value_wins() {
        let text = br#"{"a":1,"b":[{"c":1,"c":2},0],"a":3,"a":4,"d":{"e":{},"e":null}}"#;
        let document = read(text).unwrap();
        assert_eq!(document.value["a"], 4);
        assert_eq!(
            decoding_error(&document.findings).unwrap(),
            r#"strict decoding error: duplicate field "b[0].c", duplicate field "a", duplicate field "d.e""#
        );
    }

    #[test]
    fn repetitions_below_a_long_key_do_not_cost_its_length_each() {
        let text = format!(r#"{{"{}":{{{}"x":{{}}}}}}"#, "k".repeat(1 << 20), r#""x":{"a":1,"a":1},"#.repeat(50_000));
        let began = std::time::Instant::now();
        assert_eq!(read(text.as_bytes()).unwrap().findings.len(), 2);
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
    }

    #[test]
    fn integers_beyond_i64_become_floats() {
        let document = read(b"[9223372036854775807, 9223372036854775808]").unwrap();
        assert!(document.value[0].is_i64() && document.value[1].is_f64());
    }

    #[test]
    fn the_integer_minus_zero_is_zero_and_the_float_keeps_its_sign() {
        let document = read(br#"[-0, -0.0, -0e1, {"-0": "-0"}, -0]"#).unwrap();
        assert_eq!(document.value.to_string(), r#"[0,-0.0,-0.0,{"-0":"-0"},0]"#);
        for broken in ["-00", "--0", "-", "1-0", "-0-0"] {
            assert!(read(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_reads_as_the_replacement_character() {
        let table = [
            (r#""\ud800""#, "\u{fffd}"),
            (r#""\udC00a""#, "\u{fffd}a"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud800\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\ud800\u0041""#, "\u{fffd}A"),
            (r#""\\ud800""#, "\\ud800"),
            (r#""\"\ud800\"""#, "\"\u{fffd}\""),
        ];
        for (text, expected) in table {
            assert_eq!(read(text.as_bytes()).unwrap().value, expected, "{text}");
        }
        assert_eq!(read(br#"{"\ud800":1}"#).unwrap().value["\u{fffd}"], 1);
        for broken in [r#""\ud80""#, r#""\ud8"#, r#""\u"#, r#""\"#, r#"\ud800"#] {
            assert!(read(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_stack_overflow() {
        assert!(read("[".repeat(100_000).as_bytes()).is_err());
    }
}
