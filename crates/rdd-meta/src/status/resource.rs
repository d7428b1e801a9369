//! Constructors of the Statuses about a resource or an object, with upstream's messages.

use super::{ApiVersion, Cause, Details, Kind, ListMeta, Outcome, Reason, Status};
use crate::{
    field_error::{FieldError, aggregate},
    go_text::quote,
    gvk::{GroupKind, GroupResource},
};

/// The message of a resource version conflict.
const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";
const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can \
                                start a new list without the continue parameter.";
const CONTINUE_INCONSISTENT: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
     the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
     Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
     deleted between the time the first chunk was returned and now may show up in the list.";

/// A request that an authorizer denied.
#[derive(Debug, Clone, Copy)]
pub struct Denied<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The verb of the request.
    pub verb: &'a str,
    /// The resource of the request.
    pub resource: &'a GroupResource,
    /// The subresource; empty if the request has none.
    pub subresource: &'a str,
    /// The namespace; empty for the cluster scope.
    pub namespace: &'a str,
    /// The name of the object; empty for a collection.
    pub name: &'a str,
    /// The authorizer's reason; may be empty.
    pub reason: &'a str,
}

pub(super) fn details_of(resource: &GroupResource, name: &str) -> Details {
    Details {
        name: name.to_owned(),
        group: resource.group.clone(),
        kind: resource.resource.clone(),
        ..Details::default()
    }
}

impl Status {
    fn about(reason: Reason, resource: &GroupResource, name: &str, message: String) -> Self {
        Self::failure(reason, message).with_details(details_of(resource, name))
    }

