//! The typed form of a CustomResourceDefinition, parsed from JSON.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::ca_bundle;
use crate::{
    format::Format,
    props::{Props, PropsError},
};

/// The JSON is not a CustomResourceDefinition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrdError {
    /// A field has a value of the wrong type.
    #[error("read {path} of the CustomResourceDefinition: {wanted} expected")]
    Type { path: &'static str, wanted: &'static str },
    /// The schema of a version cannot be parsed.
    #[error("read the schema of version {version:?}")]
    Schema { version: String, source: PropsError },
}

/// `spec.names` or `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub kind: String,
    pub list_kind: String,
    pub categories: Vec<String>,
}

/// `subresources.scale`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas_path: String,
    pub status_replicas_path: String,
    pub label_selector_path: Option<String>,
}

/// `subresources`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subresources {
    pub status: bool,
    pub scale: Option<Scale>,
}

/// One entry of `additionalPrinterColumns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: String,
}

/// One entry of `spec.versions`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Version {
    pub name: String,
    pub served: bool,
    pub storage: bool,
    pub deprecated: bool,
    pub deprecation_warning: Option<String>,
    /// `schema`; the inner option is its `openAPIV3Schema`.
    pub schema: Option<Option<Props>>,
    pub subresources: Option<Subresources>,
    pub columns: Vec<Column>,
    pub selectable_fields: Vec<String>,
}

/// `conversion.webhook.clientConfig.service`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    pub namespace: String,
    pub name: String,
    pub path: Option<String>,
    pub port: i64,
}

/// `conversion.webhook.clientConfig`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConfig {
    pub url: Option<String>,
    pub service: Option<Service>,
    /// The certificates as PEM, decoded from base64.
    pub ca_bundle: Vec<u8>,
}

/// `spec.conversion`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    pub strategy: String,
    pub client_config: Option<ClientConfig>,
    pub review_versions: Vec<String>,
}

/// A CustomResourceDefinition, with those fields that are validated or used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crd {
    pub metadata: Value,
    pub group: String,
    pub names: Names,
    pub scope: String,
    pub versions: Vec<Version>,
    /// Whether `spec.versions` is present: error texts distinguish an empty list from an absent one.
    pub(crate) versions_present: bool,
    pub conversion: Option<Conversion>,
    pub preserve_unknown_fields: bool,
    pub accepted_names: Names,
    pub stored_versions: Vec<String>,
    /// Whether `status.storedVersions` is present, for the same reason.
    pub(crate) stored_versions_present: bool,
    /// Whether the condition `Established` is true.
    pub established: bool,
}

impl Crd {
    /// Parses a CRD. Absent and null fields get the zero value of their type, as in Go.
    ///
    /// # Errors
    /// When a field has the wrong type.
    pub fn parse(crd: &Value) -> Result<Crd, CrdError> {
        let root = object(Some(crd), "the object")?;
        let spec = object(root.get("spec"), "spec")?;
        let status = object(root.get("status"), "status")?;
        let versions = list(spec, "versions", "spec.versions")?;
        let conditions = list(status, "conditions", "status.conditions")?;
        let is =
            |condition: &Value, key: &str, wanted: &str| condition.get(key).and_then(Value::as_str) == Some(wanted);
        Ok(Crd {
            metadata: root.get("metadata").cloned().unwrap_or_default(),
            group: text(spec, "group", "spec.group")?,
            names: names(object(spec.get("names"), "spec.names")?)?,
            scope: text(spec, "scope", "spec.scope")?,
            versions_present: present(spec, "versions").is_some(),
            versions: versions.iter().map(version).collect::<Result<_, _>>()?,
            conversion: match present(spec, "conversion") {
                None => None,
                some => Some(conversion(object(some, "spec.conversion")?)?),
            },
            preserve_unknown_fields: flag(spec, "preserveUnknownFields", "spec.preserveUnknownFields")?,
            accepted_names: names(object(status.get("acceptedNames"), "status.acceptedNames")?)?,
            stored_versions: texts(status, "storedVersions", "status.storedVersions")?,
            stored_versions_present: present(status, "storedVersions").is_some(),
            established: conditions
                .iter()
                // Only the first condition of the type counts, as upstream looks it up.
                .find(|condition| is(condition, "type", "Established"))
                .is_some_and(|condition| is(condition, "status", "True")),
        })
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.get("annotations")?.get(name)?.as_str()
    }

    /// The formats of strings that are not checked, one entry for each use. Upstream warns about each:
    /// `unrecognized format "x"`.
    pub fn unrecognized_formats(&self) -> Vec<String> {
        let mut found = Vec::new();
        for schema in self.schemas() {
            schema.any(&mut |props| {
                // Upstream warns only about formats of strings.
                let string = props.kind == "string" && !props.int_or_string;
                if string && !props.format.is_empty() && Format::of(&props.format).is_none() {
                    found.push(props.format.clone());
                }
                // With false, `any` goes on to every node.
                false
            });
        }
        found
    }

    /// The schemas of all versions that have one.
    pub fn schemas(&self) -> impl Iterator<Item = &Props> {
        self.versions.iter().filter_map(|version| version.schema.as_ref()?.as_ref())
    }
}

/// Returns a field that is present and not null: Go decodes null as absent.
fn present<'v>(map: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    map.get(key).filter(|value| !value.is_null())
}

fn wrong<T>(path: &'static str, wanted: &'static str) -> Result<T, CrdError> {
    Err(CrdError::Type { path, wanted })
}

