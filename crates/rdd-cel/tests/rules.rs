//! Rules of a schema: when they are evaluated, which values they get, and which failures they give.

use std::sync::Arc;

use rdd_cel::rules::{FailureKind, Limits, RuleSet};
use rdd_cel::{JsonSchema, Shape};
use serde_json::{Value as Json, json};

fn set(schema: &Json) -> RuleSet {
    RuleSet::new(Arc::new(Shape::new(&JsonSchema::new(schema), false)))
}

fn said(schema: &Json, new: &Json, old: Option<&Json>) -> Vec<String> {
    set(schema).validate("", new, old, Limits::default()).failures.iter().map(ToString::to_string).collect()
}

fn object(rules: Json) -> Json {
    json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}}}})
}

#[test]
fn a_rule_that_does_not_hold_is_told_by_its_text_or_its_message() {
    let new = json!({"min": 3, "max": 1});
    assert_eq!(
        said(&object(json!([{"rule": "self.min <= self.max"}])), &new, None),
        ["<nil>: Invalid value: failed rule: self.min <= self.max"]
    );
    assert_eq!(
        said(&object(json!([{"rule": "self.min <= self.max", "message": " min above max "}])), &new, None),
        ["<nil>: Invalid value: min above max"]
    );
}

#[test]
fn a_message_expression_is_used_where_it_has_something_to_say() {
    let new = json!({"min": 3, "max": 1});
    let rule = |expression: &str| {
        object(json!([{"rule": "self.min <= self.max", "message": "plain", "messageExpression": expression}]))
    };
    assert_eq!(said(&rule("'min is ' + string(self.min)"), &new, None), ["<nil>: Invalid value: min is 3"]);
    for useless in
        ["''", "'a\\nb'", "string(1 / 0)", "string(self.labels)".replace("self.labels", "self.min / 0").as_str()]
    {
        assert_eq!(said(&rule(useless), &new, None), ["<nil>: Invalid value: plain"], "{useless}");
    }
}

#[test]
fn reason_and_field_path_shape_the_failure() {
    let schema = object(
        json!([{"rule": "has(self.name)", "reason": "FieldValueRequired", "fieldPath": ".name", "message": "name it"}]),
    );
    let verdict = set(&schema).validate("spec", &json!({}), None, Limits::default());
    assert_eq!(verdict.failures[0].kind, FailureKind::Required);
    assert_eq!(verdict.failures[0].to_string(), "spec.name: Required value: name it");
    let keyed = object(json!([{"rule": "false", "fieldPath": ".labels['a b']"}]));
    assert_eq!(said(&keyed, &json!({}), None), ["labels[a b]: Invalid value: failed rule: false"]);
}

#[test]
fn transition_rules_wait_for_an_old_value() {
    let schema = object(json!([{"rule": "self.min >= oldSelf.min", "message": "may only grow"}]));
    assert!(said(&schema, &json!({"min": 1}), None).is_empty());
    assert_eq!(said(&schema, &json!({"min": 1}), Some(&json!({"min": 2}))), ["<nil>: Invalid value: may only grow"]);
    let optional = object(
        json!([{"rule": "oldSelf.hasValue() && oldSelf.value().min == self.min", "optionalOldSelf": true, "message": "no"}]),
    );
    assert_eq!(said(&optional, &json!({"min": 1}), None), ["<nil>: Invalid value: no"]);
    assert!(said(&optional, &json!({"min": 1}), Some(&json!({"min": 1}))).is_empty());
}

#[test]
fn items_correlate_by_key_only_in_lists_of_type_map() {
    let item = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v", "message": "fixed"}],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}});
    let list = |kind: &str| {
        json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": kind,
            "x-kubernetes-list-map-keys": if kind == "map" { json!(["k"]) } else { Json::Null }, "items": item.clone()}}})
    };
    let (old, new) = (
        json!({"l": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]}),
        json!({"l": [{"k": "b", "v": 3}, {"k": "c", "v": 4}]}),
    );
    assert_eq!(said(&list("map"), &new, Some(&old)), ["l[0]: Invalid value: fixed"]);
    assert!(said(&list("atomic"), &new, Some(&old)).is_empty());
}

#[test]
fn scalars_show_their_value_and_maps_their_keys() {
    let schema = json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties":
        {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}}}});
    assert_eq!(
        said(&schema, &json!({"m": {"a-b": -1, "c": 1}}), None),
        ["m[a-b]: Invalid value: -1: failed rule: self > 0"]
    );
}

