//! `kubernetes.authz`: whether somebody may do something. Here everybody may do everything, so a check knows its answer before it is
//! made, and none of its values has to remember what was asked.

use rdd_meta::names;

use crate::value::{Fault, Outcome, Value};

/// The steps of a check. Nothing can be done with one but to call its functions; they are not even equal to themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    /// Who is asked; the variable `authorizer`
    Authorizer,
    /// About a path
    PathCheck,
    /// About a group, of which the resource is still to be said
    GroupCheck,
    /// About a resource; the variable `authorizer.requestResource`
    ResourceCheck,
    /// What the authorizer says: yes, and nothing more
    Decision,
}

impl Authorization {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Authorization::Authorizer => "kubernetes.authorization.Authorizer",
            Authorization::PathCheck => "kubernetes.authorization.PathCheck",
            Authorization::GroupCheck => "kubernetes.authorization.GroupCheck",
            Authorization::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            Authorization::Decision => "kubernetes.authorization.Decision",
        }
    }

    pub(crate) fn go_type(self) -> &'static str {
        match self {
            Authorization::Authorizer => "library.authorizerVal",
            Authorization::PathCheck => "library.pathCheckVal",
            Authorization::GroupCheck => "library.groupCheckVal",
            Authorization::ResourceCheck => "library.resourceCheckVal",
            Authorization::Decision => "library.decisionVal",
        }
    }
}

/// A text that says something, or why it must.
fn said<'a>(args: &[Value<'a>], what: &str, next: Authorization) -> Outcome<'a> {
    match args {
        [_, Value::String(text)] if !text.trim().is_empty() => Ok(Value::Authorization(next)),
        [_, Value::String(_)] => Err(Fault::error(format!("{what} must not be empty"))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(super) fn path<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    said(args, "path", Authorization::PathCheck)
}

/// The core has the empty name, so any text is a group.
pub(super) fn group<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Authorization(Authorization::GroupCheck))
}

pub(super) fn service_account<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [_, Value::String(namespace), Value::String(name)] = args else { return Err(Fault::no_such_overload()) };
    if !names::is_dns_1123_subdomain(name) {
        return Err(Fault::error("Invalid service account name"));
    }
    if !names::is_dns_1123_label(namespace) {
        return Err(Fault::error("Invalid service account namespace"));
    }
    Ok(Value::Authorization(Authorization::Authorizer))
}

pub(super) fn resource<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    said(args, "resource", Authorization::ResourceCheck)
}

/// Subresource, namespace, name and selectors. A selector that cannot be read is no error until an authorizer looks at it.
pub(super) fn narrowed<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Authorization(Authorization::ResourceCheck))
}

pub(super) fn check<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Authorization(Authorization::Decision))
}

pub(super) fn allowed<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(true))
}

pub(super) fn errored<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(false))
}

/// The reason, and the error: there is none of either.
pub(super) fn nothing<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(""))
}
