//! `openAPIV3Schema` with all its fields, as the validation of a CRD needs it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// How deep a schema may nest. Each level is two levels of JSON, whose readers stop at 127.
const DEPTH_MAX: usize = 64;

/// The JSON is not a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropsError {
    /// A field has a value of the wrong type.
    #[error("read schema at {path:?}: {wanted} expected")]
    Type { path: String, wanted: &'static str },
    /// The schema nests deeper than the limit.
    #[error("read schema at {path:?}: nested deeper than {DEPTH_MAX} levels")]
    TooDeep { path: String },
}

/// One rule of `x-kubernetes-validations`. This crate checks its form; the `rdd-cel` crate evaluates it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

/// `items`: one schema, or several, which validation refuses.
#[derive(Clone, Debug, PartialEq)]
pub enum Items {
    /// Neither an object nor an array was given.
    None,
    One(Box<Props>),
    Many(Vec<Props>),
}

/// `additionalProperties` or `additionalItems`: a boolean or a schema.
#[derive(Clone, Debug, PartialEq)]
pub enum PropsOrBool {
    Bool(bool),
    Schema(Box<Props>),
}

/// One entry of `dependencies`: a schema or a list of names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    pub schema: Option<Props>,
    pub names: Vec<String>,
}

/// A JSONSchemaProps. Absent, null and empty are not distinguished where upstream does not distinguish them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Props {
    pub id: String,
    pub schema: String,
    pub reference: Option<String>,
    pub description: String,
    pub kind: String,
    pub format: String,
    pub title: String,
    pub default: Option<Value>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: String,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub multiple_of: Option<f64>,
    pub enumeration: Vec<Value>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub items: Option<Items>,
    pub all_of: Vec<Props>,
    pub one_of: Vec<Props>,
    pub any_of: Vec<Props>,
    pub not: Option<Box<Props>>,
    pub properties: BTreeMap<String, Props>,
    /// Whether `properties` is present: messages that show a schema distinguish empty from absent.
    pub(crate) properties_present: bool,
    pub additional_properties: Option<PropsOrBool>,
    pub pattern_properties: BTreeMap<String, Props>,
    pub dependencies: Option<BTreeMap<String, Dependency>>,
    pub additional_items: Option<PropsOrBool>,
    pub definitions: BTreeMap<String, Props>,
    pub external_docs: Option<Value>,
    pub example: Option<Value>,
    pub nullable: bool,
    pub preserve_unknown_fields: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_map_keys: Vec<String>,
    pub list_type: Option<String>,
    pub map_type: Option<String>,
    pub validations: Vec<Rule>,
}

impl Props {
    /// Parses a schema.
    ///
    /// # Errors
    /// When a field has a value of the wrong type, or the schema nests too deep.
    pub fn parse(value: &Value) -> Result<Props, PropsError> {
        Reader { path: Vec::new() }.props(value)
    }

    /// Calls `visit` for this schema and every schema below it until it returns true. Returns whether it did.
    pub fn any(&self, visit: &mut dyn FnMut(&Props) -> bool) -> bool {
        if visit(self) {
            return true;
        }
        let items: &[Props] = match &self.items {
            Some(Items::One(one)) => std::slice::from_ref(one),
            Some(Items::Many(many)) => many,
            _ => &[],
        };
        let optional = [&self.additional_properties, &self.additional_items].into_iter().filter_map(|one| match one {
            Some(PropsOrBool::Schema(schema)) => Some(&**schema),
            _ => None,
        });
        items
            .iter()
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
            .chain(self.properties.values())
            .chain(optional)
            .chain(self.pattern_properties.values())
            .chain(self.definitions.values())
            .chain(self.dependencies.iter().flat_map(BTreeMap::values).filter_map(|one| one.schema.as_ref()))
            .any(|schema| schema.any(visit))
    }

    /// The schema of `items`, if it is a single one.
    pub fn items_schema(&self) -> Option<&Props> {
        match &self.items {
            Some(Items::One(one)) => Some(one),
            _ => None,
        }
    }

    /// The schema of `additionalProperties`, if it is one.
    pub fn additional_schema(&self) -> Option<&Props> {
        match &self.additional_properties {
            Some(PropsOrBool::Schema(schema)) => Some(schema),
            _ => None,
        }
    }
}

/// Reads a schema and keeps the path for errors.
struct Reader {
    path: Vec<String>,
}

impl Reader {
    fn wrong<T>(&self, key: &str, wanted: &'static str) -> Result<T, PropsError> {
        let mut path = self.path.join(".");
        if !key.is_empty() {
            path = format!("{path}.{key}");
        }
        Err(PropsError::Type { path, wanted })
    }

