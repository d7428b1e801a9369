//! `Status`, the object with which the API reports errors and some successes.

use serde::{Deserialize, Serialize};

use crate::go_text::quote;

mod generic;
mod resource;

pub use resource::Denied;

/// The machine-readable reason of a failure, on which clients match. Mirrors `metav1.StatusReason`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// 400: the request is malformed.
    BadRequest,
    /// 401: the client is not authenticated.
    Unauthorized,
    /// 403: the client is not authorized.
    Forbidden,
    /// 404: the object or the path does not exist.
    NotFound,
    /// 405: the resource does not support the method.
    MethodNotAllowed,
    /// 406: the server supports none of the media types that the client accepts.
    NotAcceptable,
    /// 409: an object of this name already exists.
    AlreadyExists,
    /// 409: the object is not in the state that the request expects, for example it was modified meanwhile.
    Conflict,
    /// 410: the resource existed and has been removed.
    Gone,
    /// 410: the resource version was compacted.
    Expired,
    /// 413: the body exceeds the size limit.
    RequestEntityTooLarge,
    /// 415: the server does not support the media type of the body.
    UnsupportedMediaType,
    /// 422: the object failed validation.
    Invalid,
    /// 429: the client must retry later.
    TooManyRequests,
    /// 500: the server failed.
    InternalError,
    /// 500: the server could not complete the request now; the client should retry.
    ServerTimeout,
    /// 500: the server cannot decode a stored object.
    StoreReadError,
    /// 503: the server is unavailable.
    ServiceUnavailable,
    /// 504: the request timed out.
    Timeout,
    /// Any other reason, from a webhook or a newer server.
    #[serde(untagged)]
    Other(Box<str>),
}

/// The `Status` object of `v1`. The fields are in the order in which Kubernetes writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    kind: Kind,
    api_version: ApiVersion,
    /// List metadata; has a continue token when a paged list expired.
    #[serde(default)]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: Outcome,
    /// The message for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The machine-readable reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What the failure is about. `Some` empty details are written as `{}`, as Kubernetes does for some reasons. The
    /// box keeps a Status small enough for the error of a `Result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status code; 0, which is not written, in the Status that answers a delete.
    #[serde(default, skip_serializing_if = "is_zero_code")]
    pub code: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ApiVersion {
    #[serde(rename = "v1")]
    V1,
}

/// The list metadata of a Status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListMeta {
    /// A token with which an expired list can continue inconsistently.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// Whether the operation succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The operation succeeded.
    Success,
    /// The operation failed.
    Failure,
}

/// What a [`Status`] is about, with the single causes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind of the object, or its resource: upstream uses either, depending on the reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The uid of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The single problems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// After how many seconds the client should retry; 0 if it need not wait or should not retry.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One of the problems that a Status reports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// The machine-readable reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The path of the field, as in `spec.containers[0].image`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_code(code: &u16) -> bool {
    *code == 0
}

impl Reason {
    /// The HTTP status code of the reason; 500 for an unknown one.
    pub fn code(&self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Gone | Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::ServerTimeout | Self::StoreReadError | Self::Other(_) => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }
}

