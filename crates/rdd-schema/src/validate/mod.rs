//! Validation of a value against a schema, with the messages and quirks of kube-openapi's validator.
//!
//! Errors come in upstream's order. Where upstream walks a Go map in random order, keys are sorted here.

pub(crate) mod number;
mod outcome;

use rdd_meta::{go_json, go_text};
use serde_json::{Map, Value};

use crate::{
    field::{Error, Path},
    format::Format,
    pattern::{MatchError, StepBudget},
    ratchet::Correlated,
    structural::{Additional, Structural, Type, Validation},
};
use number::float_to_int;
use outcome::{Code, Outcome, Trail};

/// Upstream interprets a schema in two ways; this selects one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// For objects: int-or-string is a type of its own, and formats that are not checked are ignored.
    Object,
    /// For defaults in a schema: int-or-string has the declared type, and every format counts.
    Default,
}

/// Validates `value` against `schema`. The errors have paths below `path`.
pub fn validate(path: &Path<'_>, schema: &Structural, value: &Value) -> Vec<Error> {
    validate_as(path, schema, value, Reading::Object)
}

/// Validates an update from `old` to `new`. Errors in values that correlate with an old value and did not change are dropped.
pub fn validate_update(path: &Path<'_>, schema: &Structural, new: &Value, old: &Value) -> Vec<Error> {
    let correlated = Correlated { new, old, schema };
    Walk::new(Reading::Object).node(schema, new, &Trail::Root, Some(correlated)).into_errors(path)
}

/// Validates with either interpretation of the schema.
pub(crate) fn validate_as(path: &Path<'_>, schema: &Structural, value: &Value, reading: Reading) -> Vec<Error> {
    Walk::new(reading).node(schema, value, &Trail::Root, None).into_errors(path)
}

/// The state of one validation: one value with all that is below it.
struct Walk {
    reading: Reading,
    /// The step budget of all patterns in this object together; a budget for each match would not bound a list of values.
    steps: StepBudget,
}

/// The type of a value, and the format of its Go representation.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) if number.as_i64().is_some() => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
    }
}

impl Walk {
    fn new(reading: Reading) -> Self {
        Self { reading, steps: StepBudget::default() }
    }

    /// Validates one value and drops its errors if the update did not change it.
    fn node(&self, schema: &Structural, value: &Value, trail: &Trail<'_>, before: Option<Correlated<'_>>) -> Outcome {
        let mut outcome = self.unforgiving(schema, value, trail, before);
        if !outcome.is_valid() && before.is_some_and(|before| before.is_unchanged()) {
            outcome.forgive();
        }
        outcome
    }

    /// Validates one value without ratcheting; values below it still ratchet.
    fn unforgiving(
        &self,
        schema: &Structural,
        value: &Value,
        trail: &Trail<'_>,
        before: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        // A null is checked for its type and the enum only, as upstream.
        if value.is_null() {
            outcome.merge(self.null(schema, trail));
            outcome.merge(enumeration(schema, value, trail));
            return outcome;
        }
        // `count` after each part mirrors upstream's match counter, which chooses the best alternative of `anyOf` and `oneOf`.
        if let Some(type_outcome) = self.kind(schema, value, trail) {
            outcome.merge(type_outcome);
            outcome.count();
        }
        outcome.merge(self.junctors(schema, value, trail));
        outcome.count();
        match value {
            Value::String(text) => {
                outcome.merge(self.string(schema, text, trail));
                outcome.count();
                if let Some((format, name)) = self.known_format(schema) {
                    if !format.accepts(text) {
                        outcome.fail(
                            Code::Type,
                            trail,
                            Some(value.clone()),
                            format!("{trail} in body must be of type {name}: {}", go_text::quote(text)),
                        );
                    }
                    outcome.count();
                }
            }
            Value::Number(number) => {
                outcome.merge(number::check(schema, number, trail));
                outcome.count();
            }
            Value::Array(items) => {
                outcome.merge(self.array(schema, items, trail, before));
                outcome.count();
            }
            _ => {}
        }
        outcome.merge(enumeration(schema, value, trail));
        outcome.count();
        if let Value::Object(entries) = value {
            outcome.merge(self.object(schema, entries, trail, before));
            outcome.count();
        }
        outcome.count();
        outcome
    }

