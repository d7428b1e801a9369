//! CEL rules of schemas: checks them when a definition is written, compiles them when its first object is validated.

use std::sync::Arc;

use rdd_cel::{
    RuleSet, SchemaNode, Shape,
    rules::{Limits, OBJECT_BUDGET},
};
use rdd_schema::{
    Rule, Structural,
    crd::{RuleChecker, RuleSite, shown_rule},
    field::{Error, Path},
    structural::{ListType, Type},
};
use serde_json::Value;

use super::errors;

/// Compiles the rules of a schema; returns `None` if it has none.
pub(super) fn compile(schema: &Structural, resource_root: bool) -> Option<RuleSet> {
    schema.has_rules().then(|| {
        let node = Node::of(schema, false, Rules::All);
        // Only rules at the root can access the metadata of a complete resource.
        let is_root = resource_root && !schema.rules().is_empty();
        RuleSet::new(Arc::new(Shape::new(&node, is_root)))
    })
}

/// Rejects rules that do not compile, refer to unknown fields, or fail for a default of the schema.
#[derive(Debug)]
pub struct RuleCheck {
    /// The remaining cost budget for the rules of all defaults.
    budget: i64,
}

impl Default for RuleCheck {
    fn default() -> Self {
        Self { budget: OBJECT_BUDGET }
    }
}

impl RuleChecker for RuleCheck {
    fn check(&mut self, site: &RuleSite<'_>) -> Vec<Error> {
        let path = site.path.child("x-kubernetes-validations");
        let Ok(schema) = Structural::compile(site.schema) else { return Vec::new() };
        // `check` is called for each node with rules, so only the rules of this node are compiled.
        let shape = Arc::new(Shape::new(&Node::of(&schema, false, Rules::OfRoot), site.resource_root));
        if rdd_cel::Declarations::of(&shape, "selfType").0.is_none() {
            let detail = "internal error: failed to retrieve type information for x-kubernetes-validations";
            return vec![Error::internal(path, detail)];
        }
        let mut errors = Vec::new();
        let mut index = 0;
        RuleSet::new(shape).visit(&mut |_, compiled| {
            let path = path.index(index);
            let Some(rule) = site.rules.get(index) else { return };
            index += 1;
            if let Err(detail) = &compiled.program {
                errors.push(Error::invalid_text(path.child("rule").to_string(), shown_rule(rule), detail));
            }
            if let Err(detail) = &compiled.message {
                errors.push(Error::invalid_text(path.child("messageExpression").to_string(), shown_rule(rule), detail));
            }
            match (compiled.uses_old_self, site.uncorrelatable, rule.optional_old_self) {
                (true, Some(within), _) => {
                    let detail =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
                    errors.push(Error::invalid(path.child("rule"), rule.rule.as_str(), detail));
                }
                (false, _, Some(flag)) => {
                    let detail = "may not be set if oldSelf is not used in rule";
                    errors.push(Error::invalid(path.child("optionalOldSelf"), flag, detail));
                }
                _ => {}
            }
        });
        errors
    }

    fn finish(&mut self, _: &Path<'_>) -> Vec<Error> {
        Vec::new()
    }

    fn check_default(
        &mut self,
        path: &Path<'_>,
        schema: &Structural,
        value: &Value,
        resource_root: bool,
    ) -> Vec<Error> {
        // The budget is used up, so the remaining defaults are not checked.
        if self.budget < 0 {
            return Vec::new();
        }
        let Some(rules) = compile(schema, resource_root) else { return Vec::new() };
        let limits = Limits { budget: self.budget, ..Limits::default() };
        let path = path.to_string();
        // Validated as an unchanged update first, so that transition rules run too.
        let unchanged = rules.validate(&path, value, Some(value), limits);
        self.budget = unchanged.remaining_budget;
        let mut failures = unchanged.failures;
        if failures.is_empty() {
            let new = rules.validate(&path, value, None, limits);
            self.budget = self.budget.min(new.remaining_budget);
            failures = new.failures;
        }
        failures.into_iter().map(errors::of_rule).collect()
    }
}

