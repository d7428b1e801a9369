//! Converts OpenAPI schemas to shapes, like upstream's `schemaconv.ToSchemaFromOpenAPI`.

use super::{Atom, Field, List, ListKind, Map, PatchRule, PatchStrategy, Scalar, Shape};
use serde_json::{Map as JsonMap, Value};
use std::{collections::BTreeMap, sync::Arc};

/// Two definitions whose shapes upstream hard-codes, whatever their schemas are.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A set of named schemas that may refer to each other by `$ref`; the last segment of the pointer is the name.
#[derive(Debug, Clone)]
pub struct Definitions {
    schemas: Arc<BTreeMap<String, Value>>,
    preserve_unknown: bool,
}

impl Definitions {
    /// Creates the definitions. `preserve_unknown` is the `preserveUnknownFields` of a CRD: with it, no schema forbids
    /// undeclared fields.
    pub fn new(schemas: BTreeMap<String, Value>, preserve_unknown: bool) -> Self {
        Self { schemas: Arc::new(schemas), preserve_unknown }
    }

    /// The shape of a named schema; `None` if there is none. The schema is converted on first use.
    pub fn shape(&self, name: &str) -> Option<Shape> {
        let (name, _) = self.schemas.get_key_value(name)?;
        let (definitions, name): (Self, Arc<str>) = (self.clone(), name.as_str().into());
        Some(Shape::lazy(move || definitions.definition(&name)))
    }

    /// The shape of an inline schema, which may refer to the definitions.
    pub fn inline(&self, schema: &Value) -> Shape {
        Converter { definitions: self.clone(), preserve_unknown: self.preserve_unknown }.shape(schema)
    }

    fn definition(&self, name: &str) -> Atom {
        let mut atom = match name {
            QUANTITY => Atom { scalar: Some(Scalar::Untyped), ..Atom::default() },
            RAW_EXTENSION => Shape::untyped().atom().clone(),
            _ => {
                let converter = Converter { definitions: self.clone(), preserve_unknown: self.preserve_unknown };
                self.schemas.get(name).map(|schema| converter.atom(schema)).unwrap_or_default()
            }
        };
        atom.name = Some(name.into());
        atom
    }
}

/// Converts one schema and the schemas nested in it.
#[derive(Clone)]
struct Converter {
    definitions: Definitions,
    preserve_unknown: bool,
}

impl Converter {
    fn shape(&self, schema: &Value) -> Shape {
        if let Some(name) = reference(schema) {
            return self.referred(&name, schema);
        }
        let (converter, schema) = (self.clone(), schema.clone());
        Shape::lazy(move || converter.atom(&schema))
    }

    /// The shape of a reference, whose map type the referring schema may override.
    fn referred(&self, name: &str, schema: &Value) -> Shape {
        let Some(target) = self.definitions.shape(name) else {
            return Shape::new(Atom { name: Some(name.into()), ..Atom::default() });
        };
        let Some(atomic) = map_type(schema) else { return target };
        Shape::lazy(move || {
            let mut atom = target.atom().clone();
            if let Some(map) = &mut atom.map {
                map.atomic = atomic;
            } else if let Some(list) = &mut atom.list
                && atomic
            {
                list.kind = ListKind::Atomic;
            }
            atom
        })
    }

    fn atom(&self, schema: &Value) -> Atom {
        let mut inside = self.clone();
        inside.preserve_unknown |= schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let scalar = |scalar| Atom { scalar: Some(scalar), ..Atom::default() };
        match type_of(schema) {
            "" => Atom {
                name: None,
                scalar: Some(Scalar::Untyped),
                list: Some(inside.list(schema)),
                map: Some(inside.map(schema)),
            },
            "object" => Atom { map: Some(inside.map(schema)), ..Atom::default() },
            "array" => Atom { list: Some(inside.list(schema)), ..Atom::default() },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" => match schema.get("format").and_then(Value::as_str) {
                None | Some("" | "byte") => scalar(Scalar::String),
                Some(_) => scalar(Scalar::Untyped),
            },
            _ => scalar(Scalar::Untyped),
        }
    }

    fn map(&self, schema: &Value) -> Map {
        let empty = JsonMap::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let fields = properties.iter().map(|(name, property)| (name.as_str().into(), self.field(property))).collect();
        let element = match schema.get("additionalProperties") {
            // An object without properties is open even without `additionalProperties`, as upstream has it.
            None | Some(Value::Null) if self.preserve_unknown || properties.is_empty() => Some(Shape::deduced()),
            None | Some(Value::Null | Value::Bool(false)) => None,
            Some(Value::Bool(true)) => Some(Shape::deduced()),
            Some(additional) => Some(self.shape(additional)),
        };
        Map { fields, element, atomic: map_type(schema) == Some(true) }
    }

    fn field(&self, property: &Value) -> Field {
        let default = property.get("default").filter(|default| !default.is_null()).cloned();
        Field { shape: self.shape(property), default, patch: patch_rule(property) }
    }

    fn list(&self, schema: &Value) -> List {
        let element = match schema.get("items") {
            Some(items) if items.is_object() => self.shape(items),
            _ => Shape::untyped(),
        };
        List { element, kind: list_kind(schema) }
    }
}

