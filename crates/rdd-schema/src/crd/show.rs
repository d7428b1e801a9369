//! Renders values in errors where upstream prints Go structs: with Go's field names, in the order of the struct.

use rdd_meta::{go_json, go_text};
use serde_json::Value;

use super::definition::{Column, Subresources, Version};
use crate::props::{Items, Props, PropsOrBool, Rule};

fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    go_json::write_string(&mut out, text);
    out
}

/// Renders a `*string`.
pub(super) fn optional_string(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), string)
}

fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "null".to_owned(), show)
}

/// Renders a list; an empty one is `null`, as a nil slice in Go.
fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    if items.is_empty() {
        return "null".to_owned();
    }
    let texts: Vec<String> = items.iter().map(show).collect();
    format!("[{}]", texts.join(","))
}

/// Renders a map; an empty one is `null`, as a nil map in Go.
fn map<'a>(entries: impl ExactSizeIterator<Item = (&'a String, String)>) -> String {
    if entries.len() == 0 {
        return "null".to_owned();
    }
    let texts: Vec<String> = entries.map(|(key, text)| format!("{}:{text}", string(key))).collect();
    format!("{{{}}}", texts.join(","))
}

fn fields(entries: &[(&str, String)]) -> String {
    let texts: Vec<String> = entries.iter().map(|(key, text)| format!("\"{key}\":{text}")).collect();
    format!("{{{}}}", texts.join(","))
}

fn value(value: &Value) -> String {
    go_json::to_string(value)
}

fn float(number: f64) -> String {
    go_text::json_float(number)
}

/// Renders `spec.versions`.
pub(super) fn versions(versions: &[Version]) -> String {
    list(versions, |version| {
        fields(&[
            ("Name", string(&version.name)),
            ("Served", version.served.to_string()),
            ("Storage", version.storage.to_string()),
            ("Deprecated", version.deprecated.to_string()),
            ("DeprecationWarning", optional_string(version.deprecation_warning.as_deref())),
            (
                "Schema",
                optional(version.schema.as_ref(), |schema| {
                    fields(&[("OpenAPIV3Schema", optional(schema.as_ref(), props))])
                }),
            ),
            ("Subresources", optional(version.subresources.as_ref(), subresources)),
            ("AdditionalPrinterColumns", list(&version.columns, column)),
            ("SelectableFields", list(&version.selectable_fields, |path| fields(&[("JSONPath", string(path))]))),
        ])
    })
}

fn subresources(subresources: &Subresources) -> String {
    let scale = optional(subresources.scale.as_ref(), |scale| {
        fields(&[
            ("SpecReplicasPath", string(&scale.spec_replicas_path)),
            ("StatusReplicasPath", string(&scale.status_replicas_path)),
            ("LabelSelectorPath", optional_string(scale.label_selector_path.as_deref())),
        ])
    });
    let status = if subresources.status { "{}" } else { "null" };
    fields(&[("Status", status.to_owned()), ("Scale", scale)])
}

fn column(column: &Column) -> String {
    fields(&[
        ("Name", string(&column.name)),
        ("Type", string(&column.kind)),
        ("Format", string(&column.format)),
        ("Description", string(&column.description)),
        ("Priority", column.priority.to_string()),
        ("JSONPath", string(&column.json_path)),
    ])
}

/// Renders `items` that is not a single schema.
pub(super) fn items(items: &Items) -> String {
    let (schema, schemas) = match items {
        Items::None => (None, &[][..]),
        Items::One(one) => (Some(&**one), &[][..]),
        Items::Many(many) => (None, &many[..]),
    };
    fields(&[("Schema", optional(schema, props)), ("JSONSchemas", list(schemas, props))])
}

fn props_or_bool(either: &PropsOrBool) -> String {
    let (allows, schema) = match either {
        PropsOrBool::Bool(flag) => (*flag, None),
        // In Go, a schema implies `Allows: true`.
        PropsOrBool::Schema(schema) => (true, Some(&**schema)),
    };
    fields(&[("Allows", allows.to_string()), ("Schema", optional(schema, props))])
}

