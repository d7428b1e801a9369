//! The scale of an object: an `autoscaling/v1` Scale that stands for its replica counts.
//!
//! A read answers [`shown`]. An update or patch takes [`before`], changes that as its body says, gives it to [`applied`], writes
//! the object as if it were updated itself, and answers [`after`].

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use rdd_meta::{
    Status,
    go_text::quote,
    metadata::{Metadata, MetadataMut},
};
use rdd_patch::{
    shape::Shape,
    ssa::{Path, PathElement, ScaleEntries},
};
use rdd_schema::{
    Props, Structural,
    crd::Scale,
    resource::{Resource, nested_integer, nested_string},
};
use serde_json::{Value, json};

use super::Target;
use crate::{
    crd::shape,
    registry::{Finding, Origin, Part},
};

/// The type of the objects here.
pub const API_VERSION: &str = "autoscaling/v1";
/// Their kind.
pub const KIND: &str = "Scale";

/// Stands for a replica count that the object does not have: the smallest of its type, as upstream has it.
const UNSET: i64 = i32::MIN as i64;

/// The scale of an object, for a read.
pub fn shown(target: &Target, object: &Value) -> Result<Value, Status> {
    let scale = paths(target, object)?;
    let (shown, is_set) = make(scale, object).map_err(Status::internal)?;
    if !is_set {
        let path = quote(&scale.spec_replicas_path);
        return Err(Status::internal(format!("the spec replicas field {path} does not exist")));
    }
    Ok(shown)
}

/// The scale of an object as a change starts from it: with the owners of the replica count.
pub fn before(target: &Target, object: &Value) -> Result<Value, Status> {
    let scale = paths(target, object)?;
    let (mut shown, is_set) = make(scale, object).map_err(Status::internal)?;
    if !is_set {
        shown["spec"]["replicas"] = UNSET.into();
    }
    let replicas = replica_paths(target, object);
    let api_version = target.def.api_version(&target.version().name);
    let entries = ScaleEntries { parent: object, api_version: &api_version, replicas: &replicas };
    let owners = entries.to_scale().map_err(|error| Status::internal(error.to_string()))?;
    owners.write(&mut shown);
    Ok(shown)
}

/// Puts a changed scale into its object: the replica count, who owns it, and the resourceVersion if the client insists on one.
pub fn applied(target: &Target, object: &mut Value, scale: &Value) -> Result<(), Status> {
    let paths = paths(target, object)?;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas == UNSET {
        let path = quote(&paths.spec_replicas_path);
        return Err(Status::bad_request(format!("the spec replicas field {path} cannot be empty")));
    }
    let counts = replica_paths(target, object);
    let api_version = target.def.api_version(&target.version().name);
    let entries = ScaleEntries { parent: object, api_version: &api_version, replicas: &counts };
    let owners = entries.to_parent(scale).map_err(|error| Status::internal(error.to_string()))?;
    set_nested(object, &paths.spec_replicas_path, replicas.into()).map_err(Status::internal)?;
    owners.write(object);
    let version = Metadata::of(scale).resource_version();
    if !version.is_empty()
        && let Some(mut metadata) = MetadataMut::of(object)
    {
        metadata.set_resource_version(version);
    }
    Ok(())
}

/// The scale of an object that was changed through it.
pub fn after(target: &Target, object: &Value) -> Result<Value, Status> {
    let (shown, _) = make(paths(target, object)?, object).map_err(Status::bad_request)?;
    Ok(shown)
}

/// Makes a body a Scale: types its metadata, drops what is unknown and says what that was.
pub fn decode(scale: &mut Value, origin: Origin) -> Result<Vec<Finding>, Status> {
    let refuse =
        |why: String| Status::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {why}"));
    let resource =
        Resource { group: "autoscaling", version: "v1", kind: KIND, namespaced: true, schema: &SCHEMA, scale: None };
    let findings = resource.decode(scale, origin).map_err(|error| refuse(error.to_string()))?;
    check_types(scale).map_err(refuse)?;
    Ok(findings)
}

/// How Scales merge.
pub fn shape() -> Shape {
    static SHAPE: LazyLock<Shape> = LazyLock::new(|| shape::of(&SCHEMA));
    SHAPE.clone()
}

static SCHEMA: LazyLock<Arc<Structural>> = LazyLock::new(|| {
    let count = json!({"type": "integer", "format": "int32"});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"replicas": count}},
        "status": {"type": "object", "properties": {"replicas": count, "selector": {"type": "string"}}}}});
    let props = Props::parse(&schema).expect("the schema is a constant");
    Structural::compile(&props).expect("the schema is a constant")
});

