//! The CustomResourceDefinitions of popular projects: their rules compile, and serving them is cheap.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests too")]

use std::{fs, sync::Arc, time::Instant};

use bytes::Bytes;
use rdd_apiserver::{
    builtin,
    crd::{self, DefinitionKind, Ledger},
    registry::{Kind, Origin, ResourceDef},
};
use rdd_meta::field_error;
use rdd_stdx::clock::SystemClock;
use rdd_store::Revision;
use rdd_testkit::oracle::{definitions, go_module};
use serde_json::{Value, json};

/// Modules on the Go proxy, with the minimum number of definitions in each.
const MODULES: [(&str, usize); 4] = [
    ("github.com/cert-manager/cert-manager@v1.21.2", 6),
    ("sigs.k8s.io/gateway-api@v1.4.1", 12),
    ("sigs.k8s.io/cluster-api@v1.14.2", 30),
    ("github.com/prometheus-operator/prometheus-operator@v0.85.0", 9),
];

/// Returns the definitions of a module; none if it cannot be fetched, which is an error under CI.
fn fetched(module: &str, expected: usize) -> Vec<Value> {
    let Some(folder) = go_module(module) else { return Vec::new() };
    let definitions = definitions(&folder, &["yaml"]);
    assert!(definitions.len() >= expected, "{module} has {} definitions", definitions.len());
    definitions
}

/// The kind of definitions, as in a server.
fn mk_kind() -> Arc<dyn Kind> {
    let clock = SystemClock::shared();
    let resources = builtin::resources(builtin::Parts {
        clock: clock.clone(),
        definitions: Box::new(move |generic| Arc::new(DefinitionKind::new(generic, Ledger::default(), clock))),
        tokens: None,
        reviewer: builtin::TokenReviewer::new(|_, _| None),
    });
    let def = resources.into_iter().find(|def| def.plural == "customresourcedefinitions");
    Arc::clone(&def.expect("definitions are built in").versions[0].kind)
}

/// Validates a definition as a create does, and returns its stored form.
fn accepted(kind: &dyn Kind, mut definition: Value) -> Bytes {
    let name = definition["metadata"]["name"].to_string();
    let findings =
        kind.decode(&mut definition, Origin::Request).unwrap_or_else(|status| panic!("{name}: {}", status.message));
    assert!(findings.is_empty(), "{name}: {findings:?}");
    kind.prepare_for_create(&mut definition);
    let errors = kind.validate_create(&definition);
    assert!(errors.is_empty(), "{name}: {}", field_error::aggregate(&errors));
    definition.to_string().into()
}

/// Validates an object of every version as a create does, so that everything is compiled.
fn use_all(def: &ResourceDef) {
    for version in &def.versions {
        let mut object = json!({"apiVersion": def.api_version(&version.name), "kind": def.kind,
            "metadata": {"name": "a", "namespace": "n"}, "spec": {}, "status": {}});
        version.kind.decode(&mut object, Origin::Request).unwrap();
        let _ = version.kind.validate_create(&object);
        let _ = version.kind.validate_update("", &object, &object);
        version.kind.shape().atom();
    }
}

fn resident_bytes() -> usize {
    let pages: usize = fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn the_definitions_of_well_known_projects_are_accepted_with_their_rules_and_served() {
    let kind = mk_kind();
    for (module, expected) in MODULES {
        let begun = Instant::now();
        let definitions = fetched(module, expected);
        let (read, count) = (begun.elapsed(), definitions.len());
        let begun = Instant::now();
        let stored: Vec<Bytes> = definitions.into_iter().map(|definition| accepted(&*kind, definition)).collect();
        let (judged, bytes) = (begun.elapsed(), stored.iter().map(Bytes::len).sum::<usize>());
        let (begun, before) = (Instant::now(), resident_bytes());
        let defs: Vec<ResourceDef> =
            stored.iter().map(|stored| crd::resource_def(stored, Revision(1)).unwrap().unwrap()).collect();
        let (loaded, idle) = (begun.elapsed(), resident_bytes().saturating_sub(before));
        let begun = Instant::now();
        defs.iter().for_each(use_all);
        let (compiled, used) = (begun.elapsed(), resident_bytes().saturating_sub(before));
        println!(
            "{module}: {count} definitions of {bytes} bytes read in {read:?}, judged in {judged:?}; loaded in {loaded:?} ({idle} \
             bytes), all compiled in {compiled:?} ({used} bytes)"
        );
    }
}
