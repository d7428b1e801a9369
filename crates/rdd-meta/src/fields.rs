//! Field selectors such as `metadata.name=x,spec.foo!=y`, in which a backslash escapes `,`, `=` and `\` in a value.

use std::fmt;

/// A field selector. An object must match all terms; the empty selector matches every object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

/// A condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// The path of the field, as in `metadata.name`.
    pub field: String,
    /// `true` for `=`: the field must have this value; `false` for `!=`: it must have another one.
    pub equal: bool,
    /// The value.
    pub value: String,
}

/// Why a field selector cannot be parsed, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole selector.
        selector: String,
        /// The invalid term.
        term: String,
    },
    /// A backslash stands before a character that cannot be escaped, or at the end.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A value has an unescaped comma or equals sign. Upstream prints the character's code.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// The selector names a field that the resource cannot be selected by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownField {
    /// The error of resources with selectable fields of their own, custom resources included.
    #[error("field label not supported: {0}")]
    NotSupported(String),
    /// The error of built-in resources, which only support name and namespace.
    #[error(
        "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        crate::go_text::quote(.0)
    )]
    NotDefault(String),
}

impl FieldSelector {
    /// Parses a selector. The terms are sorted by their text, as upstream sorts them.
    ///
    /// # Errors
    /// When a term has no operator or a value is not escaped properly.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| parse_term(text, part));
        let mut terms: Vec<Term> = terms.collect::<Result<_, _>>()?;
        // Upstream drops a term that has neither field nor value.
        terms.retain(|term| !(term.field.is_empty() && term.value.is_empty()));
        Ok(Self { terms })
    }

    /// A selector with one term, `field=value`.
    pub fn equals(field: impl Into<String>, value: impl Into<String>) -> Self {
        Self { terms: vec![Term { field: field.into(), equal: true, value: value.into() }] }
    }

    /// Whether the selector matches every object.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The terms of the selector.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Whether an object matches. `value_of` returns the value of a field; an absent field counts as empty.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field).unwrap_or_default() == term.value) == term.equal)
    }

    /// The value that the first `=` term on this field requires.
    pub fn required_value(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Checks that each field is `metadata.name` or in `supported`. For custom resources, and built-in ones with
    /// selectable fields of their own. The caller lists `metadata.namespace` in `supported` for a namespaced custom
    /// resource only.
    pub fn check_supported(&self, supported: &[&str]) -> Result<(), UnknownField> {
        self.check(|field| field == "metadata.name" || supported.contains(&field), UnknownField::NotSupported)
    }

    /// Checks that each field is `metadata.name` or `metadata.namespace`, for built-in resources without selectable
    /// fields of their own.
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

/// Escapes a value, so that it can stand in a selector.
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

/// Splits at commas that are not escaped.
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
