//! Evaluates rules: walks the value, correlates it with the old one, and turns results into failures.

use std::collections::HashMap;

use rdd_meta::go_text;
use serde_json::Value as Json;

use super::report::{BadValue, Failure, FailureKind};
use super::{CompiledRule, Node, OBJECT_BUDGET, PER_CALL_LIMIT};
use crate::program::Program;
use crate::shape::Shape;
use crate::value::{Fault, Outcome, Value};

/// A longer computed message is discarded.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The cost limits of a validation, and whether it ratchets.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The limit of one expression
    pub per_call: u64,
    /// The budget of all rules together
    pub budget: i64,
    /// Whether a failure in a value that an update does not change is only a warning
    pub ratcheting: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_call: PER_CALL_LIMIT, budget: OBJECT_BUDGET, ratcheting: false }
    }
}

/// The result of a validation.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The failures that refuse the object
    pub failures: Vec<Failure>,
    /// The failures in unchanged values, which are only warnings
    pub ratcheted: Vec<Failure>,
    /// The rest of the budget; negative if a cost limit ended the validation
    pub remaining_budget: i64,
}

/// The budget is exceeded, so no further rule is evaluated.
struct Exhausted;

/// The new and old value of the current node and of its parent, for ratcheting.
#[derive(Clone, Copy, Default)]
struct Correlation<'a> {
    current: Option<(&'a Json, &'a Json)>,
    parent: Option<(&'a Json, &'a Json)>,
}

impl<'a> Correlation<'a> {
    fn is_unchanged(&self) -> bool {
        self.current.or(self.parent).is_some_and(|(new, old)| new == old)
    }

    fn key(self, name: &str) -> Self {
        // A value without a correlated old value passes its parent on.
        let Some(current) = self.current else { return self };
        // The old object does not show which version the client sent, so these two fields never ratchet.
        if self.parent.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        let below = current.0.get(name).zip(current.1.get(name));
        Self { current: below, parent: Some(current) }
    }

    fn index(self, item: &'a Json, old: Option<&'a Json>) -> Self {
        let Some(current) = self.current else { return self };
        Self { current: old.map(|old| (item, old)), parent: Some(current) }
    }
}

struct Run {
    limits: Limits,
    verdict: Verdict,
}

/// Evaluates the rules of `root` and below for a value.
pub(super) fn validate(
    root: &Node,
    shape: &Shape,
    path: &str,
    value: &Json,
    old: Option<&Json>,
    limits: Limits,
) -> Verdict {
    let verdict = Verdict { failures: Vec::new(), ratcheted: Vec::new(), remaining_budget: limits.budget };
    let mut run = Run { limits, verdict };
    let current = old.filter(|_| limits.ratcheting).map(|old| (value, old));
    let correlation = Correlation { current, parent: None };
    if run.node(root, shape, path, value, old, correlation).is_err() {
        run.verdict.remaining_budget = -1;
    }
    run.verdict
}

/// Each method stops the walk by an error when the budget is exceeded.
impl Run {
    fn node(
        &mut self,
        node: &Node,
        shape: &Shape,
        path: &str,
        value: &Json,
        old: Option<&Json>,
        correlation: Correlation<'_>,
    ) -> Result<(), Exhausted> {
        // Rules do not apply to a null, nor is a null an old value.
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.expressions(node, shape, path, value, old, correlation)?;
        for member in &node.all_of {
            // As upstream, members of `allOf` do not correlate by themselves; only the parent counts.
            let above = Correlation { current: None, parent: correlation.parent };
            self.node(member, shape, path, value, old, above)?;
        }
        match value {
            Json::Array(items) => self.items(node, shape, path, items, old, correlation),
            Json::Object(object) => self.members(node, shape, path, object, old, correlation),
            _ => Ok(()),
        }
    }

