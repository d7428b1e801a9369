//! Parses `PROPERTY=VALUE` arguments, converts them by the CRD's schema, and combines them into one change of the App's spec.

use std::collections::BTreeMap;

use rdd_meta::go_text::parse_int;
use serde_json::{Map, Value, json};

use super::schema::{Field, Kind};
use crate::go::{self, quote};

/// The settings by property, as text. The last of several settings of a property counts.
pub type Assignments = BTreeMap<String, String>;

/// Why a setting is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Parses the arguments of the command line, without knowledge of the properties.
pub fn parse(words: &[String]) -> Result<Assignments, Error> {
    let mut assignments = Assignments::new();
    for word in words {
        let invalid = |why: &str| Error(format!("invalid argument {}: {why}", quote(word)));
        let (name, value) = word.split_once('=').ok_or_else(|| invalid("expected PROPERTY=VALUE format"))?;
        if name.is_empty() {
            return Err(invalid("property name must not be empty"));
        }
        assignments.insert(name.to_owned(), value.to_owned());
    }
    Ok(assignments)
}

/// Converts the settings to a change of the spec, a JSON merge patch. A property that is reset to the server's default is null.
///
/// # Errors
///
/// An unknown property, an object instead of one of its fields, or a value of the wrong type.
pub fn change(assignments: &Assignments, root: &Field) -> Result<Map<String, Value>, Error> {
    let mut spec = Map::new();
    for (path, text) in assignments {
        let field = find(path, root)?;
        let value = convert(path, text, field)?;
        put(&mut spec, path, value);
    }
    Ok(spec)
}

/// Completes the change to the spec of a new App: required fields that are absent and have no default get their zero value.
pub fn complete(mut spec: Map<String, Value>, root: &Field) -> Map<String, Value> {
    fill(&mut spec, root);
    spec
}

fn find<'f>(path: &str, root: &'f Field) -> Result<&'f Field, Error> {
    let mut field = root;
    for name in path.split('.') {
        let unknown = || {
            let place = if field.path.is_empty() { String::new() } else { format!(" under {}", quote(&field.path)) };
            let prefix = if field.path.is_empty() { 0 } else { field.path.len() + 1 };
            let valid: Vec<&str> = field.leaves().iter().map(|leaf| &leaf.path[prefix..]).collect();
            Error(format!("{path}: unknown property {}{place}; valid properties: {}", quote(name), valid.join(", ")))
        };
        if field.fields.is_empty() && !field.path.is_empty() {
            let what = quote(&field.path);
            return Err(Error(format!("{path}: {what} is not an object and has no sub-properties")));
        }
        field = field.field(name).ok_or_else(unknown)?;
    }
    // An object with fields cannot be set as a whole; the error names one of its fields.
    if let [first, ..] = field.leaves()[..]
        && first.path != field.path
    {
        let (what, example) = (quote(&field.path), quote(&first.path));
        return Err(Error(format!("{path}: {what} is an object; set its fields, e.g. {example}")));
    }
    if field.kind == Kind::Object {
        return Err(Error(format!("{path}: {} is an object, not a settable property", quote(&field.path))));
    }
    Ok(field)
}

fn convert(path: &str, text: &str, field: &Field) -> Result<Value, Error> {
    let invalid = |why: String| Error(format!("invalid value {} for {}: {why}", quote(text), quote(path)));
    match &field.kind {
        Kind::Choice(choices) if !choices.iter().any(|choice| choice == text) => {
            Err(invalid(format!("valid values: {}", choices.join(", "))))
        }
        Kind::Choice(_) | Kind::Text => Ok(text.into()),
        Kind::Boolean => go::parse_bool(text)
            .map(Value::from)
            .map_err(|_| invalid("expected boolean; use \"true\" or \"false\"".to_owned())),
        Kind::Integer => parse_int(text).map(Value::from).map_err(|_| invalid("expected integer".to_owned())),
        // An empty quantity resets the property to the server's default.
        Kind::Quantity if text.is_empty() => Ok(Value::Null),
        Kind::Quantity => Ok(text.into()),
        Kind::Object => Err(invalid("unsupported schema type \"object\"".to_owned())),
        Kind::Other(kind) => Err(invalid(format!("unsupported schema type {}", quote(kind)))),
    }
}

