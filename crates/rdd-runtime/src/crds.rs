//! Installs custom resource definitions: creates or updates them, then waits until the server serves them.

use std::time::Duration;

use futures::{TryStreamExt, future::try_join_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionSpec, JSONSchemaProps, JSONSchemaPropsOrArray,
    JSONSchemaPropsOrBool,
};
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::{WatchStreamExt, watcher},
};

use crate::{
    Error,
    error::{has_code, is_not_found},
    finalizer::FIELD_MANAGER,
};

/// How long the server may take to serve a definition. Our own server serves it at once; others do in the background.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often an update is tried when other clients change the same definition.
const ATTEMPTS: u32 = 8;

/// What [`install`] did about a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was created.
    Created,
    /// It existed with another specification and was updated.
    Updated,
    /// It existed with the wanted specification; nothing was written.
    Unchanged,
}

/// Creates or updates these definitions, waits until all of them are served, and returns the outcome of each, in the same order.
///
/// # Guarantees
/// - A definition is written only if its specification differs from the wanted one, apart from the server's defaults. A restart of the
///   same program therefore writes nothing.
/// - Labels, annotations and owner references that other clients have set stay.
///
/// # Errors
/// When a definition cannot be written, or is not served within [`PATIENCE`]. The error names the definition and, for a timeout, the
/// reason that the server gives.
pub async fn install(client: &Client, wanted: &[Definition]) -> Result<Vec<Outcome>, Error> {
    try_join_all(wanted.iter().map(|definition| install_one(client, definition))).await
}

async fn install_one(client: &Client, wanted: &Definition) -> Result<Outcome, Error> {
    let api: Api<Definition> = Api::all(client.clone());
    let name = wanted.name_any();
    let about = |error: kube::Error| Error::from(error).context(format!("install the definition {name}"));
    let (outcome, found) = ensure(&api, &name, wanted).await.map_err(about)?;
    // Usually served already: no watch is needed.
    if !is_served(&found) {
        wait(&api, &name).await?;
    }
    Ok(outcome)
}

/// Creates or updates one definition; returns the outcome and the stored definition.
async fn ensure(api: &Api<Definition>, name: &str, wanted: &Definition) -> Result<(Outcome, Definition), kube::Error> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let Some(found) = api.get_opt(name).await? else {
            match api.create(&parameters(), wanted).await {
                Ok(made) => return Ok((Outcome::Created, made)),
                // Another manager has created it meanwhile: compare with that one.
                Err(error) if has_code(&error, 409) => last = Some(error),
                Err(error) => return Err(error),
            }
            continue;
        };
        if is_same(&found.spec, &wanted.spec) {
            return Ok((Outcome::Unchanged, found));
        }
        match update(api, name, &found, wanted).await {
            Ok(changed) => return Ok((Outcome::Updated, changed)),
            // 404: it was deleted between read and write. The next attempt creates it.
            Err(error) if has_code(&error, 409) || is_not_found(&error) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.expect("every attempt that does not return leaves its error"))
}

/// Replaces the specification of exactly this version of the definition. The metadata stays as it was read.
async fn update(
    api: &Api<Definition>,
    name: &str,
    found: &Definition,
    wanted: &Definition,
) -> Result<Definition, kube::Error> {
    // The found resourceVersion makes the server refuse the write if the definition has changed since.
    let next = Definition { spec: wanted.spec.clone(), ..found.clone() };
    api.replace(name, &parameters(), &next).await
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Whether two specifications are equal apart from the server's defaults.
pub fn is_same(found: &CustomResourceDefinitionSpec, wanted: &CustomResourceDefinitionSpec) -> bool {
    filled_in(found.clone()) == filled_in(wanted.clone())
}

/// The specification with the server's defaults; upstream: `SetDefaults_CustomResourceDefinitionSpec`, and fields that decoding drops.
fn filled_in(mut spec: CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    let names = &mut spec.names;
    names.singular = names.singular.take().filter(|word| !word.is_empty()).or(Some(names.kind.to_lowercase()));
    names.list_kind = names.list_kind.take().filter(|word| !word.is_empty()).or(Some(format!("{}List", names.kind)));
    names.short_names = names.short_names.take().filter(|words| !words.is_empty());
    names.categories = names.categories.take().filter(|words| !words.is_empty());
    spec.preserve_unknown_fields = spec.preserve_unknown_fields.filter(|preserves| *preserves);
    let conversion = spec.conversion.get_or_insert_default();
    if conversion.strategy.is_empty() {
        "None".clone_into(&mut conversion.strategy);
    }
    for version in &mut spec.versions {
        version.deprecated = version.deprecated.filter(|is| *is);
        version.selectable_fields = version.selectable_fields.take().filter(|fields| !fields.is_empty());
        version.additional_printer_columns = version.additional_printer_columns.take().filter(|all| !all.is_empty());
        for column in version.additional_printer_columns.iter_mut().flatten() {
            column.priority = column.priority.filter(|priority| *priority != 0);
        }
        if let Some(schema) = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            fill_in_schema(schema, SCHEMA_DEPTH_MAX);
        }
    }
    spec
}