    /// 404, as in `configmaps "x" not found`.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::about(Reason::NotFound, resource, name, format!("{resource} {} not found", quote(name)))
    }

    /// 409, as in `configmaps "x" already exists`.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::about(Reason::AlreadyExists, resource, name, format!("{resource} {} already exists", quote(name)))
    }

    /// 409 when every generated name was taken. The client may retry after this number of seconds.
    pub fn generated_name_exists(resource: &GroupResource, name: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "{resource} {} already exists, the server was not able to generate a unique name for the object",
            quote(name)
        );
        let details = Details { retry_after_seconds, ..details_of(resource, name) };
        Self::failure(Reason::AlreadyExists, message).with_details(details)
    }

    /// 409; `why` completes "Operation cannot be fulfilled on …".
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::about(Reason::Conflict, resource, name, message)
    }

    /// 409 for an update of an outdated resource version, with the message that clients recognize.
    pub fn conflict_modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(resource, name, MODIFIED)
    }

    /// 409 for an apply that conflicts with other field managers; each cause is one field.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Self {
        Self::failure(Reason::Conflict, message).with_details(Details { causes, ..Details::default() })
    }

    /// 422 with all errors of an object, joined in the message and single in the causes. Its details name the kind, not
    /// the resource.
    pub fn invalid(kind: &GroupKind, name: &str, errors: &[FieldError]) -> Self {
        let mut message = format!("{kind} {} is invalid", quote(name));
        if !errors.is_empty() {
            message.push_str(": ");
            message.push_str(&aggregate(errors));
        }
        let causes = errors.iter().map(|error| Cause {
            reason: error.kind.reason().to_owned(),
            message: error.body(),
            field: error.path.clone(),
        });
        Self::failure(Reason::Invalid, message).with_details(Details {
            name: name.to_owned(),
            group: kind.group.clone(),
            kind: kind.kind.clone(),
            causes: causes.collect(),
            ..Details::default()
        })
    }

    /// 403; `why` completes "… is forbidden: …".
    pub fn forbidden_resource(resource: &GroupResource, name: &str, why: &str) -> Self {
        // Upstream leaves out what is not known of the target.
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{resource} is forbidden: {why}"),
            (false, false) => format!("{resource} {} is forbidden: {why}", quote(name)),
        };
        Self::about(Reason::Forbidden, resource, name, message)
    }

    /// 403 by an authorizer: which user cannot use which verb on which resource in which namespace.
    pub fn denied(denied: &Denied<'_>) -> Self {
        let Denied { user, verb, resource, subresource, namespace, name, reason } = denied;
        let plural = &resource.resource;
        let target = if subresource.is_empty() { plural.clone() } else { format!("{plural}/{subresource}") };
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quote(namespace))
        };
        let (user, target, group) = (quote(user), quote(&target), quote(&resource.group));
        // Upstream escapes HTML in the user's input here.
        let mut why = format!("User {user} cannot {verb} resource {target} in API group {group} {place}")
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        if !reason.is_empty() {
            why.push_str(": ");
            why.push_str(reason);
        }
        Self::forbidden_resource(resource, name, &why)
    }

    /// 410 with this message, for something that was removed for good.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(Reason::Gone, message)
    }

    /// 410 with this message, for a resource version that was compacted.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(Reason::Expired, message)
    }

    /// 410 for a list at a compacted resource version.
    pub fn expired_list() -> Self {
        Self::expired(LIST_EXPIRED)
    }

    /// 410 for the next page of a list whose resource version was compacted. With a token, the client can continue
    /// inconsistently.
    pub fn expired_continue(inconsistent_token: Option<String>) -> Self {
        match inconsistent_token {
            Some(continue_token) => {
                Self { metadata: ListMeta { continue_token }, ..Self::expired(CONTINUE_INCONSISTENT) }
            }
            None => Self::expired(CONTINUE_EXPIRED),
        }
    }

    /// 410 for a watch, sent as its only event, of type ERROR: the requested version and the oldest available one.
    pub fn expired_watch(requested: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {requested} ({oldest})"))
    }

    /// 415: the server accepts only these media types.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::failure(Reason::UnsupportedMediaType, message)
    }

    /// 406: the server can answer only in these media types.
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::failure(Reason::NotAcceptable, message)
    }

    /// 406 for a conversion of the answer, for example to `meta.k8s.io/v1, Kind=Table`.
    pub fn not_acceptable_conversion(target: &str, accepted: &[&str]) -> Self {
        let accepted = accepted.join(", ");
        let message = format!("only the following media types are accepted when converting to {target}: {accepted}");
        Self::failure(Reason::NotAcceptable, message)
    }

    /// 405, as in `create is not supported on resources of kind "configmaps"`.
    pub fn method_not_supported(resource: &GroupResource, action: &str) -> Self {
        let message = format!("{action} is not supported on resources of kind {}", quote(&resource.to_string()));
        Self::about(Reason::MethodNotAllowed, resource, "", message)
    }

    /// 500 for an operation that the client should retry after this number of seconds.
    pub fn server_timeout(resource: &GroupResource, operation: &str, retry_after_seconds: u32) -> Self {
        let message = format!(
            "The {operation} operation against {resource} could not be completed at this time, please try again."
        );
        let details = Details { retry_after_seconds, ..details_of(resource, operation) };
        Self::failure(Reason::ServerTimeout, message).with_details(details)
    }

    /// 504 for a resource version that the server has not reached.
    pub fn resource_version_too_large(requested: u64, current: u64, retry_after_seconds: u32) -> Self {
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            ..Cause::default()
        };
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
        Self::failure(Reason::Timeout, message).with_details(details)
    }

    /// The success Status of a delete that removed the object immediately. It has no code, and its details name the
    /// resource as `kind`.
    pub fn deleted(resource: &GroupResource, name: &str, uid: &str) -> Self {
        Self {
            kind: Kind::Status,
            api_version: ApiVersion::V1,
            metadata: ListMeta::default(),
            status: Outcome::Success,
            message: String::new(),
            reason: None,
            details: Some(Box::new(Details { uid: uid.to_owned(), ..details_of(resource, name) })),
            code: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn configmaps() -> GroupResource {
        GroupResource::new("", "configmaps")
    }

    fn foos() -> GroupResource {
        GroupResource::new("example.com", "foos")
    }

    #[track_caller]
    fn check(status: &Status, code: u16, reason: &str, message: &str, details: &Value) {
        let wire: Value = serde_json::from_slice(&status.to_wire()).unwrap();
        let mut expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": reason, "code": code, "details": details,
        });
        if details.is_null() {
            expected.as_object_mut().unwrap().remove("details");
        }
        assert_eq!(wire, expected);
        assert_eq!(Status::from_wire(&status.to_wire()).as_ref(), Some(status), "it reads back as it was");
    }

    #[test]
    fn failures_name_the_resource_with_its_group_and_the_object() {
        let of_foo = json!({"name": "x", "group": "example.com", "kind": "foos"});
        check(
            &Status::not_found(&configmaps(), "x"),
            404,
            "NotFound",
            r#"configmaps "x" not found"#,
            &json!({"name": "x", "kind": "configmaps"}),
        );
        check(&Status::not_found(&foos(), "x"), 404, "NotFound", r#"foos.example.com "x" not found"#, &of_foo);
        check(
            &Status::already_exists(&foos(), "x"),
            409,
            "AlreadyExists",
            r#"foos.example.com "x" already exists"#,
            &of_foo,
        );
        check(
            &Status::generated_name_exists(&configmaps(), "x", 1),
            409,
            "AlreadyExists",
            r#"configmaps "x" already exists, the server was not able to generate a unique name for the object"#,
            &json!({"name": "x", "kind": "configmaps", "retryAfterSeconds": 1}),
        );
        check(
            &Status::conflict_modified(&foos(), "x"),
            409,
            "Conflict",
            r#"Operation cannot be fulfilled on foos.example.com "x": the object has been modified; please apply your changes to the latest version and try again"#,
            &of_foo,
        );
        check(
            &Status::method_not_supported(&foos(), "create"),
            405,
            "MethodNotAllowed",
            r#"create is not supported on resources of kind "foos.example.com""#,
            &json!({"group": "example.com", "kind": "foos"}),
        );
        check(
            &Status::server_timeout(&configmaps(), "list", 2),
            500,
            "ServerTimeout",
            "The list operation against configmaps could not be completed at this time, please try again.",
            &json!({"name": "list", "kind": "configmaps", "retryAfterSeconds": 2}),
        );
    }

    #[test]
    fn invalid_tells_all_errors_at_once_and_each_as_a_cause() {
        let errors = [FieldError::required("spec.a", ""), FieldError::invalid("spec.b", &json!("v"), "bad")];
        check(
            &Status::invalid(&GroupKind::new("example.com", "Foo"), "x", &errors),
            422,
            "Invalid",
            r#"Foo.example.com "x" is invalid: [spec.a: Required value, spec.b: Invalid value: "v": bad]"#,
            &json!({"name": "x", "group": "example.com", "kind": "Foo", "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.a"},
                {"reason": "FieldValueInvalid", "message": "Invalid value: \"v\": bad", "field": "spec.b"},
            ]}),
        );
        let plain = Status::invalid(&GroupKind::new("", "ConfigMap"), "x", &[]);
        assert_eq!(plain.message, r#"ConfigMap "x" is invalid"#);
    }

    #[test]
    fn a_denial_says_who_cannot_do_what_where() {
        let (resource, subresource) = (foos(), "status");
        let mut denied = Denied {
            user: "u",
            verb: "get",
            resource: &resource,
            subresource: "",
            namespace: "n",
            name: "",
            reason: "",
        };
        let message = |denied: &Denied<'_>| Status::denied(denied).message;
        assert_eq!(
            message(&denied),
            r#"foos.example.com is forbidden: User "u" cannot get resource "foos" in API group "example.com" in the namespace "n""#
        );
        denied = Denied { user: "<u>", subresource, namespace: "", name: "x", reason: "no <b>", ..denied };
        assert_eq!(
            message(&denied),
            r#"foos.example.com "x" is forbidden: User "&lt;u&gt;" cannot get resource "foos/status" in API group "example.com" at the cluster scope: no <b>"#
        );
        assert_eq!(Status::forbidden_resource(&GroupResource::default(), "", "no").message, "forbidden: no");
    }

    #[test]
    fn what_expired_says_how_to_go_on() {
        check(&Status::expired_list(), 410, "Expired", LIST_EXPIRED, &Value::Null);
        check(&Status::expired_watch(3, 7), 410, "Expired", "too old resource version: 3 (7)", &Value::Null);
        check(&Status::gone("away"), 410, "Gone", "away", &Value::Null);
        check(&Status::expired_continue(None), 410, "Expired", CONTINUE_EXPIRED, &Value::Null);
        let status = Status::expired_continue(Some("token".to_owned()));
        let wire: Value = serde_json::from_slice(&status.to_wire()).unwrap();
        assert_eq!(wire["metadata"], json!({"continue": "token"}));
        assert_eq!(Status::from_wire(&status.to_wire()), Some(status));
    }

    #[test]
    fn media_types_that_would_do_are_listed() {
        let accepted = ["application/json", "application/yaml"];
        for (status, message) in [
            (
                Status::unsupported_media_type(&accepted),
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
            ),
            (
                Status::not_acceptable(&accepted),
                "only the following media types are accepted: application/json, application/yaml",
            ),
            (
                Status::not_acceptable_conversion("meta.k8s.io/v1, Kind=Table", &accepted),
                "only the following media types are accepted when converting to meta.k8s.io/v1, Kind=Table: application/json, application/yaml",
            ),
        ] {
            assert_eq!(status.message, message);
        }
        assert_eq!((Status::unsupported_media_type(&[]).code, Status::not_acceptable(&[]).code), (415, 406));
    }

    #[test]
    fn a_version_from_the_future_is_a_timeout_with_a_cause() {
        check(
            &Status::resource_version_too_large(9, 5, 1),
            504,
            "Timeout",
            "Timeout: Too large resource version: 9, current: 5",
            &json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1}),
        );
        let cause = Cause { reason: "FieldManagerConflict".to_owned(), ..Cause::default() };
        check(
            &Status::apply_conflict(vec![cause], "m"),
            409,
            "Conflict",
            "m",
            &json!({"causes": [{"reason": "FieldManagerConflict"}]}),
        );
    }

    #[test]
    fn a_delete_that_went_through_has_details_and_no_code() {
        let wire = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"example.com","kind":"foos","uid":"u"}}"#;
        let status = Status::deleted(&foos(), "x", "u");
        assert_eq!(String::from_utf8(status.to_wire()).unwrap(), format!("{wire}\n"));
        assert_eq!(Status::from_wire(wire.as_bytes()), Some(status));
    }
}