/// Renders a rule.
pub fn rule(rule: &Rule) -> String {
    fields(&[
        ("Rule", string(&rule.rule)),
        ("Message", string(&rule.message)),
        ("MessageExpression", string(&rule.message_expression)),
        ("Reason", optional_string(rule.reason.as_deref())),
        ("FieldPath", string(&rule.field_path)),
        ("OptionalOldSelf", optional(rule.optional_old_self, |flag| flag.to_string())),
    ])
}

/// Renders a whole schema.
pub(super) fn props(schema: &Props) -> String {
    let integer = |number: Option<i64>| optional(number, |number| number.to_string());
    let text = |value: &String| string(value);
    // `externalDocs` is kept as JSON, because nothing but this display reads it.
    let docs = |docs: &Value| {
        let part = |key: &str| string(docs.get(key).and_then(Value::as_str).unwrap_or_default());
        fields(&[("Description", part("description")), ("URL", part("url"))])
    };
    // The one map whose presence upstream shows even if it is empty.
    let properties = match schema.properties_present && schema.properties.is_empty() {
        true => "{}".to_owned(),
        false => map(schema.properties.iter().map(|(name, schema)| (name, props(schema)))),
    };
    let dependencies = schema.dependencies.as_ref().map(|dependencies| {
        map(dependencies.iter().map(|(name, one)| {
            // As in Go: the field of a dependency's names is called `Property`.
            (name, fields(&[("Schema", optional(one.schema.as_ref(), props)), ("Property", list(&one.names, text))]))
        }))
    });
    fields(&[
        ("ID", string(&schema.id)),
        ("Schema", string(&schema.schema)),
        ("Ref", optional_string(schema.reference.as_deref())),
        ("Description", string(&schema.description)),
        ("Type", string(&schema.kind)),
        ("Nullable", schema.nullable.to_string()),
        ("Format", string(&schema.format)),
        ("Title", string(&schema.title)),
        ("Default", optional(schema.default.as_ref(), value)),
        ("Maximum", optional(schema.maximum, float)),
        ("ExclusiveMaximum", schema.exclusive_maximum.to_string()),
        ("Minimum", optional(schema.minimum, float)),
        ("ExclusiveMinimum", schema.exclusive_minimum.to_string()),
        ("MaxLength", integer(schema.max_length)),
        ("MinLength", integer(schema.min_length)),
        ("Pattern", string(&schema.pattern)),
        ("MaxItems", integer(schema.max_items)),
        ("MinItems", integer(schema.min_items)),
        ("UniqueItems", schema.unique_items.to_string()),
        ("MultipleOf", optional(schema.multiple_of, float)),
        ("Enum", list(&schema.enumeration, value)),
        ("MaxProperties", integer(schema.max_properties)),
        ("MinProperties", integer(schema.min_properties)),
        ("Required", list(&schema.required, text)),
        ("Items", optional(schema.items.as_ref(), items)),
        ("AllOf", list(&schema.all_of, props)),
        ("OneOf", list(&schema.one_of, props)),
        ("AnyOf", list(&schema.any_of, props)),
        ("Not", optional(schema.not.as_deref(), props)),
        ("Properties", properties),
        ("AdditionalProperties", optional(schema.additional_properties.as_ref(), props_or_bool)),
        ("PatternProperties", map(schema.pattern_properties.iter().map(|(name, schema)| (name, props(schema))))),
        ("Dependencies", dependencies.unwrap_or_else(|| "null".to_owned())),
        ("AdditionalItems", optional(schema.additional_items.as_ref(), props_or_bool)),
        ("Definitions", map(schema.definitions.iter().map(|(name, schema)| (name, props(schema))))),
        ("ExternalDocs", optional(schema.external_docs.as_ref(), docs)),
        ("Example", optional(schema.example.as_ref(), value)),
        ("XPreserveUnknownFields", optional(schema.preserve_unknown_fields, |flag| flag.to_string())),
        ("XEmbeddedResource", schema.embedded_resource.to_string()),
        ("XIntOrString", schema.int_or_string.to_string()),
        ("XListMapKeys", list(&schema.list_map_keys, text)),
        ("XListType", optional_string(schema.list_type.as_deref())),
        ("XMapType", optional_string(schema.map_type.as_deref())),
        ("XValidations", list(&schema.validations, rule)),
    ])
}
