//! Builds the OpenAPI v3 definitions: the structure comes from our table, the descriptions from upstream.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::table::{Field, Struct, Table, Type};

/// The types with custom JSON decoding: Go name, definition name and schema.
pub(crate) const SPECIAL: [(&str, &str, &str); 10] = [
    ("Time", "io.k8s.apimachinery.pkg.apis.meta.v1.Time", r#"{"type":"string","format":"date-time"}"#),
    ("MicroTime", "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", r#"{"type":"string","format":"date-time"}"#),
    ("FieldsV1", "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", r#"{"type":"object"}"#),
    ("Quantity", "io.k8s.apimachinery.pkg.api.resource.Quantity", r#"{"oneOf":[{"type":"string"},{"type":"number"}]}"#),
    (
        "IntOrString",
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        r#"{"format":"int-or-string","oneOf":[{"type":"integer"},{"type":"string"}]}"#,
    ),
    ("RawExtension", "io.k8s.apimachinery.pkg.runtime.RawExtension", r#"{"type":"object"}"#),
    ("JSON", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "{}"),
    ("JSONSchemaPropsOrArray", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "{}"),
    ("JSONSchemaPropsOrBool", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "{}"),
    (
        "JSONSchemaPropsOrStringArray",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
        "{}",
    ),
];

/// All definitions by name. Fails the build if `described` and the table have different fields.
pub(crate) fn build(table: &Table, described: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let mut definitions = BTreeMap::new();
    for (_, name, form) in SPECIAL {
        let mut form: Value = serde_json::from_str(form).expect("the forms above are JSON");
        describe(&mut form, described.get(name));
        definitions.insert(name.to_owned(), form);
    }
    for found in &table.structs {
        let name = table.definition(&found.package, &found.name);
        let description = described.get(&name);
        definitions.insert(name, definition(table, found, description));
    }
    definitions
}

fn definition(table: &Table, found: &Struct, described: Option<&Value>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let none = Map::new();
    let words = described.and_then(|schema| schema["properties"].as_object()).unwrap_or(&none);
    for field in &found.fields {
        let description = words.get(&field.name);
        properties.insert(field.name.clone(), property(table, field, description));
        if !field.omit_empty && !field.optional {
            required.push(field.name.clone());
        }
    }
    let name = &found.name;
    assert!(words.keys().all(|word| properties.contains_key(word)), "{name} lacks a field");
    let mut definition = json!({"type": "object"});
    if !properties.is_empty() {
        definition["properties"] = properties.into();
    }
    describe(&mut definition, described);
    if !required.is_empty() {
        definition["required"] = required.into();
    }
    if found.atomic {
        definition["x-kubernetes-map-type"] = "atomic".into();
    }
    let kinds = kinds(table, found);
    if !kinds.is_empty() {
        definition["x-kubernetes-group-version-kind"] = kinds.into();
    }
    definition
}

/// The group-version-kinds of a struct.
fn kinds(table: &Table, found: &Struct) -> Vec<Value> {
    let mut versions: Vec<&str> = match (found.kind, found.everywhere) {
        (true, _) => vec![&table.packages[&found.package].api_version],
        (_, true) => table.packages.values().map(|package| package.api_version.as_str()).collect(),
        _ => Vec::new(),
    };
    versions.sort_by_key(|version| version.split_once('/').unwrap_or(("", version)));
    versions.dedup();
    let kind = |api_version: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        json!({"group": group, "kind": found.name, "version": version})
    };
    versions.into_iter().map(kind).collect()
}

fn property(table: &Table, field: &Field, described: Option<&Value>) -> Value {
    let below = without_pointer(&field.kind);
    let is_pointer = below != &field.kind;
    let mut schema = schema(table, below, !is_pointer && !field.omit_empty);
    describe(&mut schema, described);
    tell_values(&mut schema);
    if let Some(target) = reference(table, below) {
        let structure = matches!(below, Type::Struct(..));
        // A reference must be the only member, so a schema with more members wraps it in `allOf`.
        let wrapped = schema.get("description").is_some() || (structure && !is_pointer);
        let description = schema.get("description").cloned();
        schema = if wrapped { json!({"allOf": [{"$ref": target}]}) } else { json!({"$ref": target}) };
        if structure && !is_pointer {
            schema["default"] = json!({});
        }
        if let Some(description) = description {
            schema["description"] = description;
        }
    }
    extend(&mut schema, field);
    schema
}

/// Adds the extensions that merging needs.
fn extend(schema: &mut Value, field: &Field) {
    if let Some(default) = &field.default {
        schema["default"] = serde_json::from_str(default).expect("defaults in the table are JSON");
    }
    if let Some((kind, keys)) = &field.list {
        schema["x-kubernetes-list-type"] = kind.as_str().into();
        if !keys.is_empty() {
            schema["x-kubernetes-list-map-keys"] = keys.clone().into();
        }
    }
    if let Some((strategy, key)) = &field.patch {
        schema["x-kubernetes-patch-strategy"] = strategy.as_str().into();
        if let Some(key) = key {
            schema["x-kubernetes-patch-merge-key"] = key.as_str().into();
        }
    }
    if field.atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
}

/// The schema of a type. A non-pointer value that Go always writes defaults to Go's zero value.
fn schema(table: &Table, kind: &Type, always: bool) -> Value {
    let zero = |mut schema: Value, zero: Value| {
        if always {
            schema["default"] = zero;
        }
        schema
    };
    match kind {
        Type::Scalar(word) => match word.as_str() {
            "string" => zero(json!({"type": "string"}), "".into()),
            "bool" => zero(json!({"type": "boolean"}), false.into()),
            "int32" | "int64" => zero(json!({"type": "integer", "format": word}), 0.into()),
            "float64" => zero(json!({"type": "number", "format": "double"}), 0.into()),
            "bytes" => json!({"type": "string", "format": "byte"}),
            _ => panic!("{word}"),
        },
        Type::Named(name, below) => {
            let mut schema = schema(table, below, always);
            if let Some(values) = table.enums.get(name) {
                schema["enum"] = values.clone().into();
            }
            schema
        }
        Type::Pointer(below) => schema(table, below, false),
        Type::List(below) => json!({"type": "array", "items": element(table, below)}),
        Type::Map(below) => json!({"type": "object", "additionalProperties": element(table, below)}),
        Type::Special(_) | Type::Struct(..) => json!({"$ref": reference(table, kind)}),
    }
}

fn element(table: &Table, kind: &Type) -> Value {
    match (kind, reference(table, kind)) {
        (Type::Struct(..), Some(target)) => json!({"allOf": [{"$ref": target}], "default": {}}),
        _ => schema(table, kind, true),
    }
}

fn reference(table: &Table, kind: &Type) -> Option<String> {
    let name = match kind {
        Type::Struct(package, name) => table.definition(package, name),
        Type::Special(name) => {
            let found = SPECIAL.iter().find(|(word, _, _)| word == name);
            found.unwrap_or_else(|| panic!("no definition of {name}")).1.to_owned()
        }
        _ => return None,
    };
    Some(format!("#/components/schemas/{name}"))
}

fn without_pointer(kind: &Type) -> &Type {
    match kind {
        Type::Pointer(below) => below,
        other => other,
    }
}

/// Lists the enum values in the description too, like upstream, for readers of the description only. Upstream alone explains what
/// each value means.
fn tell_values(schema: &mut Value) {
    let Some(values) = schema.get("enum").and_then(Value::as_array) else { return };
    let lines: String = values.iter().map(|value| format!("\n - `{value}`")).collect();
    let told = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let told = format!("{told}\n\nPossible enum values:{lines}");
    schema["description"] = told.trim_start().into();
}

fn describe(schema: &mut Value, described: Option<&Value>) {
    if let Some(description) = described.and_then(|described| described.get("description")) {
        schema["description"] = description.clone();
    }
}
