//! Label selectors: parsing, matching and printing, and the validation of label keys and values.

use std::fmt;

use crate::{
    field_error::{FieldError, aggregate},
    go_text,
    names::{Unit, length_problems, regex_problem, subdomain_problems},
};

mod parse;

const BYTES_MAX: usize = 63;
const KEY_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE_PATTERN: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// A label selector. An object must meet all requirements; the empty selector matches every object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

/// A condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

/// The operator between a label's value and the values of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `=`
    Equals,
    /// `==`, a synonym of `=` that prints as it was written.
    DoubleEquals,
    /// `!=`, which an absent label meets too.
    NotEquals,
    /// `in (…)`
    In,
    /// `notin (…)`, which an absent label meets too.
    NotIn,
    /// The label is present.
    Exists,
    /// `!`: the label is absent.
    DoesNotExist,
    /// `>`, compared as integers.
    GreaterThan,
    /// `<`, compared as integers.
    LessThan,
}

/// Why a selector is invalid. The message is upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl LabelSelector {
    /// Parses a selector. The requirements are sorted by key, as upstream sorts them.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        parse::requirements(text).map(Self::from_requirements)
    }

    /// Creates a selector of requirements, and sorts them by key.
    pub fn from_requirements(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|left, right| left.key.cmp(&right.key));
        Self { requirements }
    }

    /// Whether the selector matches every object.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether an object matches. `value_of` returns the value of a label, or `None` if it is absent.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(value_of(&requirement.key)))
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(formatter, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl Requirement {
    /// Creates a requirement.
    ///
    /// # Errors
    /// When the key or a value is invalid, or the number of values does not fit the operator.
    pub fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Self, ParseError> {
        let errors = requirement_errors(key, operator, &values);
        if errors.is_empty() {
            Ok(Self { key: key.to_owned(), operator, values })
        } else {
            Err(ParseError(aggregate(&errors)))
        }
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values in the order in which they were given.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether a label meets the requirement; `value` is `None` if the label is absent.
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = || value.map(|value| self.values.iter().any(|known| known == value));
        let compared = || {
            let left = go_text::parse_int(value?).ok()?;
            let right = go_text::parse_int(self.values.first()?).ok()?;
            Some(left.cmp(&right))
        };
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => listed().unwrap_or(false),
            Operator::NotIn | Operator::NotEquals => !listed().unwrap_or(false),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compared().is_some_and(std::cmp::Ordering::is_gt),
            Operator::LessThan => compared().is_some_and(std::cmp::Ordering::is_lt),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values = self.values.clone();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Equals => write!(formatter, "{key}={values}"),
            Operator::DoubleEquals => write!(formatter, "{key}=={values}"),
            Operator::NotEquals => write!(formatter, "{key}!={values}"),
            Operator::In => write!(formatter, "{key} in ({values})"),
            Operator::NotIn => write!(formatter, "{key} notin ({values})"),
            Operator::Exists => write!(formatter, "{key}"),
            Operator::DoesNotExist => write!(formatter, "!{key}"),
            Operator::GreaterThan => write!(formatter, "{key}>{values}"),
            Operator::LessThan => write!(formatter, "{key}<{values}"),
        }
    }
}

fn requirement_errors(key: &str, operator: Operator, values: &[String]) -> Vec<FieldError> {
    let wrong = |detail| FieldError::invalid("values", values, detail);
    let mut errors: Vec<FieldError> = key_error("key", key).into_iter().collect();
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            errors.push(wrong("for 'in', 'notin' operators, values set can't be empty"));
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            errors.push(wrong("exact-match compatibility requires one single value"));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            errors.push(wrong("values set must be empty for exists and does not exist"));
        }
        Operator::GreaterThan | Operator::LessThan => {
            if values.len() != 1 {
                errors.push(wrong("for 'Gt', 'Lt' operators, exactly one value is required"));
            }
            let no_integer = values.iter().enumerate().filter(|(_, value)| go_text::parse_int(value).is_err());
            errors.extend(no_integer.map(|(index, value)| {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                FieldError::invalid_string(format!("values[{index}]"), value, detail)
            }));
        }
        _ => {}
    }
    errors.extend(values.iter().enumerate().filter_map(|(index, value)| {
        let problems = value_problems(value);
        let path = format!("values[{index}][{key}]");
        (!problems.is_empty()).then(|| FieldError::invalid_string(path, value, problems.join("; ")))
    }));
    errors
}

