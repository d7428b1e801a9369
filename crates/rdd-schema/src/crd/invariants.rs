//! Structural schemas: every node has a type, and `allOf`, `anyOf`, `oneOf` and `not` restrict values but add no fields.

use crate::{
    field::{Error, Path},
    pattern,
    props::{Items, Props, PropsOrBool},
    structural::Structural,
};

/// The position of a node, for error texts and rules of the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Validates `schema` as a structural schema. The errors are sorted by their text, as upstream sorts them.
pub(super) fn validate(path: &Path<'_>, schema: &Props) -> Vec<Error> {
    let mut errors = Vec::new();
    node(path, schema, Level::Root, &mut errors);
    // At the root, the schema is its own structural counterpart.
    complete_junctors(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(Error::to_string);
    errors
}

/// Whether `schema` is structural. A schema that does not compile is not.
pub(crate) fn is_structural(schema: &Props) -> bool {
    Structural::compile(schema).is_ok() && validate(&Path::Nil, schema).is_empty()
}

fn node(path: &Path<'_>, schema: &Props, level: Level, errors: &mut Vec<Error>) {
    let items = schema.items_schema();
    if schema.kind == "array" && items.is_none() {
        errors.push(Error::required(path.child("items"), "must be specified"));
    }
    if let Some(items) = items {
        node(&path.child("items"), items, Level::Item, errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        node(&properties.key(name), property, Level::Field, errors);
    }
    if schema.additional_properties.is_some() {
        let place = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(place, "must not be used at the root"));
        }
        if let Some(additional) = schema.additional_schema() {
            node(&place, additional, Level::Field, errors);
        }
    }
    extensions(path, schema, errors);
    // The int-or-string pattern is the one form in which schemas below `anyOf` may have a type.
    let skip_any_of = is_int_or_string(&schema.any_of);
    let skip_first_all_of = schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    values(path, schema, skip_any_of, skip_first_all_of, errors);
    types(path, schema, level, errors);
    metadata(path, schema, level, errors);
}

fn extensions(path: &Path<'_>, schema: &Props, errors: &mut Vec<Error>) {
    if !schema.int_or_string {
        return;
    }
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if schema.preserve_unknown_fields.is_some() {
        errors.push(Error::invalid(path.child("x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if schema.embedded_resource {
        errors.push(Error::invalid(path.child("x-kubernetes-embedded-resource"), true, detail));
    }
}

fn types(path: &Path<'_>, schema: &Props, level: Level, errors: &mut Vec<Error>) {
    let place = path.child("type");
    let kind = schema.kind.as_str();
    if schema.embedded_resource && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() { Error::required(place, detail) } else { Error::invalid(place, kind, detail) });
    // Two extensions replace the type: int-or-string, and preserving unknown fields.
    } else if kind.is_empty() && !schema.int_or_string && schema.preserve_unknown_fields.is_none() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(Error::required(place, detail));
    }
    if schema.embedded_resource && schema.additional_properties.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(Error::invalid(place, kind, "must be object at the root"));
    }
}

/// Validates `kind`, `apiVersion` and `metadata` of a resource: they have fixed types, and of the root's metadata only names
/// may be restricted.
fn metadata(path: &Path<'_>, schema: &Props, level: Level, errors: &mut Vec<Error>) {
    let resource = level == Level::Root || schema.embedded_resource;
    let properties = path.child("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties.get(name).filter(|property| resource && property.kind != "string") {
            let place = properties.key(name);
            errors.push(Error::invalid(place.child("type"), property.kind.as_str(), "must be string"));
        }
    }
    if let Some(metadata) = schema.properties.get("metadata") {
        let place = properties.key("metadata");
        if resource && metadata.kind != "object" {
            errors.push(Error::invalid(place.child("type"), metadata.kind.as_str(), "must be object"));
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(Error::forbidden(place, detail));
        }
    }
    if schema.embedded_resource && schema.preserve_unknown_fields.is_none() && schema.properties.is_empty() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(properties, detail));
    }
}

/// Whether the schema of metadata restricts `name` and `generateName` at most.
fn restricts_names_only(metadata: &Props) -> bool {
    let names_only = !metadata.properties.is_empty()
        && metadata.properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
    let mut rest = bare(metadata);
    // The type is checked above and the default with all others; neither counts as a restriction.
    rest.kind.clear();
    rest.default = None;
    rest.properties_present = false;
    if names_only {
        rest.properties.clear();
    }
    rest == Props::default()
}

/// Clones a schema without the parts that its structural form does not have.
fn bare(props: &Props) -> Props {
    let mut rest = props.clone();
    rest.external_docs = None;
    rest.example = None;
    if matches!(rest.items, Some(Items::None)) {
        rest.items = None;
    }
    rest
}

