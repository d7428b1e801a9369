//! Validation rules of a schema (`x-kubernetes-validations`): compiled once, evaluated for an object and its old state.

mod field_path;
mod report;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::declare::Declarations;
use crate::env::{CompileError, Environment};
use crate::program::Program;
use crate::shape::Shape;
use crate::types::Type;

pub use report::{BadValue, Failure, FailureKind};
pub use run::{Limits, Verdict};

/// The cost limit of one expression, as in Kubernetes.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// The cost budget of all rules of one object together, as in Kubernetes.
pub const OBJECT_BUDGET: i64 = 10_000_000;

/// One validation rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression; `self` is the value, `oldSelf` the value before the update
    pub rule: String,
    /// The message of a failure; empty for a default one
    pub message: String,
    /// An expression that computes the message; it overrides `message`
    pub message_expression: String,
    /// The kind of failure; empty for `FieldValueInvalid`
    pub reason: String,
    /// The path of the field that a failure names; empty for the value itself
    pub field_path: String,
    /// Whether `oldSelf` is an optional, so that the rule also applies on create
    pub optional_old_self: bool,
}

impl Rule {
    /// Reads an entry of `x-kubernetes-validations`.
    #[must_use]
    pub fn from_json(json: &Json) -> Self {
        let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old_self: json.get("optionalOldSelf").and_then(Json::as_bool).unwrap_or_default(),
        }
    }

    /// The text by which error messages refer to the rule.
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }
}

/// A compiled rule, or its compile errors.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule
    pub rule: Rule,
    /// The program, `None` for an empty rule, or the compile error
    pub program: Result<Option<Program>, String>,
    /// The program of the message expression, `None` if there is none, or the compile error
    pub message: Result<Option<Program>, String>,
    /// Whether the rule uses `oldSelf` and so is a transition rule
    pub uses_old_self: bool,
    field_path: String,
}

/// The rules of a schema and of all its nodes.
///
/// # Flow
/// Create it once per schema by [`RuleSet::new`]. Check [`RuleSet::compile_errors`] when a CRD is created or updated. Call
/// [`RuleSet::validate`] for each create and update of an object.
///
/// # Guarantees
/// An expression ends at [`Limits::per_call`], and none starts after [`Limits::budget`] is spent. A rule set without rules
/// costs nothing.
#[derive(Debug)]
pub struct RuleSet {
    shape: Arc<Shape>,
    root: Option<Node>,
}

/// The rules at one node of a schema, and the nodes below it that have rules.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<CompiledRule>,
    /// The reason why CEL cannot access values of this node
    broken: Option<String>,
    properties: BTreeMap<String, Node>,
    items: Option<Box<Node>>,
    additional: Option<Box<Node>>,
    all_of: Vec<Node>,
}

impl RuleSet {
    /// Compiles all rules of a schema.
    ///
    /// A rule that does not compile fails for every object, as upstream. A caller that accepts schemas must check
    /// [`RuleSet::compile_errors`] first.
    #[must_use]
    pub fn new(shape: Arc<Shape>) -> Self {
        // Most schemas have no rules and need no environments.
        let root = if has_rules(&shape) { compile_node(&shape, &shape) } else { None };
        Self { shape, root }
    }

    /// Whether the schema has no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// The number of rules.
    #[must_use]
    pub fn len(&self) -> usize {
        let mut count = 0;
        self.visit(&mut |_, _| count += 1);
        count
    }

    /// The rules that do not compile: each path in the schema with its error (`compilation failed: ERROR: …`).
    #[must_use]
    pub fn compile_errors(&self) -> Vec<(String, String)> {
        let mut errors = Vec::new();
        self.visit(&mut |path, rule| {
            errors.extend(rule.program.as_ref().err().map(|error| (path.to_owned(), error.clone())));
            errors.extend(rule.message.as_ref().err().map(|error| (path.to_owned(), error.clone())));
        });
        errors
    }

    /// Calls `each` for every rule with its path in the schema.
    pub fn visit(&self, each: &mut dyn FnMut(&str, &CompiledRule)) {
        if let Some(root) = &self.root {
            root.visit("", each);
        }
    }

    /// Evaluates the rules for a value.
    ///
    /// `path` is the path of the value, empty for a whole object. `old` is the value before the update, `None` on create. Rules
    /// that use `oldSelf` are skipped, unless it is optional, for values without a correlated old value.
    #[must_use]
    pub fn validate(&self, path: &str, value: &Json, old: Option<&Json>, limits: Limits) -> Verdict {
        match &self.root {
            Some(root) => run::validate(root, &self.shape, path, value, old, limits),
            None => Verdict { failures: Vec::new(), ratcheted: Vec::new(), remaining_budget: limits.budget },
        }
    }
}

