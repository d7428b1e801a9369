//! Which webhooks are asked: selectors, conditions, equivalent resources, and who is exempt.

use std::{collections::BTreeMap, sync::Arc};

use rdd_meta::{FieldError, Status, names::NameRule, time::Timestamp};
use rdd_patch::{shape::Shape, ssa};
use serde_json::{Value, json};

use super::{Stage, Way, both_ways, mk_map, said};
use crate::{
    admission::{
        Operation,
        testing::{Request, put},
    },
    registry::{
        ALL_VERBS, Backing, Column, Conversion, Finding, Kind, Manners, Origin, Registry, ResourceDef, Stored,
        VersionDef,
    },
    state::Resource,
};

/// Whether the webhook at `/a`, with these fields, is asked about a request.
async fn is_asked(stage: &Stage, fields: Value, request: &Request) -> bool {
    stage.respond("/a", json!({"allowed": true}));
    stage.validating("c", vec![stage.hook("/a", fields.clone())]).await;
    assert_eq!(said(stage.write(request).await), "ok", "{fields}");
    !stage.asked().is_empty()
}

#[tokio::test]
async fn a_namespace_selector_looks_at_the_namespace_of_the_object() {
    both_ways(async |stage| {
        put(&stage.state, "", "namespaces", None, "ns", r#"{"metadata":{"labels":{"team":"a"}}}"#).await;
        for (team, expected) in [("a", true), ("b", false)] {
            let fields = json!({"namespaceSelector": {"matchLabels": {"team": team}}});
            assert_eq!(is_asked(&stage, fields.clone(), &mk_map()).await, expected);
            let cluster = Request::new(Operation::Create, "nodes", "Node", "x");
            assert!(is_asked(&stage, fields.clone(), &cluster).await, "what is in no namespace is always asked about");
            let object = json!({"metadata": {"labels": {"team": "b"}}});
            let request = |operation| Request::new(operation, "namespaces", "Namespace", "ns");
            let update = request(Operation::Update).object(object);
            assert_eq!(
                is_asked(&stage, fields.clone(), &update).await,
                team == "b",
                "a Namespace by its own new labels"
            );
            let delete = request(Operation::Delete);
            assert_eq!(is_asked(&stage, fields, &delete).await, team == "a", "or by those it has");
        }
        let fields = json!({"namespaceSelector": {"matchLabels": {"team": "a"}}});
        stage.validating("c", vec![stage.hook("/a", fields)]).await;
        let elsewhere = mk_map().namespace("gone");
        assert_eq!(said(stage.write(&elsewhere).await), "404 namespaces \"gone\" not found");
    })
    .await;
}

#[tokio::test]
async fn an_object_selector_looks_at_the_new_and_the_old_object() {
    both_ways(async |stage| {
        let fields = json!({"objectSelector": {"matchExpressions": [{"key": "on", "operator": "Exists"}]}});
        let with = |labels: Value| json!({"metadata": {"name": "x", "labels": labels}});
        let (on, off) = (with(json!({"on": "1"})), with(json!({})));
        for (old, new, expected) in
            [(None, &off, false), (None, &on, true), (Some(&on), &off, true), (Some(&off), &off, false)]
        {
            let mut request = mk_map().object(new.clone());
            request.old = old.cloned();
            assert_eq!(is_asked(&stage, fields.clone(), &request).await, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn conditions_decide_and_their_failure_is_the_policys_to_judge() {
    both_ways(async |stage| {
        let with = |policy: &str, expressions: &[&str]| {
            let conditions: Vec<Value> = expressions.iter().map(|it| json!({"name": "c", "expression": it})).collect();
            json!({"matchConditions": conditions, "failurePolicy": policy})
        };
        assert!(is_asked(&stage, with("Fail", &["object.metadata.name == 'x'", "request.name == 'x'"]), &mk_map()).await);
        assert!(!is_asked(&stage, with("Fail", &["true", "request.operation == 'DELETE'"]), &mk_map()).await);
        assert!(!is_asked(&stage, with("Fail", &["object.missing == 1", "false"]), &mk_map()).await);
        assert!(!is_asked(&stage, with("Ignore", &["object.missing == 1"]), &mk_map()).await);
        stage.validating("c", vec![stage.hook("/a", with("Fail", &["object.missing == 1"]))]).await;
        let expected = "403 configmaps \"x\" is forbidden: expression 'object.missing == 1' resulted in error: no such key: missing";
        assert_eq!(said(stage.write(&mk_map()).await), expected);
    })
    .await;
}

#[tokio::test]
async fn nobody_is_asked_about_webhooks_and_policies_themselves() {
    both_ways(async |stage| {
        for kind in super::super::EXEMPT {
            let plural = format!("{}s", kind.to_lowercase());
            let request = Request::new(Operation::Delete, &plural, kind, "x").group("admissionregistration.k8s.io");
            assert!(!is_asked(&stage, json!({}), &request).await, "{kind}");
        }
        let other = Request::new(Operation::Delete, "others", "Other", "x").group("admissionregistration.k8s.io");
        assert!(is_asked(&stage, json!({}), &other).await);
    })
    .await;
}

/// A kind that nobody asks anything.
#[derive(Debug)]
struct Unasked;

impl Kind for Unasked {
    fn decode(&self, _: &mut Value, _: Origin) -> Result<Vec<Finding>, Status> {
        unreachable!()
    }
    fn default(&self, _: &mut Value) {}
    fn shape(&self) -> Shape {
        unreachable!()
    }
    fn empty(&self) -> std::borrow::Cow<'_, Value> {
        unreachable!()
    }
    fn reset_fields(&self, _: &str) -> &ssa::Filter {
        unreachable!()
    }
    fn name_rule(&self) -> NameRule {
        unreachable!()
    }
    fn prepare_for_create(&self, _: &mut Value) {}
    fn prepare_for_update(&self, _: &str, _: &mut Value, _: &Value) {}
    fn validate_create(&self, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }
    fn validate_update(&self, _: &str, _: &Value, _: &Value) -> Vec<FieldError> {
        Vec::new()
    }
    fn columns(&self) -> &[Column] {
        &[]
    }
    fn cells(&self, _: &Value, _: Timestamp) -> Vec<Value> {
        Vec::new()
    }
}

/// Version 2 calls `size` what is stored as `replicas`.
#[derive(Debug)]
struct Renames;

fn rename(mut object: Value, from: &str, to: &str, api_version: &str) -> Value {
    let members = object.as_object_mut().unwrap();
    if let Some(value) = members.remove(from) {
        members.insert(to.to_owned(), value);
    }
    members.insert("apiVersion".to_owned(), api_version.into());
    object
}

impl Conversion for Renames {
    fn shown(&self, object: Value) -> Value {
        rename(object, "replicas", "size", "a.example.com/v2")
    }
    fn stored(&self, object: Value) -> Value {
        rename(object, "size", "replicas", "a.example.com/v1")
    }
}

fn mk_def(group: &str) -> ResourceDef {
    let version = |name: &str, stored| VersionDef {
        name: name.to_owned(),
        kind: Arc::new(Unasked),
        deprecation: None,
        stored,
        subresources: Vec::new(),
    };
    ResourceDef {
        group: group.to_owned(),
        plural: "sets".to_owned(),
        singular: "set".to_owned(),
        kind: "Set".to_owned(),
        list_kind: "SetList".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        verbs: ALL_VERBS,
        backing: Backing::Stored(Resource::new("a.example.com", "sets").unwrap()),
        versions: vec![version("v2", Stored::Converted(Box::new(Renames))), version("v1", Stored::Same)],
        storage_version: "v1".to_owned(),
        manners: Manners::default(),
        custom: None,
    }
}

#[tokio::test]
async fn a_webhook_sees_the_version_that_its_rules_name_and_its_change_is_taken_back() {
    for way in [Way::Local, Way::Network] {
        let stage = Stage::with(way, Registry::new([mk_def("a.example.com")]), BTreeMap::new()).await;
        let patch = json!([{"op": "replace", "path": "/size", "value": 5}]);
        stage.respond("/a", json!({"allowed": true, "patch": patch}));
        let rule = |version: &str| json!([{"operations": ["*"], "apiGroups": ["a.example.com"], "apiVersions": [version], "resources": ["sets"]}]);
        let request = Request::new(Operation::Create, "sets", "Set", "x").group("a.example.com");
        let request = request.object(json!({"apiVersion": "a.example.com/v1", "kind": "Set", "replicas": 3}));
        stage.mutating("c", vec![stage.hook("/a", json!({"rules": rule("v2"), "matchPolicy": "Exact"}))]).await;
        assert_eq!(stage.write(&request).await.unwrap()["replicas"], 3);
        assert!(stage.asked().is_empty(), "exact is exact");
        stage.mutating("c", vec![stage.hook("/a", json!({"rules": rule("v2")}))]).await;
        let written = stage.write(&request).await.unwrap();
        assert_eq!(written, json!({"apiVersion": "a.example.com/v1", "kind": "Set", "replicas": 5}));
        let told = stage.told.lock().unwrap().pop().unwrap().1;
        let names = |version: &str| {
            let kind = json!({"group": "a.example.com", "version": version, "kind": "Set"});
            (kind, json!({"group": "a.example.com", "version": version, "resource": "sets"}))
        };
        let told = &told["request"];
        assert_eq!((&told["kind"], &told["resource"]), (&names("v2").0, &names("v2").1));
        assert_eq!((&told["requestKind"], &told["requestResource"]), (&names("v1").0, &names("v1").1));
        assert_eq!(told["object"], json!({"apiVersion": "a.example.com/v2", "kind": "Set", "size": 3}));
        stage.mutating("c", vec![stage.hook("/a", json!({"rules": rule("v3")}))]).await;
        assert_eq!(stage.write(&request).await.unwrap()["replicas"], 3, "nobody serves that version");
    }
}

#[tokio::test]
async fn resources_that_are_stored_in_one_place_are_equivalent() {
    let registry = Registry::new([mk_def("a.example.com"), mk_def("b.example.com")]);
    let stage = Stage::with(Way::Local, registry, BTreeMap::new()).await;
    let rules =
        json!([{"operations": ["*"], "apiGroups": ["b.example.com"], "apiVersions": ["v1"], "resources": ["sets"]}]);
    let request = Request::new(Operation::Create, "sets", "Set", "x").group("a.example.com");
    assert!(is_asked(&stage, json!({"rules": rules}), &request).await);
}
