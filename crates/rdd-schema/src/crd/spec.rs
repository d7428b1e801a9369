//! Validation of a CRD's `spec`: group, names, and the versions.
//!
//! Before it validates, upstream moves what all versions share to the top of the spec. So the errors of a CRD with one version
//! name `spec.validation` instead of `spec.versions[0].schema`.

use rdd_meta::{go_json, names as name_rules};

use std::collections::{BTreeSet, HashMap};

use super::{
    Demands, RuleChecker, conversion, defaults,
    definition::{Column, Crd, Names, Subresources, Version},
    invariants, openapi, show, version,
};
use crate::{
    field::{Error, Path},
    props::Props,
    structural::Structural,
};

/// The parts that all versions share, and the versions without these parts.
struct Hoisted {
    schema: Option<Option<Props>>,
    subresources: Option<Subresources>,
    columns: Vec<Column>,
    selectable_fields: Vec<String>,
    versions: Vec<Version>,
}

/// Moves the parts that all versions share out of the versions.
fn hoist(crd: &Crd) -> Hoisted {
    fn shared<T: PartialEq + Clone + Default>(versions: &mut [Version], part: fn(&mut Version) -> &mut T) -> T {
        let parts: Vec<T> = versions.iter_mut().map(|version| part(version).clone()).collect();
        let Some(first) = parts.first() else { return T::default() };
        if parts.iter().any(|other| other != first) {
            return T::default();
        }
        versions.iter_mut().for_each(|version| *part(version) = T::default());
        first.clone()
    }
    let mut versions = crd.versions.clone();
    Hoisted {
        schema: shared(&mut versions, |version| &mut version.schema),
        subresources: shared(&mut versions, |version| &mut version.subresources),
        columns: shared(&mut versions, |version| &mut version.columns),
        selectable_fields: shared(&mut versions, |version| &mut version.selectable_fields),
        versions,
    }
}

fn has_status(subresources: Option<&Subresources>) -> bool {
    subresources.is_some_and(|subresources| subresources.status)
}

/// Validates the whole `spec`, in upstream's order.
pub(super) fn validate(crd: &Crd, demands: &Demands, rules: &mut dyn RuleChecker) -> Vec<Error> {
    let root = Path::Nil;
    let path = root.child("spec");
    let hoisted = hoist(crd);
    let mut errors = group(&path.child("group"), &crd.group);
    errors.extend(one_of(&path.child("scope"), &crd.scope, &["Cluster", "Namespaced"]));
    errors.extend(schemas_present(&path, crd, &hoisted, demands));
    if crd.preserve_unknown_fields && crd.schemas().any(|schema| schema.any(&mut |props| props.default.is_some())) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(Error::invalid(path.child("preserveUnknownFields"), true, detail));
    }
    // An old CRD that is not structural may stay so only if it prunes nothing and uses no extension.
    let structural = demands.structural || !crd.preserve_unknown_fields || needs_structure(crd);
    let versions = path.child("versions");
    let per_version = hoisted.versions.iter().any(|version| version.subresources.is_some());
    // Upstream looks up subresources by the version's name: of two versions with one name, the first counts.
    let mut by_name: HashMap<&str, &Version> = HashMap::new();
    for version in &hoisted.versions {
        by_name.entry(&version.name).or_insert(version);
    }
    for (index, version) in hoisted.versions.iter().enumerate() {
        let place = versions.index(index);
        let objections = name_rules::dns_1035_label(&version.name);
        if !objections.is_empty() {
            errors.push(Error::invalid(place.child("name"), version.name.as_str(), objections.join(",")));
        }
        // Upstream looks at the versions or at the top of the spec, never at both.
        let own = by_name.get(version.name.as_str()).and_then(|version| version.subresources.as_ref());
        let subresources = if per_version { own } else { hoisted.subresources.as_ref() };
        errors.extend(version_errors(&place, version, has_status(subresources), structural, demands, rules));
    }
    errors.extend(version_set(&path, &hoisted.versions, crd.versions_present));
    errors.extend(required_names(&path.child("names"), &crd.names));
    errors.extend(names(&crd.names, &path.child("names")));
    let any_status = has_status(hoisted.subresources.as_ref())
        || hoisted.versions.iter().any(|version| has_status(version.subresources.as_ref()));
    errors.extend(schema(&path.child("validation"), hoisted.schema.as_ref(), any_status, structural, demands, rules));
    errors.extend(version::subresources(&path.child("subresources"), hoisted.subresources.as_ref()));
    errors.extend(version::columns(&path.child("additionalPrinterColumns"), &hoisted.columns));
    if !hoisted.selectable_fields.is_empty() {
        let place = path.child("selectableFields");
        match &hoisted.schema {
            None => errors.push(Error::invalid(place, "", "may only be set when validations.schema is included")),
            Some(schema) => {
                let compile_path = path.child("schema.openAPIV3Schema");
                errors.extend(version::selectable(
                    &place,
                    &compile_path,
                    &hoisted.selectable_fields,
                    schema.as_ref(),
                    "",
                    demands,
                ));
            }
        }
    }
    if let Some(conversion) = &crd.conversion {
        let place = path.child("conversion");
        if conversion.strategy != "None" && crd.preserve_unknown_fields {
            let detail = "must be None if spec.preserveUnknownFields is true";
            // Upstream's strategy is a string type of its own, so its error shows JSON instead of a Go string.
            let shown = go_json::to_string(&conversion.strategy.as_str().into());
            errors.push(Error::invalid_text(place.child("strategy"), shown, detail));
        }
        errors.extend(conversion::validate(&place, conversion, demands));
    }
    errors
}