#[test]
fn a_rule_that_fails_to_run_says_why() {
    let schema = object(json!([{"rule": "self.min > 0"}]));
    assert_eq!(
        said(&schema, &json!({}), None),
        ["<nil>: Invalid value: \"object\": no such key: min evaluating rule: self.min > 0"]
    );
    let broken = object(json!([{"rule": "self.nope > 0"}]));
    let errors = set(&broken).compile_errors();
    assert_eq!(errors.len(), 1);
    assert_eq!(
        errors[0].1,
        "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 0\n | ....^"
    );
    assert!(
        said(&broken, &json!({}), None)[0]
            .starts_with("<nil>: Invalid value: \"object\": rule compile error: compilation failed: ")
    );
    assert_eq!(set(&object(json!([{"rule": "1"}]))).compile_errors()[0].1, "cel expression must evaluate to a bool");
}

#[test]
fn the_budget_of_an_object_ends_all_rules() {
    let schema = object(json!([{"rule": "lists.range(200).all(x, x >= 0)"}, {"rule": "false"}]));
    let verdict = set(&schema).validate("", &json!({}), None, Limits { budget: 100, ..Limits::default() });
    assert_eq!(verdict.remaining_budget, -1);
    assert_eq!(
        verdict.failures[0].to_string(),
        "<nil>: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run"
    );
    let dear = object(json!([{"rule": "lists.range(1000).all(x, lists.range(1000).all(y, true))"}]));
    assert!(
        said(&dear, &json!({}), None)[0]
            .contains("no further validation rules will be run due to call cost exceeds limit for rule")
    );
}

/// The cost of one rule, computed from the budget that is left.
fn cost_of(schema: &Json) -> i64 {
    let limits = Limits::default();
    let budget = limits.budget;
    budget - set(schema).validate("", &json!({}), None, limits).remaining_budget
}

// Finding A-11
#[test]
fn a_rule_that_costs_exactly_the_budget_runs_and_one_unit_more_does_not() {
    let schema = object(json!([{"rule": "lists.range(20).all(x, x >= 0)"}]));
    let cost = cost_of(&schema);
    assert!(cost > 20, "{cost}");
    for (budget, failures, left) in [(cost + 1, 0, 1), (cost, 0, 0), (cost - 1, 1, -1)] {
        let verdict = set(&schema).validate("", &json!({}), None, Limits { budget, ..Limits::default() });
        assert_eq!((verdict.failures.len(), verdict.remaining_budget), (failures, left), "budget {budget} of {cost}");
    }
}

// Finding A-11
#[test]
fn a_call_that_costs_exactly_the_limit_runs_and_one_unit_more_does_not() {
    let schema = object(json!([{"rule": "lists.range(20).all(x, x >= 0)"}]));
    let cost = u64::try_from(cost_of(&schema)).unwrap();
    for (per_call, expected) in [(cost + 1, 0), (cost, 0), (cost - 1, 1)] {
        let verdict = set(&schema).validate("", &json!({}), None, Limits { per_call, ..Limits::default() });
        assert_eq!(verdict.failures.len(), expected, "limit {per_call} of {cost}");
    }
}

#[test]
fn what_did_not_change_is_only_warned_about_when_ratcheting() {
    let schema = object(json!([{"rule": "self.min <= self.max"}, {"rule": "self.min > oldSelf.min"}]));
    let bad = json!({"min": 3, "max": 1});
    let limits = Limits { ratcheting: true, ..Limits::default() };
    let verdict = set(&schema).validate("", &bad, Some(&bad), limits);
    assert_eq!((verdict.ratcheted.len(), verdict.failures.len()), (1, 1), "a transition rule is never let pass");
}

#[test]
fn only_names_of_metadata_can_be_seen() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name == 'a'"}]});
    let root = RuleSet::new(Arc::new(Shape::new(&JsonSchema::new(&schema), true)));
    assert!(root.compile_errors().is_empty());
    assert!(root.validate("", &json!({"metadata": {"name": "a"}}), None, Limits::default()).failures.is_empty());
    let labels = json!({"type": "object", "x-kubernetes-validations": [{"rule": "has(self.metadata.labels)"}]});
    let root = RuleSet::new(Arc::new(Shape::new(&JsonSchema::new(&labels), true)));
    assert!(root.compile_errors()[0].1.contains("undefined field 'labels'"));
}