    fn types<'s>(&self, schema: &'s Structural) -> Vec<&'s str> {
        if schema.int_or_string && self.reading == Reading::Object {
            return vec!["integer", "string"];
        }
        schema.kind.iter().map(Type::name).collect()
    }

    /// The format as far as this interpretation regards it.
    fn format<'s>(&self, schema: &'s Structural) -> Option<&'s str> {
        let validation = schema.validation.as_deref()?;
        // Upstream removes unsupported formats from the schemas of objects before it validates.
        let hidden = self.reading == Reading::Object && validation.known_format.is_none();
        if hidden { None } else { validation.format.as_deref() }
    }

    fn known_format<'s>(&self, schema: &'s Structural) -> Option<(Format, &'s str)> {
        let validation = schema.validation.as_deref()?;
        Some((validation.known_format?, validation.format.as_deref()?))
    }

    fn null(&self, schema: &Structural, trail: &Trail<'_>) -> Outcome {
        let types = self.types(schema);
        let mut outcome = Outcome::default();
        if types.is_empty() || types.contains(&"null") || schema.nullable {
            outcome.count();
        } else {
            let message = format!("{trail} in body must be of type {}: \"null\"", types.join(","));
            outcome.fail(Code::Type, trail, Some("null".into()), message);
        }
        outcome
    }

    /// Checks the type; `None` when the schema has neither type nor format.
    fn kind(&self, schema: &Structural, value: &Value, trail: &Trail<'_>) -> Option<Outcome> {
        let types = self.types(schema);
        let format = self.format(schema);
        if types.is_empty() && format.is_none() {
            return None;
        }
        let (actual, actual_format) = type_of(value);
        // A float such as 1.0 is an integer for OpenAPI.
        let whole = || value.as_f64().is_some_and(number::is_json_integer);
        let fits = types.contains(&actual)
            || (actual == "number" && types.contains(&"integer") && whole())
            || (actual == "integer" && types.contains(&"number"));
        let textual = value.is_string() || value.is_array();
        let mut outcome = Outcome::default();
        let refused = match format {
            Some(format) if !textual && !fits && actual_format != format => Some((format.to_owned(), actual_format)),
            // With a format, upstream does not check the type of a string or a list, unless the schema wants a number.
            Some(_) if textual && !types.contains(&"number") && !types.contains(&"integer") => None,
            _ if !fits => Some((types.join(","), actual)),
            _ => None,
        };
        match refused {
            None => outcome.count(),
            Some((wanted, shown)) => {
                let message = format!("{trail} in body must be of type {wanted}: {}", go_text::quote(shown));
                outcome.fail(Code::Type, trail, Some(shown.into()), message);
            }
        }
        Some(outcome)
    }

    /// Validates `anyOf`, `oneOf`, `allOf` and `not`. Ratcheting does not apply below them.
    fn junctors(&self, schema: &Structural, value: &Value, trail: &Trail<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(validation) = schema.validation.as_deref() {
            self.any_of(validation, value, trail, &mut outcome);
            self.one_of(validation, value, trail, &mut outcome);
            self.all_of(validation, value, trail, &mut outcome);
            if let Some(not) = &validation.not
                && self.node(not, value, trail, None).is_valid()
            {
                outcome.plain(format!("{} must not validate the schema (not)", trail.quoted()));
            }
            // A match that failed because the steps ran out could make a negation true.
            let has_negation = validation.not.is_some() || !validation.one_of.is_empty();
            if has_negation && self.steps.is_exhausted() {
                outcome.plain(format!("{} cannot be validated: {}", trail.quoted(), MatchError::Steps));
            }
        }
        outcome.count();
        outcome
    }

    fn any_of(&self, validation: &Validation, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        if validation.any_of.is_empty() {
            return;
        }
        let mut best: Option<Outcome> = None;
        for alternative in &validation.any_of {
            let result = self.node(alternative, value, trail, None);
            if result.is_valid() {
                outcome.merge(result);
                return;
            }
            // Of equally good alternatives, the first is reported.
            if best.as_ref().is_none_or(|best| result.matches() > best.matches()) {
                best = Some(result);
            }
        }
        outcome.plain(format!("{} must validate at least one schema (anyOf)", trail.quoted()));
        outcome.merge(best.unwrap_or_default());
    }

    fn one_of(&self, validation: &Validation, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        if validation.one_of.is_empty() {
            return;
        }
        let mut best: Option<Outcome> = None;
        let mut first: Option<Outcome> = None;
        let mut valid = 0;
        for alternative in &validation.one_of {
            let result = self.node(alternative, value, trail, None);
            if result.is_valid() {
                valid += 1;
                // As soon as one alternative is valid, upstream no longer reports the best invalid one.
                best = None;
                first.get_or_insert(result);
            } else if valid == 0 && best.as_ref().is_none_or(|best| result.matches() > best.matches()) {
                best = Some(result);
            }
        }
        if valid == 1 {
            outcome.merge(first.unwrap_or_default());
            return;
        }
        let found =
            if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
        outcome.plain(format!("{} must validate one and only one schema (oneOf). {found}", trail.quoted()));
        if let Some(best) = best {
            outcome.merge(best);
        }
    }

    fn all_of(&self, validation: &Validation, value: &Value, trail: &Trail<'_>, outcome: &mut Outcome) {
        let mut valid = 0;
        for part in &validation.all_of {
            let result = self.node(part, value, trail, None);
            valid += usize::from(result.is_valid());
            outcome.merge(result);
        }
        if valid != validation.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.plain(format!("{} must validate all the schemas (allOf){none}", trail.quoted()));
        }
    }

    fn array(
        &self,
        schema: &Structural,
        items: &[Value],
        trail: &Trail<'_>,
        before: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(below) = schema.items.as_deref() {
            let correlated = before.map(|before| before.items());
            for (index, item) in items.iter().enumerate() {
                let item_before = correlated.as_ref().and_then(|correlated| correlated.find(item));
                outcome.merge(self.node(below, item, &Trail::Index(trail, index), item_before));
            }
        }
        if let Some(validation) = schema.validation.as_deref() {
            let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
            if let Some(min) = validation.min_items.filter(|min| size < *min) {
                outcome.fail(
                    Code::Other,
                    trail,
                    Some(size.into()),
                    format!("{trail} in body should have at least {min} items"),
                );
            }
            if let Some(max) = validation.max_items.filter(|max| size > *max) {
                outcome.fail(
                    Code::TooMany(size, max),
                    trail,
                    None,
                    format!("{trail} in body should have at most {max} items"),
                );
            }
            if validation.unique_items && has_duplicates(items) {
                outcome.fail(Code::Other, trail, None, format!("{trail} in body shouldn't contain duplicates"));
            }
        }
        outcome.count();
        outcome
    }

    fn object(
        &self,
        schema: &Structural,
        entries: &Map<String, Value>,
        trail: &Trail<'_>,
        before: Option<Correlated<'_>>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if let Some(validation) = schema.validation.as_deref() {
            let size = i64::try_from(entries.len()).unwrap_or(i64::MAX);
            if let Some(min) = validation.min_properties.filter(|min| size < *min) {
                outcome.fail(
                    Code::Other,
                    trail,
                    Some(size.into()),
                    format!("{trail} in body should have at least {min} properties"),
                );
            }
            if let Some(max) = validation.max_properties.filter(|max| size > *max) {
                let message = format!("{trail} in body should have at most {max} properties");
                outcome.fail(Code::TooMany(size, max), trail, None, message);
            }
        }
        // `kind` and `apiVersion` of the root never ratchet: the old object does not show which version the client sent.
        let is_root = trail.is_empty();
        let earlier = |key: &str| {
            let hidden = is_root && matches!(key, "kind" | "apiVersion");
            if hidden { None } else { before.and_then(|before| before.key(key)) }
        };
        for (key, entry) in entries {
            if schema.property(key).is_some() {
                continue;
            }
            match &schema.additional {
                Additional::Bool(false) => {
                    let message = format!("{trail}.{key} in body is a forbidden property");
                    outcome.fail(Code::Other, trail, Some(key.as_str().into()), message);
                }
                Additional::Schema(below) => {
                    outcome.merge(self.node(below, entry, &Trail::Key(trail, key), earlier(key)))
                }
                _ => {}
            }
        }
        for (name, below) in schema.properties() {
            if let Some(entry) = entries.get(name) {
                outcome.merge(self.node(below, entry, &Trail::Field(trail, name), earlier(name)));
            }
        }
        for name in schema.validation.iter().flat_map(|validation| validation.required.iter()) {
            if !entries.contains_key(&**name) {
                let place = Trail::Key(trail, name);
                outcome.fail(Code::Required, &place, None, format!("{place} in body is required"));
            }
        }
        outcome
    }
}

