//! The schemas of custom resources as they are published, after upstream's `apiextensions-apiserver` builder.

use rdd_meta::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::render::Flavor;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// What a published schema needs beside the schema itself.
#[derive(Debug)]
pub(super) struct Published<'a> {
    pub(super) flavor: Flavor,
    pub(super) kind: &'a GroupVersionKind,
    /// Fields that can be selected by, as `spec.color`.
    pub(super) selectable: &'a [String],
    /// How `apiVersion` and `kind` are described everywhere.
    pub(super) type_meta: &'a TypeMeta,
}

/// The schemas of the two fields that every object has.
#[derive(Debug)]
pub(super) struct TypeMeta {
    pub(super) api_version: Value,
    pub(super) kind: Value,
}

impl TypeMeta {
    /// From a definition that has both.
    pub(super) fn of(definition: Option<&Value>) -> Self {
        let field = |name: &str| {
            let found = definition.and_then(|definition| definition["properties"].get(name));
            found.cloned().unwrap_or_else(|| json!({"type": "string"}))
        };
        Self { api_version: field("apiVersion"), kind: field("kind") }
    }
}

/// The name of a custom resource's definition: the group from its end, version, kind.
pub(super) fn definition_name(kind: &GroupVersionKind) -> String {
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

/// The definition of a custom resource, from the schema of its version. Depth is bounded because the schema was accepted.
pub(super) fn definition(published: &Published<'_>, schema: Option<Value>) -> Value {
    let loose = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let mut made = match schema {
        // Clients of version 2 take a schema with properties to forbid all others.
        Some(schema) if published.flavor == Flavor::V2 && loose(&schema) => json!({"type": "object"}),
        Some(schema) => native(published, structural(published.flavor, schema)),
        None => json!({"type": "object"}),
    };
    extend(published, &published.kind.kind, &mut made);
    made
}

/// The definition of a list of custom resources.
pub(super) fn list_definition(published: &Published<'_>, plural: &str, list_kind: &str) -> Value {
    let item = published.flavor.reference(&definition_name(published.kind));
    let metadata = format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds");
    let mut made = json!({
        "description": format!("{list_kind} is a list of {}", published.kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": published.type_meta.api_version,
            "items": {
                "description": format!("List of {plural}. More info: {CONVENTIONS}"),
                "type": "array",
                "items": item,
            },
            "kind": published.type_meta.kind,
            "metadata": described_reference(published.flavor, LIST_META, &metadata),
        },
    });
    extend(published, list_kind, &mut made);
    made
}

fn extend(published: &Published<'_>, kind: &str, made: &mut Value) {
    let GroupVersionKind { group, version, .. } = published.kind;
    made["x-kubernetes-group-version-kind"] = json!([{"group": group, "version": version, "kind": kind}]);
    if !published.selectable.is_empty() {
        let entry = |field: &String| json!({"fieldPath": field.trim_start_matches('.')});
        made["x-kubernetes-selectable-fields"] = published.selectable.iter().map(entry).collect();
    }
}

/// Puts in what every object has, in place of what the schema says of it.
fn native(published: &Published<'_>, mut schema: Value) -> Value {
    let properties = child_map(&mut schema, "properties");
    properties.insert("apiVersion".to_owned(), published.type_meta.api_version.clone());
    properties.insert("kind".to_owned(), published.type_meta.kind.clone());
    properties.insert("metadata".to_owned(), object_meta(published.flavor));
    embed(published.flavor, &mut schema);
    schema
}

fn object_meta(flavor: Flavor) -> Value {
    described_reference(flavor, OBJECT_META, &format!("Standard object's metadata. More info: {CONVENTIONS}#metadata"))
}

/// A reference with a description: version 3 allows nothing beside a reference, so it is wrapped there.
fn described_reference(flavor: Flavor, definition: &str, description: &str) -> Value {
    let reference = flavor.reference(definition);
    match flavor {
        Flavor::V2 => json!({"description": description, "$ref": reference["$ref"]}),
        Flavor::V3 => json!({"description": description, "allOf": [reference]}),
    }
}

/// The parts of a schema that a structural schema has, with its shorthands spelled out.
fn structural(flavor: Flavor, schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return json!({}) };
    for dropped in
        ["example", "externalDocs", "id", "$schema", "$ref", "definitions", "dependencies", "patternProperties"]
    {
        schema.remove(dropped);
    }
    schema.retain(|name, value| !is_nothing(name, value));
    unfold(&mut schema);
    if flavor == Flavor::V2 {
        simplify(&mut schema);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(name).filter(|below| below.is_object()) {
            *below = structural(flavor, below.take());
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|below| *below = structural(flavor, below.take()));
    }
    Value::Object(schema)
}

