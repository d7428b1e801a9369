//! `explain`: documents a resource and its fields from the server's OpenAPI.

use std::collections::BTreeSet;

use rdd_meta::go_text::quote;
use serde_json::{Map, Value, json};

use crate::{
    api::Call,
    context::Ctl,
    discovery::{Mapping, split_group_version},
    error::{Error, Result},
    flags::{Flag, Kind},
    wrap::{indent, wrap},
};

/// The flags of `explain`.
pub(crate) const FLAGS: &[Flag] =
    &[Flag::switch("recursive"), Flag::value("api-version"), Flag::of("output", Kind::Text, "plaintext").short('o')];

/// The maximum nesting of fields.
const DEPTH_MAX: usize = 64;
/// The maximum number of printed field lines.
const FIELDS_MAX: usize = 100_000;

/// Runs `explain`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    let word = match ctl.flags.args.as_slice() {
        [] => {
            return Err(Error::text(
                "You must specify the type of resource to explain. Use \"kubectl api-resources\" for a complete list of \
                 supported resources.\n",
            ));
        }
        [word] => word.trim_end_matches('.'),
        _ => return Err(Error::text("We accept only this format: explain RESOURCE\n")),
    };
    let (mapping, path) = split(ctl, word)?;
    match ctl.flags.text("output") {
        "plaintext" => {}
        "plaintext-openapiv2" => return Err(super::elsewhere("explain -o plaintext-openapiv2")),
        other => return Err(Error::text(format!("unrecognized format: {other}"))),
    }
    let (group, version) = match ctl.flags.text("api-version") {
        "" => (mapping.group.as_str(), mapping.version.as_str()),
        chosen => split_group_version(chosen),
    };
    let resource = format!("{group}/{version}, Resource={}", mapping.resource);
    let place = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    let document = ctl.call(&Call::get(format!("/openapi/v3/{place}"))).map_err(|error| match error {
        error if error.is_not_found() => Error::text(format!("couldn't find resource for {}", quote(&resource))),
        error => error,
    })?;
    let kind = find_kind(&document, &place, &mapping.resource)
        .ok_or_else(|| Error::text(format!("error: GVR ({resource}) not found in OpenAPI schema")))?;
    let explainer = Explainer { document: &document, recursive: ctl.flags.is_on("recursive") };
    ctl.print(&head(&kind))?;
    ctl.print(&explainer.explain(&kind, &path)?)
}

fn head(kind: &Value) -> String {
    let word = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
    let group = word("group");
    let group = if group.is_empty() { group } else { format!("GROUP:      {group}\n") };
    format!("{group}KIND:       {}\nVERSION:    {}\n\n", word("kind"), word("version"))
}

/// Splits the argument into the resource and the field path.
fn split(ctl: &Ctl<'_>, word: &str) -> Result<(Mapping, Vec<String>)> {
    let first = word.split('.').next().unwrap_or(word);
    let all = ctl.discovery.all(&ctl.api)?;
    let named = ctl.find(first);
    let named = named.map_err(|_| Error::Bare(format!("the server doesn't have a resource type {}", quote(first))))?;
    let same_name = all.iter().filter(|mapping| mapping.resource == named.resource);
    for mapping in same_name {
        let full = match mapping.group.as_str() {
            "" => mapping.resource.clone(),
            group => format!("{}.{group}", mapping.resource),
        };
        if !mapping.group.is_empty()
            && let Some(rest) = word.strip_prefix(&full)
            && (rest.is_empty() || rest.starts_with('.'))
        {
            return Ok((mapping.as_ref().clone(), fields(rest.trim_start_matches('.'))));
        }
    }
    let rest = word.split_once('.').map_or("", |(_, rest)| rest);
    Ok((named.as_ref().clone(), fields(rest)))
}

