//! `kubernetes.authz`: authorization checks in expressions. Here every user may do everything, so every check allows, and its
//! values carry no request.

use rdd_meta::names;

use crate::value::{Fault, Outcome, Value};

/// The state of a check. Expressions can only call its functions; comparing it is an error, also with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    /// The authorizer; the variable `authorizer`
    Authorizer,
    /// A check of a path
    PathCheck,
    /// A check of a group, whose resource is not set yet
    GroupCheck,
    /// A check of a resource; the variable `authorizer.requestResource`
    ResourceCheck,
    /// The decision, which is always to allow
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

/// Continues with `next` if the argument is a string that is not blank; otherwise an error that names `what`.
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

/// Any string is a group, also the empty one, which is the core group.
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

/// Subresource, namespace, name and selectors. An invalid selector is not an error until an authorizer evaluates it.
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

/// The reason and the error of a decision, which are always empty.
pub(super) fn nothing<'a>(_: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::text(""))
}
