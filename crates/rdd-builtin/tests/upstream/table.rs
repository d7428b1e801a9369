//! Compares the Go types in `types.txt` with reflection on the types themselves.

use std::collections::{BTreeMap, BTreeSet};

use rdd_builtin::types::{self, Field, Struct, Type};
use rdd_testkit::oracle;
use serde_json::json;

#[test]
fn every_fact_about_a_type_is_what_reflection_says_of_it() {
    let kinds: Vec<_> = types::kinds().iter().map(|kind| json!([kind.api_version(), kind.kind])).collect();
    let everywhere = [json!(["v1", "DeleteOptions"]), json!(["v1", "WatchEvent"])];
    let kinds: Vec<_> = kinds.into_iter().chain(everywhere).collect();
    let Some(answers) = oracle::ask("oracle", &[json!({"op": "types", "kinds": kinds})]) else { return };
    let theirs = parse(answers[0]["types"].as_str().unwrap());
    let ours: BTreeMap<String, BTreeSet<String>> = types::structs().iter().map(described).collect();
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, fields) in &theirs {
        assert_eq!(&ours[name], fields, "{name}");
    }
    println!("{} structs, {} fields", theirs.len(), theirs.values().map(BTreeSet::len).sum::<usize>());
}

fn parse(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut structs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        match line.strip_prefix("  ") {
            // Map keys are strings under various names.
            Some(field) => {
                let field = field.replace("map[v1.ResourceName=string]", "map[string]");
                structs.get_mut(&current).unwrap().insert(field);
            }
            None => {
                current = line.split(" = ").next().unwrap().to_owned();
                structs.insert(current.clone(), BTreeSet::new());
            }
        }
    }
    structs
}

fn described(structure: &Struct) -> (String, BTreeSet<String>) {
    let field = |field: &Field| {
        let mut line = format!("{} {}", field.name, expression(&field.kind));
        for (is_set, word) in [(field.omit_empty, " omitempty"), (field.omit_zero, " omitzero")] {
            line += if is_set { word } else { "" };
        }
        if !field.via.is_empty() {
            line += &format!(" via={}", field.via);
        }
        if !field.numbers.is_empty() {
            let numbers: Vec<String> = field.numbers.iter().map(u32::to_string).collect();
            line += &format!(" #{}", numbers.join("."));
            if field.go_name != field.name[..1].to_uppercase() + &field.name[1..] {
                line += &format!(":{}", field.go_name);
            }
        }
        line
    };
    (structure.definition.to_owned(), structure.fields.iter().map(field).collect())
}

fn expression(kind: &Type) -> String {
    match kind {
        Type::Struct(_) => kind.structure().unwrap().definition.to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Named(name, below) => format!("{name}={}", expression(below)),
        Type::Pointer(below) => format!("*{}", expression(below)),
        Type::List(below) => format!("[]{}", expression(below)),
        Type::Map(below) => format!("map[string]{}", expression(below)),
        other => other.go_name().split('.').next_back().unwrap().to_owned(),
    }
}
