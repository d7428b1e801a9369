//! Schemas that are kept as JSON (`JSONSchemaProps`), for [`Shape`](crate::Shape) to read.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::rules::Rule;
use crate::shape::SchemaNode;

/// An OpenAPI schema that was read from JSON (`JSONSchemaProps`).
#[derive(Debug)]
pub struct JsonSchema {
    /// The fields of this node that CEL uses, without nodes below
    own: BTreeMap<&'static str, Json>,
    properties: Vec<(String, JsonSchema)>,
    items: Option<Box<JsonSchema>>,
    additional: Option<Box<JsonSchema>>,
    all_of: Vec<JsonSchema>,
}

/// The fields that CEL uses.
const OWN: [&str; 9] = [
    "type",
    "format",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
];

impl JsonSchema {
    /// Reads a schema. Fields that CEL does not use, and values of the wrong type, are ignored.
    #[must_use]
    pub fn new(json: &Json) -> Self {
        let schema =
            |key: &str| json.get(key).filter(|value| value.is_object()).map(|value| Box::new(Self::new(value)));
        let properties = json.get("properties").and_then(Json::as_object);
        let all_of = json.get("allOf").and_then(Json::as_array);
        Self {
            properties: properties
                .map(|properties| properties.iter().map(|(name, value)| (name.clone(), Self::new(value))).collect())
                .unwrap_or_default(),
            items: schema("items"),
            additional: schema("additionalProperties"),
            all_of: all_of.map(|members| members.iter().map(Self::new).collect()).unwrap_or_default(),
            own: OWN.iter().filter_map(|key| Some((*key, json.get(*key)?.clone()))).collect(),
        }
    }

    fn text(&self, key: &str) -> &str {
        self.own.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    fn flag(&self, key: &str) -> bool {
        self.own.get(key).and_then(Json::as_bool).unwrap_or_default()
    }
}

impl SchemaNode for JsonSchema {
    fn kind(&self) -> &str {
        self.text("type")
    }
    fn format(&self) -> &str {
        self.text("format")
    }
    fn nullable(&self) -> bool {
        self.flag("nullable")
    }
    fn int_or_string(&self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }
    fn preserves_unknown_fields(&self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }
    fn embedded_resource(&self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }
    fn list_type(&self) -> &str {
        self.text("x-kubernetes-list-type")
    }
    fn list_map_keys(&self) -> Vec<String> {
        let keys = self.own.get("x-kubernetes-list-map-keys").and_then(Json::as_array);
        keys.into_iter().flatten().filter_map(|key| key.as_str().map(str::to_owned)).collect()
    }
    fn properties(&self) -> Vec<(&str, &dyn SchemaNode)> {
        self.properties.iter().map(|(name, schema)| (name.as_str(), schema as &dyn SchemaNode)).collect()
    }
    fn items(&self) -> Option<&dyn SchemaNode> {
        self.items.as_deref().map(|schema| schema as &dyn SchemaNode)
    }
    fn additional_properties(&self) -> Option<&dyn SchemaNode> {
        self.additional.as_deref().map(|schema| schema as &dyn SchemaNode)
    }
    fn all_of(&self) -> Vec<&dyn SchemaNode> {
        self.all_of.iter().map(|schema| schema as &dyn SchemaNode).collect()
    }
    fn rules(&self) -> Vec<Rule> {
        let rules = self.own.get("x-kubernetes-validations").and_then(Json::as_array);
        rules.into_iter().flatten().map(Rule::from_json).collect()
    }
}