    fn items(
        &mut self,
        node: &Node,
        shape: &Shape,
        path: &str,
        items: &[Json],
        old: Option<&Json>,
        correlation: Correlation<'_>,
    ) -> Result<(), Exhausted> {
        let (Some(below), Some(item_shape)) = (&node.items, shape.items()) else { return Ok(()) };
        let old_items = old.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let keys = shape.correlating_keys().unwrap_or_default();
        let mut by_key: HashMap<Vec<String>, &Json> = HashMap::new();
        for old in old_items {
            if let Some(key) = item_key(old, keys) {
                // Of old items with equal keys, the first counts.
                by_key.entry(key).or_insert(old);
            }
        }
        for (index, item) in items.iter().enumerate() {
            let old = item_key(item, keys).and_then(|key| by_key.get(&key).copied());
            self.node(below, item_shape, &format!("{path}[{index}]"), item, old, correlation.index(item, old))?;
        }
        Ok(())
    }

    fn members(
        &mut self,
        node: &Node,
        shape: &Shape,
        path: &str,
        object: &serde_json::Map<String, Json>,
        old: Option<&Json>,
        correlation: Correlation<'_>,
    ) -> Result<(), Exhausted> {
        let old_of = |name: &str| old.and_then(|old| old.get(name));
        if let (Some(below), Some(value_shape)) = (&node.additional, shape.additional.as_deref()) {
            for (name, value) in object {
                let path = format!("{path}[{name}]");
                self.node(below, value_shape, &path, value, old_of(name), correlation.key(name))?;
            }
        }
        for (name, value) in object {
            let (Some(below), Some(value_shape)) = (node.properties.get(name), shape.properties.get(name)) else {
                continue;
            };
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{name}");
            self.node(below, value_shape, &path, value, old_of(name), correlation.key(name))?;
        }
        Ok(())
    }

