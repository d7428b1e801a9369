//! Tests of conversion between several versions of one resource.

use bytes::Bytes;
use rdd_store::Revision;
use serde_json::{Value, json};

use super::support::{mk_def, mk_definition, mk_version, settled};
use crate::{
    crd,
    registry::{Part, Stored},
};

fn schema(fields: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string", "default": "d"}))).collect();
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})
}

#[test]
fn served_versions_come_preferred_first_and_names_as_accepted() {
    let mut beta = mk_version("v1beta1", schema(&["a"]));
    beta["subresources"]["scale"] = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    let mut hidden = mk_version("v3", schema(&["a"]));
    hidden["served"] = false.into();
    let def = mk_def(vec![beta, hidden, mk_version("v1", schema(&["a"]))]);
    assert_eq!(def.versions.iter().map(|version| version.name.as_str()).collect::<Vec<_>>(), ["v1", "v1beta1"]);
    assert_eq!((def.storage_version.as_str(), def.kind.as_str()), ("v1beta1", "Foo"));
    assert_eq!((def.singular.as_str(), def.list_kind.as_str(), def.namespaced), ("foo", "FooList", true));
    let [status, scale] = &*def.version("v1beta1").unwrap().subresources else {
        panic!("two subresources are declared")
    };
    assert!(matches!(
        (status.name, &status.part, scale.name, &scale.part),
        ("status", Part::View, "scale", Part::Scale(_))
    ));
    assert_eq!(def.storage().unwrap().prefix(), "/registry/g.io/foos/");
}

#[test]
fn versions_with_one_schema_differ_in_name_alone_and_others_drop_what_they_do_not_know() {
    let def = mk_def(vec![mk_version("v1", schema(&["a"])), mk_version("v2", schema(&["a"]))]);
    assert!(matches!(def.version("v1").unwrap().stored, Stored::Same));
    assert!(matches!(def.version("v2").unwrap().stored, Stored::Renamed));

    let def = mk_def(vec![mk_version("v1", schema(&["a", "b"])), mk_version("v2", schema(&["b", "c"]))]);
    let Stored::Converted(conversion) = &def.version("v2").unwrap().stored else { panic!("the schemas differ") };
    let stored =
        json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"a": "1", "b": "2"}});
    let shown = conversion.shown(stored);
    // As upstream, defaults of the requested version are not applied.
    assert_eq!(shown, json!({"apiVersion": "g.io/v2", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"b": "2"}}));
    let back = conversion
        .stored(json!({"apiVersion": "g.io/v2", "kind": "Foo", "metadata": {}, "spec": {"b": "2", "c": "3"}}));
    // Defaults of the storage version are stored, so a read of that version has them.
    assert_eq!(back, json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {}, "spec": {"a": "d", "b": "2"}}));
}

#[test]
fn what_an_unserved_version_stored_still_gets_its_defaults() {
    let mut old = mk_version("v1", schema(&["a", "b"]));
    old["served"] = false.into();
    let def = mk_def(vec![old, mk_version("v2", schema(&["b"]))]);
    let Stored::Converted(conversion) = &def.version("v2").unwrap().stored else { panic!("the schemas differ") };
    let shown = conversion.shown(json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {}, "spec": {"a": "1"}}));
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("g.io/v2"), &json!({"b": "d"})));
}

#[test]
fn users_of_a_deprecated_version_are_told_which_to_use() {
    let mut old = mk_version("v1alpha1", schema(&["a"]));
    old["deprecated"] = true.into();
    let warning = |versions| mk_def(versions).version("v1alpha1").unwrap().deprecation.clone().unwrap();
    let newer = || vec![mk_version("v1beta1", schema(&["a"])), mk_version("v1", schema(&["a"]))];
    assert_eq!(warning([vec![old.clone()], newer()].concat()), "g.io/v1alpha1 Foo is deprecated; use g.io/v1 Foo");
    assert_eq!(warning(vec![old.clone()]), "g.io/v1alpha1 Foo is deprecated");
    old["deprecationWarning"] = "go away".into();
    assert_eq!(warning([vec![old], newer()].concat()), "go away");
}

#[test]
fn nothing_is_served_without_accepted_names_or_a_served_version() {
    let definition = |change: &dyn Fn(&mut Value)| {
        let mut definition = settled(mk_definition(vec![mk_version("v1", schema(&["a"]))]));
        change(&mut definition);
        crd::resource_def(&Bytes::from(definition.to_string()), Revision(1)).unwrap()
    };
    assert!(definition(&|_| {}).is_some());
    assert!(definition(&|definition| definition["status"]["conditions"] = json!([])).is_none());
    assert!(definition(&|definition| definition["spec"]["versions"][0]["served"] = false.into()).is_none());
    assert!(crd::resource_def(&Bytes::from_static(b"{\"spec\": 1}"), Revision(1)).is_err());
}
