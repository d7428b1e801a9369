//! Field selectors: `metadata.name=x,spec.foo!=y`, with `\` before a comma, an equals sign or itself in a value.

use std::fmt;

/// All terms must hold. The empty selector selects everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Path of the field, as in `metadata.name`.
    pub field: String,
    /// Whether the value must be this one, or any other.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// Why a field selector is none, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// All of it.
        selector: String,
        /// The part.
        term: String,
    },
    /// A backslash before something that needs none.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or an equals sign without its backslash; upstream prints its number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// A selector on a field that the resource cannot select by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownField {
    /// For resources with fields of their own, custom ones included.
    #[error("field label not supported: {0}")]
    NotSupported(String),
    /// For built-in resources that know only name and namespace.
    #[error(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        crate::go_text::quote(.0)
    )]
    NotDefault(String),
}

impl FieldSelector {
    /// Reads a selector. Terms come out sorted by their text.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| parse_term(text, part));
        let mut terms: Vec<Term> = terms.collect::<Result<_, _>>()?;
        // A term that names neither field nor value says nothing to upstream, so it is none.
        terms.retain(|term| !(term.field.is_empty() && term.value.is_empty()));
        Ok(Self { terms })
    }

    /// One condition that a field has a value.
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self { terms: vec![Term { field: field.into(), equal: true, value: value.into() }] }
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The conditions.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether an object is selected; `value_of` knows its fields, and a field that is absent has the empty value.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field).unwrap_or_default() == term.value) == term.equal)
    }

    /// The value that a field must have, if the first condition of equality on it says so.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Checks the fields against `metadata.name` and those in `supported`, for resources with fields of their own. A
    /// custom resource that is namespaced supports `metadata.namespace` as well, one that is not does not.
    pub fn check_supported(&self, supported: &[&str]) -> Result<(), UnknownField> {
        self.check(|field| field == "metadata.name" || supported.contains(&field), UnknownField::NotSupported)
    }

    /// Checks the fields against name and namespace, for built-in resources that know no others.
    pub fn check_default(&self) -> Result<(), UnknownField> {
        self.check(is_default_field, UnknownField::NotDefault)
    }

    fn check(&self, known: impl Fn(&str) -> bool, error: fn(String) -> UnknownField) -> Result<(), UnknownField> {
        match self.terms.iter().find(|term| !known(&term.field)) {
            Some(term) => Err(error(term.field.clone())),
            None => Ok(()),
        }
    }
}

fn is_default_field(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            write!(formatter, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// A value with a backslash before what would end it.
pub fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn unescape(value: &str) -> Result<String, ParseError> {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                Some(other) => return Err(ParseError::Escape(format!("\\{other}"))),
                None => return Err(ParseError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(ParseError::Unescaped(character)),
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn parse_term(selector: &str, term: &str) -> Result<Term, ParseError> {
    let split = term.char_indices().find_map(|(index, _)| {
        let operator = ["!=", "==", "="].into_iter().find(|operator| term[index..].starts_with(operator))?;
        Some((&term[..index], operator, &term[index + operator.len()..]))
    });
    let (field, operator, value) =
        split.ok_or_else(|| ParseError::Term { selector: selector.to_owned(), term: term.to_owned() })?;
    Ok(Term { field: field.to_owned(), equal: operator != "!=", value: unescape(value)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn selectors_are_read_and_refused_as_upstream_does() {
        for row in vectors::rows("fields") {
            let parsed = FieldSelector::parse(&row.text("in"));
            let printed = parsed.as_ref().map(FieldSelector::to_string).map_err(ParseError::to_string);
            assert_eq!(printed, row.result(), "{}", row.text("in"));
            if let Ok(selector) = parsed {
                assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector), "it reads back");
            }
        }
    }

    #[test]
    fn a_term_of_nothing_is_none() {
        assert_eq!(FieldSelector::parse("=,!=,a=b,==").unwrap(), FieldSelector::equals("a", "b"));
        assert!(FieldSelector::parse("=").unwrap().is_empty());
    }

    #[test]
    fn a_field_that_is_absent_has_the_empty_value() {
        let value_of = |field: &str| (field == "metadata.name").then_some("x,y");
        for (selector, selected) in [
            ("", true),
            (r"metadata.name=x\,y", true),
            (r"metadata.name!=x\,y", false),
            ("metadata.name=x", false),
            ("metadata.namespace=", true),
            ("metadata.namespace!=", false),
            (r"metadata.name=x\,y,metadata.namespace=z", false),
        ] {
            assert_eq!(FieldSelector::parse(selector).unwrap().matches(value_of), selected, "{selector}");
        }
    }

    #[test]
    fn only_a_condition_of_equality_requires_a_value() {
        let selector = FieldSelector::parse("a!=1,b=2").unwrap();
        assert_eq!((selector.required_value("a"), selector.required_value("b")), (None, Some("2")));
        assert_eq!(FieldSelector::equals("a", "b").to_string(), "a=b");
    }

    #[test]
    fn a_field_that_the_resource_does_not_know_is_refused() {
        let selector = FieldSelector::parse("metadata.name=a,spec.x=1").unwrap();
        assert_eq!(selector.check_supported(&["spec.x"]), Ok(()));
        let custom = selector.check_supported(&[]).unwrap_err();
        assert_eq!(custom.to_string(), "field label not supported: spec.x");
        let builtin = selector.check_default().unwrap_err();
        let text = r#""spec.x" is not a known field selector: only "metadata.name", "metadata.namespace""#;
        assert_eq!(builtin.to_string(), text);
    }
}
