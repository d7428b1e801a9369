//! The structural schema: the compiled form that pruning, defaulting and validation use.
//!
//! [`Structural::compile`] builds it from [`Props`] and leaves out descriptions, titles and the like. It is immutable, equal
//! strings of one schema share one allocation, and patterns compile on first use.

mod compile;

use std::sync::Arc;

use serde_json::Value;

use crate::{
    format::Format,
    pattern::Pattern,
    props::{Props, Rule},
};

/// The schema cannot be compiled. The validation of the CRD refuses each of these fields as well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StructuralError {
    /// The schema has a field that structural schemas do not support.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `items` is a list of schemas.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// `x-kubernetes-preserve-unknown-fields` is `false`.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
}

/// The value of `type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Not a type of OpenAPI v3; no value matches it. The validation of CRDs refuses it.
    Other(Box<str>),
}

impl Type {
    fn parse(name: &str) -> Option<Type> {
        Some(match name {
            "" => return None,
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            other => Type::Other(other.into()),
        })
    }

    /// The name as it is in the schema.
    pub fn name(&self) -> &str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::Other(name) => name,
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// Items are unique values.
    Set,
    /// Items are unique by their list map keys.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The map is replaced as a whole.
    Atomic,
    /// Each field has its own managers.
    Granular,
}

/// `additionalProperties`.
#[derive(Clone, Debug)]
pub enum Additional {
    /// It is absent.
    Unspecified,
    /// A boolean instead of a schema.
    Bool(bool),
    /// The schema of all values under undeclared keys.
    Schema(Box<Structural>),
}

/// One node of a structural schema, with all nodes below it.
#[derive(Clone, Debug)]
pub struct Structural {
    pub kind: Option<Type>,
    pub nullable: bool,
    pub preserve_unknown_fields: bool,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<ListType>,
    pub map_type: Option<MapType>,
    pub items: Option<Box<Structural>>,
    /// Sorted by name.
    properties: Box<[(Arc<str>, Structural)]>,
    pub additional: Additional,
    pub default: Option<Box<Value>>,
    pub extensions: Option<Box<Extensions>>,
    pub validation: Option<Box<Validation>>,
}

/// Extensions that only few nodes have.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    pub list_map_keys: Box<[Arc<str>]>,
    pub rules: Box<[Rule]>,
}

/// The restrictions on the value of a node.
#[derive(Clone, Debug, Default)]
pub struct Validation {
    pub format: Option<Arc<str>>,
    /// The parsed format, if it is one that validation checks.
    pub known_format: Option<Format>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub unique_items: bool,
    pub pattern: Option<Pattern>,
    pub enumeration: Box<[Value]>,
    pub required: Box<[Arc<str>]>,
    pub all_of: Box<[Structural]>,
    pub any_of: Box<[Structural]>,
    pub one_of: Box<[Structural]>,
    pub not: Option<Box<Structural>>,
}