/// Whether a schema uses defaults or extensions, which only a structural schema can have.
fn needs_structure(crd: &Crd) -> bool {
    let extended = |props: &Props| {
        props.default.is_some()
            || props.embedded_resource
            || props.preserve_unknown_fields.is_some()
            || props.int_or_string
            || !props.list_map_keys.is_empty()
            || props.list_type.is_some()
            || !props.validations.is_empty()
    };
    crd.schemas().any(|schema| schema.any(&mut |props| extended(props)))
}

fn group(path: &Path<'_>, group: &str) -> Vec<Error> {
    let objections = name_rules::dns_1123_subdomain(group);
    if group.is_empty() {
        vec![Error::required(path, "")]
    } else if !objections.is_empty() {
        vec![Error::invalid(path, group, objections.join(","))]
    } else if !group.contains('.') {
        vec![Error::invalid(path, group, "should be a domain with at least one dot")]
    } else {
        Vec::new()
    }
}

/// Validates a required value that must be one of `accepted`.
pub(super) fn one_of(path: &Path<'_>, value: &str, accepted: &[&str]) -> Vec<Error> {
    match value {
        "" => vec![Error::required(path, "")],
        value if accepted.contains(&value) => Vec::new(),
        value => vec![Error::not_supported(path, value, accepted)],
    }
}

/// Validates that every version has a schema, of its own or shared.
fn schemas_present(path: &Path<'_>, crd: &Crd, hoisted: &Hoisted, demands: &Demands) -> Vec<Error> {
    let mut errors = Vec::new();
    // A shared schema is the schema of every version.
    if matches!(&hoisted.schema, Some(Some(_))) {
        return errors;
    }
    let versions = path.child("versions");
    for (index, version) in hoisted.versions.iter().enumerate() {
        if matches!(&version.schema, Some(Some(_))) {
            continue;
        }
        let place = versions.index(index);
        let schema = place.child("schema");
        let place = schema.child("openAPIV3Schema");
        if demands.openapi_schema {
            errors.push(Error::required(place, ""));
        } else if !crd.preserve_unknown_fields && version.served {
            errors.push(Error::required(place, "because otherwise all fields are pruned"));
        }
    }
    errors
}

/// Validates that version names are unique and that there is exactly one storage version.
fn version_set(path: &Path<'_>, versions: &[Version], present: bool) -> Vec<Error> {
    let shown = || if versions.is_empty() && present { "[]".to_owned() } else { show::versions(versions) };
    let mut errors = Vec::new();
    let place = path.child("versions");
    let unique: BTreeSet<&str> = versions.iter().map(|version| version.name.as_str()).collect();
    if unique.len() != versions.len() {
        errors.push(Error::invalid_text(place, shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid_text(place, shown(), detail));
    }
    // Upstream copies the first version to the former field `spec.version`, and validates it there too.
    if let Some(first) = versions.first().filter(|first| !first.name.is_empty()) {
        let objections = name_rules::dns_1035_label(&first.name);
        if !objections.is_empty() {
            errors.push(Error::invalid(path.child("version"), first.name.as_str(), objections.join(",")));
        }
    }
    errors
}

fn required_names(path: &Path<'_>, names: &Names) -> Vec<Error> {
    let all = [
        ("plural", &names.plural),
        ("singular", &names.singular),
        ("kind", &names.kind),
        ("listKind", &names.list_kind),
    ];
    all.iter().filter(|(_, value)| value.is_empty()).map(|(name, _)| Error::required(path.child(name), "")).collect()
}

/// Validates the names that are set.
pub(super) fn names(names: &Names, path: &Path<'_>) -> Vec<Error> {
    let mut errors = Vec::new();
    let mut label = |place: Path<'_>, value: &str, mixed: bool| {
        let objections =
            if mixed { name_rules::dns_1035_label(&value.to_lowercase()) } else { name_rules::dns_1035_label(value) };
        if !objections.is_empty() {
            let prefix = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(Error::invalid(place, value, format!("{prefix}{}", objections.join(","))));
        }
    };
    for (name, value, mixed) in [
        ("plural", &names.plural, false),
        ("singular", &names.singular, false),
        ("kind", &names.kind, true),
        ("listKind", &names.list_kind, true),
    ] {
        if !value.is_empty() {
            label(path.child(name), value, mixed);
        }
    }
    let short_names = path.child("shortNames");
    names.short_names.iter().enumerate().for_each(|(index, name)| label(short_names.index(index), name, false));
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(path.child("listKind"), names.list_kind.as_str(), detail));
    }
    let categories = path.child("categories");
    for (index, category) in names.categories.iter().enumerate() {
        let objections = name_rules::dns_1035_label(category);
        if !objections.is_empty() {
            errors.push(Error::invalid(categories.index(index), category.as_str(), objections.join(",")));
        }
    }
    errors
}

