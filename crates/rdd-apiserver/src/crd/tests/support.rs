//! Test fixtures: definitions, custom resources and a generic kind that accepts everything.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rdd_meta::{FieldError, Status, names::NameRule, time::Timestamp};
use rdd_patch::{shape::Shape, ssa};
use rdd_stdx::clock::{ManualClock, SharedClock};
use rdd_store::Revision;
use serde_json::{Value, json};

use crate::{
    crd::{self, DefinitionKind, Ledger},
    registry::{Column, Finding, Kind, Origin, ResourceDef},
};

/// 2023-11-14T22:13:20Z.
pub(super) const NOW: u64 = 1_700_000_000;

pub(super) fn mk_clock() -> SharedClock {
    ManualClock::shared(Duration::from_secs(NOW))
}

/// A version with a status subresource.
pub(super) fn mk_version(name: &str, schema: Value) -> Value {
    json!({"name": name, "served": true, "storage": false, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}})
}

/// A definition of `Foo` in `g.io` as a client sends it; the first version is the storage version.
pub(super) fn mk_definition(mut versions: Vec<Value>) -> Value {
    versions[0]["storage"] = true.into();
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "foos.g.io"},
        "spec": {"group": "g.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}, "versions": versions}})
}

/// The same definition as it is stored.
pub(super) fn settled(mut definition: Value) -> Value {
    let kind = mk_definition_kind(&Ledger::default());
    kind.decode(&mut definition, Origin::Request).unwrap();
    kind.prepare_for_create(&mut definition);
    definition["metadata"]["uid"] = "uid".into();
    definition
}

pub(super) fn mk_def(versions: Vec<Value>) -> ResourceDef {
    let definition = Bytes::from(settled(mk_definition(versions)).to_string());
    crd::resource_def(&definition, Revision(1)).unwrap().unwrap()
}

/// The kind of a definition of `Foo` with this schema in its only version.
pub(super) fn mk_kind(schema: Value) -> Arc<dyn Kind> {
    Arc::clone(&mk_def(vec![mk_version("v1", schema)]).versions[0].kind)
}

/// An object of kind `Foo` with additional content.
pub(super) fn mk_foo(content: Value) -> Value {
    let mut object = json!({"apiVersion": "g.io/v1", "kind": "Foo", "metadata": {"name": "a", "namespace": "n"}});
    object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    object
}

pub(super) fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(FieldError::to_string).collect()
}

pub(super) fn mk_definition_kind(ledger: &Ledger) -> DefinitionKind {
    DefinitionKind::new(Arc::new(Generic(ssa::Filter::new())), ledger.clone(), mk_clock())
}

/// A generic kind that accepts every object.
#[derive(Debug)]
struct Generic(ssa::Filter);

impl Kind for Generic {
    fn decode(&self, _: &mut Value, _: Origin) -> Result<Vec<Finding>, Status> {
        Ok(Vec::new())
    }
    fn default(&self, _: &mut Value) {}
    fn shape(&self) -> Shape {
        Shape::deduced()
    }
    fn empty(&self) -> std::borrow::Cow<'_, Value> {
        std::borrow::Cow::Owned(json!({}))
    }
    fn reset_fields(&self, _: &str) -> &ssa::Filter {
        &self.0
    }
    fn name_rule(&self) -> NameRule {
        NameRule::DnsSubdomain
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
