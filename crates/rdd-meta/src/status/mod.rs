//! `Status`, the object that Kubernetes answers with when it has no other: above all, its error on the wire.

use serde::{Deserialize, Serialize};

use crate::go_text::quote;

mod generic;
mod resource;

pub use resource::Denied;

/// Why a request failed, in the word that clients match on. Mirrors `metav1.StatusReason`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// 400: the request makes no sense.
    BadRequest,
    /// 401: nobody we know.
    Unauthorized,
    /// 403: known, and not allowed.
    Forbidden,
    /// 404.
    NotFound,
    /// 405: the path exists, the method does not.
    MethodNotAllowed,
    /// 406: we cannot answer in any form that the client accepts.
    NotAcceptable,
    /// 409: there is one of that name.
    AlreadyExists,
    /// 409: it is not as the request believes it to be.
    Conflict,
    /// 410: it was, and is no more.
    Gone,
    /// 410: that version of it is no more.
    Expired,
    /// 413: the body is over the limit.
    RequestEntityTooLarge,
    /// 415: we do not understand the form of the body.
    UnsupportedMediaType,
    /// 422: the object breaks a rule.
    Invalid,
    /// 429: later, please.
    TooManyRequests,
    /// 500: our fault.
    InternalError,
    /// 500: it could not be done just now; ask again.
    ServerTimeout,
    /// 500: what is stored cannot be read.
    StoreReadError,
    /// 503: not now.
    ServiceUnavailable,
    /// 504: it took too long.
    Timeout,
    /// A word that is none of these: a webhook's own, or that of a newer server.
    #[serde(untagged)]
    Other(Box<str>),
}

/// The `Status` object of `v1`. Its fields are in the order in which Kubernetes writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    kind: Kind,
    api_version: ApiVersion,
    /// A token to go on with, for a list whose version expired.
    #[serde(default)]
    pub metadata: ListMeta,
    /// `Success` or `Failure`.
    pub status: Outcome,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// A word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// More about what it concerns. `Some` of an empty one is written as `{}`, as Kubernetes does for some reasons. It is
    /// boxed so that a Status is small enough to be the error of a `Result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    /// The HTTP status code; 0, which is not written, in what a delete answers.
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

/// The metadata of a Status.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListMeta {
    /// Where a list can go on, if inconsistently.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

/// Whether the operation went through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It did.
    Success,
    /// It did not.
    Failure,
}

/// What a [`Status`] concerns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its kind, or its resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per thing that was wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to try again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One thing that was wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// A word for programs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
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
    /// The HTTP status code that goes with it.
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

    /// 401, in the one word that Kubernetes has for it: it does not say what was wrong with the credentials.
    pub fn unauthorized() -> Self {
        Self::failure(Reason::Unauthorized, "Unauthorized")
    }

    /// 403 for something that is not an object; `why` completes "forbidden: …".
    pub fn forbidden(why: impl AsRef<str>) -> Self {
        Self::failure(Reason::Forbidden, format!("forbidden: {}", why.as_ref())).with_details(Details::default())
    }

    /// 403 for a path, in the words of `responsewriters.Forbidden`.
    pub fn forbidden_path(user: &str, verb: &str, path: &str) -> Self {
        Self::forbidden(format!("User {} cannot {verb} path {}", quote(user), quote(path)))
    }

    /// 404 for a path that no resource is behind.
    pub fn not_found_path() -> Self {
        Self::failure(Reason::NotFound, "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 429: try again after so many seconds. The response carries the same number in `Retry-After`.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message)
            .with_details(Details { retry_after_seconds, ..Details::default() })
    }

    /// 413, with the limit that was exceeded.
    pub fn request_entity_too_large(limit_bytes: usize) -> Self {
        Self::failure(Reason::RequestEntityTooLarge, format!("Request entity too large: limit is {limit_bytes}"))
    }

    /// 504; `what` completes "Timeout: …".
    pub fn timeout(what: impl AsRef<str>) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {}", what.as_ref())).with_details(Details::default())
    }

    /// 500; `what` completes "Internal error occurred: …". It goes to the client, so it tells no secrets.
    pub fn internal(what: impl Into<String>) -> Self {
        let what = what.into();
        let message = format!("Internal error occurred: {what}");
        let cause = Cause { message: what, ..Cause::default() };
        Self::failure(Reason::InternalError, message)
            .with_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message)
    }

    /// 405 for a path that exists.
    pub fn method_not_allowed() -> Self {
        Self::failure(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
            .with_details(Details::default())
    }

    /// 503.
    pub fn service_unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message)
    }

    /// Its bytes on the wire: those of Go's encoder, which escapes what HTML cares about and ends with a newline.
    pub fn to_wire(&self) -> Vec<u8> {
        let json = serde_json::to_string(self).expect("strings, numbers and string keys always serialize");
        let mut wire = Vec::with_capacity(json.len() + 1);
        for character in json.chars() {
            match character {
                // None of these occurs outside of a string, so escaping them anywhere is escaping them there.
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    wire.extend_from_slice(format!("\\u{:04x}", u32::from(character)).as_bytes());
                }
                plain => wire.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        wire.push(b'\n');
        wire
    }

    /// Reads a body that may be a `Status`; `None` if it is anything else.
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