/// What Go's decoder says of a value of the wrong type.
fn check_types(scale: &Value) -> Result<(), String> {
    let is_count = |value: &Value| value.as_i64().is_some_and(|count| i32::try_from(count).is_ok());
    type Check = fn(&Value) -> bool;
    let fields: [(&str, &str, &str, Check); 5] = [
        ("/spec", "Scale.spec", "v1.ScaleSpec", Value::is_object),
        ("/status", "Scale.status", "v1.ScaleStatus", Value::is_object),
        ("/spec/replicas", "ScaleSpec.spec.replicas", "int32", is_count),
        ("/status/replicas", "ScaleStatus.status.replicas", "int32", is_count),
        ("/status/selector", "ScaleStatus.status.selector", "string", Value::is_string),
    ];
    for (pointer, field, wanted, is_wanted) in fields {
        if let Some(found) = scale.pointer(pointer).filter(|found| !found.is_null() && !is_wanted(found)) {
            let found = match found {
                Value::Number(number) => format!("number {number}"),
                Value::Bool(_) => "bool".to_owned(),
                Value::String(_) => "string".to_owned(),
                Value::Array(_) => "array".to_owned(),
                _ => "object".to_owned(),
            };
            return Err(format!("json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"));
        }
    }
    Ok(())
}

/// Where the target has its replica counts.
fn paths<'t>(target: &'t Target, object: &Value) -> Result<&'t Scale, Status> {
    match target.subresource().map(|subresource| &subresource.part) {
        Some(Part::Scale(scale)) => Ok(scale),
        _ => Err(Status::not_found(&target.def.group_resource(), Metadata::of(object).name())),
    }
}

/// The Scale of an object, and whether the object has a replica count at all.
fn make(scale: &Scale, object: &Value) -> Result<(Value, bool), String> {
    let wanted = nested_integer(&scale.spec_replicas_path, object)?;
    let actual = nested_integer(&scale.status_replicas_path, object)?.unwrap_or_default();
    let selector = match &scale.label_selector_path {
        Some(path) => nested_string(path, object)?.unwrap_or_default(),
        None => String::new(),
    };
    let mut made = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {}, "spec": {}, "status": {"replicas": narrow(actual)}});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            made["metadata"][field] = value.clone();
        }
    }
    // Zeros are left out where Go leaves them out.
    if let Some(count) = wanted.map(narrow).filter(|count| *count != 0) {
        made["spec"]["replicas"] = count.into();
    }
    if !selector.is_empty() {
        made["status"]["selector"] = selector.into();
    }
    Ok((made, wanted.is_some()))
}

/// As Go converts; validation refuses what does not fit before it is stored.
#[expect(clippy::cast_possible_truncation, reason = "upstream truncates here too")]
fn narrow(count: i64) -> i32 {
    count as i32
}

/// Where each version has its replica count. What is owned in a version that is not served stays as it is.
fn replica_paths(target: &Target, object: &Value) -> BTreeMap<String, Option<Path>> {
    let entries = Metadata::of(object).managed_fields().iter();
    let owned = entries.filter_map(|entry| Some((entry.get("apiVersion")?.as_str()?.to_owned(), None)));
    let served = target.def.versions.iter().map(|version| {
        let path = version.subresource("scale").and_then(|subresource| match &subresource.part {
            Part::Scale(scale) => Some(fields(&scale.spec_replicas_path).map(PathElement::field).collect()),
            _ => None,
        });
        (target.def.api_version(&version.name), path)
    });
    owned.chain(served).collect()
}