    /// Runs `read` for a part of the schema, with `step` appended to the path.
    fn below<T>(
        &mut self,
        step: String,
        read: impl FnOnce(&mut Reader) -> Result<T, PropsError>,
    ) -> Result<T, PropsError> {
        if self.path.len() >= DEPTH_MAX {
            // The first steps suffice to find the place; the complete path would be long.
            return Err(PropsError::TooDeep { path: self.path[..4].join(".") });
        }
        self.path.push(step);
        let result = read(self);
        self.path.pop();
        result
    }

    fn props(&mut self, value: &Value) -> Result<Props, PropsError> {
        let map = match value {
            // Go decodes a null schema as an empty one.
            Value::Null => return Ok(Props::default()),
            Value::Object(map) => map,
            _ => return self.wrong("", "object"),
        };
        Ok(Props {
            id: self.string(map, "id")?,
            schema: self.string(map, "$schema")?,
            reference: self.optional_string(map, "$ref")?,
            description: self.string(map, "description")?,
            kind: self.string(map, "type")?,
            format: self.string(map, "format")?,
            title: self.string(map, "title")?,
            default: present(map, "default").cloned(),
            maximum: self.float(map, "maximum")?,
            exclusive_maximum: self.bool(map, "exclusiveMaximum")?,
            minimum: self.float(map, "minimum")?,
            exclusive_minimum: self.bool(map, "exclusiveMinimum")?,
            max_length: self.integer(map, "maxLength")?,
            min_length: self.integer(map, "minLength")?,
            pattern: self.string(map, "pattern")?,
            max_items: self.integer(map, "maxItems")?,
            min_items: self.integer(map, "minItems")?,
            unique_items: self.bool(map, "uniqueItems")?,
            multiple_of: self.float(map, "multipleOf")?,
            enumeration: self.array(map, "enum")?.to_vec(),
            max_properties: self.integer(map, "maxProperties")?,
            min_properties: self.integer(map, "minProperties")?,
            required: self.strings(map, "required")?,
            items: self.items(map)?,
            all_of: self.list(map, "allOf")?,
            one_of: self.list(map, "oneOf")?,
            any_of: self.list(map, "anyOf")?,
            not: match present(map, "not") {
                Some(not) => Some(Box::new(self.below("not".into(), |reader| reader.props(not))?)),
                None => None,
            },
            properties: self.map(map, "properties")?.unwrap_or_default(),
            // Read apart from the map, because an empty map and an absent one look the same there.
            properties_present: present(map, "properties").is_some(),
            additional_properties: self.props_or_bool(map, "additionalProperties")?,
            pattern_properties: self.map(map, "patternProperties")?.unwrap_or_default(),
            dependencies: self.dependencies(map)?,
            additional_items: self.props_or_bool(map, "additionalItems")?,
            definitions: self.map(map, "definitions")?.unwrap_or_default(),
            external_docs: present(map, "externalDocs").cloned(),
            example: present(map, "example").cloned(),
            nullable: self.bool(map, "nullable")?,
            preserve_unknown_fields: match present(map, "x-kubernetes-preserve-unknown-fields") {
                Some(_) => Some(self.bool(map, "x-kubernetes-preserve-unknown-fields")?),
                None => None,
            },
            embedded_resource: self.bool(map, "x-kubernetes-embedded-resource")?,
            int_or_string: self.bool(map, "x-kubernetes-int-or-string")?,
            list_map_keys: self.strings(map, "x-kubernetes-list-map-keys")?,
            list_type: self.optional_string(map, "x-kubernetes-list-type")?,
            map_type: self.optional_string(map, "x-kubernetes-map-type")?,
            validations: self.rules(map)?,
        })
    }

    fn optional_string(&self, map: &Map<String, Value>, key: &str) -> Result<Option<String>, PropsError> {
        match present(map, key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => self.wrong(key, "string"),
        }
    }

    fn string(&self, map: &Map<String, Value>, key: &str) -> Result<String, PropsError> {
        Ok(self.optional_string(map, key)?.unwrap_or_default())
    }

    fn bool(&self, map: &Map<String, Value>, key: &str) -> Result<bool, PropsError> {
        match present(map, key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => self.wrong(key, "boolean"),
        }
    }