fn put(spec: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            spec.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            let inner = spec.entry(name).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

// Fills in the required fields, recursively.
fn fill(object: &mut Map<String, Value>, field: &Field) {
    // A new object has nothing to reset; a null would be invalid.
    object.retain(|_, value| !value.is_null());
    for field in &field.fields {
        if field.required && !field.has_default && !object.contains_key(&field.name) {
            object.insert(field.name.clone(), zero(&field.kind));
        }
        if let Some(Value::Object(inner)) = object.get_mut(&field.name) {
            fill(inner, field);
        }
    }
}

fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::Boolean => false.into(),
        Kind::Integer | Kind::Quantity => 0.into(),
        Kind::Text => "".into(),
        Kind::Choice(choices) => choices.first().map_or(Value::Null, |first| first.as_str().into()),
        Kind::Object => json!({}),
        Kind::Other(kind) if kind == "array" => json!([]),
        Kind::Other(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::schema::{self, tests::definition};

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn changed(line: &str) -> Result<Value, String> {
        let root = schema::read(&definition()).unwrap();
        let assignments = parse(&words(line)).map_err(|error| error.to_string())?;
        change(&assignments, &root).map(Value::Object).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_become_one_change() {
        for (line, expected) in [
            ("running=true", json!({"running": true})),
            ("running=T running=0", json!({"running": false})),
            ("containerEngine.name=containerd", json!({"containerEngine": {"name": "containerd"}})),
            (
                "kubernetes.version=v1.32 kubernetes.enabled=1",
                json!({"kubernetes": {"enabled": true, "version": "v1.32"}}),
            ),
            ("kubernetes.version=", json!({"kubernetes": {"version": ""}})),
            ("kubernetes.version=a=b", json!({"kubernetes": {"version": "a=b"}})),
            ("virtualMachine.cpus=0", json!({"virtualMachine": {"cpus": 0}})),
            ("virtualMachine.memory=4Gi", json!({"virtualMachine": {"memory": "4Gi"}})),
            ("virtualMachine.memory=4294967296", json!({"virtualMachine": {"memory": "4294967296"}})),
            ("virtualMachine.memory=", json!({"virtualMachine": {"memory": null}})),
        ] {
            assert_eq!(changed(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_the_known_words() {
        let all = "containerEngine.name, free, kubernetes.enabled, kubernetes.version, list, running, \
                   virtualMachine.cpus, virtualMachine.memory";
        for (line, message) in [
            ("running", r#"invalid argument "running": expected PROPERTY=VALUE format"#.to_owned()),
            ("=v", r#"invalid argument "=v": property name must not be empty"#.to_owned()),
            ("x=1", format!(r#"x: unknown property "x"; valid properties: {all}"#)),
            ("namespace=x", format!(r#"namespace: unknown property "namespace"; valid properties: {all}"#)),
            (
                "kubernetes.x=1",
                r#"kubernetes.x: unknown property "x" under "kubernetes"; valid properties: enabled, version"#
                    .to_owned(),
            ),
            ("running.x=1", r#"running.x: "running" is not an object and has no sub-properties"#.to_owned()),
            (
                "containerEngine=moby",
                r#"containerEngine: "containerEngine" is an object; set its fields, e.g. "containerEngine.name""#
                    .to_owned(),
            ),
            ("free=x", r#"free: "free" is an object, not a settable property"#.to_owned()),
            (
                "containerEngine.name=docker",
                r#"invalid value "docker" for "containerEngine.name": valid values: moby, containerd"#.to_owned(),
            ),
            (
                "containerEngine.name=",
                r#"invalid value "" for "containerEngine.name": valid values: moby, containerd"#.to_owned(),
            ),
            ("running=yes", r#"invalid value "yes" for "running": expected boolean; use "true" or "false""#.to_owned()),
            ("running=", r#"invalid value "" for "running": expected boolean; use "true" or "false""#.to_owned()),
            ("virtualMachine.cpus=x", r#"invalid value "x" for "virtualMachine.cpus": expected integer"#.to_owned()),
            ("virtualMachine.cpus=", r#"invalid value "" for "virtualMachine.cpus": expected integer"#.to_owned()),
            (
                "virtualMachine.cpus=99999999999999999999",
                r#"invalid value "99999999999999999999" for "virtualMachine.cpus": expected integer"#.to_owned(),
            ),
            ("list=a", r#"invalid value "a" for "list": unsupported schema type "array""#.to_owned()),
            (".=x", format!(r#".: unknown property ""; valid properties: {all}"#)),
        ] {
            assert_eq!(changed(line), Err(message), "{line}");
        }
    }

    #[test]
    fn a_new_app_has_what_it_must_have() {
        let root = schema::read(&definition()).unwrap();
        for (line, expected) in [
            ("running=true", json!({"running": true})),
            (
                "kubernetes.version=stable",
                json!({"running": false, "kubernetes": {"enabled": false, "version": "stable"}}),
            ),
            ("containerEngine.name=containerd", json!({"running": false, "containerEngine": {"name": "containerd"}})),
            ("virtualMachine.memory=", json!({"running": false, "virtualMachine": {}})),
        ] {
            let Ok(Value::Object(change)) = changed(line) else { panic!("{line}") };
            assert_eq!(Value::Object(complete(change, &root)), expected, "{line}");
        }
    }
}