fn fields(path: &str) -> Vec<String> {
    path.split('.').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Finds the group, version and kind in the operations on the resource's path.
fn find_kind(document: &Value, place: &str, resource: &str) -> Option<Value> {
    let paths = &document["paths"];
    let places = [
        format!("/{place}/{resource}"),
        format!("/{place}/{resource}/{{name}}"),
        format!("/{place}/namespaces/{{namespace}}/{resource}"),
        format!("/{place}/namespaces/{{namespace}}/{resource}/{{name}}"),
    ];
    places.iter().find_map(|place| {
        let methods = ["get", "post", "put", "patch", "delete"];
        methods.iter().find_map(|method| paths[place][method].get("x-kubernetes-group-version-kind").cloned())
    })
}

struct Explainer<'a> {
    document: &'a Value,
    recursive: bool,
}

impl<'a> Explainer<'a> {
    fn explain(&self, kind: &Value, path: &[String]) -> Result<String> {
        let schemas = self.document["components"]["schemas"].as_object();
        let is_it = |schema: &&Value| {
            schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.contains(kind))
        };
        let Some(schema) = schemas.into_iter().flat_map(Map::values).find(is_it) else {
            return Err(Error::text(format!(
                "error: GVK {} not found in OpenAPI schema",
                rdd_meta::go_text::plain(kind)
            )));
        };
        let Some(text) = self.field(schema, path, &BTreeSet::new(), 0) else {
            let last = path.last().map(String::as_str).unwrap_or_default();
            return Err(Error::text(format!("error: field \"{last}\" does not exist")));
        };
        Ok(text + "\n")
    }

    fn resolve(&self, schema: &'a Value) -> (&'a Value, Option<&'a str>) {
        let Some(reference) = schema["$ref"].as_str() else { return (schema, None) };
        let target = reference.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
        (target.unwrap_or(schema), Some(reference))
    }

    /// Follows the field path and describes the field; `None` if it does not exist.
    fn field(&self, schema: &'a Value, path: &[String], seen: &BTreeSet<&'a str>, depth: usize) -> Option<String> {
        let (resolved, reference) = self.resolve(schema);
        let Some((first, rest)) = path.split_first() else { return Some(self.describe(resolved)) };
        if reference.is_some_and(|reference| seen.contains(reference)) || depth > DEPTH_MAX {
            return None;
        }
        let mut seen = seen.clone();
        seen.extend(reference);
        if let Some(inner) = resolved["properties"].get(first) {
            let mut text = String::new();
            if rest.is_empty() {
                text = format!("FIELD: {first} <{}>\n{}\n\n", self.type_of(inner, 0), long_enum(inner));
            }
            text.push_str(&self.field(inner, rest, &BTreeSet::new(), depth + 1)?);
            return Some(text);
        }
        if let Some(items) = non_empty(&resolved["items"]) {
            return self.field(items, path, &seen, depth + 1);
        }
        if let Some(values) = non_empty(&resolved["additionalProperties"]) {
            return self.field(values, path, &seen, depth + 1);
        }
        let all = resolved["allOf"].as_array();
        all.into_iter().flatten().find_map(|schema| self.field(schema, path, &seen, depth + 1))
    }

    fn describe(&self, schema: &'a Value) -> String {
        let mut description = String::new();
        self.descriptions(schema, &mut description, 0);
        if description.is_empty() {
            description.push_str("<empty>");
        }
        let mut text = format!("DESCRIPTION:\n{}\n", indent(4, &wrap(76, &description)));
        let mut list = String::new();
        self.field_list(schema, 1, &BTreeSet::new(), &mut list, &mut 0);
        if !list.is_empty() {
            text.push_str(&format!("FIELDS:\n{list}"));
        }
        text
    }

    fn descriptions(&self, schema: &'a Value, text: &mut String, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let (resolved, _) = self.resolve(schema);
        if let Some(description) = resolved["description"].as_str().filter(|text| !text.is_empty()) {
            text.push_str(&format!("{description}\n"));
        }
        resolved["allOf"]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|schema| self.descriptions(schema, text, depth + 1));
        for inner in ["items", "additionalProperties"].into_iter().filter_map(|name| non_empty(&resolved[name])) {
            self.descriptions(inner, text, depth + 1);
        }
    }

    fn field_list(
        &self,
        schema: &'a Value,
        level: usize,
        seen: &BTreeSet<&'a str>,
        text: &mut String,
        count: &mut usize,
    ) {
        let (resolved, reference) = self.resolve(schema);
        let is_known = reference.is_some_and(|reference| seen.contains(reference));
        if is_known || level > DEPTH_MAX || *count > FIELDS_MAX {
            return;
        }
        let mut seen = seen.clone();
        seen.extend(reference);
        for (name, field) in resolved["properties"].as_object().into_iter().flatten() {
            *count += 1;
            self.field_detail(resolved, name, field, level, text);
            if self.recursive {
                self.field_list(field, level + 1, &seen, text, count);
            }
        }
        for schema in resolved["allOf"].as_array().into_iter().flatten() {
            self.field_list(schema, level, &seen, text, count);
        }
        for inner in ["items", "additionalProperties"].into_iter().filter_map(|name| non_empty(&resolved[name])) {
            self.field_list(inner, level, &seen, text, count);
        }
    }

    fn field_detail(&self, schema: &Value, name: &str, field: &'a Value, level: usize, text: &mut String) {
        let amount = level * 2;
        text.push_str(&format!("{}\t<{}>", indent(amount, name), self.type_of(field, 0)));
        if schema["required"].as_array().is_some_and(|required| required.contains(&json!(name))) {
            text.push_str(" -required-");
        }
        text.push_str(&short_enum(field, amount));
        text.push('\n');
        if !self.recursive {
            let description =
                field["description"].as_str().filter(|text| !text.is_empty()).unwrap_or("<no description>");
            text.push_str(&indent(amount + 2, &wrap(78 - amount.min(70), description)));
            text.push_str("\n\n");
        }
    }

    fn type_of(&self, schema: &'a Value, depth: usize) -> String {
        if depth > DEPTH_MAX {
            return "Object".to_owned();
        }
        if let Some(items) = non_empty(&schema["items"]) {
            return format!("[]{}", self.type_of(items, depth + 1));
        }
        if let Some(values) = non_empty(&schema["additionalProperties"]) {
            return format!("map[string]{}", self.type_of(values, depth + 1));
        }
        let own = |schema: &Value| match schema["type"].as_str() {
            None | Some("" | "object") => "Object".to_owned(),
            Some(name) => name.to_owned(),
        };
        match schema["allOf"].as_array().map(Vec::as_slice) {
            Some([only]) if non_empty(&schema["properties"]).is_none() => return self.type_of(only, depth + 1),
            _ => {}
        }
        let Some(reference) = schema["$ref"].as_str() else { return own(schema) };
        let (target, _) = self.resolve(schema);
        match target["type"].as_str() {
            Some(name) if name != "object" && !name.is_empty() => name.to_owned(),
            _ => {
                let name = reference.rsplit('/').next().unwrap_or(reference);
                name.rsplit('.').next().filter(|name| !name.is_empty()).unwrap_or("Object").to_owned()
            }
        }
    }
}

/// A schema that is not empty.
fn non_empty(value: &Value) -> Option<&Value> {
    value.as_object().filter(|fields| !fields.is_empty()).map(|_| value)
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        value => rdd_meta::go_text::plain(value),
    }
}

fn enumerated(schema: &Value) -> &[Value] {
    schema["enum"].as_array().map_or(&[], Vec::as_slice)
}

fn long_enum(schema: &Value) -> String {
    match enumerated(schema) {
        [] => String::new(),
        values => format!("ENUM:{}", values.iter().map(|value| format!("\n    {}", shown(value))).collect::<String>()),
    }
}

fn short_enum(schema: &Value, amount: usize) -> String {
    let values = enumerated(schema);
    if values.is_empty() {
        return String::new();
    }
    let first: Vec<String> = values.iter().take(4).map(shown).collect();
    let more = if values.len() > 4 { ", ...." } else { "" };
    format!("\n{}enum: {}{more}", " ".repeat(amount), first.join(", "))
}
