//! The published schemas of custom resources, after upstream's builder in `apiextensions-apiserver`.

use rdd_meta::GroupVersionKind;
use serde_json::{Map, Value, json};

use super::render::Flavor;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The inputs of a published schema besides the schema itself.
#[derive(Debug)]
pub(super) struct Published<'a> {
    pub(super) flavor: Flavor,
    pub(super) kind: &'a GroupVersionKind,
    /// The selectable fields, such as `spec.color`.
    pub(super) selectable: &'a [String],
    /// The schemas of `apiVersion` and `kind`.
    pub(super) type_meta: &'a TypeMeta,
}

/// The schemas of the two fields that all objects have.
#[derive(Debug)]
pub(super) struct TypeMeta {
    pub(super) api_version: Value,
    pub(super) kind: Value,
}

impl TypeMeta {
    /// Takes the schemas from a definition that has both fields.
    pub(super) fn of(definition: Option<&Value>) -> Self {
        let field = |name: &str| {
            let found = definition.and_then(|definition| definition["properties"].get(name));
            found.cloned().unwrap_or_else(|| json!({"type": "string"}))
        };
        Self { api_version: field("apiVersion"), kind: field("kind") }
    }
}

/// The name of a custom resource's definition: the reversed group, the version and the kind.
pub(super) fn definition_name(kind: &GroupVersionKind) -> String {
    let group: Vec<&str> = kind.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), kind.version, kind.kind)
}

/// Builds the definition of a custom resource from the schema of its version. The recursion is bounded, because schemas are checked
/// for depth when they are stored.
pub(super) fn definition(published: &Published<'_>, schema: Option<Value>) -> Value {
    let loose = |schema: &Value| schema["x-kubernetes-preserve-unknown-fields"] == true;
    let mut made = match schema {
        // Clients of version 2 reject unknown fields of a schema with properties, so this one is published without.
        Some(schema) if published.flavor == Flavor::V2 && loose(&schema) => json!({"type": "object"}),
        Some(schema) => native(published, structural(published.flavor, schema)),
        None => json!({"type": "object"}),
    };
    extend(published, &published.kind.kind, &mut made);
    made
}

/// Builds the definition of a list of custom resources.
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

/// Replaces the schema's `apiVersion`, `kind` and `metadata` with the standard ones.
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

/// A reference with a description. Version 3 allows nothing besides `$ref`, so the reference is wrapped in `allOf` there.
fn described_reference(flavor: Flavor, definition: &str, description: &str) -> Value {
    let reference = flavor.reference(definition);
    match flavor {
        Flavor::V2 => json!({"description": description, "$ref": reference["$ref"]}),
        Flavor::V3 => json!({"description": description, "allOf": [reference]}),
    }
}

/// Reduces a schema to the fields of a structural schema and expands its shorthands.
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

/// Whether Go omits a field when it encodes a schema. A default may be any value but null, and `{}` is a schema.
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

/// Adds the alternatives of an int-or-string field, unless the schema lists them itself.
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

/// Removes what version 2 cannot express and what its clients do not handle.
fn simplify(schema: &mut Map<String, Value>) {
    for dropped in ["allOf", "oneOf", "anyOf", "not", "default"] {
        schema.remove(dropped);
    }
    // Read before the children are simplified, which removes their `nullable`.
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

/// Removes nullable fields from `required`: version 2 cannot express null, so a client would reject an object with one.
fn require_no_null(schema: &mut Map<String, Value>, null_values: bool) {
    let Some(Value::Array(mut required)) = schema.remove("required") else { return };
    let properties = schema.get("properties");
    let may_be_null = |name: &Value| properties.zip(name.as_str()).is_some_and(|(all, name)| is_nullable(&all[name]));
    required.retain(|name| !may_be_null(name));
    if !required.is_empty() && !null_values {
        schema.insert("required".to_owned(), required.into());
    }
}

/// Adds the standard fields to the schemas of embedded resources.
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
