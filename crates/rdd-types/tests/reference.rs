//! The reference of our kinds is what the definitions say.

use std::{fmt::Write as _, path::Path};

use rdd_types::{DEFINITIONS, Definition, VERSION};
use serde_json::Value;

const HEAD: &str = "\
# Kinds

Generated from the types in `rdd-types`; do not edit. `UPDATE_REFERENCE=1 cargo test -p rdd-types --test reference` writes it.

What a kind is asked for is in its `spec`, what became of it in its `status`, which has a subresource of its own. A field marked * has to be there.
Conditions are explained in [conditions.md](conditions.md).
";

fn reference() -> String {
    let mut text = HEAD.to_owned();
    for definition in DEFINITIONS {
        let crd = serde_json::to_value((definition.crd)()).expect("a definition is JSON");
        write_kind(&mut text, definition, &crd);
    }
    text
}

fn write_kind(text: &mut String, definition: &Definition, crd: &Value) {
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let short: String = definition.short_names.iter().map(|name| format!(", `{name}`")).collect();
    let _ = writeln!(
        text,
        "\n## {}\n\n{}\n\n`{}/{VERSION}`, `{}`{short}; {}",
        definition.kind,
        schema["description"].as_str().unwrap_or_default(),
        definition.group,
        definition.plural,
        match definition.scope {
            rdd_types::Scope::Cluster => "not in namespaces.",
            rdd_types::Scope::Namespaced => "in namespaces.",
        }
    );
    if !definition.selectable.is_empty() {
        let fields: Vec<String> = definition.selectable.iter().map(|field| format!("`{}`", &field[1..])).collect();
        let _ = writeln!(text, "Field selectors know {}.", fields.join(", "));
    }
    let mut rows = String::new();
    write_fields(&mut rows, schema, "");
    if !rows.is_empty() {
        let _ = writeln!(text, "\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n{}", rows.trim_end());
    }
}

fn write_fields(rows: &mut String, schema: &Value, prefix: &str) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if prefix.is_empty() && !matches!(name.as_str(), "spec" | "status") {
            continue;
        }
        let path = format!("{prefix}{name}");
        let star = if required.iter().any(|one| one == name) { "*" } else { "" };
        let default = if field["default"].is_null() { String::new() } else { format!("`{}`", field["default"]) };
        let meaning = field["description"].as_str().unwrap_or_default().replace("\n\n", " ").replace('|', "\\|");
        if !matches!(path.as_str(), "spec" | "status") {
            let _ = writeln!(rows, "| `{path}`{star} | {} | {default} | {meaning} |", kind(field));
        }
        if name == "conditions" {
            continue;
        }
        write_fields(rows, field, &format!("{path}."));
        write_fields(rows, &field["items"], &format!("{path}[]."));
    }
}

fn kind(field: &Value) -> String {
    if field["x-kubernetes-int-or-string"] == true {
        return "quantity".to_owned();
    }
    if let Some(words) = field["enum"].as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    let kind = field["type"].as_str().unwrap_or_default();
    match (kind, field["format"].as_str()) {
        ("object", _) if field["additionalProperties"].is_object() => "map of texts".to_owned(),
        ("array", _) => format!("list of {}s", field["items"]["type"].as_str().unwrap_or_default()),
        (_, Some("date-time")) => "time".to_owned(),
        _ => kind.to_owned(),
    }
}

#[test]
fn the_reference_is_what_the_types_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/kinds.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(present == reference(), "{} is not what the types say: see its first lines", path.display());
}