fn fields(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

/// Sets a field below others, which are made where they are missing.
fn set_nested(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let mut place = object;
    let mut passed = String::new();
    for field in fields(path) {
        let Value::Object(members) = place else {
            return Err(format!("value cannot be set because {passed} is not a map[string]interface{{}}"));
        };
        passed.push('.');
        passed.push_str(field);
        place = members.entry(field).or_insert_with(|| json!({}));
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rdd_store::Revision;

    use super::*;
    use crate::crd;

    fn mk_target() -> Target {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let scale = json!({"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count", "labelSelectorPath": ".status.selector"});
        let names = json!({"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"});
        let definition = json!({"metadata": {"name": "foos.g.io"}, "spec": {"group": "g.io", "names": names, "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}, "scale": scale}}]},
            "status": {"acceptedNames": names, "conditions": [{"type": "Established", "status": "True"}]}});
        let def = crd::resource_def(&Bytes::from(definition.to_string()), Revision(1)).unwrap().unwrap();
        Target {
            def: Arc::new(def),
            version: 0,
            namespace: Some("n".into()),
            name: Some("a".into()),
            subresource: Some(1),
        }
    }

    fn mk_object(spec: Value) -> Value {
        json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "labels": {"l": "1"}}, "spec": spec, "status": {"count": 2, "selector": "a=b"}})
    }

    #[test]
    fn a_scale_shows_the_counts_and_leaves_zeros_out_where_go_does() {
        let target = mk_target();
        assert_eq!(
            shown(&target, &mk_object(json!({"count": 3}))).unwrap(),
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "n", "uid": "u",
                "resourceVersion": "7"}, "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}})
        );
        assert_eq!(shown(&target, &mk_object(json!({"count": 0}))).unwrap()["spec"], json!({}));
        let missing = shown(&target, &mk_object(json!({}))).unwrap_err();
        assert_eq!(missing.message, r#"Internal error occurred: the spec replicas field ".spec.count" does not exist"#);
        let wrong = shown(&target, &mk_object(json!({"count": "x"}))).unwrap_err();
        assert!(
            wrong.message.ends_with(".spec.count accessor error: x is of the type string, expected int64"),
            "{wrong:?}"
        );
    }

    #[test]
    fn a_change_of_the_scale_is_a_change_of_the_object_and_of_its_owners() {
        let target = mk_target();
        let mut object = mk_object(json!({"count": 3}));
        let entry = |manager: &str, api_version: &str, fields: Value| {
            json!({"manager": manager, "operation": "Apply", "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields,
                "time": "2020-01-01T00:00:00Z"})
        };
        object["metadata"]["managedFields"] = json!([
            entry("a", "g.io/v1", json!({"f:spec": {"f:count": {}, "f:other": {}}})),
            entry("b", "g.io/v0", json!({"f:spec": {"f:old": {}}}))
        ]);
        let mut scale = before(&target, &object).unwrap();
        assert_eq!(
            scale["metadata"]["managedFields"],
            json!([entry("a", "autoscaling/v1", json!({"f:spec": {"f:replicas": {}}}))])
        );
        scale["spec"]["replicas"] = json!(5);
        scale["metadata"]["resourceVersion"] = json!("6");
        scale["metadata"]["managedFields"] =
            json!([entry("c", "autoscaling/v1", json!({"f:spec": {"f:replicas": {}}}))]);
        applied(&target, &mut object, &scale).unwrap();
        assert_eq!(object["spec"], json!({"count": 5}));
        assert_eq!(object["metadata"]["resourceVersion"], "6");
        let managers: Vec<(&str, &Value)> = object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| (entry["manager"].as_str().unwrap(), &entry["fieldsV1"]))
            .collect();
        assert!(managers.contains(&("a", &json!({"f:spec": {"f:other": {}}}))), "{managers:?}");
        assert!(managers.contains(&("b", &json!({"f:spec": {"f:old": {}}}))), "{managers:?}");
        assert!(managers.contains(&("c", &json!({"f:spec": {"f:count": {}}}))), "{managers:?}");
    }

    #[test]
    fn a_count_that_was_never_set_must_be_set_by_the_change() {
        let target = mk_target();
        let mut object = mk_object(json!({}));
        let untouched = before(&target, &object).unwrap();
        let refused = applied(&target, &mut object, &untouched).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (400, r#"the spec replicas field ".spec.count" cannot be empty"#)
        );
        let mut set = untouched;
        set["spec"] = json!({"replicas": 1});
        object["spec"] = json!({});
        applied(&target, &mut object, &set).unwrap();
        assert_eq!(object["spec"], json!({"count": 1}));
        assert_eq!(after(&target, &mk_object(json!({}))).unwrap()["spec"], json!({}));
    }

    #[test]
    fn a_body_is_typed_and_what_is_unknown_is_found() {
        let mut scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 1, "x": 1}});
        assert_eq!(decode(&mut scale, Origin::Request).unwrap(), [Finding::UnknownField("spec.x".into())]);
        let mut wrong = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": "1"}});
        let refused = decode(&mut wrong, Origin::Request).unwrap_err().message;
        assert_eq!(
            refused,
            "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal string into Go struct field \
             ScaleSpec.spec.replicas of type int32"
        );
        assert!(shape().atom().map.as_ref().unwrap().fields.contains_key("spec"));
    }
}