fn key_error(path: &str, key: &str) -> Option<FieldError> {
    let problems = key_problems(key);
    (!problems.is_empty()).then(|| FieldError::invalid_string(path, key, problems.join("; ")))
}

/// Validates a qualified name: the key of a label, a finalizer, or the key of an annotation in lower case. Returns one
/// message per problem.
pub fn key_problems(key: &str) -> Vec<String> {
    const MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                           alphanumeric character";
    let pattern_problem = || regex_problem(MESSAGE, KEY_PATTERN, &["MyName", "my.name", "123-abc"]);
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, rest)) if rest.contains('/') => {
            let problem = pattern_problem();
            return vec![format!(
                "a valid label key {problem} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut problems = match prefix {
        None => Vec::new(),
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => {
            subdomain_problems(prefix, Unit::Bytes).iter().map(|problem| format!("prefix part {problem}")).collect()
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(length_problems(name, BYTES_MAX, Unit::Bytes).iter().map(|problem| format!("name part {problem}")));
    if !is_name(name) {
        problems.push(format!("name part {}", pattern_problem()));
    }
    problems
}

/// Validates the value of a label. Returns one message per problem.
pub fn value_problems(value: &str) -> Vec<String> {
    let mut problems = length_problems(value, BYTES_MAX, Unit::Bytes);
    if !value.is_empty() && !is_name(value) {
        problems.push(regex_problem(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            VALUE_PATTERN,
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn selectors_are_read_and_refused_as_upstream_does() {
        for row in vectors::rows("labels") {
            let parsed = LabelSelector::parse(&row.text("in"));
            let printed = parsed.as_ref().map(LabelSelector::to_string).map_err(ParseError::to_string);
            assert_eq!(printed, row.result(), "{:?}", row.text("in"));
            if let Ok(selector) = parsed {
                let printed = selector.to_string();
                assert_eq!(LabelSelector::parse(&printed).unwrap().to_string(), printed, "it reads back");
            }
        }
    }

    #[test]
    fn keys_and_values_are_judged_as_upstream_judges_them() {
        for row in vectors::rows("names") {
            let name = row.text("name");
            assert_eq!(key_problems(&name), row.texts("labelKey"), "{name:?}");
            assert_eq!(value_problems(&name), row.texts("labelValue"), "{name:?}");
        }
    }

    #[test]
    fn a_selector_matches_what_it_says() {
        let labels = |key: &str| match key {
            "app" => Some("web"),
            "size" => Some("10"),
            "empty" => Some(""),
            _ => None,
        };
        for (selector, selected) in [
            ("", true),
            ("app", true),
            ("!app", false),
            ("other", false),
            ("!other", true),
            ("app=web", true),
            ("app==api", false),
            ("app!=api", true),
            ("other!=api", true),
            ("app in (api,web)", true),
            ("other in (api,web)", false),
            ("app notin (api,web)", false),
            ("other notin (api)", true),
            ("size>9", true),
            ("size>10", false),
            ("size<11", true),
            ("app>1", false),
            ("other<1", false),
            ("empty=", true),
            ("other=", false),
            ("app=web,size>1,!other", true),
            ("app=web,size>100", false),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(labels), selected, "{selector}");
        }
    }

    #[test]
    fn a_requirement_made_by_hand_needs_the_right_number_of_values() {
        let refused = |operator, values: &[&str]| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            Requirement::new("a", operator, values).unwrap_err().to_string()
        };
        assert_eq!(
            refused(Operator::In, &[]),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
        assert_eq!(
            refused(Operator::Equals, &["b", "c"]),
            r#"values: Invalid value: ["b","c"]: exact-match compatibility requires one single value"#
        );
        assert_eq!(
            refused(Operator::Exists, &["b"]),
            r#"values: Invalid value: ["b"]: values set must be empty for exists and does not exist"#
        );
        assert_eq!(
            refused(Operator::LessThan, &[]),
            "values: Invalid value: []: for 'Gt', 'Lt' operators, exactly one value is required"
        );
    }
}
