//! kubectl's JSONPath templates: text with paths in braces, ranges, filters, unions and slices.

mod compare;
mod eval;
mod parse;
mod unquote;

use std::borrow::Cow;

use serde_json::Value;

use parse::Node;

/// The maximum length of a template.
const TEMPLATE_BYTES_MAX: usize = 64 * 1024;
/// The maximum nesting of filters and ranges.
const DEPTH_MAX: usize = 32;
/// The maximum number of values that an evaluation may produce.
const RESULTS_MAX: usize = 1_000_000;

/// A template that cannot be parsed or evaluated. The messages are client-go's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(String);

impl Error {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// The values that one node of a template produced.
pub(crate) type Found<'v> = Vec<Cow<'v, Value>>;

/// A parsed template.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    nodes: Vec<Node>,
    allow_missing_keys: bool,
}

impl Template {
    /// Parses a template. A missing key is an error, unless [`Self::allow_missing_keys`] is set.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(Error::new("the template is too long"));
        }
        Ok(Self { nodes: parse::parse(text, 0)?, allow_missing_keys: false })
    }

    /// Whether a missing key produces no value instead of an error.
    #[must_use]
    pub(crate) fn allow_missing_keys(mut self, allowed: bool) -> Self {
        self.allow_missing_keys = allowed;
        self
    }

    /// Evaluates the template; returns the values of each node in order.
    pub(crate) fn find<'v>(&self, value: &'v Value) -> Result<Vec<Found<'v>>, Error> {
        eval::Run::new(self).find(value)
    }

    /// Evaluates the template to text.
    pub(crate) fn render(&self, value: &Value) -> Result<String, Error> {
        let mut text = String::new();
        for results in self.find(value)? {
            for (index, result) in results.iter().enumerate() {
                if index > 0 {
                    text.push(' ');
                }
                match result.as_ref() {
                    Value::Object(_) | Value::Array(_) => text.push_str(&rdd_meta::go_json::to_string(result)),
                    Value::Null => text.push_str("null"),
                    scalar => text.push_str(&rdd_meta::go_text::plain(scalar)),
                }
            }
        }
        Ok(text)
    }

    /// Evaluates the template; returns each node's values as an indented JSON list.
    pub(crate) fn render_json(&self, value: &Value) -> Result<String, Error> {
        let mut text = String::new();
        for results in self.find(value)? {
            let list = Value::Array(results.into_iter().map(Cow::into_owned).collect());
            crate::print::json::write(&mut text, &list, 0);
            text.push('\n');
        }
        Ok(text)
    }
}