fn object<'v>(value: Option<&'v Value>, path: &'static str) -> Result<&'v Map<String, Value>, CrdError> {
    // An absent object reads like an empty one, as a zero struct in Go.
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match value {
        None | Some(Value::Null) => Ok(&EMPTY),
        Some(Value::Object(map)) => Ok(map),
        Some(_) => wrong(path, "object"),
    }
}

fn list<'v>(map: &'v Map<String, Value>, key: &str, path: &'static str) -> Result<&'v [Value], CrdError> {
    match present(map, key) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => wrong(path, "array"),
    }
}

fn optional_text(map: &Map<String, Value>, key: &str, path: &'static str) -> Result<Option<String>, CrdError> {
    match present(map, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => wrong(path, "string"),
    }
}

fn text(map: &Map<String, Value>, key: &str, path: &'static str) -> Result<String, CrdError> {
    Ok(optional_text(map, key, path)?.unwrap_or_default())
}

fn flag(map: &Map<String, Value>, key: &str, path: &'static str) -> Result<bool, CrdError> {
    match present(map, key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => wrong(path, "boolean"),
    }
}

fn integer(map: &Map<String, Value>, key: &str, path: &'static str) -> Result<i64, CrdError> {
    match present(map, key) {
        None => Ok(0),
        Some(value) => value.as_i64().map_or_else(|| wrong(path, "integer"), Ok),
    }
}

fn texts(map: &Map<String, Value>, key: &str, path: &'static str) -> Result<Vec<String>, CrdError> {
    let read = |item: &Value| item.as_str().map_or_else(|| wrong(path, "string"), |text| Ok(text.to_owned()));
    list(map, key, path)?.iter().map(read).collect()
}

fn names(map: &Map<String, Value>) -> Result<Names, CrdError> {
    Ok(Names {
        plural: text(map, "plural", "names.plural")?,
        singular: text(map, "singular", "names.singular")?,
        short_names: texts(map, "shortNames", "names.shortNames")?,
        kind: text(map, "kind", "names.kind")?,
        list_kind: text(map, "listKind", "names.listKind")?,
        categories: texts(map, "categories", "names.categories")?,
    })
}

fn version(value: &Value) -> Result<Version, CrdError> {
    let map = object(Some(value), "spec.versions")?;
    let name = text(map, "name", "spec.versions.name")?;
    let schema = match present(map, "schema") {
        None => None,
        some => {
            let holder = object(some, "spec.versions.schema")?;
            let read =
                |schema| Props::parse(schema).map_err(|source| CrdError::Schema { version: name.clone(), source });
            Some(present(holder, "openAPIV3Schema").map(read).transpose()?)
        }
    };
    let path = "spec.versions.selectableFields";
    let selectable = |item: &Value| text(object(Some(item), path)?, "jsonPath", path);
    Ok(Version {
        served: flag(map, "served", "spec.versions.served")?,
        storage: flag(map, "storage", "spec.versions.storage")?,
        deprecated: flag(map, "deprecated", "spec.versions.deprecated")?,
        deprecation_warning: optional_text(map, "deprecationWarning", "spec.versions.deprecationWarning")?,
        schema,
        subresources: match present(map, "subresources") {
            None => None,
            some => Some(subresources(object(some, "spec.versions.subresources")?)?),
        },
        columns: list(map, "additionalPrinterColumns", "spec.versions.additionalPrinterColumns")?
            .iter()
            .map(column)
            .collect::<Result<_, _>>()?,
        selectable_fields: list(map, "selectableFields", path)?.iter().map(selectable).collect::<Result<_, _>>()?,
        name,
    })
}

fn subresources(map: &Map<String, Value>) -> Result<Subresources, CrdError> {
    let path = "spec.versions.subresources.scale";
    let scale = match present(map, "scale") {
        None => None,
        some => {
            let scale = object(some, path)?;
            Some(Scale {
                spec_replicas_path: text(scale, "specReplicasPath", path)?,
                status_replicas_path: text(scale, "statusReplicasPath", path)?,
                label_selector_path: optional_text(scale, "labelSelectorPath", path)?,
            })
        }
    };
    Ok(Subresources { status: present(map, "status").is_some(), scale })
}

fn column(value: &Value) -> Result<Column, CrdError> {
    let path = "spec.versions.additionalPrinterColumns";
    let map = object(Some(value), path)?;
    Ok(Column {
        name: text(map, "name", path)?,
        kind: text(map, "type", path)?,
        format: text(map, "format", path)?,
        description: text(map, "description", path)?,
        priority: integer(map, "priority", path)?,
        json_path: text(map, "jsonPath", path)?,
    })
}

fn conversion(map: &Map<String, Value>) -> Result<Conversion, CrdError> {
    let path = "spec.conversion.webhook";
    let webhook = object(map.get("webhook"), path)?;
    let client_config = match present(webhook, "clientConfig") {
        None => None,
        some => {
            let config = object(some, path)?;
            let service = match present(config, "service") {
                None => None,
                some => {
                    let service = object(some, path)?;
                    Some(Service {
                        namespace: text(service, "namespace", path)?,
                        name: text(service, "name", path)?,
                        path: optional_text(service, "path", path)?,
                        port: integer(service, "port", path)?,
                    })
                }
            };
            // The API has bytes here; JSON carries them as base64.
            let ca_bundle = ca_bundle::decode_base64(&text(config, "caBundle", path)?);
            Some(ClientConfig { url: optional_text(config, "url", path)?, service, ca_bundle })
        }
    };
    Ok(Conversion {
        strategy: text(map, "strategy", "spec.conversion.strategy")?,
        client_config,
        review_versions: texts(webhook, "conversionReviewVersions", path)?,
    })
}
