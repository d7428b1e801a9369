//! Making responses: bodies, content types, and errors as `Status`.

use std::error::Error;

use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use rdd_meta::Status;
use serde::Serialize;

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What a handler answers with.
pub type Response = http::Response<Body>;

/// Text as Go's HTTP library labels it.
pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// JSON as Kubernetes labels it.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A body that is all there.
pub fn full(content: impl Into<Bytes>) -> Body {
    Full::new(content.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A response with a body that is all there.
pub fn content(code: StatusCode, content_type: HeaderValue, content: impl Into<Bytes>) -> Response {
    let mut response = Response::new(full(content));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A value as Kubernetes writes those that are not objects: indented by two, no newline at the end.
pub fn raw_json(value: &impl Serialize) -> Response {
    match serde_json::to_vec_pretty(value) {
        Ok(json) => content(StatusCode::OK, JSON, json),
        Err(error) => status(&Status::internal(error.to_string())),
    }
}

/// An error on the wire.
pub fn status(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = content(code, JSON, status.to_wire());
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// What Go's `http.NotFound` writes, as the original does for every path that it does not know.
pub fn not_found() -> Response {
    content(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")
}