/// Converts a path in any accepted notation (`metadata.name`, `.metadata.name`, or in braces) to a template.
pub(crate) fn relaxed(path: &str) -> Result<String, Error> {
    let bare = |text: &str| !text.is_empty() && !text.contains(['{', '}']);
    let braced = path.strip_prefix('{').and_then(|path| path.strip_suffix('}'));
    let inner = match braced {
        Some(inner) => Some(inner.strip_prefix('.').filter(|inner| bare(inner)).unwrap_or(inner)),
        None => Some(path.strip_prefix('.').filter(|path| bare(path)).unwrap_or(path)),
    };
    match inner.filter(|inner| bare(inner)) {
        Some(_) if path.is_empty() => Ok(String::new()),
        Some(inner) => Ok(format!("{{.{inner}}}")),
        None if path.is_empty() => Ok(String::new()),
        None => Err(Error::new(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subject() -> Value {
        json!({
            "kind": "List",
            "items": [
                {"kind": "None", "metadata": {"name": "127.0.0.1", "labels": {"a.b/c": "x"}}, "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
                {"kind": "None", "metadata": {"name": "127.0.0.2"}, "status": {"capacity": {"cpu": "8"}, "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.2"}, {"type": "another", "address": "127.0.0.3"}]}}
            ],
            "numbers": [1, 2, 3, 4, 5],
            "half": 0.5,
            "big": 1e21,
            "yes": true,
            "nothing": null,
            "text": "<&>",
            "users": [{"name": "myself", "user": {}, "age": 7}, {"name": "e2e", "user": {"username": "admin", "password": "secret"}, "age": 9}]
        })
    }

    #[test]
    fn templates_give_what_client_go_makes_of_them() {
        for (template, expected) in [
            ("plain", "plain"),
            ("{.kind}", "List"),
            ("{@.kind} {$.kind}", "List List"),
            ("kind is {.kind}", "kind is List"),
            ("{['kind']}", "List"),
            ("{.items[0].metadata.labels.a\\.b/c}", "x"),
            ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
            ("{.items[-1:].metadata.name}", "127.0.0.2"),
            ("{.items[-1].metadata.name}", "127.0.0.2"),
            ("{.items[*]['metadata.name', 'status.capacity']}", "127.0.0.1 127.0.0.2 {\"cpu\":\"4\"} {\"cpu\":\"8\"}"),
            ("{.numbers[1:3]}", "2 3"),
            ("{.numbers[:2]}", "1 2"),
            ("{.numbers[::2]}", "1 3 5"),
            ("{.numbers[0,2]}", "1 3"),
            ("{.numbers[3:3]}", ""),
            ("{.numbers}", "[1,2,3,4,5]"),
            ("{.half} {.big} {.yes} {.nothing}", "0.5 1e+21 true null"),
            ("{.text}", "<&>"),
            ("{.users[?(@.name==\"e2e\")].user.password}", "secret"),
            ("{.users[?(@.name!='e2e')].name}", "myself"),
            ("{.users[?(@.age>7)].name}", "e2e"),
            ("{.users[?(@.age<=7)].name}", "myself"),
            ("{.users[?(@.user.password)].name}", "e2e"),
            ("{.users[?(@.name == 'a)b')].name}", ""),
            (
                "{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
                "[127.0.0.1, {\"cpu\":\"4\"}] [127.0.0.2, {\"cpu\":\"8\"}] ",
            ),
            (
                "{range .items[*]}{.metadata.name}{\"\\t\"}{.kind}{\"\\n\"}{end}after",
                "127.0.0.1\tNone\n127.0.0.2\tNone\nafter",
            ),
            ("{range .items[*]}{range .status.addresses[*]}{.address},{end};{end}", "127.0.0.1,;127.0.0.2,127.0.0.3,;"),
            ("{range .none[*]}x{end}y", "y"),
            ("{..password}", "secret"),
            ("{.items[0]..address}", "127.0.0.1"),
            ("{'single'} {\"double\\u0041\"}", "single doubleA"),
            ("{.items[0].metadata.*}", "{\"a.b/c\":\"x\"} 127.0.0.1"),
            ("{.missing}", ""),
            ("{.missing.deeper[0]}", ""),
            ("{1} {1.5} {true}", "1 1.5 true"),
        ] {
            let parsed = Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}"));
            let rendered = parsed.allow_missing_keys(true).render(&subject());
            assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn what_is_no_template_is_told_as_client_go_tells_it() {
        for (template, expected) in [
            ("{.kind", "unclosed action"),
            ("{.items[0}", "unterminated array"),
            ("{.items[?(@.a==1]}", "unterminated filter"),
            ("{.items[?(@.a==1)}", "unclosed array expect ]"),
            ("{'open}", "unterminated quoted string"),
            ("{.items[x]}", "invalid array index x"),
            ("{+}", "cannot parse number +"),
            ("{.a....b}", "invalid multiple recursive descent"),
            ("{;}", "unrecognized character in action: U+003B ';'"),
            ("{1.2.3}", "cannot parse number 1.2.3"),
        ] {
            assert_eq!(Template::parse(template).unwrap_err().to_string(), expected, "{template}");
        }
    }

    #[test]
    fn a_template_that_does_not_fit_says_why() {
        for (template, expected) in [
            ("{.missing}", "missing is not found"),
            ("{.numbers[9]}", "array index out of bounds: index 9, length 5"),
            ("{.kind[0]}", "string is not array or slice"),
            ("{.kind[?(@.a)]}", "List is not array or slice and cannot be filtered"),
            ("{nonsense}", "unrecognized identifier nonsense"),
            ("{end}", "not in range, nothing to end"),
            ("{.numbers[3:1]}", "starting index 3 is greater than ending index 1"),
            ("{.numbers[::0]}", "step must be > 0"),
            ("{.users[?(@.age==\"x\")]}", "incompatible types for comparison"),
            ("{.users[?(@.age=>1)]}", "unrecognized filter operator =>"),
        ] {
            let rendered =
                Template::parse(template).unwrap_or_else(|error| panic!("{template}: {error}")).render(&subject());
            assert_eq!(rendered.unwrap_err().to_string(), expected, "{template}");
        }
    }

    #[test]
    fn paths_may_be_written_without_braces_and_dot() {
        for path in ["metadata.name", ".metadata.name", "{metadata.name}", "{.metadata.name}"] {
            assert_eq!(relaxed(path).unwrap(), "{.metadata.name}", "{path}");
        }
        for path in ["{a}{b}", "{", "a}", "{}"] {
            assert!(relaxed(path).is_err(), "{path}");
        }
        assert_eq!(relaxed("").unwrap(), "");
    }

    #[test]
    fn nothing_that_is_typed_makes_it_panic_or_run_away() {
        let subject = subject();
        let pieces = [
            "{", "}", "[", "]", "?(", ")", "..", ".", "*", "'", "\"", "\\", "é", "range ", "end", "@", ",", ":", "-1",
            "==", "a",
        ];
        let mut state = 1_u64;
        for _ in 0..20_000 {
            let mut template = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                template.push_str(pieces[(state >> 33) as usize % pieces.len()]);
            }
            if let Ok(template) = Template::parse(&template) {
                let _ = template.allow_missing_keys(true).render(&subject);
            }
        }
        let deep = "{.a[?(".repeat(5_000);
        assert!(Template::parse(&deep).is_err());
    }
}
