//! From the words of a path to what they name.

use std::sync::Arc;

use http::Method;
use rdd_meta::{
    Status, go_text, names,
    path::{RequestInfo, Verb},
};

use super::Target;
use crate::registry::{CREATE_VERBS, ResourceDef, Served};

/// Why a request for a resource leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nowhere {
    /// Nobody here knows that group and version.
    Unknown,
    /// The group is known, but this is not to be had of it.
    Refused(Box<Status>),
}

/// What a request names, if it is served and the verb means something there.
pub fn resolve(served: &Served, method: &Method, info: &RequestInfo) -> Result<Target, Nowhere> {
    let is_built_in = |def: &ResourceDef| def.version(info.version()).is_some() && def.custom.is_none();
    let nowhere = || {
        let within = info.group().is_empty() || served.in_group(info.group()).any(|def| is_built_in(def));
        if within { Nowhere::Refused(Box::new(Status::not_found_path())) } else { Nowhere::Unknown }
    };
    let def = served.get(info.group(), info.resource()).ok_or_else(|| match unresolvable(served, info) {
        true => Nowhere::Refused(Box::new(Status::internal("error resolving resource"))),
        false => nowhere(),
    })?;
    let version = def.versions.iter().position(|version| version.name == info.version()).ok_or_else(nowhere)?;
    let expected_prefix = if info.group().is_empty() { "api" } else { "apis" };
    if info.api_prefix != expected_prefix || info.has_more_parts() {
        return Err(nowhere());
    }
    // The name that RequestInfo has for a list by `metadata.name` is for authorization alone.
    let name = Some(info.part(1)).filter(|name| !name.is_empty()).map(str::to_owned);
    let namespace = Some(info.namespace()).filter(|namespace| def.namespaced && !namespace.is_empty());
    let namespace = namespace.map(str::to_owned);
    if !is_in_scope(def, info, name.is_some()) {
        return Err(nowhere());
    }
    let subresource = match info.part(2) {
        "" => None,
        part => {
            let parts = &def.versions[version].subresources;
            let absent = || match &def.custom {
                Some(_) => {
                    let name = name.as_deref().unwrap_or_default();
                    Nowhere::Refused(Box::new(Status::not_found(&def.group_resource(), name)))
                }
                None => nowhere(),
            };
            Some(parts.iter().position(|known| known.name == part).ok_or_else(absent)?)
        }
    };
    let target = Target { def: Arc::clone(def), version, namespace, name, subresource };
    if *method == Method::HEAD || !is_possible(&target, &info.verb) {
        let asked = target.name.is_some() && target.subresource.is_none() && def.verbs == CREATE_VERBS;
        let refused = match &def.custom {
            Some(_) => Status::method_not_supported(&def.group_resource(), info.verb.as_str()),
            None => Status::method_not_allowed(),
        };
        return Err(if asked { nowhere() } else { Nowhere::Refused(Box::new(refused)) });
    }
    check_name(&target)?;
    Ok(target)
}

/// Whether a request is for a custom resource whose definition exists and cannot be worked with.
fn unresolvable(served: &Served, info: &RequestInfo) -> bool {
    let found = served.unresolvable(info.group(), info.resource(), info.version());
    let reaches_all = matches!(info.verb, Verb::List | Verb::Watch);
    found.is_some_and(|found| found.namespaced != info.namespace().is_empty() || (found.namespaced && reaches_all))
}

/// A name that no path can have is told so.
fn check_name(target: &Target) -> Result<(), Nowhere> {
    let Some(name) = &target.name else { return Ok(()) };
    match names::path_segment_name(name).as_slice() {
        [] => Ok(()),
        problems => {
            let why = format!("Name parameter invalid: {}: {}", go_text::quote(name), problems.join("; "));
            Err(Nowhere::Refused(Box::new(Status::bad_request(why))))
        }
    }
}

/// A namespaced object is found in its namespace only; its resource also in all of them. What is in no namespace is not
/// found in one.
fn is_in_scope(def: &ResourceDef, info: &RequestInfo, named: bool) -> bool {
    let is_namespace_itself = def.group.is_empty() && def.plural == "namespaces";
    match (def.namespaced, info.namespace().is_empty()) {
        (true, true) => !named,
        (true, false) | (false, true) => true,
        (false, false) => is_namespace_itself && info.path().matches("/namespaces/").count() == 1,
    }
}

fn is_possible(target: &Target, verb: &Verb) -> bool {
    let verbs = target.subresource().map_or(target.def.verbs, |subresource| subresource.verbs);
    let named = target.name.is_some();
    if target.def.namespaced && target.namespace.is_none() && !matches!(verb, Verb::List | Verb::Watch) {
        return false;
    }
    let fits = match verb {
        Verb::List | Verb::DeleteCollection => !named,
        // A create on an object's path is for parts that are asked something.
        Verb::Create => !named || target.subresource.is_some(),
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => named,
        Verb::Watch => target.subresource.is_none(),
        _ => false,
    };
    fits && verbs.contains(&verb.as_str())
}