/// The name of the definition that a schema refers to, by `$ref` or by the only member of its `allOf`.
fn reference(schema: &Value) -> Option<String> {
    let direct = schema.get("$ref").and_then(Value::as_str).filter(|pointer| !pointer.is_empty());
    let pointer = direct.or_else(|| match schema.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref")?.as_str(),
        _ => None,
    })?;
    let name = pointer.rsplit('/').next().unwrap_or(pointer);
    (!name.is_empty()).then(|| name.to_owned())
}

fn type_of(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(name)) => name,
        Some(Value::Array(names)) => names.first().and_then(Value::as_str).unwrap_or(""),
        _ => "",
    }
}

fn map_type(schema: &Value) -> Option<bool> {
    match schema.get("x-kubernetes-map-type")?.as_str()? {
        "atomic" => Some(true),
        "granular" => Some(false),
        _ => None,
    }
}

fn list_kind(schema: &Value) -> ListKind {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str).map(Arc::from).collect();
            keyed(keys)
        }
        Some(_) => ListKind::Atomic,
        None => match patch_rule(schema) {
            PatchRule { strategy: PatchStrategy::Merge, merge_key, .. } => keyed(merge_key.into_iter().collect()),
            _ => ListKind::Atomic,
        },
    }
}

fn keyed(keys: Vec<Arc<str>>) -> ListKind {
    if keys.is_empty() { ListKind::Set } else { ListKind::Map { keys } }
}

fn patch_rule(schema: &Value) -> PatchRule {
    let mut rule = PatchRule {
        merge_key: schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str).map(Arc::from),
        ..PatchRule::default()
    };
    for strategy in schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str).unwrap_or("").split(',') {
        match strategy {
            "merge" => rule.strategy = PatchStrategy::Merge,
            "replace" => rule.strategy = PatchStrategy::Replace,
            "retainKeys" => rule.retain_keys = true,
            _ => {}
        }
    }
    rule
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definitions(schemas: Value) -> Definitions {
        let Value::Object(schemas) = schemas else { unreachable!() };
        Definitions::new(schemas.into_iter().collect(), false)
    }

    #[test]
    fn a_type_may_contain_itself() {
        let definitions = definitions(json!({"Tree": {"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"]},
            "name": {"type": "string", "default": "x"}}}}));
        let mut shape = definitions.shape("Tree").unwrap();
        for _ in 0..100 {
            let list = shape.atom().map.as_ref().unwrap().fields["children"].shape.clone();
            let list = list.atom().list.clone().unwrap();
            assert_eq!(list.kind, ListKind::Map { keys: vec!["name".into()] });
            shape = list.element;
        }
        assert_eq!(shape.atom().map.as_ref().unwrap().fields["name"].default, Some(json!("x")));
    }

    #[test]
    fn unknown_fields_are_open_only_where_the_schema_says_so() {
        let definitions = definitions(json!({}));
        let closed = definitions.inline(&json!({"type": "object", "properties": {"a": {"type": "string"}}}));
        assert!(closed.atom().map.as_ref().unwrap().element.is_none());
        let open = definitions.inline(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}));
        let inner = open.atom().map.as_ref().unwrap().fields["a"].shape.clone();
        assert!(inner.atom().map.as_ref().unwrap().element.is_some());
    }

    #[test]
    fn a_reference_can_make_its_target_atomic() {
        let definitions = definitions(json!({"Selector": {"type": "object", "properties": {"a": {"type": "string"}}}}));
        let reference = json!({"allOf": [{"$ref": "#/x/Selector"}], "x-kubernetes-map-type": "atomic"});
        assert!(definitions.inline(&reference).atom().map.as_ref().unwrap().atomic);
        assert!(!definitions.shape("Selector").unwrap().atom().map.as_ref().unwrap().atomic);
    }
}