    fn float(&self, map: &Map<String, Value>, key: &str) -> Result<Option<f64>, PropsError> {
        match present(map, key) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => self.wrong(key, "number"),
            },
        }
    }

    fn integer(&self, map: &Map<String, Value>, key: &str) -> Result<Option<i64>, PropsError> {
        match present(map, key) {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => self.wrong(key, "integer"),
            },
        }
    }

    fn array<'v>(&self, map: &'v Map<String, Value>, key: &str) -> Result<&'v [Value], PropsError> {
        match present(map, key) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => self.wrong(key, "array"),
        }
    }

    fn strings(&self, map: &Map<String, Value>, key: &str) -> Result<Vec<String>, PropsError> {
        let read = |item: &Value| match item {
            Value::String(text) => Ok(text.clone()),
            // Go decodes a null in a list of strings as an empty string.
            Value::Null => Ok(String::new()),
            _ => self.wrong(key, "string"),
        };
        self.array(map, key)?.iter().map(read).collect()
    }

    fn list(&mut self, map: &Map<String, Value>, key: &str) -> Result<Vec<Props>, PropsError> {
        let items = self.array(map, key)?;
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            out.push(self.below(format!("{key}[{index}]"), |reader| reader.props(item))?);
        }
        Ok(out)
    }

    fn map(&mut self, map: &Map<String, Value>, key: &str) -> Result<Option<BTreeMap<String, Props>>, PropsError> {
        let entries = match present(map, key) {
            None => return Ok(None),
            Some(Value::Object(entries)) => entries,
            Some(_) => return self.wrong(key, "object"),
        };
        let mut out = BTreeMap::new();
        for (name, entry) in entries {
            out.insert(name.clone(), self.below(format!("{key}[{name}]"), |reader| reader.props(entry))?);
        }
        Ok(Some(out))
    }

    fn items(&mut self, map: &Map<String, Value>) -> Result<Option<Items>, PropsError> {
        Ok(match present(map, "items") {
            None => None,
            Some(value @ Value::Object(_)) => {
                Some(Items::One(Box::new(self.below("items".into(), |reader| reader.props(value))?)))
            }
            Some(Value::Array(_)) => Some(Items::Many(self.list(map, "items")?)),
            // Upstream's decoder accepts any other value and reads nothing from it.
            Some(_) => Some(Items::None),
        })
    }

    fn props_or_bool(&mut self, map: &Map<String, Value>, key: &str) -> Result<Option<PropsOrBool>, PropsError> {
        Ok(match present(map, key) {
            None => None,
            Some(Value::Bool(flag)) => Some(PropsOrBool::Bool(*flag)),
            Some(value @ Value::Object(_)) => {
                Some(PropsOrBool::Schema(Box::new(self.below(key.into(), |reader| reader.props(value))?)))
            }
            Some(_) => return self.wrong(key, "boolean or schema"),
        })
    }

    fn dependencies(&mut self, map: &Map<String, Value>) -> Result<Option<BTreeMap<String, Dependency>>, PropsError> {
        let entries = match present(map, "dependencies") {
            None => return Ok(None),
            Some(Value::Object(entries)) => entries,
            Some(_) => return self.wrong("dependencies", "object"),
        };
        let mut out = BTreeMap::new();
        for (name, entry) in entries {
            let mut dependency = Dependency::default();
            match entry {
                Value::Object(_) => {
                    let step = format!("dependencies[{name}]");
                    dependency.schema = Some(self.below(step, |reader| reader.props(entry))?);
                }
                Value::Array(_) => dependency.names = self.strings(entries, name)?,
                _ => {}
            }
            out.insert(name.clone(), dependency);
        }
        Ok(Some(out))
    }

    fn rules(&self, map: &Map<String, Value>) -> Result<Vec<Rule>, PropsError> {
        let read = |item: &Value| {
            let Value::Object(rule) = item else { return self.wrong("x-kubernetes-validations", "object") };
            Ok(Rule {
                rule: self.string(rule, "rule")?,
                message: self.string(rule, "message")?,
                message_expression: self.string(rule, "messageExpression")?,
                reason: self.optional_string(rule, "reason")?,
                field_path: self.string(rule, "fieldPath")?,
                optional_old_self: match present(rule, "optionalOldSelf") {
                    Some(_) => Some(self.bool(rule, "optionalOldSelf")?),
                    None => None,
                },
            })
        };
        self.array(map, "x-kubernetes-validations")?.iter().map(read).collect()
    }
}

/// A field that is present and not null: Go decodes null as absent.
fn present<'v>(map: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    map.get(key).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_reads_with_everything_in_it() {
        let props = Props::parse(&json!({
            "type": "object", "default": null, "properties": {"a": {"enum": [1, "x"], "maximum": 3}},
            "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": false}],
        }))
        .unwrap();
        assert_eq!(props.default, None);
        assert_eq!(props.properties["a"].maximum, Some(3.0));
        assert_eq!(props.validations[0].optional_old_self, Some(false));
    }

    #[test]
    fn a_wrong_type_is_reported_with_its_place() {
        let error = Props::parse(&json!({"properties": {"a": {"items": {"type": 1}}}})).unwrap_err();
        assert_eq!(error.to_string(), r#"read schema at "properties[a].items.type": string expected"#);
    }

    #[test]
    fn a_schema_that_nests_too_deep_is_refused() {
        let mut schema = json!({"type": "string"});
        for _ in 0..200 {
            schema = json!({"items": schema});
        }
        assert!(matches!(Props::parse(&schema), Err(PropsError::TooDeep { .. })));
    }
}