impl Walk {
    /// Checks the length and the pattern of a string; only the first failure is reported, as upstream.
    fn string(&self, schema: &Structural, text: &str, trail: &Trail<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(validation) = schema.validation.as_deref() else { return outcome };
        // Counted only if a limit exists; Go counts code points, too.
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        if let Some(max) = validation.max_length.filter(|max| length() > *max) {
            outcome.fail(
                Code::TooLong(max),
                trail,
                None,
                format!("{trail} in body should be at most {max} chars long"),
            );
        } else if let Some(min) = validation.min_length.filter(|min| length() < *min) {
            outcome.fail(
                Code::Other,
                trail,
                Some(text.into()),
                format!("{trail} in body should be at least {min} chars long"),
            );
        } else if let Some(pattern) = &validation.pattern {
            let source = pattern.source();
            let refused = match pattern.is_match_within(text, &self.steps) {
                Ok(true) => None,
                Ok(false) => Some(format!("should match '{source}'")),
                Err(MatchError::Invalid(error)) => {
                    Some(format!("should match '{source}, but pattern is invalid: {error}'"))
                }
                Err(error) => Some(format!("cannot be matched against '{source}': {error}")),
            };
            if let Some(problem) = refused {
                outcome.fail(Code::Other, trail, Some(text.into()), format!("{trail} in body {problem}"));
            }
        }
        outcome
    }
}