/// What Go leaves out when it writes a schema. A default may be anything but null, and `{}` is a schema.
fn is_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        _ if name == "default" => false,
        Value::Bool(value) => !value,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => name == "properties" && entries.is_empty(),
        Value::Number(_) => false,
    }
}

/// Says of an integer or string that it is one or the other, where the schema does not say so itself.
fn unfold(schema: &mut Map<String, Value>) {
    if schema.get("x-kubernetes-int-or-string") != Some(&Value::Bool(true)) {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let all_of = schema.get("allOf").and_then(Value::as_array);
    let said = schema.get("anyOf") == Some(&either) || all_of.is_some_and(|all| all[0]["anyOf"] == either);
    if said {
        return;
    }
    if schema.contains_key("anyOf") {
        let mut all: Vec<Value> = vec![json!({"anyOf": either})];
        all.extend(all_of.into_iter().flatten().cloned());
        schema.insert("allOf".to_owned(), all.into());
    } else {
        schema.insert("anyOf".to_owned(), either);
    }
}

/// Drops what version 2 cannot say, and what its clients trip over.
fn simplify(schema: &mut Map<String, Value>) {
    for dropped in ["allOf", "oneOf", "anyOf", "not", "default"] {
        schema.remove(dropped);
    }
    let null_values = schema.get("additionalProperties").is_some_and(is_nullable);
    require_no_null(schema, null_values);
    let is_loose = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let may_be_null = schema.remove("nullable").is_some();
    if may_be_null || is_loose {
        schema.remove("items");
        schema.remove("properties");
    }
    let is = |schema: &Map<String, Value>, kind: &str| schema.get("type").is_some_and(|found| found == kind);
    if may_be_null || (is(schema, "array") && !schema.contains_key("items")) || (is_loose && is(schema, "object")) {
        schema.remove("type");
    }
}

fn is_nullable(schema: &Value) -> bool {
    schema["nullable"] == true
}

/// What may be null cannot be required where null cannot be said.
fn require_no_null(schema: &mut Map<String, Value>, null_values: bool) {
    let Some(Value::Array(mut required)) = schema.remove("required") else { return };
    let properties = schema.get("properties");
    let may_be_null = |name: &Value| properties.zip(name.as_str()).is_some_and(|(all, name)| is_nullable(&all[name]));
    required.retain(|name| !may_be_null(name));
    if !required.is_empty() && !null_values {
        schema.insert("required".to_owned(), required.into());
    }
}

/// Gives embedded objects the fields that every object has.
fn embed(flavor: Flavor, schema: &mut Value) {
    for name in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(name) {
            embed(flavor, below);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|below| embed(flavor, below));
    }
    let is = |schema: &Value, extension: &str| schema.get(extension) == Some(&Value::Bool(true));
    let is_loose = is(schema, "x-kubernetes-preserve-unknown-fields");
    if !is(schema, "x-kubernetes-embedded-resource") || (flavor == Flavor::V2 && is_loose) {
        return;
    }
    let described = |description: &str| json!({"type": "string", "description": description});
    let properties = child_map(schema, "properties");
    let (api_version, kind) =
        ("apiVersion defines the version of the embedded object.", "kind is that of the embedded object.");
    properties.insert("apiVersion".to_owned(), described(api_version));
    properties.insert("kind".to_owned(), described(kind));
    properties.insert("metadata".to_owned(), object_meta(flavor));
    let mut required = schema["required"].as_array().cloned().unwrap_or_default();
    for name in ["kind", "apiVersion"] {
        if !required.iter().any(|found| found == name) {
            required.push(name.into());
        }
    }
    schema["required"] = required.into();
}

fn child_map<'a>(schema: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !schema[name].is_object() {
        schema[name] = json!({});
    }
    schema[name].as_object_mut().expect("it is an object by now")
}
