//! Named formats: `format.dns1123Label().validate(text)` and similar.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use super::Native;
use crate::go;
use crate::libs::url::Url;
use crate::value::{Fault, Outcome, Value};

/// A format that strings can be validated against.
pub struct NamedFormat {
    /// Its name upstream
    pub name: &'static str,
    key: &'static str,
    /// The pattern length that the cost of a validation is computed from
    pub(crate) pattern_length: usize,
    check: fn(&str) -> Vec<String>,
}

impl fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const UUID: &str = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
const DATE_TIME: &str = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";

// Most pattern lengths are upstream's estimates, not the lengths of these patterns.
static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "DNS1123Label", key: "dns1123Label", pattern_length: 30, check: dns1123_label },
    NamedFormat {
        name: "DNS1123Subdomain",
        key: "dns1123Subdomain",
        pattern_length: 60,
        check: |text| dns1123_subdomain(text, "characters"),
    },
    NamedFormat { name: "DNS1035Label", key: "dns1035Label", pattern_length: 30, check: dns1035_label },
    NamedFormat { name: "QualifiedName", key: "qualifiedName", pattern_length: 60, check: qualified_name },
    NamedFormat {
        name: "DNS1123LabelPrefix",
        key: "dns1123LabelPrefix",
        pattern_length: 30,
        check: |text| dns1123_label(&prefix(text)),
    },
    NamedFormat {
        name: "DNS1123SubdomainPrefix",
        key: "dns1123SubdomainPrefix",
        pattern_length: 60,
        check: |text| dns1123_subdomain(&prefix(text), "characters"),
    },
    NamedFormat {
        name: "DNS1035LabelPrefix",
        key: "dns1035LabelPrefix",
        pattern_length: 30,
        check: |text| dns1035_label(&prefix(text)),
    },
    NamedFormat { name: "LabelValue", key: "labelValue", pattern_length: 40, check: label_value },
    NamedFormat {
        name: "URI",
        key: "uri",
        pattern_length: 1103,
        check: |text| Url::parse_request(text).err().into_iter().collect(),
    },
    NamedFormat { name: "uuid", key: "uuid", pattern_length: UUID.len(), check: uuid },
    NamedFormat { name: "byte", key: "byte", pattern_length: 84, check: byte },
    NamedFormat { name: "date", key: "date", pattern_length: DATE_TIME.len(), check: date },
    NamedFormat { name: "datetime", key: "datetime", pattern_length: DATE_TIME.len(), check: date_time },
];

/// For each format, a function without arguments that returns it.
pub(super) const CONSTANTS: [(&str, Native); 13] = [
    ("format.dns1123Label", |_| Ok(Value::Format(&FORMATS[0]))),
    ("format.dns1123Subdomain", |_| Ok(Value::Format(&FORMATS[1]))),
    ("format.dns1035Label", |_| Ok(Value::Format(&FORMATS[2]))),
    ("format.qualifiedName", |_| Ok(Value::Format(&FORMATS[3]))),
    ("format.dns1123LabelPrefix", |_| Ok(Value::Format(&FORMATS[4]))),
    ("format.dns1123SubdomainPrefix", |_| Ok(Value::Format(&FORMATS[5]))),
    ("format.dns1035LabelPrefix", |_| Ok(Value::Format(&FORMATS[6]))),
    ("format.labelValue", |_| Ok(Value::Format(&FORMATS[7]))),
    ("format.uri", |_| Ok(Value::Format(&FORMATS[8]))),
    ("format.uuid", |_| Ok(Value::Format(&FORMATS[9]))),
    ("format.byte", |_| Ok(Value::Format(&FORMATS[10]))),
    ("format.date", |_| Ok(Value::Format(&FORMATS[11]))),
    ("format.datetime", |_| Ok(Value::Format(&FORMATS[12]))),
];

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is part of this crate")
}

fn whole(text: &str) -> Regex {
    pattern(&format!("^(?:{text})$"))
}