/// Whether the list is `[{type: integer}, {type: string}]`, in that order and without other fields.
fn is_int_or_string(alternatives: &[Props]) -> bool {
    let only = |props: &Props, kind: &str| {
        let mut rest = bare(props);
        // A plain `false` counts as absent.
        if rest.additional_properties == Some(PropsOrBool::Bool(false)) {
            rest.additional_properties = None;
        }
        props.kind == kind && rest == Props { kind: kind.into(), ..Props::default() }
    };
    matches!(alternatives, [first, second] if only(first, "integer") && only(second, "string"))
}

/// Validates the pattern of one node, and the schemas in its `allOf`, `anyOf`, `oneOf` and `not`.
fn values(path: &Path<'_>, schema: &Props, skip_any_of: bool, skip_first_all_of: bool, errors: &mut Vec<Error>) {
    if !skip_any_of {
        each(&path.child("anyOf"), &schema.any_of, false, errors);
    }
    each(&path.child("allOf"), &schema.all_of, skip_first_all_of, errors);
    each(&path.child("oneOf"), &schema.one_of, false, errors);
    if let Some(not) = &schema.not {
        nested(&path.child("not"), not, false, errors);
    }
    if !schema.pattern.is_empty()
        && let Err(error) = pattern::check(&schema.pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(Error::invalid(path.child("pattern"), schema.pattern.as_str(), detail));
    }
}

fn each(path: &Path<'_>, list: &[Props], skip_first_any_of: bool, errors: &mut Vec<Error>) {
    for (index, schema) in list.iter().enumerate() {
        nested(&path.index(index), schema, skip_first_any_of && index == 0, errors);
    }
}

/// Validates a schema below `allOf`, `anyOf`, `oneOf` or `not`: it may only restrict values.
fn nested(path: &Path<'_>, schema: &Props, skip_any_of: bool, errors: &mut Vec<Error>) {
    values(path, schema, skip_any_of, false, errors);
    if let Some(items) = schema.items_schema() {
        nested(&path.child("items"), items, false, errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        nested(&properties.key(name), property, false, errors);
    }
    // As upstream, a plain `false` is allowed.
    let additional = matches!(schema.additional_properties, Some(PropsOrBool::Schema(_) | PropsOrBool::Bool(true)));
    let forbidden = [
        (!schema.kind.is_empty(), "type", "empty"),
        (additional, "additionalProperties", "undefined"),
        (schema.default.is_some(), "default", "undefined"),
        (!schema.title.is_empty(), "title", "empty"),
        (!schema.description.is_empty(), "description", "empty"),
        (schema.nullable, "nullable", "false"),
        (schema.preserve_unknown_fields.is_some(), "x-kubernetes-preserve-unknown-fields", "false"),
        (schema.embedded_resource, "x-kubernetes-embedded-resource", "false"),
        (schema.int_or_string, "x-kubernetes-int-or-string", "false"),
        (!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "empty"),
        (schema.list_type.is_some(), "x-kubernetes-list-type", "undefined"),
        (schema.map_type.is_some(), "x-kubernetes-map-type", "undefined"),
        (!schema.validations.is_empty(), "x-kubernetes-validations", "empty"),
    ];
    for (_, name, wanted) in forbidden.iter().filter(|(set, _, _)| *set) {
        errors.push(Error::forbidden(path.child(name), format!("must be {wanted} to be structural")));
    }
    // Only the schema outside of `allOf` and the like may restrict metadata.
    if schema.properties.contains_key("metadata") {
        errors.push(Error::forbidden(properties.key("metadata"), "must not be specified in a nested context"));
    }
}

/// Validates that every field which `allOf` and the like mention is specified outside of them. `shape` is the structural node
/// at `shape_path`.
fn complete_junctors(
    schema: &Props,
    shape: Option<&Props>,
    shape_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let Some(shape) = shape else {
        errors.push(Error::required(shape_path, format!("because it is defined in {path}")));
        return;
    };
    if let Some(not) = &schema.not {
        complete(not, Some(shape), shape_path, &path.child("not"), errors);
    }
    for (name, list) in [("allOf", &schema.all_of), ("anyOf", &schema.any_of), ("oneOf", &schema.one_of)] {
        let place = path.child(name);
        for (index, part) in list.iter().enumerate() {
            complete(part, Some(shape), shape_path, &place.index(index), errors);
        }
    }
}

/// Validates the same for one schema inside of `allOf` and the like, and everything below it.
fn complete(schema: &Props, shape: Option<&Props>, shape_path: &Path<'_>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let Some(shape) = shape else {
        errors.push(Error::required(shape_path, format!("because it is defined in {path}")));
        return;
    };
    complete_junctors(schema, Some(shape), shape_path, path, errors);
    if let Some(items) = schema.items_schema() {
        complete(items, shape.items_schema(), &shape_path.child("items"), &path.child("items"), errors);
    }
    let (shape_properties, properties) = (shape_path.child("properties"), path.child("properties"));
    for (name, property) in &schema.properties {
        let (shape_place, place) = (shape_properties.key(name), properties.key(name));
        match shape.properties.get(name) {
            Some(shape) => complete(property, Some(shape), &shape_place, &place, errors),
            None => errors.push(Error::required(shape_place, format!("because it is defined in {place}"))),
        }
    }
}
