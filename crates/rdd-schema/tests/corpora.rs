//! The CustomResourceDefinitions of projects that many people run: every one is accepted, and compiles to little memory.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use rdd_schema::{
    Structural,
    crd::{self, Crd, NoRules},
    pattern,
};
use rdd_testkit::capability::skip;
use serde_json::Value;

/// Modules on the Go proxy, and how many definitions each has at least.
const MODULES: [(&str, usize); 4] = [
    ("github.com/cert-manager/cert-manager@v1.21.2", 6),
    ("sigs.k8s.io/gateway-api@v1.4.1", 12),
    ("sigs.k8s.io/cluster-api@v1.14.2", 30),
    ("github.com/prometheus-operator/prometheus-operator@v0.85.0", 9),
];

#[allow(clippy::disallowed_methods, reason = "a test of a pure crate: Go fetches the modules")]
fn module_folder(module: &str) -> Option<PathBuf> {
    let output =
        Command::new("go").args(["mod", "download", "-json", module]).current_dir(env::temp_dir()).output().ok()?;
    let answer: Value = serde_json::from_slice(&output.stdout).ok()?;
    answer.get("Dir")?.as_str().map(PathBuf::from)
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "json") {
            found.push(path);
        }
    }
}

/// The definitions in a module, by name and content: copies count once.
fn definitions(folder: &Path) -> Vec<Value> {
    let mut files = Vec::new();
    yaml_files(folder, &mut files);
    let mut found = BTreeMap::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if !text.contains("CustomResourceDefinition") || text.contains("{{") {
            continue;
        }
        for document in text.split("\n---") {
            let Ok(value) = serde_saphyr::from_str::<Value>(document.trim_start_matches("---")) else { continue };
            let is = |key: &str, wanted: &str| value.get(key).and_then(Value::as_str) == Some(wanted);
            let named = value.pointer("/spec/names/plural").is_some();
            if is("kind", "CustomResourceDefinition") && is("apiVersion", "apiextensions.k8s.io/v1") && named {
                found.insert(value.to_string(), value);
            }
        }
    }
    found.into_values().collect()
}

#[test]
fn every_definition_of_well_known_projects_is_accepted_and_small() {
    let (mut json_bytes, mut compiled_bytes, mut count, mut rules, mut patterns) = (0, 0, 0, 0, 0);
    for (module, expected) in MODULES {
        let Some(folder) = module_folder(module) else {
            skip(&format!("the Go module {module} cannot be fetched"));
            continue;
        };
        let definitions = definitions(&folder);
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