/// Validates one version, without the parts that all versions share.
fn version_errors(
    path: &Path<'_>,
    version: &Version,
    status: bool,
    structural: bool,
    demands: &Demands,
    rules: &mut dyn RuleChecker,
) -> Vec<Error> {
    let mut errors = version::deprecation(&path.child("deprecationWarning"), version);
    let schema_path = path.child("schema");
    errors.extend(schema(&schema_path, version.schema.as_ref(), status, structural, demands, rules));
    errors.extend(version::subresources(&path.child("subresources"), version.subresources.as_ref()));
    errors.extend(version::columns(&path.child("additionalPrinterColumns"), &version.columns));
    if !version.selectable_fields.is_empty() {
        let place = path.child("selectableFields");
        match version.schema.as_ref().and_then(Option::as_ref) {
            None => {
                let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
                errors.push(Error::invalid(place, "", detail));
            }
            some => {
                let compile_path = path.child("schema.openAPIV3Schema");
                errors.extend(version::selectable(
                    &place,
                    &compile_path,
                    &version.selectable_fields,
                    some,
                    &version.name,
                    demands,
                ));
            }
        }
    }
    errors
}

const ROOT_FIELDS: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
                           Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                           XPreserveUnknownFields XValidations]";

/// With a status subresource, only fields in this list are allowed at the root. Upstream's rule: the root must not restrict the
/// status.
fn root_fields(path: &Path<'_>, schema: &Props) -> Option<Error> {
    let refuse = || {
        let detail = format!(
            "only {ROOT_FIELDS} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        Some(Error::invalid_text(path.child("openAPIV3Schema"), show::props(schema), detail))
    };
    // Upstream stops at the first finding, so the order of its struct's fields matters.
    if !schema.id.is_empty() || !schema.schema.is_empty() || schema.reference.is_some() {
        return refuse();
    }
    if !schema.kind.is_empty() && schema.kind != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(Error::invalid(path.child("openAPIV3Schema.type"), schema.kind.as_str(), detail));
    }
    let other = schema.nullable
        || schema.default.is_some()
        || !schema.enumeration.is_empty()
        || schema.max_properties.is_some()
        || schema.min_properties.is_some()
        || !schema.all_of.is_empty()
        || !schema.one_of.is_empty()
        || !schema.any_of.is_empty()
        || schema.not.is_some()
        || schema.additional_properties.is_some()
        || !schema.pattern_properties.is_empty()
        || schema.dependencies.is_some()
        || schema.additional_items.is_some()
        || !schema.definitions.is_empty()
        || schema.embedded_resource
        || schema.int_or_string
        || !schema.list_map_keys.is_empty()
        || schema.list_type.is_some()
        || schema.map_type.is_some();
    if other { refuse() } else { None }
}

/// Validates one schema: structure, defaults, the rest of the schema, then CEL rules.
fn schema(
    path: &Path<'_>,
    schema: Option<&Option<Props>>,
    status: bool,
    structural: bool,
    demands: &Demands,
    rules: &mut dyn RuleChecker,
) -> Vec<Error> {
    let Some(Some(schema)) = schema else { return Vec::new() };
    let place = path.child("openAPIV3Schema");
    let mut errors: Vec<Error> = if status { root_fields(path, schema).into_iter().collect() } else { Vec::new() };
    if schema.nullable {
        errors.push(Error::forbidden(path.child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"));
    }
    let mut compile_error = None;
    let mut runs_rules = false;
    if structural {
        match Structural::compile(schema) {
            Err(error) => compile_error = Some(Error::invalid(place, "", error.to_string())),
            Ok(compiled) => {
                let mut found = invariants::validate(&place, schema);
                if found.is_empty() {
                    found = defaults::validate(&place, &compiled, demands.pruned_defaults, rules);
                }
                runs_rules = found.is_empty();
                errors.extend(found);
            }
        }
    }
    let context = openapi::Context {
        valid_type: demands.valid_type,
        atomic_set: demands.atomic_set,
        map_list_keys: demands.map_list_keys,
        no_defaults: None,
        inside_metadata: false,
        uncorrelatable: None,
        cardinality: runs_rules.then_some(Some(1)),
    };
    let found = openapi::validate(&place, schema, true, &context, rules);
    errors.extend(found.schema);
    errors.extend(found.rules);
    // Upstream reports the compile error only when there is no other error.
    if errors.is_empty() {
        errors.extend(compile_error);
    }
    // The total cost is checked even if the schema has other errors.
    if runs_rules {
        errors.extend(rules.finish(&place));
    }
    errors
}
