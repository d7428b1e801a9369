//! Reads the settable properties of the App from its CRD on the server.

use serde_json::{Map, Value};

/// A field of the spec that cannot be set later: it is chosen when the App is created.
const NOT_A_PROPERTY: &str = "namespace";
/// The maximum depth of a schema; it comes from a server, and is traversed recursively.
const DEPTH_MAX: usize = 16;

/// Why the CRD cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The CRD has no storage version.
    #[error("app CRD has no storage version")]
    NoStorageVersion,
    /// The storage version has no schema.
    #[error("app CRD version {0} has no OpenAPI schema")]
    NoSchema(String),
    /// The schema has no spec.
    #[error("app CRD version {0} has no spec field in schema")]
    NoSpec(String),
}

/// The type of a field, as a user writes its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// An integer.
    Integer,
    /// Any string.
    Text,
    /// One of these strings.
    Choice(Vec<String>),
    /// A number with a unit, as a string.
    Quantity,
    /// An object with fields.
    Object,
    /// A type that cannot be set on a command line.
    Other(String),
}

/// A field of the spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// The names from the root to the field, separated by dots.
    pub path: String,
    /// The field's type.
    pub kind: Kind,
    /// The description in the CRD.
    pub description: String,
    /// Whether the field is required in its object.
    pub required: bool,
    /// Whether the server has a default for the field.
    pub has_default: bool,
    /// The fields below it, sorted by name.
    pub fields: Vec<Field>,
}

impl Field {
    /// The fields without children below this one: the settable properties.
    pub fn leaves(&self) -> Vec<&Field> {
        if self.fields.is_empty() {
            return vec![self];
        }
        self.fields.iter().flat_map(Field::leaves).collect()
    }

    /// The child of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Reads the spec of the CRD's storage version. The root's fields are the settable properties.
pub fn read(definition: &Value) -> Result<Field, Error> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let version = stored.ok_or(Error::NoStorageVersion)?;
    let name = || version["name"].as_str().unwrap_or_default().to_owned();
    let schema = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object());
    let spec = schema.ok_or_else(|| Error::NoSchema(name()))?.pointer("/properties/spec");
    let spec = spec.filter(|spec| spec.is_object()).ok_or_else(|| Error::NoSpec(name()))?;
    let mut root = field("", "", spec, true, 0);
    root.fields.retain(|field| field.name != NOT_A_PROPERTY);
    Ok(root)
}

fn field(name: &str, path: &str, schema: &Value, required: bool, depth: usize) -> Field {
    let nothing = Map::new();
    // Deeper levels are ignored, which makes the field a leaf.
    let properties = schema["properties"].as_object().filter(|_| depth < DEPTH_MAX).unwrap_or(&nothing);
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|list| list.iter().any(|item| item == name));
    let mut fields: Vec<Field> = properties
        .iter()
        .map(|(name, schema)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            field(name, &path, schema, is_required(name), depth + 1)
        })
        .collect();
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    Field {
        name: name.to_owned(),
        path: path.to_owned(),
        kind: kind(schema),
        description: schema["description"].as_str().unwrap_or_default().to_owned(),
        required,
        has_default: schema.get("default").is_some(),
        fields,
    }
}

fn kind(schema: &Value) -> Kind {
    // Checked first: such a schema has no single type.
    if schema["x-kubernetes-int-or-string"] == true {
        return Kind::Quantity;
    }
    let choices: Vec<String> =
        schema["enum"].as_array().into_iter().flatten().filter_map(|item| Some(item.as_str()?.to_owned())).collect();
    match schema["type"].as_str().unwrap_or_default() {
        "boolean" => Kind::Boolean,
        "integer" => Kind::Integer,
        "string" if !choices.is_empty() => Kind::Choice(choices),
        "string" => Kind::Text,
        "object" => Kind::Object,
        other => Kind::Other(other.to_owned()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A CRD like the product's.
    pub(crate) fn definition() -> Value {
        let spec = json!({
            "type": "object",
            "required": ["running"],
            "properties": {
                "running": {"type": "boolean", "description": "running says whether the machine should run. Off means off."},
                "namespace": {"type": "string", "default": "default", "description": "namespace of everything"},
                "containerEngine": {"type": "object", "default": {"name": "moby"}, "required": ["name"], "properties": {
                    "name": {"type": "string", "enum": ["moby", "containerd"], "default": "moby",
                             "description": "name of the engine, e.g. moby. Either\nof them will do."}}},
                "kubernetes": {"type": "object", "required": ["enabled"], "properties": {
                    "enabled": {"type": "boolean"},
                    "version": {"type": "string", "description": "version or channel"}}},
                "virtualMachine": {"type": "object", "properties": {
                    "cpus": {"type": "integer"},
                    "memory": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "list": {"type": "array", "items": {"type": "string"}},
            },
        });
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        json!({"spec": {"versions": [
            {"name": "v1alpha0", "storage": false},
            {"name": "v1alpha1", "storage": true, "schema": schema},
        ]}})
    }

    #[test]
    fn the_fields_are_those_of_the_stored_version_without_the_namespace() {
        let root = read(&definition()).unwrap();
        let leaves: Vec<&str> = root.leaves().into_iter().map(|field| field.path.as_str()).collect();
        let expected = [
            "containerEngine.name",
            "free",
            "kubernetes.enabled",
            "kubernetes.version",
            "list",
            "running",
            "virtualMachine.cpus",
            "virtualMachine.memory",
        ];
        assert_eq!(leaves, expected);
        let engine = root.field("containerEngine").unwrap().field("name").unwrap();
        assert_eq!(engine.kind, Kind::Choice(vec!["moby".to_owned(), "containerd".to_owned()]));
        assert!(engine.required && engine.has_default);
        assert!(root.field("running").unwrap().required);
    }

    #[test]
    fn what_is_wrong_with_a_definition_is_said() {
        for (definition, message) in [
            (json!({}), "app CRD has no storage version"),
            (json!({"spec": {"versions": [{"name": "v1", "storage": false}]}}), "app CRD has no storage version"),
            (
                json!({"spec": {"versions": [{"name": "v1", "storage": true}]}}),
                "app CRD version v1 has no OpenAPI schema",
            ),
            (
                json!({"spec": {"versions": [{"name": "v1", "storage": true, "schema": {"openAPIV3Schema": {}}}]}}),
                "app CRD version v1 has no spec field in schema",
            ),
        ] {
            assert_eq!(read(&definition).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_schema_without_a_ground_is_read_to_a_bound() {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"type": "object", "properties": {"x": schema}});
        }
        let schema = json!({"openAPIV3Schema": {"properties": {"spec": schema}}});
        let root = read(&json!({"spec": {"versions": [{"name": "v1", "storage": true, "schema": schema}]}})).unwrap();
        assert_eq!(root.leaves()[0].path.split('.').count(), DEPTH_MAX);
    }
}
