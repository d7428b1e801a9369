//! Which objects of a collection a list or a watch is about.

use std::sync::Arc;

use http::request::Parts;
use rdd_meta::{
    Status,
    fields::FieldSelector,
    options::{self, ListOptions},
    query::Query,
};
use rdd_store::Revision;

use super::{Target, error, error::of_state};
use crate::{
    registry::form,
    state::{self, Filter, Object},
};

/// The options of a list or a watch, read and checked; `watch` is what the path or the query says.
pub(super) fn options(head: &Parts) -> Result<ListOptions, Status> {
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let mut options = ListOptions::from_query(&query).map_err(|error| Status::bad_request(error.to_string()))?;
    options.set_defaults();
    match options.validate().as_slice() {
        [] => Ok(options),
        errors => Err(options::invalid("ListOptions", errors)),
    }
}

/// Completes the options with the name in the path, and checks that the resource can be selected by the fields they name.
pub(super) fn complete(target: &Target, options: &mut ListOptions) -> Result<(), Status> {
    check_fields(target, &options.field_selector)?;
    let Some(name) = target.name.as_deref() else { return Ok(()) };
    if options.field_selector.is_empty() {
        options.field_selector = FieldSelector::equals("metadata.name", name);
    } else if options.field_selector.required_value("metadata.name") != Some(name) {
        return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
    }
    Ok(())
}

/// Whether the resource can be selected by these fields.
pub(super) fn check_fields(target: &Target, selector: &FieldSelector) -> Result<(), Status> {
    if selector.is_empty() {
        return Ok(());
    }
    let own = target.version().kind.selectable_fields();
    let checked = if own.is_empty() && target.def.custom.is_none() {
        selector.check_default()
    } else {
        let mut known: Vec<&str> = own.iter().map(String::as_str).collect();
        if target.def.namespaced {
            known.push("metadata.namespace");
        }
        selector.check_supported(&known)
    };
    checked.map_err(|error| Status::bad_request(error.to_string()))
}

/// Whether the options select by what is in an object, so that each has to be parsed.
pub(super) fn needs_content(options: &ListOptions) -> bool {
    options.field_selector.terms().iter().any(|term| !is_in_key(&term.field))
}

/// Whether the key of an object has this field.
fn is_in_key(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}

/// What an object must be like, if not every object will do.
pub(super) fn filter(target: &Target, options: &ListOptions) -> Option<Filter> {
    let (labels, fields) = (options.label_selector.clone(), options.field_selector.clone());
    if labels.is_empty() && fields.is_empty() {
        return None;
    }
    let needs_content = needs_content(options);
    let target = target.clone();
    Some(Arc::new(move |object: &Object| {
        let by_key = |field: &str| match field {
            "metadata.name" => Some(object.name()),
            "metadata.namespace" => object.namespace(),
            _ => None,
        };
        if !labels.matches(|name| object.label(name)) {
            return false;
        }
        if !needs_content {
            return fields.matches(by_key);
        }
        // Objects are parsed for the few selectors that ask for what is in them, and only then.
        let Ok(value) = form::value(&target.def, target.version(), object) else { return false };
        fields.terms().iter().all(|term| {
            let kind = &target.version().kind;
            let found = by_key(&term.field);
            let equal = match found {
                Some(found) => found == term.value,
                None if is_in_key(&term.field) => term.value.is_empty(),
                None => kind.selectable_field(&value, &term.field) == term.value,
            };
            equal == term.equal
        })
    }))
}

/// A revision that a get or a watch names. Upstream has no better word for one that is none than 500.
pub(super) fn revision(text: &str) -> Result<Revision, Status> {
    let parsed = rdd_meta::resource_version::parse(text);
    parsed.map(Revision).map_err(|why| error::plain(why.to_string()))
}

/// What a client is told when the state cannot give what it asks for.
pub(super) fn refused(error: state::Error) -> Status {
    match error {
        state::Error::Expired { .. } => Status::expired_list(),
        other => of_state(&other),
    }
}
