//! Scenarios of ownership over a few requests. The oracle tests check the details; these run without the oracle.

use super::*;
use crate::shape::openapi::Definitions;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const V1: &str = "example.io/v1";

fn schema() -> Value {
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"},
        "metadata": {"type": "object", "properties": {"name": {"type": "string"}, "uid": {"type": "string"}, "labels": texts,
            "annotations": texts, "managedFields": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "atomic"}}},
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "image": {"type": "string"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {
                "type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"}}}},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    }})
}

/// An object with its type's shape, and the requests that modify it.
struct Story {
    converter: SameSchema,
    reset: Filter,
    subresource: &'static str,
    live: Value,
    now: i64,
}

impl Story {
    fn new() -> Self {
        let shape = Definitions::new(BTreeMap::new(), false).inline(&schema());
        let status = Set::from_value(&json!({"f:status": {}})).unwrap();
        Self {
            converter: SameSchema(BTreeMap::from([(V1.to_owned(), shape)])),
            reset: Filter::from([(V1.to_owned(), status)]),
            subresource: "",
            live: json!({"apiVersion": V1, "kind": "Thing"}),
            now: 1_577_836_800,
        }
    }

    fn manager(&self) -> FieldManager<'_> {
        FieldManager {
            api_version: V1,
            kind: "Thing",
            subresource: self.subresource,
            converter: &self.converter,
            reset_fields: &self.reset,
            empty: None,
            default: &|_| {},
        }
    }

    fn keep(&mut self, result: Result<Value, Error>) -> Result<(), String> {
        self.now += 1;
        self.live = result.map_err(|error| error.to_string())?;
        self.live["metadata"]["uid"] = json!("u");
        Ok(())
    }

    fn apply(&mut self, manager: &str, spec: Value, force: bool) -> Result<(), String> {
        let patch = json!({"apiVersion": V1, "kind": "Thing", "metadata": {"name": "x"}, "spec": spec});
        let result =
            self.manager().apply(&self.live, &patch, ApplyOptions { manager, force, now: Timestamp(self.now) });
        self.keep(result)
    }

    fn update(&mut self, manager: &str, edit: impl Fn(&mut Value)) -> Result<(), String> {
        let mut new = self.live.clone();
        edit(&mut new);
        let result = self.manager().update(&self.live, new, manager, Timestamp(self.now));
        self.keep(result)
    }

    /// Each owner with its fields, as `manager/operation: fields`.
    fn owners(&self) -> Vec<String> {
        let entries = self.live["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or("").to_owned();
        entries
            .iter()
            .map(|entry| format!("{}/{}: {}", text(entry, "manager"), text(entry, "operation"), entry["fieldsV1"]))
            .collect()
    }
}

