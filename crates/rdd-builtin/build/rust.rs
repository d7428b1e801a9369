//! Writes the table of types as Rust constants, which take no heap memory.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::Value;

use crate::definitions::SPECIAL;
use crate::table::{Field, Struct, Table, Type};

/// The fields whose descriptions are also those of printer columns.
const COLUMN_WORDS: [(&str, &str); 20] = [
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "name"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp"),
    ("io.k8s.api.coordination.v1.LeaseSpec", "holderIdentity"),
    ("io.k8s.api.core.v1.ConfigMap", "data"),
    ("io.k8s.api.core.v1.Event", "count"),
    ("io.k8s.api.core.v1.Event", "firstTimestamp"),
    ("io.k8s.api.core.v1.Event", "involvedObject"),
    ("io.k8s.api.core.v1.Event", "lastTimestamp"),
    ("io.k8s.api.core.v1.Event", "message"),
    ("io.k8s.api.core.v1.Event", "reason"),
    ("io.k8s.api.core.v1.Event", "source"),
    ("io.k8s.api.core.v1.Event", "type"),
    ("io.k8s.api.core.v1.ObjectReference", "fieldPath"),
    ("io.k8s.api.core.v1.Secret", "data"),
    ("io.k8s.api.core.v1.Secret", "type"),
    ("io.k8s.api.core.v1.ServiceSpec", "clusterIP"),
    ("io.k8s.api.core.v1.ServiceSpec", "externalIPs"),
    ("io.k8s.api.core.v1.ServiceSpec", "ports"),
    ("io.k8s.api.core.v1.ServiceSpec", "selector"),
    ("io.k8s.api.core.v1.ServiceSpec", "type"),
];

/// The content of `types.rs`.
pub(crate) fn write(table: &Table, described: &BTreeMap<String, Value>) -> String {
    let mut text = String::from("static STRUCTS: &[Struct] = &[\n");
    for found in &table.structs {
        text += &one_struct(table, found);
    }
    text += "];\nstatic KINDS: &[Kind] = &[\n";
    for (at, found) in table.structs.iter().enumerate().filter(|(_, found)| found.kind) {
        let api_version = &table.packages[&found.package].api_version;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let _ = writeln!(
            text,
            "Kind {{ group: {group:?}, version: {version:?}, kind: {:?}, structure: {at} }},",
            found.name
        );
    }
    // Go name, definition name, schema.
    text += "];\nstatic SPECIAL_FORMS: &[(&str, &str, &str)] = &[\n";
    for (name, definition, form) in SPECIAL {
        let package = match name {
            "Quantity" => "resource",
            "IntOrString" => "intstr",
            "RawExtension" => "runtime",
            _ => "v1",
        };
        let _ = writeln!(text, "({:?}, {definition:?}, {form:?}),", format!("{package}.{name}"));
    }
    text += "];\nstatic WORDS: &[(&str, &str, &str)] = &[\n";
    for (definition, property) in COLUMN_WORDS {
        let words =
            described[definition]["properties"][property]["description"].as_str().expect("upstream describes it");
        let _ = writeln!(text, "({definition:?}, {property:?}, {words:?}),");
    }
    let at = table.index("apiextensions", "JSONSchemaProps");
    text + &format!("];\nstatic JSON_SCHEMA_PROPS: Type = Type::Struct({at});\n")
}

fn one_struct(table: &Table, found: &Struct) -> String {
    let definition = table.definition(&found.package, &found.name);
    let mut text =
        format!("Struct {{ definition: {definition:?}, name: {:?}, atomic: {}, fields: &[\n", found.name, found.atomic);
    let mut fields: Vec<&Field> = found.fields.iter().collect();
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    let mut numbered: Vec<usize> = (0..fields.len()).filter(|at| !fields[*at].numbers.is_empty()).collect();
    numbered.sort_by_key(|at| &fields[*at].numbers);
    for field in fields {
        text += &one_field(table, field);
    }
    text + &format!("], numbered: &{numbered:?} }},\n")
}

fn one_field(table: &Table, field: &Field) -> String {
    let list = match &field.list {
        None => "ListType::Unset".to_owned(),
        Some((kind, keys)) => match kind.as_str() {
            "atomic" => "ListType::Atomic".to_owned(),
            "set" => "ListType::Set".to_owned(),
            "map" => format!("ListType::Map(&{keys:?})"),
            _ => panic!("{field:?}"),
        },
    };
    let (merge, key) = match &field.patch {
        None => (false, None),
        Some((strategy, key)) if strategy == "merge" => (true, key.as_deref()),
        Some(_) => panic!("{field:?}"),
    };
    format!(
        "  Field {{ name: {:?}, kind: {}, omit_empty: {}, omit_zero: {}, via: {:?}, list: {list}, merge: {merge}, \
         merge_key: {key:?}, atomic: {}, default: {:?}, numbers: &{:?}, go_name: {:?} }},\n",
        field.name,
        one_type(table, &field.kind),
        field.omit_empty,
        field.omit_zero,
        field.via,
        field.atomic,
        field.default,
        field.numbers,
        field.go_name
    )
}

fn one_type(table: &Table, kind: &Type) -> String {
    match kind {
        Type::Scalar(word) => {
            let mut letters = word.chars();
            let first = letters.next().expect("a word has letters").to_ascii_uppercase();
            format!("Type::{first}{}", letters.as_str())
        }
        Type::Special(name) => format!("Type::{}", name.replace("JSONSchemaProps", "Schema").replace("JSON", "Json")),
        Type::Struct(package, name) => format!("Type::Struct({})", table.index(package, name)),
        Type::Named(name, below) => format!("Type::Named({name:?}, &{})", one_type(table, below)),
        Type::Pointer(below) => format!("Type::Pointer(&{})", one_type(table, below)),
        Type::List(below) => format!("Type::List(&{})", one_type(table, below)),
        Type::Map(below) => format!("Type::Map(&{})", one_type(table, below)),
    }
}
