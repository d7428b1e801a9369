//! Selects the objects in files.

use rdd_meta::{go_text::quote, labels::LabelSelector};
use serde_json::Value;

use super::{Info, Selected, Wanted, looked_up, words::Words};
use crate::{
    context::Ctl,
    discovery::Mapping,
    error::{Error, Result},
    source,
};

pub(super) fn by_files(ctl: &Ctl<'_>, wanted: &Wanted, words: &Words, labels: Option<&str>) -> Result<Selected> {
    let documents = source::read(ctl)?;
    if !words.types.is_empty() {
        return Err(Error::text(
            "when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well",
        ));
    }
    if !words.names.is_empty() {
        return Err(Error::text("name cannot be provided when a path is specified"));
    }
    if !words.pairs.is_empty() {
        return Err(Error::text("resource/name arguments cannot be provided when a path is specified"));
    }
    let selector = labels.filter(|labels| !labels.is_empty()).map(|labels| {
        LabelSelector::parse(labels)
            .map_err(|error| Error::text(format!("the provided selector {} is not valid: {error}", quote(labels))))
    });
    let selector = selector.transpose()?;
    let mut items = Vec::new();
    for document in documents.all {
        let source = document.source;
        match document.content {
            Err(error) => items.push(Err(error)),
            Ok(value) if wanted.validate && !type_problems(&value).is_empty() => {
                items.push(Err(invalid(&source, &type_problems(&value))));
            }
            Ok(value) => items.extend(flatten(value).into_iter().map(|object| of_file(ctl, wanted, object, &source))),
        }
    }
    if wanted.latest {
        let asked = Wanted { require_object: true, ..wanted.clone() };
        items = looked_up(ctl, &asked, items, true);
    }
    if let Some(selector) = selector {
        let labels = |info: &Info| {
            let metadata = info.object()["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            selector.matches(|key| metadata.get(key).and_then(Value::as_str))
        };
        items.retain(|item| item.as_ref().map_or(true, labels));
    }
    Ok(Selected { items, single_item_implied: documents.is_single_file, targets_single_items: true })
}

/// The missing type fields of an object.
fn type_problems(value: &Value) -> Vec<&'static str> {
    if !value.is_object() {
        return vec!["invalid object to validate"];
    }
    let missing = |field: &str| value[field].as_str().is_none_or(str::is_empty);
    let fields = [("apiVersion", "apiVersion not set"), ("kind", "kind not set")];
    fields.into_iter().filter(|(field, _)| missing(field)).map(|(_, problem)| problem).collect()
}

fn invalid(source: &str, problems: &[&str]) -> Error {
    let problems = match problems {
        [problem] => (*problem).to_owned(),
        problems => format!("[{}]", problems.join(", ")),
    };
    Error::text(format!(
        "error validating {}: error validating data: {problems}; if you choose to ignore these errors, turn validation off with \
         --validate=false",
        quote(source)
    ))
}

/// Expands a list into its items, recursively.
fn flatten(value: Value) -> Vec<Value> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && value["items"].is_array();
    if !is_list {
        return vec![value];
    }
    let mut value = value;
    // The recursion is bounded, because the parser bounds nesting.
    value["items"].as_array_mut().map(std::mem::take).unwrap_or_default().into_iter().flat_map(flatten).collect()
}

fn of_file(ctl: &Ctl<'_>, wanted: &Wanted, mut object: Value, source: &str) -> Result<Info> {
    let undecodable = |why: String| Error::text(format!("unable to decode {}: {why}", quote(source)));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, version) = (text(&object["kind"]), text(&object["apiVersion"]));
    if kind.is_empty() {
        let shown = rdd_meta::go_json::to_string(&object);
        return Err(undecodable(format!("Object 'Kind' is missing in '{shown}'")));
    }
    rdd_meta::metadata::check_shape(&object).map_err(|error| undecodable(error.to_string()))?;
    let (name, namespace) = (text(&object["metadata"]["name"]), text(&object["metadata"]["namespace"]));
    if wanted.local {
        return Ok(Info { mapping: None, namespace, name, source: source.to_owned(), object: Some(object) });
    }
    let Some(mapping) = ctl.discovery.of_kind(&ctl.api, &version, &kind)? else {
        return Err(Error::text(format!(
            "resource mapping not found for name: {} namespace: {} from {}: no matches for kind {} in version {}\nensure \
             CRDs are installed first",
            quote(&name),
            quote(&namespace),
            quote(source),
            quote(&kind),
            quote(&version)
        )));
    };
    let namespace = place(ctl, &mapping, &mut object, namespace)?;
    Ok(Info { mapping: Some(mapping), namespace, name, source: source.to_owned(), object: Some(object) })
}

/// Sets the namespace of an object that has none, and checks it against `--namespace`.
fn place(ctl: &Ctl<'_>, mapping: &Mapping, object: &mut Value, namespace: String) -> Result<String> {
    let Some(mut metadata) = rdd_meta::metadata::MetadataMut::of(object) else { return Ok(namespace) };
    if !mapping.namespaced {
        if !namespace.is_empty() {
            metadata.set("namespace", None);
        }
        return Ok(String::new());
    }
    if namespace.is_empty() {
        metadata.set_namespace(ctl.namespace());
        return Ok(ctl.namespace().to_owned());
    }
    if ctl.is_namespace_explicit() && namespace != ctl.namespace() {
        return Err(Error::text(format!(
            "the namespace from the provided object {} does not match the namespace {}. You must pass '--namespace={namespace}' \
             to perform this operation.",
            quote(&namespace),
            quote(ctl.namespace())
        )));
    }
    Ok(namespace)
}