impl Status {
    fn failure(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            kind: Kind::Status,
            api_version: ApiVersion::V1,
            metadata: ListMeta::default(),
            status: Outcome::Failure,
            message: message.into(),
            code: reason.code(),
            reason: Some(reason),
            details: None,
        }
    }

    fn with_details(mut self, details: Details) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// 401. Like Kubernetes', the message does not reveal what is wrong with the credentials.
    pub fn unauthorized() -> Self {
        Self::failure(Reason::Unauthorized, "Unauthorized")
    }

    /// 403 for a request that is not about an object; `why` completes "forbidden: …".
    pub fn forbidden(why: impl AsRef<str>) -> Self {
        Self::failure(Reason::Forbidden, format!("forbidden: {}", why.as_ref())).with_details(Details::default())
    }

    /// 403 for a non-resource path, with the message of `responsewriters.Forbidden`.
    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        Self::forbidden(format!("User {} cannot {verb} path {}", quote(user), quote(path)))
    }

    /// 404 for a path that the server does not serve.
    pub fn not_found_path() -> Self {
        Self::failure(Reason::NotFound, "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 429 with the number of seconds after which the client should retry. The caller sets the response's `Retry-After`
    /// header to the same number.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 413 with the limit in bytes.
    pub fn request_entity_too_large(limit_bytes: usize) -> Self {
        Self::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {limit_bytes}"))
    }

    /// 504; `what` completes "Timeout: …".
    pub fn timeout(what: impl AsRef<str>) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {}", what.as_ref())).with_details(Details::default())
    }

    /// 500; `what` completes "Internal error occurred: …". The client sees it, so it must not contain secrets.
    pub fn internal(what: impl Into<String>) -> Self {
        let what = what.into();
        let message = format!("Internal error occurred: {what}");
        let cause = Cause { message: what, ..Cause::default() };
        Self::failure(Reason::InternalError, message)
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// 400 with this message.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message)
    }

    /// 405 for a path that does not support the method.
    pub fn method_not_allowed() -> Self {
        Self::failure(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
            .with_details(Details::default())
    }

    /// 503 with this message.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message)
    }

    /// The body of the response, as Go's encoder writes it: with escaped HTML characters and a newline at the end.
    pub fn to_wire(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("strings, numbers and string keys always serialize");
        let mut wire = Vec::with_capacity(json.len() + 1);
        for character in json.chars() {
            match character {
                // These characters only occur inside of JSON strings, so they can be escaped without parsing the text.
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    wire.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                }
                plain => wire.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        wire.push(b'\n');
        wire
    }

    /// Parses a response body; `None` if it is not a `Status`.
    pub fn from_wire(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: &Status, wire: &str) {
        assert_eq!(String::from_utf8(status.to_wire()).unwrap(), format!("{wire}\n"));
        assert_eq!(Status::from_wire(wire.as_bytes()).as_ref(), Some(status), "it reads back as it was");
    }

    #[test]
    fn every_failure_is_written_as_kubernetes_writes_it() {
        check(
            &Status::unauthorized(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
        );
        check(
            &Status::forbidden_path("user", "get", "/datastore/backup"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"user\" cannot get path \"/datastore/backup\"","reason":"Forbidden","details":{},"code":403}"#,
        );
        check(
            &Status::not_found_path(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#,
        );
        check(
            &Status::too_many_requests("Too many requests, please try again later.", 1),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Too many requests, please try again later.","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#,
        );
        check(
            &Status::request_entity_too_large(3_145_728),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge","code":413}"#,
        );
        check(
            &Status::timeout("request did not complete within the allotted timeout"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#,
        );
        check(
            &Status::internal("no space left"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: no space left","reason":"InternalError","details":{"causes":[{"message":"no space left"}]},"code":500}"#,
        );
        check(
            &Status::bad_request("no"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"BadRequest","code":400}"#,
        );
        check(
            &Status::method_not_allowed(),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#,
        );
        check(
            &Status::service_unavailable("later"),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"later","reason":"ServiceUnavailable","code":503}"#,
        );
    }

    #[test]
    fn what_html_cares_about_is_escaped_as_go_does_it() {
        let status = Status::bad_request("<a & b>\u{2028}ü");
        let wire = String::from_utf8(status.to_wire()).unwrap();
        assert!(wire.contains(r#""message":"\u003ca \u0026 b\u003e\u2028ü""#), "{wire}");
        assert_eq!(Status::from_wire(wire.as_bytes()), Some(status));
    }

    #[test]
    fn a_reason_that_is_not_known_is_kept() {
        let wire = br#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Tired","code":418,"new":1}"#;
        let status = Status::from_wire(wire).unwrap();
        assert_eq!((&status.reason, status.code), (&Some(Reason::Other("Tired".into())), 418));
        assert!(String::from_utf8(status.to_wire()).unwrap().contains(r#""reason":"Tired""#));
    }

    #[test]
    fn what_is_not_a_status_is_not_read_as_one() {
        for body in ["", "ok", "[]", r#"{"kind":"ConfigMap","apiVersion":"v1"}"#] {
            assert_eq!(Status::from_wire(body.as_bytes()), None, "{body}");
        }
    }
}
