//! Builds the resource that the generic handlers serve from a stored CustomResourceDefinition.

use std::{
    cmp::Ordering,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use rdd_builtin::columns::printer;
use rdd_meta::gvk;
use rdd_store::Revision;
use serde_json::Value;

use super::{
    head::{self, Head},
    kind::{CustomKind, Resets},
    schema::{self, Schema},
};
use crate::{
    registry::{
        ALL_VERBS, Backing, Column, Conversion, Custom, Kind, Manners, Origin, Part, ResourceDef, Stored,
        SubresourceDef, VersionDef,
    },
    state,
};

/// Why a stored definition cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    #[error("read a stored CustomResourceDefinition")]
    Read(#[source] serde_json::Error),
    #[error("derive the keys of {name}")]
    Keys {
        name: String,
        #[source]
        source: state::Error,
    },
}

/// Builds the resource of a definition, which is given as JSON. `revision` is that since which the schema has been the same. Returns
/// `None` if the definition is not established or serves no version.
///
/// # Errors
/// When the JSON cannot be parsed, or the names cannot be part of a key.
pub fn resource_def(definition: &Bytes, revision: Revision) -> Result<Option<ResourceDef>, DefinitionError> {
    let head = Head::read(definition).map_err(DefinitionError::Read)?;
    let kinds = kinds(&head, definition);
    of_parts(&head, &kinds, revision, Revision(0))
}

/// The schema of a version as its author wrote it, or `None` if there is no such version.
pub fn schema_source(definition: &Bytes, version: &str) -> Option<Value> {
    let head = Head::read(definition).ok()?;
    let at = head.spec.versions.iter().position(|found| found.name == version)?;
    Schema::new(definition.clone(), at).source().ok()
}

/// Like [`resource_def`], for a definition that was parsed. Objects up to `loaded_at` were in the store when this server started.
pub(super) fn of_parts(
    head: &Head,
    kinds: &[Arc<CustomKind>],
    revision: Revision,
    loaded_at: Revision,
) -> Result<Option<ResourceDef>, DefinitionError> {
    head.is_served().then(|| build(head, kinds, (revision, loaded_at), |version| version.served)).transpose()
}

/// The resource with all versions, served or not, for the deletion of its objects.
pub(super) fn whole(
    head: &Head,
    kinds: &[Arc<CustomKind>],
    revision: Revision,
) -> Result<ResourceDef, DefinitionError> {
    build(head, kinds, (revision, Revision(0)), |_| true)
}

fn build(
    head: &Head,
    kinds: &[Arc<CustomKind>],
    (revision, loaded_at): (Revision, Revision),
    wanted: impl Fn(&head::Version) -> bool,
) -> Result<ResourceDef, DefinitionError> {
    let (spec, names) = (&head.spec, &head.status.accepted_names);
    let resource = state::Resource::new(&spec.group, &spec.names.plural);
    let resource = resource.map_err(|source| DefinitionError::Keys { name: head.metadata.name.clone(), source })?;
    let storage = spec.versions.iter().position(|version| version.storage).unwrap_or_default();
    // Versions with the same schema differ only in their `apiVersion`, so no conversion is needed.
    let alike = kinds.len() < 2 || schema::have_same_schema(kinds);
    let preferred = preferred_version(spec);
    let unserved = spec.versions.iter().zip(kinds).filter(|(version, _)| !version.served);
    let unserved: Arc<[Arc<CustomKind>]> = unserved.map(|(_, kind)| Arc::clone(kind)).collect();
    let mut versions: Vec<VersionDef> = spec
        .versions
        .iter()
        .zip(kinds)
        .enumerate()
        .filter(|(_, (version, _))| wanted(version))
        .map(|(at, (version, kind))| VersionDef {
            name: version.name.clone(),
            deprecation: deprecation(spec, version, preferred, &kind.kind),
            stored: match at {
                at if at == storage => Stored::Same,
                _ if alike => Stored::Renamed,
                _ => Stored::Converted(Box::new(Between {
                    version: Arc::clone(kind),
                    storage: Arc::clone(&kinds[storage]),
                    unserved: Arc::clone(&unserved),
                })),
            },
            subresources: subresources(kind),
            kind: Arc::clone(kind) as Arc<dyn Kind>,
        })
        .collect();
    // The preferred version comes first.
    versions.sort_by(|left, right| gvk::compare_version_priority(&right.name, &left.name));
    Ok(ResourceDef {
        group: spec.group.clone(),
        plural: spec.names.plural.clone(),
        singular: names.singular.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        namespaced: is_namespaced(spec),
        verbs: ALL_VERBS,
        backing: Backing::Stored(resource),
        versions,
        storage_version: spec.versions.get(storage).map(|version| version.name.clone()).unwrap_or_default(),
        manners: Manners::default(),
        custom: Some(
            Custom::new(head.metadata.uid.clone(), revision, head.is_true("Terminating")).loaded_at(loaded_at),
        ),
    })
}

fn is_namespaced(spec: &head::Spec) -> bool {
    spec.scope == "Namespaced"
}

/// All versions of a definition, served or not, in the order of the definition.
pub(super) fn kinds(head: &Head, definition: &Bytes) -> Vec<Arc<CustomKind>> {
    let versions = head.spec.versions.iter().enumerate();
    versions.map(|(at, version)| Arc::new(kind(head, at, version, definition))).collect()
}

fn kind(head: &Head, at: usize, version: &head::Version, definition: &Bytes) -> CustomKind {
    let group = head.spec.group.clone();
    let has_status = version.subresources.status.is_some();
    let (columns, column_paths) = columns(&version.additional_printer_columns);
    let field = |field: &head::SelectableField| field.json_path.trim_start_matches('.').to_owned();
    CustomKind {
        resets: Resets::new(&format!("{group}/{}", version.name), has_status),
        group,
        version: version.name.clone(),
        kind: head.status.accepted_names.kind.clone(),
        namespaced: is_namespaced(&head.spec),
        has_status,
        defaults_status: OnceLock::new(),
        scale: version.subresources.scale.as_ref().map(head::ScalePaths::to_shared),
        columns,
        column_paths,
        parsed_columns: OnceLock::new(),
        selectable: version.selectable_fields.iter().map(field).collect(),
        schema: Schema::new(definition.clone(), at),
    }
}

fn subresources(kind: &CustomKind) -> Vec<SubresourceDef> {
    const VERBS: &[&str] = &["get", "patch", "update"];
    let status = kind.has_status.then_some(("status", Part::View));
    let scale = kind.scale.as_ref().map(|scale| ("scale", Part::Scale(Arc::clone(scale))));
    let of = |(name, part)| SubresourceDef { name, verbs: VERBS, part };
    status.into_iter().chain(scale).map(of).collect()
}

/// The columns of tables and their JSON paths: the name, then the declared columns, or the age if none are declared.
fn columns(declared: &[head::Column]) -> (Vec<Column>, Vec<String>) {
    let mut paths = vec![".metadata.name".to_owned()];
    // The descriptions of name and age are the same for all kinds, so they come from the printer of unknown kinds.
    let mut columns: Vec<Column> = printer("", "").columns().into_iter().map(generic).collect();
    if declared.is_empty() {
        columns.iter_mut().skip(1).for_each(|created| created.name = "Age".to_owned());
        paths.push(".metadata.creationTimestamp".to_owned());
        return (columns, paths);
    }
    let described = |column: &head::Column| match column.description.as_str() {
        "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
        text => text.to_owned(),
    };
    columns.truncate(1);
    columns.extend(declared.iter().map(|column| Column {
        name: column.name.clone(),
        kind: column.kind.clone(),
        format: column.format.clone(),
        description: described(column),
        priority: column.priority,
    }));
    paths.extend(declared.iter().map(|column| column.json_path.clone()));
    (columns, paths)
}

fn generic(column: rdd_builtin::columns::Column) -> Column {
    Column {
        name: column.name.to_owned(),
        kind: column.kind.to_owned(),
        format: column.format.to_owned(),
        description: column.description.to_owned(),
        priority: column.priority,
    }
}

/// The preferred version that is not deprecated. The warning of a deprecated version recommends it if it is newer.
fn preferred_version(spec: &head::Spec) -> Option<&head::Version> {
    let candidates = spec.versions.iter().filter(|version| version.served && !version.deprecated);
    candidates.max_by(|left, right| gvk::compare_version_priority(&left.name, &right.name))
}

/// The warning for users of a version, or `None` if it is not deprecated.
fn deprecation(
    spec: &head::Spec,
    version: &head::Version,
    preferred: Option<&head::Version>,
    kind: &str,
) -> Option<String> {
    if !version.deprecated {
        return None;
    }
    if let Some(text) = &version.deprecation_warning {
        return Some(text.clone());
    }
    let newer = preferred.filter(|best| gvk::compare_version_priority(&version.name, &best.name) == Ordering::Less);
    let advice = newer.map(|best| format!("; use {}/{} {kind}", spec.group, best.name)).unwrap_or_default();
    Some(format!("{}/{} {kind} is deprecated{advice}", spec.group, version.name))
}

/// The conversion between a version and the storage version if their schemas differ: each direction prunes unknown fields.
#[derive(Debug)]
struct Between {
    version: Arc<CustomKind>,
    storage: Arc<CustomKind>,
    /// The versions that are not served. Objects that were stored in them are decoded only here.
    unserved: Arc<[Arc<CustomKind>]>,
}

impl Conversion for Between {
    fn shown(&self, mut object: Value) -> Value {
        let written_as = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if let Some(kind) = self.unserved.iter().find(|kind| kind.api_version() == written_as) {
            // The object was validated when it was written, so malformed fields are dropped and there is no error to report.
            let _ = kind.decode(&mut object, Origin::Storage);
        }
        self.version.adopt(&mut object);
        object
    }

    fn stored(&self, mut object: Value) -> Value {
        // Upstream applies defaults on each read. This server does not default when it reads, so it stores the defaults.
        self.storage.store(&mut object);
        object
    }
}