static LABEL_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(LABEL));
static SUBDOMAIN_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(SUBDOMAIN));
static DNS1035_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(DNS1035_LABEL));
static LABEL_KEY_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(LABEL_KEY));
static LABEL_VALUE_PATTERN: LazyLock<Regex> = LazyLock::new(|| whole(LABEL_VALUE));
static UUID_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(UUID));
static DATE_TIME_PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern(DATE_TIME));
static BYTE_PATTERN: LazyLock<Regex> =
    LazyLock::new(|| pattern("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"));

fn mismatch(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn too_long(most: usize, unit: &str) -> String {
    format!("must be no more than {most} {unit}")
}

/// As upstream, replaces the last two bytes of a prefix that ends in a dash: such a prefix is valid, because a suffix follows it.
fn prefix(text: &str) -> String {
    match text.len() > 1 && text.ends_with('-') {
        true => {
            let end = text.len() - 2;
            let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            format!("{}a", &text[..end])
        }
        false => text.into(),
    }
}

fn dns1123_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63, "characters"));
    }
    if !LABEL_PATTERN.is_match(text) {
        problems.push(if SUBDOMAIN_PATTERN.is_match(text) {
            "must not contain dots".into()
        } else {
            mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

fn dns1123_subdomain(text: &str, unit: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push(too_long(253, unit));
    }
    if !SUBDOMAIN_PATTERN.is_match(text) {
        problems.push(mismatch(SUBDOMAIN_MESSAGE, SUBDOMAIN, &["example.com"]));
    }
    problems
}

fn dns1035_label(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63, "characters"));
    }
    if !DNS1035_PATTERN.is_match(text) {
        problems.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    problems
}

fn qualified_name(text: &str) -> Vec<String> {
    let rule = || {
        mismatch(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_KEY,
            &["MyName", "my.name", "123-abc"],
        )
    };
    let parts: Vec<&str> = text.split('/').collect();
    let mut problems = Vec::new();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                problems
                    .extend(dns1123_subdomain(prefix, "bytes").iter().map(|problem| format!("prefix part {problem}")));
            }
            *name
        }
        _ => {
            let tail = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {tail}", rule())];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        problems.push(format!("name part {}", too_long(63, "bytes")));
    }
    if !LABEL_KEY_PATTERN.is_match(name) {
        problems.push(format!("name part {}", rule()));
    }
    problems
}

fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push(too_long(63, "bytes"));
    }
    if !LABEL_VALUE_PATTERN.is_match(text) {
        problems.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

fn unless(valid: bool, problem: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![problem.into()] }
}

fn uuid(text: &str) -> Vec<String> {
    unless(UUID_PATTERN.is_match(text), "does not match the UUID format")
}

fn byte(text: &str) -> Vec<String> {
    unless(BYTE_PATTERN.is_match(text), "invalid base64")
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && go::parse_rfc3339(&format!("{text}T00:00:00Z")).is_some()
}

fn date(text: &str) -> Vec<String> {
    unless(is_date(text), "invalid date")
}

fn date_time(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (date, time) = (parts.next().unwrap_or_default(), parts.next());
    let valid = text.len() >= 4
        && is_date(date)
        && time
            .and_then(|time| DATE_TIME_PATTERN.captures(time))
            // Digits of the same length compare as numbers do.
            .is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59");
    unless(valid, "invalid datetime")
}

pub(crate) fn validate<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (Value::Format(format), Value::String(text)) = (&args[0], &args[1]) else {
        return Err(Fault::no_such_overload());
    };
    // An optional without a value means that the text is valid.
    let problems = (format.check)(text);
    Ok(Value::optional((!problems.is_empty()).then(|| Value::texts(problems))))
}

pub(crate) fn by_name<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let Value::String(name) = &args[0] else { return Err(Fault::no_such_overload()) };
    Ok(Value::optional(FORMATS.iter().find(|format| format.key == &**name).map(Value::Format)))
}