    /// Evaluates the rules of one node.
    fn expressions(
        &mut self,
        node: &Node,
        shape: &Shape,
        path: &str,
        value: &Json,
        old: Option<&Json>,
        correlation: Correlation<'_>,
    ) -> Result<(), Exhausted> {
        let cannot_run = |detail: String| Failure {
            path: path.into(),
            kind: FailureKind::Invalid,
            value: BadValue::TypeName(shape.kind.clone()),
            detail,
        };
        if let Some(problem) = &node.broken {
            self.verdict.failures.push(cannot_run(format!("rule compiler initialization error: {problem}")));
            return Ok(());
        }
        if node.rules.is_empty() {
            return Ok(());
        }
        const OUT_OF_BUDGET: &str =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        if self.verdict.remaining_budget <= 0 {
            self.verdict.failures.push(cannot_run(OUT_OF_BUDGET.into()));
            return Err(Exhausted);
        }
        // `oldSelf` is only converted if a rule uses it.
        let values = Values::new(shape, value, old.filter(|_| node.uses_old_self()), node.uses_old_self());
        for rule in &node.rules {
            let program = match &rule.program {
                Err(problem) => {
                    self.verdict.failures.push(cannot_run(format!("rule compile error: {problem}")));
                    continue;
                }
                Ok(None) => continue,
                Ok(Some(program)) => program,
            };
            // A transition rule needs an old value, unless `oldSelf` is optional.
            if rule.uses_old_self && old.is_none() && !rule.rule.optional_old_self {
                continue;
            }
            let variables = if rule.rule.optional_old_self { &values.with_optional_old } else { &values.plain };
            let evaluation = program.evaluate(variables, self.limits.per_call);
            if !self.spend(evaluation.cost) {
                self.verdict.failures.push(cannot_run(OUT_OF_BUDGET.into()));
                return Err(Exhausted);
            }
            let shown = rule.rule.shown();
            match evaluation.outcome {
                Ok(Value::Bool(true)) => {}
                Ok(_) => self.broken_rule(rule, shape, path, value, &values, correlation)?,
                Err(Fault::CostLimit) => {
                    self.verdict.failures.push(cannot_run(format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}",
                        Fault::CostLimit
                    )));
                    return Err(Exhausted);
                }
                Err(fault) if fault.to_string().starts_with("no such overload") => {
                    self.verdict.failures.push(cannot_run(format!(
                        "'{fault}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                    )));
                }
                Err(fault) => self.verdict.failures.push(cannot_run(format!("{fault} evaluating rule: {shown}"))),
            }
        }
        Ok(())
    }

    /// Subtracts a cost from the budget. Returns false, without subtracting, if the budget is too small.
    fn spend(&mut self, cost: u64) -> bool {
        match i64::try_from(cost) {
            Ok(cost) if cost <= self.verdict.remaining_budget => {
                self.verdict.remaining_budget -= cost;
                true
            }
            _ => false,
        }
    }

    /// Adds the failure of a rule that evaluated to false.
    fn broken_rule(
        &mut self,
        rule: &CompiledRule,
        shape: &Shape,
        path: &str,
        value: &Json,
        values: &Values<'_>,
        correlation: Correlation<'_>,
    ) -> Result<(), Exhausted> {
        let path = match (path, rule.field_path.as_str()) {
            (path, "") => path.to_owned(),
            ("", below) => below.to_owned(),
            (path, below) => format!("{path}.{below}"),
        };
        // As upstream, transition rules never ratchet: they judge the change itself.
        let is_ratcheted = !rule.uses_old_self && correlation.is_unchanged();
        let mut detail = None;
        if let Ok(Some(message)) = &rule.message {
            match self.message(message, &rule.rule.message_expression, values) {
                Ok(text) => detail = text,
                Err(problem) => {
                    let value = BadValue::TypeName(shape.kind.clone());
                    self.add(Failure { path, kind: FailureKind::Invalid, value, detail: problem }, is_ratcheted);
                    return Err(Exhausted);
                }
            }
        }
        let detail = detail.unwrap_or_else(|| match rule.rule.message.as_str() {
            "" => format!("failed rule: {}", rule.rule.shown()),
            message => message.trim().to_owned(),
        });
        let kind = FailureKind::of_reason(&rule.rule.reason);
        let detail = if kind == FailureKind::Duplicate { String::new() } else { detail };
        let value = match shape.kind.as_str() {
            "object" | "array" => BadValue::Omitted,
            _ => BadValue::Json(value.clone()),
        };
        self.add(Failure { path, kind, value, detail }, is_ratcheted);
        Ok(())
    }

    fn add(&mut self, failure: Failure, is_ratcheted: bool) {
        if is_ratcheted { self.verdict.ratcheted.push(failure) } else { self.verdict.failures.push(failure) }
    }

    /// Evaluates the message expression. Returns `None` if the result cannot be used as a message, and an error if the budget
    /// is exceeded.
    fn message(&mut self, program: &Program, source: &str, values: &Values<'_>) -> Result<Option<String>, String> {
        let evaluation = program.evaluate(&values.plain, self.limits.per_call);
        if !self.spend(evaluation.cost) {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
                    .into(),
            );
        }
        match evaluation.outcome {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            Err(Fault::CostLimit) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                go_text::quote(source)
            )),
            _ => Ok(None),
        }
    }
}

/// The variables `self` and `oldSelf`, for rules with a plain and with an optional `oldSelf`.
struct Values<'a> {
    plain: Vec<(&'static str, Outcome<'a>)>,
    with_optional_old: Vec<(&'static str, Outcome<'a>)>,
}

impl<'a> Values<'a> {
    fn new(shape: &'a Shape, value: &'a Json, old: Option<&'a Json>, names_old: bool) -> Self {
        let own = ("self", shape.value(value));
        let old = old.map(|old| shape.value(old));
        let mut plain = vec![own.clone()];
        plain.extend(old.clone().map(|old| ("oldSelf", old)));
        let mut with_optional_old = vec![own];
        if names_old {
            let optional = old.map_or(Ok(Value::optional(None)), |old| old.map(|old| Value::optional(Some(old))));
            with_optional_old.push(("oldSelf", optional));
        }
        Self { plain, with_optional_old }
    }
}

/// The list map keys of an item, which correlate it with an old item. `None` without keys, or if a key is absent or is not a
/// scalar.
fn item_key(item: &Json, keys: &[String]) -> Option<Vec<String>> {
    let object = item.as_object().filter(|_| !keys.is_empty())?;
    let scalar = |value: &&Json| !value.is_null() && !value.is_array() && !value.is_object();
    keys.iter().map(|key| object.get(key).filter(scalar).map(Json::to_string)).collect()
}