#[test]
fn an_applier_owns_what_it_sent_and_loses_what_it_leaves_out() {
    let mut story = Story::new();
    story.apply("a", json!({"replicas": 1, "image": "x"}), false).unwrap();
    assert_eq!(story.owners(), [r#"a/Apply: {"f:spec":{"f:image":{},"f:replicas":{}}}"#]);
    story.apply("a", json!({"image": "x"}), false).unwrap();
    assert_eq!(story.live["spec"], json!({"image": "x"}));
    assert_eq!(story.owners(), [r#"a/Apply: {"f:spec":{"f:image":{}}}"#]);
}

#[test]
fn a_field_two_appliers_agree_on_is_shared_and_survives_one_of_them() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    story.apply("b", json!({"image": "x"}), false).unwrap();
    story.apply("a", json!({}), false).unwrap();
    assert_eq!(story.live["spec"], json!({"image": "x"}));
    assert_eq!(story.owners(), [r#"b/Apply: {"f:spec":{"f:image":{}}}"#, r#"a/Apply: {"f:spec":{}}"#]);
}

#[test]
fn a_conflict_names_the_owner_and_the_field_and_force_wins_it() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x", "replicas": 1}), false).unwrap();
    assert_eq!(
        story.apply("b", json!({"image": "y"}), false).unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.image"
    );
    assert_eq!(
        story.apply("b", json!({"image": "y", "replicas": 2}), false).unwrap_err(),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .spec.image\n- .spec.replicas"
    );
    story.apply("b", json!({"image": "y"}), true).unwrap();
    assert_eq!(story.owners(), [r#"a/Apply: {"f:spec":{"f:replicas":{}}}"#, r#"b/Apply: {"f:spec":{"f:image":{}}}"#]);
}

#[test]
fn an_update_takes_what_it_changes_and_names_its_version_in_conflicts() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    story.update("editor", |object| object["spec"]["image"] = json!("y")).unwrap();
    assert_eq!(story.owners(), [r#"editor/Update: {"f:spec":{"f:image":{}}}"#]);
    assert_eq!(
        story.apply("a", json!({"image": "x"}), false).unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"editor\" using example.io/v1: .spec.image"
    );
}

#[test]
fn items_are_known_by_their_keys_and_a_default_counts_as_a_key() {
    let mut story = Story::new();
    story.apply("a", json!({"ports": [{"port": 80, "name": "a"}]}), false).unwrap();
    story
        .apply("b", json!({"ports": [{"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]}), false)
        .unwrap();
    assert_eq!(
        story.live["spec"]["ports"],
        json!([{"port": 80, "protocol": "UDP"}, {"port": 80, "protocol": "TCP", "name": "a"}])
    );
    story.apply("b", json!({}), false).unwrap();
    assert_eq!(story.live["spec"]["ports"], json!([{"port": 80, "name": "a"}]));
}

#[test]
fn items_of_a_set_belong_to_who_sent_them() {
    let mut story = Story::new();
    story.apply("a", json!({"tags": ["x", "y"]}), false).unwrap();
    story.apply("b", json!({"tags": ["y", "z"]}), false).unwrap();
    story.apply("a", json!({"tags": ["x"]}), false).unwrap();
    assert_eq!(story.live["spec"]["tags"], json!(["x", "y", "z"]));
    story.apply("b", json!({"tags": ["z"]}), false).unwrap();
    assert_eq!(story.live["spec"]["tags"], json!(["x", "z"]));
}

#[test]
fn an_item_applied_twice_is_refused() {
    let error = Story::new().apply("a", json!({"tags": ["x", "x"]}), false).unwrap_err();
    assert_eq!(
        error,
        "failed to create typed patch object (/x; example.io/v1, Kind=Thing): .spec.tags: duplicate entries for key [=\"x\"]"
    );
}

#[test]
fn fields_that_the_endpoint_resets_are_not_owned() {
    let mut story = Story::new();
    story
        .update("a", |object| {
            *object = json!({"apiVersion": V1, "kind": "Thing", "spec": {}, "status": {"phase": "x"}})
        })
        .unwrap();
    assert_eq!(story.owners(), [r#"a/Update: {"f:spec":{}}"#]);
}

#[test]
fn what_nobody_tracked_is_owned_from_before_the_first_apply() {
    let mut story = Story::new();
    story.live =
        json!({"apiVersion": V1, "kind": "Thing", "metadata": {"name": "x", "uid": "u"}, "spec": {"image": "x"}});
    story.update("editor", |object| object["spec"]["replicas"] = json!(1)).unwrap();
    assert!(story.owners().is_empty(), "an untracked object stays so under updates");
    story.apply("a", json!({"image": "x"}), false).unwrap();
    assert_eq!(
        story.owners(),
        [
            r#"a/Apply: {"f:spec":{"f:image":{}}}"#,
            r#"before-first-apply/Update: {"f:spec":{".":{},"f:image":{},"f:replicas":{}}}"#
        ]
    );
}

#[test]
fn owners_can_be_edited_and_reset_but_not_through_a_subresource() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    story.subresource = "status";
    story.update("editor", |object| object["metadata"]["managedFields"] = json!([])).unwrap();
    assert_eq!(story.owners().len(), 1);
    story.subresource = "";
    story.update("editor", |object| object["metadata"]["managedFields"] = json!([{}])).unwrap();
    assert!(story.live["metadata"].get("managedFields").is_none());
}

#[test]
fn kubectl_takes_over_from_client_side_apply_without_conflict() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut story = Story::new();
    story
        .update("kubectl-client-side-apply", |object| {
            let last = json!({"apiVersion": V1, "kind": "Thing", "metadata": {"name": "x"}, "spec": {"image": "x"}});
            *object = last.clone();
            object["metadata"]["annotations"] = json!({annotation: last.to_string()});
        })
        .unwrap();
    assert!(story.apply("other", json!({"image": "y"}), false).is_err());
    story.apply("kubectl", json!({"image": "y"}), false).unwrap();
    assert_eq!(
        story.live["metadata"]["annotations"][annotation],
        "{\"apiVersion\":\"example.io/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"x\"},\"spec\":{\"image\":\"y\"}}\n"
    );
}

#[test]
fn the_oldest_updaters_are_folded_into_one() {
    let mut story = Story::new();
    story
        .update("m0", |object| *object = json!({"apiVersion": V1, "kind": "Thing", "metadata": {"labels": {"m0": ""}}}))
        .unwrap();
    for index in 1..12 {
        let name = format!("m{index}");
        story.update(&name, |object| object["metadata"]["labels"][&name] = json!("")).unwrap();
    }
    let owners = story.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        r#"ancient-changes/Update: {"f:metadata":{"f:labels":{".":{},"f:m0":{},"f:m1":{},"f:m2":{}}}}"#
    );
}

#[test]
fn applying_the_same_again_changes_nothing_not_even_a_timestamp() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    let before = story.live.clone();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    assert_eq!(story.live, before);
}

#[test]
fn an_object_of_another_kind_or_with_owners_cannot_be_applied() {
    let story = Story::new();
    let apply = |patch: Value| {
        let options = ApplyOptions { manager: "a", force: false, now: Timestamp(0) };
        story.manager().apply(&story.live, &patch, options).unwrap_err()
    };
    assert_eq!(
        apply(json!({"apiVersion": "v1", "kind": "Thing"})),
        Error::BadRequest("invalid object type: /v1, Kind=Thing".to_owned())
    );
    assert_eq!(
        apply(json!({"apiVersion": V1, "kind": "Thing", "metadata": {"managedFields": []}})),
        Error::BadRequest("metadata.managedFields must be nil".to_owned())
    );
}

#[test]
fn an_update_that_does_not_fit_forgets_the_owners_instead_of_failing() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    let mut new = story.live.clone();
    new["spec"]["image"] = json!(1);
    let (object, error) = story.manager().update_or_forget(&story.live, new, "a", Timestamp(0));
    assert!(object["metadata"].get("managedFields").is_none());
    assert!(error.unwrap().to_string().contains(".spec.image: expected string, got"));
}

#[test]
fn what_is_owned_in_a_version_that_is_gone_is_forgotten() {
    let mut story = Story::new();
    story.apply("a", json!({"image": "x"}), false).unwrap();
    story.live["metadata"]["managedFields"][0]["apiVersion"] = json!("example.io/v0");
    story.apply("b", json!({"image": "y"}), false).unwrap();
    assert_eq!(story.owners(), [r#"b/Apply: {"f:spec":{"f:image":{}}}"#]);
}
