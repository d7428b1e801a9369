//! The CustomResourceDefinitions of well-known projects: each one is accepted and compiles to a small structure.

use rdd_schema::{
    Structural,
    crd::{self, Crd, NoRules},
    pattern,
};
use rdd_testkit::oracle::{definitions, go_module};

/// Modules of the Go proxy, each with the minimum number of its definitions.
const MODULES: [(&str, usize); 4] = [
    ("github.com/cert-manager/cert-manager@v1.21.2", 6),
    ("sigs.k8s.io/gateway-api@v1.4.1", 12),
    ("sigs.k8s.io/cluster-api@v1.14.2", 30),
    ("github.com/prometheus-operator/prometheus-operator@v0.85.0", 9),
];

#[test]
fn every_definition_of_well_known_projects_is_accepted_and_small() {
    let (mut json_bytes, mut compiled_bytes, mut count, mut rules, mut patterns) = (0, 0, 0, 0, 0);
    for (module, expected) in MODULES {
        let Some(folder) = go_module(module) else { continue };
        let definitions = definitions(&folder, &["yaml", "json"]);
        println!("{module}: {} definitions", definitions.len());
        assert!(definitions.len() >= expected, "{module} has {} definitions", definitions.len());
        for mut definition in definitions {
            let name = definition["metadata"]["name"].to_string();
            crd::apply_defaults(&mut definition);
            let parsed = Crd::parse(&definition).unwrap_or_else(|error| panic!("{name}: {error}"));
            let errors = crd::validate(&parsed, &mut NoRules);
            assert!(errors.is_empty(), "{name}: {}", rdd_schema::field::aggregate(&errors));
            for schema in parsed.schemas() {
                let compiled = Structural::compile(schema).unwrap_or_else(|error| panic!("{name}: {error}"));
                compiled_bytes += compiled.size_bytes();
                schema.any(&mut |props| {
                    rules += props.validations.len();
                    patterns += usize::from(!props.pattern.is_empty());
                    let compiles =
                        props.pattern.is_empty() || pattern::Pattern::new(&props.pattern).is_match("x").is_ok();
                    assert!(compiles, "{name}: {}", props.pattern);
                    false
                });
            }
            json_bytes += definition.to_string().len();
            count += 1;
        }
    }
    println!(
        "{count} definitions, {rules} rules, {patterns} patterns: {json_bytes} bytes of JSON, {compiled_bytes} bytes compiled"
    );
    assert!(compiled_bytes <= 3 * json_bytes, "{compiled_bytes} bytes for {json_bytes} bytes of JSON");
}