/// The depth up to which schemas are compared. Servers accept no deeper schema, and ours are much flatter.
const SCHEMA_DEPTH_MAX: usize = 64;

/// Removes flags that are false and empty lists, and sorts `required`, whose order has no meaning.
fn fill_in_schema(schema: &mut JSONSchemaProps, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for flag in [
        &mut schema.nullable,
        &mut schema.unique_items,
        &mut schema.exclusive_maximum,
        &mut schema.exclusive_minimum,
        &mut schema.x_kubernetes_embedded_resource,
        &mut schema.x_kubernetes_int_or_string,
    ] {
        *flag = flag.filter(|is_up| *is_up);
    }
    schema.required = schema.required.take().filter(|names| !names.is_empty());
    schema.required.iter_mut().for_each(|names| names.sort());
    schema.properties = schema.properties.take().filter(|properties| !properties.is_empty());
    for below in schema.properties.iter_mut().flat_map(|properties| properties.values_mut()) {
        fill_in_schema(below, depth);
    }
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(below)) => fill_in_schema(below, depth),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all.iter_mut().for_each(|below| fill_in_schema(below, depth)),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(below)) = schema.additional_properties.as_mut() {
        fill_in_schema(below, depth);
    }
}

/// Whether the server has established the definition under its names.
fn is_served(definition: &Definition) -> bool {
    condition(definition, "Established").is_some_and(|(status, _)| status == "True")
}

fn condition<'a>(definition: &'a Definition, kind: &str) -> Option<(&'a str, &'a str)> {
    let conditions = definition.status.as_ref()?.conditions.iter().flatten();
    let found = conditions.into_iter().find(|condition| condition.type_ == kind)?;
    Some((&found.status, found.message.as_deref().unwrap_or_default()))
}

/// Waits until the definition is served, up to [`PATIENCE`].
async fn wait(api: &Api<Definition>, name: &str) -> Result<(), Error> {
    let mut complaint = String::from("nothing was said of it");
    let watch = async {
        let selected = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut changes = std::pin::pin!(watcher(api.clone(), selected).default_backoff().applied_objects());
        loop {
            match changes.try_next().await {
                Ok(Some(definition)) if is_served(&definition) => return,
                Ok(Some(definition)) => {
                    if let Some(("False", message)) = condition(&definition, "NamesAccepted") {
                        message.clone_into(&mut complaint);
                    }
                }
                Ok(None) => return,
                // The watcher retries with backoff by itself; the error is kept for the message of a timeout.
                Err(error) => complaint = error.to_string(),
            }
        }
    };
    match tokio::time::timeout(PATIENCE, watch).await {
        Ok(()) => Ok(()),
        Err(_) => Err(Error::because(format!("wait until the definition {name} is served"), complaint)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: serde_json::Value) -> CustomResourceDefinitionSpec {
        serde_json::from_value(value).unwrap()
    }

    fn short() -> serde_json::Value {
        json!({
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "required": ["b", "a"], "properties": {
                    "a": {"type": "string"}, "b": {"type": "integer", "minimum": 0},
                }}},
            }}}],
        })
    }

    #[test]
    fn what_a_server_fills_in_is_no_difference() {
        let mut long = short();
        long["conversion"] = json!({"strategy": "None"});
        long["preserveUnknownFields"] = json!(false);
        long["names"] = json!({
            "kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList", "shortNames": [],
        });
        let schema = &mut long["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        schema["nullable"] = json!(false);
        schema["required"] = json!(["a", "b"]);
        schema["properties"]["b"]["minimum"] = json!(0.0);
        assert!(is_same(&spec(long), &spec(short())));
    }

    #[test]
    fn everything_else_is() {
        type Change = fn(&mut serde_json::Value);
        let changes: [Change; 7] = [
            |spec| spec["names"]["shortNames"] = json!(["th"]),
            |spec| spec["scope"] = json!("Cluster"),
            |spec| spec["versions"][0]["subresources"] = json!({"status": {}}),
            |spec| spec["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.a"}]),
            |spec| spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object"}),
            |spec| {
                spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"]["default"] =
                    json!("x");
            },
            |spec| {
                spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"]["description"] =
                    json!("x");
            },
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = short();
            change(&mut other);
            assert!(!is_same(&spec(other), &spec(short())), "change {index}");
        }
    }
}
