//! The sources of schemas: definitions of built-in types, and the stored CustomResourceDefinitions.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use serde_json::Value;

use crate::{
    registry::ResourceDef,
    state::{self, State},
};

/// The definitions of built-in types, by upstream's names, such as `io.k8s.api.core.v1.ConfigMap`.
pub trait Definitions: Debug + Send + Sync {
    /// The name of a kind's definition, or `None` if the kind is not built in.
    fn name(&self, group: &str, version: &str, kind: &str) -> Option<String>;

    /// These definitions and all that they refer to, with references of version 3 (`#/components/schemas/`). Unknown names are
    /// omitted. It is called from a thread that may block.
    fn closure(&self, names: &[&str]) -> BTreeMap<String, Value>;
}

/// The schemas of custom resources.
pub trait Schemas: Debug + Send + Sync {
    /// The `openAPIV3Schema` of a version in its CustomResourceDefinition, or `None` if it has none. It is called from a thread that
    /// may block.
    fn schema(&self, def: &ResourceDef, version: &str) -> Option<Value>;
}

/// Reads schemas from the stored CustomResourceDefinitions. It parses them for each call and caches nothing.
#[derive(Debug)]
pub struct StoredSchemas {
    /// The state that holds the definitions.
    pub state: Arc<State>,
}

impl Schemas for StoredSchemas {
    fn schema(&self, def: &ResourceDef, version: &str) -> Option<Value> {
        let definitions = state::Resource::new("apiextensions.k8s.io", "customresourcedefinitions").ok()?;
        let key = definitions.key(None, &format!("{}.{}", def.plural, def.group)).ok()?;
        schema_of(serde_json::from_slice(self.state.get(&key)?.wire()).ok()?, version)
    }
}

/// Extracts the schema of a version from the JSON of a definition.
fn schema_of(mut definition: Value, version: &str) -> Option<Value> {
    let versions = definition.pointer_mut("/spec/versions")?.as_array_mut()?;
    let found = versions.iter_mut().find(|found| found["name"] == version)?;
    found.pointer_mut("/schema/openAPIV3Schema").map(Value::take)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_gives_the_schema_of_the_version_that_is_asked_for() {
        let versions = json!([{"name": "v1"}, {"name": "v2", "schema": {"openAPIV3Schema": {"type": "object"}}}]);
        let definition = json!({"spec": {"versions": versions}});
        assert_eq!(schema_of(definition.clone(), "v2"), Some(json!({"type": "object"})));
        assert_eq!(schema_of(definition.clone(), "v1"), None);
        assert_eq!(schema_of(definition, "v3"), None);
        assert_eq!(schema_of(json!({"spec": {"versions": {}}}), "v1"), None);
    }
}