impl Structural {
    /// A schema without any restriction.
    pub fn empty() -> Structural {
        Structural {
            kind: None,
            nullable: false,
            preserve_unknown_fields: false,
            embedded_resource: false,
            int_or_string: false,
            list_type: None,
            map_type: None,
            items: None,
            properties: Box::default(),
            additional: Additional::Unspecified,
            default: None,
            extensions: None,
            validation: None,
        }
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// When it has fields that a structural schema cannot have.
    pub fn compile(props: &Props) -> Result<Arc<Structural>, StructuralError> {
        compile::Compiler::default().node(props).map(Arc::new)
    }

    /// The schema of the property `name`, if it is declared.
    pub fn property(&self, name: &str) -> Option<&Structural> {
        // The compiler keeps the properties sorted.
        let at = self.properties.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// All declared properties, sorted by name.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Structural)> {
        self.properties.iter().map(|(name, schema)| (&**name, schema))
    }

    /// The schema of values under undeclared keys, if there is one.
    pub fn additional_schema(&self) -> Option<&Structural> {
        match &self.additional {
            Additional::Schema(schema) => Some(schema),
            _ => None,
        }
    }

    /// Whether `additionalProperties` is present, as a boolean or a schema.
    pub fn has_additional(&self) -> bool {
        !matches!(self.additional, Additional::Unspecified)
    }

    /// The schema that applies to the value under `key`: of the property, or else of `additionalProperties`.
    pub fn field(&self, key: &str) -> Option<&Structural> {
        self.property(key).or_else(|| self.additional_schema())
    }

    /// `x-kubernetes-list-map-keys`.
    pub fn list_map_keys(&self) -> &[Arc<str>] {
        self.extensions.as_ref().map_or(&[], |extensions| &extensions.list_map_keys)
    }

    /// `x-kubernetes-validations` of this node.
    pub fn rules(&self) -> &[Rule] {
        self.extensions.as_ref().map_or(&[], |extensions| &extensions.rules)
    }

    /// Whether this or any node below has CEL rules. Without any, no evaluator is needed.
    pub fn has_rules(&self) -> bool {
        !self.rules().is_empty()
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.additional_schema().is_some_and(Structural::has_rules)
            || self.properties.iter().any(|(_, schema)| schema.has_rules())
    }

    /// An estimate of the schema's memory in bytes, without compiled patterns.
    pub fn size_bytes(&self) -> usize {
        std::mem::size_of::<Structural>() + self.heap_bytes()
    }

    fn heap_bytes(&self) -> usize {
        let boxed = |one: Option<&Structural>| one.map_or(0, Structural::size_bytes);
        // A shared name counts at each use, so this is an upper estimate.
        let entry = std::mem::size_of::<Arc<str>>();
        boxed(self.items.as_deref())
            + boxed(self.additional_schema())
            + self.properties.iter().map(|(name, schema)| entry + name.len() + schema.size_bytes()).sum::<usize>()
            + self.default.as_ref().map_or(0, |value| value_bytes(value))
            + self.extensions.as_ref().map_or(0, |extensions| extensions.size_bytes())
            + self.validation.as_ref().map_or(0, |validation| validation.size_bytes())
    }
}

impl Extensions {
    fn size_bytes(&self) -> usize {
        let texts =
            |rule: &Rule| rule.rule.len() + rule.message.len() + rule.message_expression.len() + rule.field_path.len();
        std::mem::size_of::<Extensions>()
            + self.list_map_keys.len() * 16
            + self.rules.iter().map(|rule| std::mem::size_of::<Rule>() + texts(rule)).sum::<usize>()
    }
}

impl Validation {
    fn size_bytes(&self) -> usize {
        let junctors = [&self.all_of, &self.any_of, &self.one_of];
        std::mem::size_of::<Validation>()
            + self.enumeration.iter().map(value_bytes).sum::<usize>()
            + self.required.len() * 16
            + junctors.iter().flat_map(|list| list.iter()).map(Structural::size_bytes).sum::<usize>()
            + self.not.as_ref().map_or(0, |not| not.size_bytes())
            + self.pattern.as_ref().map_or(0, |pattern| pattern.source().len() + 64)
    }
}

fn value_bytes(value: &Value) -> usize {
    std::mem::size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            Value::Object(entries) => entries.iter().map(|(key, entry)| 24 + key.len() + value_bytes(entry)).sum(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_compiled_schema_is_not_much_larger_than_its_json() {
        let properties: serde_json::Map<String, Value> = (0..100)
            .map(|at| {
                let name = format!("property{at}");
                (name, json!({"type": "string", "description": "what this property is for", "maxLength": 63}))
            })
            .collect();
        let schema = json!({"type": "object", "properties": properties});
        let compiled = Structural::compile(&Props::parse(&schema).unwrap()).unwrap();
        let (size, text) = (compiled.size_bytes(), schema.to_string().len());
        assert!(size < 5 * text, "{size} bytes for {text} bytes of JSON");
        assert_eq!(compiled.property("property7").unwrap().kind, Some(Type::String));
    }

    #[test]
    fn what_no_structural_schema_can_have_is_refused() {
        let compile = |schema: Value| Structural::compile(&Props::parse(&schema).unwrap()).unwrap_err().to_string();
        assert_eq!(compile(json!({"$ref": "x"})), "OpenAPIV3Schema '$ref' is not supported");
        assert_eq!(compile(json!({"items": [{}]})), "OpenAPIV3Schema 'items' must be a schema, but is an array");
    }
}
