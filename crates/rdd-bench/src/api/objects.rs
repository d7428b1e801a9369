//! The objects of the measurements: ConfigMaps of one kilobyte, and CRDs as large as real ones.

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The path of ConfigMaps.
pub(crate) const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The path of CRDs.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The size of a ConfigMap's data, with which its JSON has about 1 kB.
const PAYLOAD_BYTES: usize = 640;
/// The size of a CRD.
pub(crate) const DEFINITION_BYTES: usize = 50_000;

pub(crate) fn config_map(name: &str) -> Bytes {
    let payload: String = ('a'..='z').cycle().take(PAYLOAD_BYTES).collect();
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"payload": payload}});
    object.to_string().into()
}

/// The plural name of the resource that the CRD of this number defines.
pub(crate) fn plural(number: usize) -> String {
    format!("gadget{number}s")
}

/// The path of the objects of that resource.
pub(crate) fn custom_path(number: usize) -> String {
    format!("/apis/bench.example.com/v1/namespaces/default/{}", plural(number))
}

/// An object of that resource.
pub(crate) fn custom_object(number: usize) -> Bytes {
    let object = json!({
        "apiVersion": "bench.example.com/v1", "kind": format!("Gadget{number}"), "metadata": {"name": "first"},
        "spec": {"section0": {"size": 3, "names": ["one"], "mode": "Fast"}},
    });
    object.to_string().into()
}

/// A CRD of [`DEFINITION_BYTES`] with descriptions, limits, lists and maps, as code generators write them.
pub(crate) fn definition(number: usize) -> Bytes {
    let mut sections = Map::new();
    loop {
        let text = with_sections(number, &sections).to_string();
        if text.len() >= DEFINITION_BYTES {
            return text.into();
        }
        sections.insert(format!("section{}", sections.len()), section());
    }
}

fn with_sections(number: usize, sections: &Map<String, Value>) -> Value {
    let (plural, singular) = (plural(number), format!("gadget{number}"));
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": sections},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.bench.example.com")},
        "spec": {
            "group": "bench.example.com",
            "names": {"plural": plural, "singular": singular, "kind": format!("Gadget{number}")},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn section() -> Value {
    let told = |what: &str| {
        format!("{what} of this section, which a controller reads before it acts; the guide says what it means.")
    };
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer", "format": "int32", "description": told("The port")},
        "name": {"type": "string", "maxLength": 63, "pattern": "^[a-z][a-z0-9-]*$", "description": told("The name")},
    }});
    let names = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 16});
    json!({"type": "object", "description": told("The whole"), "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1000, "description": told("The size")},
        "mode": {"type": "string", "enum": ["Fast", "Slow"], "default": "Slow", "description": told("The mode")},
        "names": names,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "description": told("The labels")},
        "ports": {"type": "array", "description": told("The ports"), "items": port},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_as_large_as_stated_and_names_are_its_own() {
        let text = definition(7);
        assert!((DEFINITION_BYTES..DEFINITION_BYTES + 3_000).contains(&text.len()), "{}", text.len());
        let parsed: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(parsed["metadata"]["name"], "gadget7s.bench.example.com");
        assert!(
            parsed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["section0"]
                .is_object()
        );
        assert!(config_map("a").len() < 1024);
    }
}