impl Node {
    fn visit(&self, path: &str, each: &mut dyn FnMut(&str, &CompiledRule)) {
        self.rules.iter().for_each(|rule| each(path, rule));
        for (name, child) in &self.properties {
            child.visit(&format!("{path}.{name}"), each);
        }
        if let Some(items) = &self.items {
            items.visit(&format!("{path}[*]"), each);
        }
        if let Some(additional) = &self.additional {
            additional.visit(&format!("{path}.*"), each);
        }
        self.all_of.iter().for_each(|member| member.visit(path, each));
    }

    fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.broken.is_none()
            && self.properties.is_empty()
            && self.items.is_none()
            && self.additional.is_none()
            && self.all_of.is_empty()
    }

    fn uses_old_self(&self) -> bool {
        self.rules.iter().any(|rule| rule.uses_old_self)
    }
}

fn has_rules(shape: &Shape) -> bool {
    !shape.rules.is_empty()
        || shape.items().is_some_and(has_rules)
        || shape.additional.as_deref().is_some_and(has_rules)
        || shape.properties.values().any(|child| has_rules(child))
}

/// Compiles the rules of `with`, for values of `shape`. The two differ only inside `allOf`, whose members restrict the same
/// value.
fn compile_node(with: &Shape, shape: &Shape) -> Option<Node> {
    let mut node = Node::default();
    if !with.rules.is_empty() {
        let (self_type, declarations) = Declarations::of(shape, "selfType");
        match self_type {
            Some(self_type) => {
                // One environment for all rules of the node: they declare the same types.
                let environment = Environment::new().with_types(Arc::new(declarations));
                node.rules =
                    with.rules.iter().map(|rule| compile_rule(rule, shape, &environment, &self_type)).collect();
            }
            None => node.broken = Some("failed to convert to declType for CEL validation rules".into()),
        }
    }
    for (name, child) in &with.properties {
        let compiled = shape.properties.get(name).and_then(|property| compile_node(child, property));
        node.properties.extend(compiled.map(|compiled| (name.clone(), compiled)));
    }
    let both = |a: Option<&Shape>, b: Option<&Shape>| a.zip(b).and_then(|(a, b)| compile_node(a, b)).map(Box::new);
    node.items = both(with.items(), shape.items());
    node.additional = both(with.additional.as_deref(), shape.additional.as_deref());
    node.all_of = with.all_of.iter().filter_map(|member| compile_node(member, shape)).collect();
    (!node.is_empty()).then_some(node)
}

fn compile_rule(rule: &Rule, shape: &Shape, base: &Environment, self_type: &Type) -> CompiledRule {
    let old_type = if rule.optional_old_self { Type::optional(self_type.clone()) } else { self_type.clone() };
    let environment = base.clone().with_variable("self", self_type.clone()).with_variable("oldSelf", old_type);
    let program = match rule.rule.trim() {
        "" => Ok(None),
        _ => compile(
            &environment,
            &rule.rule,
            &Type::Bool,
            "compilation",
            "cel expression must evaluate to a bool",
            "program",
        ),
    };
    let message = match (rule.message_expression.as_str(), &program) {
        // Without a program for the rule, its message is never needed.
        ("", _) | (_, Err(_) | Ok(None)) => Ok(None),
        (expression, Ok(Some(_))) => compile(
            &environment,
            expression,
            &Type::String,
            "messageExpression compilation",
            "messageExpression must evaluate to a string",
            "messageExpression",
        ),
    };
    // Only the rule counts; a message expression may use `oldSelf` without making it a transition rule.
    let uses_old_self = matches!(&program, Ok(Some(program)) if program.uses("oldSelf"));
    let field_path = field_path::normalize(&rule.field_path, shape).unwrap_or_default();
    CompiledRule { rule: rule.clone(), program, message, uses_old_self, field_path }
}

fn compile(
    environment: &Environment,
    text: &str,
    wanted: &Type,
    step: &str,
    wrong_type: &str,
    instance: &str,
) -> Result<Option<Program>, String> {
    let program = environment.compile(text).map_err(|error| match error {
        CompileError::Issues(issues) => format!("{step} failed: {issues}"),
        CompileError::Program(problem) => format!("{instance} instantiation failed: {problem}"),
    })?;
    // `dyn` is refused too, as upstream.
    if program.output_type() != wanted {
        return Err(wrong_type.into());
    }
    Ok(Some(program))
}