/// The rules to include.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    All,
    OfRoot,
}

/// A node of a structural schema in the form that the CEL crate reads.
struct Node<'a> {
    schema: &'a Structural,
    has_rules: bool,
    properties: Vec<(&'a str, Node<'a>)>,
    items: Option<Box<Node<'a>>>,
    additional: Option<Box<Node<'a>>>,
    all_of: Vec<Node<'a>>,
}

impl<'a> Node<'a> {
    /// `seen` is whether a rule above can access this node. Nodes that no rule can access and that contain no rules are omitted, so a
    /// large schema with few rules takes little memory.
    fn of(schema: &'a Structural, seen: bool, rules: Rules) -> Self {
        let seen = seen || !schema.rules().is_empty();
        let below = |child: &'a Structural| {
            let wanted = seen || (rules == Rules::All && child.has_rules());
            wanted.then(|| Self::of_child(child, seen, rules))
        };
        let members = schema.validation.as_ref().map_or(&[][..], |validation| &validation.all_of);
        Self {
            schema,
            has_rules: true,
            properties: schema.properties().filter_map(|(name, child)| Some((name, below(child)?))).collect(),
            items: schema.items.as_deref().and_then(below).map(Box::new),
            additional: schema.additional_schema().and_then(below).map(Box::new),
            all_of: match rules {
                Rules::All => members.iter().map(|member| Self::of_child(member, seen, rules)).collect(),
                Rules::OfRoot => Vec::new(),
            },
        }
    }

    fn of_child(child: &'a Structural, seen: bool, rules: Rules) -> Self {
        Self { has_rules: rules == Rules::All, ..Self::of(child, seen, rules) }
    }
}

impl SchemaNode for Node<'_> {
    fn kind(&self) -> &str {
        self.schema.kind.as_ref().map_or("", Type::name)
    }
    fn format(&self) -> &str {
        self.schema.validation.as_ref().and_then(|validation| validation.format.as_deref()).unwrap_or_default()
    }
    fn nullable(&self) -> bool {
        self.schema.nullable
    }
    fn int_or_string(&self) -> bool {
        self.schema.int_or_string
    }
    fn preserves_unknown_fields(&self) -> bool {
        self.schema.preserve_unknown_fields
    }
    fn embedded_resource(&self) -> bool {
        self.schema.embedded_resource
    }
    fn list_type(&self) -> &str {
        match self.schema.list_type {
            None => "",
            Some(ListType::Atomic) => "atomic",
            Some(ListType::Set) => "set",
            Some(ListType::Map) => "map",
        }
    }
    fn list_map_keys(&self) -> Vec<String> {
        self.schema.list_map_keys().iter().map(|key| key.to_string()).collect()
    }
    fn properties(&self) -> Vec<(&str, &dyn SchemaNode)> {
        self.properties.iter().map(|(name, child)| (*name, child as &dyn SchemaNode)).collect()
    }
    fn items(&self) -> Option<&dyn SchemaNode> {
        self.items.as_deref().map(|child| child as &dyn SchemaNode)
    }
    fn additional_properties(&self) -> Option<&dyn SchemaNode> {
        self.additional.as_deref().map(|child| child as &dyn SchemaNode)
    }
    fn all_of(&self) -> Vec<&dyn SchemaNode> {
        self.all_of.iter().map(|child| child as &dyn SchemaNode).collect()
    }
    fn rules(&self) -> Vec<rdd_cel::Rule> {
        if self.has_rules { self.schema.rules().iter().map(rule).collect() } else { Vec::new() }
    }
}

fn rule(rule: &Rule) -> rdd_cel::Rule {
    rdd_cel::Rule {
        rule: rule.rule.clone(),
        message: rule.message.clone(),
        message_expression: rule.message_expression.clone(),
        reason: rule.reason.clone().unwrap_or_default(),
        field_path: rule.field_path.clone(),
        optional_old_self: rule.optional_old_self.unwrap_or_default(),
    }
}
