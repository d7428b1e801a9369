//! Compares the translation of owners between a resource and its scale with upstream.

use rdd_patch::ssa::{Path, PathElement, ScaleEntries};
use rdd_testkit::{oracle::ask, random::SeededRandom};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CASES: u64 = 1000;

fn entries(random: &mut SeededRandom, versions: &[&str]) -> Value {
    let count = random.below(4);
    let entry = |random: &mut SeededRandom| {
        let choices = [
            json!({"f:spec": {"f:replicas": {}}}),
            json!({"f:spec": {"f:replicas": {}, "f:other": {}}}),
            json!({"f:spec": {"f:other": {}}}),
            json!({"f:status": {"f:replicas": {}}}),
            json!({}),
        ];
        let fields: &Value = random.pick(&choices);
        let mut entry = json!({"manager": random.pick(&["a", "b"]), "operation": random.pick(&["Apply", "Update"]),
            "apiVersion": random.pick(versions), "fieldsType": "FieldsV1", "fieldsV1": fields});
        if random.chance(80) {
            entry["time"] = json!(random.pick(&["2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"]));
        }
        if random.chance(20) {
            entry["subresource"] = json!("scale");
        }
        if random.chance(1) {
            entry["fieldsType"] = json!("V9");
        }
        entry
    };
    (0..count).map(|_| entry(random)).collect()
}

#[test]
fn the_replica_count_changes_hands_as_upstream_has_it() {
    let cases: Vec<(Value, Value)> = (0..CASES)
        .map(|seed| {
            let random = &mut SeededRandom::new(seed + 8_000_000);
            let parent = entries(random, &["apps/v1", "apps/v2", "apps/v3", "apps/v0"]);
            (parent, entries(random, &["autoscaling/v1"]))
        })
        .collect();
    let replicas: BTreeMap<String, Option<Path>> = BTreeMap::from([
        ("apps/v1".to_owned(), Some(["spec", "replicas"].map(PathElement::field).to_vec())),
        ("apps/v2".to_owned(), Some(["status", "replicas"].map(PathElement::field).to_vec())),
        ("apps/v3".to_owned(), None),
    ]);
    let names = json!({"apps/v1": ["spec", "replicas"], "apps/v2": ["status", "replicas"], "apps/v3": null});
    let questions = cases.iter().map(|(parent, scale)| {
        json!({"op": "scale", "version": "apps/v1", "parent": parent, "scale": scale, "replicas": names})
    });
    let Some(answers) = ask("oracle", &questions.collect::<Vec<_>>()) else { return };
    let (mut translated, mut refused) = (0, 0);
    for ((parent, scale), answer) in cases.iter().zip(answers) {
        let object = json!({"metadata": {"managedFields": parent}});
        let ours = ScaleEntries { parent: &object, api_version: "apps/v1", replicas: &replicas };
        let results = ours
            .to_scale()
            .and_then(|to_scale| Ok((to_scale, ours.to_parent(&json!({"metadata": {"managedFields": scale}}))?)));
        // If two entries are equal in all sort keys, Go's order is arbitrary.
        let sorted = |entries: &Value| {
            let mut entries = entries.as_array().cloned().unwrap_or_default();
            entries.sort_by_key(ToString::to_string);
            entries
        };
        match results {
            Ok((to_scale, to_parent)) => {
                assert_eq!(sorted(&to_scale.to_value()), sorted(&answer["scale"]), "{parent} {scale}");
                assert_eq!(sorted(&to_parent.to_value()), sorted(&answer["parent"]), "{parent} {scale}");
                translated += 1;
            }
            Err(error) => {
                assert_eq!(Some(error.to_string().as_str()), answer["error"].as_str(), "{parent} {scale}");
                refused += 1;
            }
        }
    }
    println!("scale: {translated} translated, {refused} refused");
    assert!(translated > 800 && refused > 0);
}
