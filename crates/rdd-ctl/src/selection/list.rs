//! Selects objects by type: all of them, or those that match selectors.

use std::rc::Rc;

use rdd_meta::go_text::quote;
use serde_json::Value;

use super::{Info, Selected, Wanted, as_table, mappings, words::Words};
use crate::{
    api::Call,
    context::Ctl,
    discovery::Mapping,
    error::{Error, Result},
};

pub(super) fn by_selector(ctl: &Ctl<'_>, wanted: &Wanted, words: &Words, labels: &str) -> Result<Selected> {
    if !words.names.is_empty() {
        return Err(Error::text("name cannot be provided when a selector is specified"));
    }
    if !words.pairs.is_empty() {
        return Err(Error::text("selectors and the all flag cannot be used when passing resource/name arguments"));
    }
    if words.types.is_empty() {
        return Err(Error::text("at least one resource must be specified to use a selector"));
    }
    if !wanted.subresource.is_empty() {
        return Err(Error::text("subresource cannot be used when bulk resources are specified"));
    }
    let mut items = Vec::new();
    for mapping in mappings(ctl, wanted, &words.types)? {
        if let Err(error) = list(ctl, wanted, &mapping, labels, &mut items) {
            items.push(Err(error));
            if !wanted.keep_going {
                break;
            }
        }
    }
    Ok(Selected { items, single_item_implied: false, targets_single_items: false })
}

/// Lists all pages.
fn list(
    ctl: &Ctl<'_>,
    wanted: &Wanted,
    mapping: &Rc<Mapping>,
    labels: &str,
    items: &mut Vec<Result<Info>>,
) -> Result<()> {
    let fields = wanted.field_selector.as_deref().unwrap_or_default();
    let namespace = if wanted.all_namespaces || !mapping.namespaced { "" } else { ctl.namespace() };
    let mut token = String::new();
    loop {
        let mut call = Call::get(mapping.path(namespace, ""))
            .query("labelSelector", labels)
            .query("fieldSelector", fields)
            .query("limit", if wanted.chunk > 0 { wanted.chunk.to_string() } else { String::new() })
            .query("continue", token.as_str());
        as_table(&mut call, wanted);
        let mut answer = ctl.call(&call).map_err(|error| with_selectors(error, mapping, labels, fields))?;
        token = answer["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        let info = |object: Value| {
            let metadata = rdd_meta::metadata::Metadata::of(&object);
            let (namespace, name) = (metadata.namespace().to_owned(), metadata.name().to_owned());
            Info { mapping: Some(mapping.clone()), namespace, name, source: String::new(), object: Some(object) }
        };
        let (version, kind) = (mapping.group_version(), mapping.kind.as_str());
        for object in answer.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
            set_type(object, &version, kind);
        }
        if wanted.keep_lists || answer["kind"] == "Table" || !answer["items"].is_array() {
            let mut page = info(answer);
            page.namespace = namespace.to_owned();
            items.push(Ok(page));
        } else {
            let objects = answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
            items.extend(objects.into_iter().map(|object| Ok(info(object))));
        }
        if token.is_empty() {
            return Ok(());
        }
    }
}

/// Sets the type of a list item, which servers may omit.
fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.entry("apiVersion").or_insert_with(|| api_version.into());
        fields.entry("kind").or_insert_with(|| kind.into());
    }
}

fn with_selectors(error: Error, mapping: &Mapping, labels: &str, fields: &str) -> Error {
    if !error.is_reason("BadRequest") && !error.is_not_found() {
        return error;
    }
    let subject = quote(&mapping.resource_string());
    error.prefixed(&if labels.is_empty() && fields.is_empty() {
        format!("Unable to list {subject}: ")
    } else {
        format!(
            "Unable to find {subject} that match label selector {}, field selector {}: ",
            quote(labels),
            quote(fields)
        )
    })
}