fn enumeration(schema: &Structural, value: &Value, trail: &Trail<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let allowed = schema.validation.as_deref().map_or(&[][..], |validation| &validation.enumeration);
    if allowed.is_empty() || allowed.iter().any(|one| converts_to(value, one)) {
        return outcome;
    }
    let texts: Vec<String> = allowed
        .iter()
        .map(|one| match one {
            Value::String(text) => text.clone(),
            other => go_json::to_string(other),
        })
        .collect();
    let message = format!("{trail} in body should be one of [{}]", texts.join(" "));
    outcome.fail(Code::NotSupported(texts), trail, Some(value.clone()), message);
    outcome
}

/// Whether `value`, converted to the Go type of `wanted`, equals it, as upstream compares enums. An integer converts to a float
/// and back (truncated), and an integer converts to the string of that code point.
fn converts_to(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(have), Value::Number(want)) => match (have.as_i64(), want.as_i64()) {
            (Some(have), Some(want)) => have == want,
            (Some(have), None) => want.as_f64() == Some(have as f64),
            (None, Some(want)) => have.as_f64().map(float_to_int) == Some(want),
            (None, None) => have.as_f64() == want.as_f64(),
        },
        (Value::Number(have), Value::String(want)) => have.as_i64().is_some_and(|code| {
            let character = u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            want.chars().eq([character])
        }),
        (have, want) => have == want,
    }
}

fn has_duplicates(items: &[Value]) -> bool {
    // The debug form distinguishes 1 from 1.0, as Go's types do.
    let mut seen = std::collections::HashSet::new();
    items.iter().any(|item| !seen.insert(format!("{item:?}")))
}

#[cfg(test)]
mod tests;
