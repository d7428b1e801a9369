//! Building responses: bodies, content types, and errors as `Status`.

use std::{
    error::Error,
    fmt, mem,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rdd_meta::Status;
use serde::Serialize;

/// Any error of a body or a handler.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The body of a request or response. A body that is completely in memory, as most are, needs no allocation of its own.
pub struct Body(Content);

/// A body of any type, boxed.
pub type BoxedBody = UnsyncBoxBody<Bytes, BoxError>;

enum Content {
    /// Completely in memory: the bytes that are still to be read.
    Whole(Bytes),
    /// Produced while it is read.
    Made(BoxedBody),
}

impl Body {
    /// A body that is produced while it is read.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Content::Made(body.map_err(Into::into).boxed_unsync()))
    }

    /// Whether the body is completely in memory.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Content::Whole(_))
    }

    /// Converts the body for code that takes a body of any type.
    pub fn boxed(self) -> BoxedBody {
        match self.0 {
            Content::Made(body) => body,
            whole @ Content::Whole(_) => Self(whole).boxed_unsync(),
        }
    }
}

/// Shows only the length: the content may be secret.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Content::Whole(rest) => write!(f, "Body({} bytes)", rest.len()),
            Content::Made(_) => f.write_str("Body(made)"),
        }
    }
}

impl From<BoxedBody> for Body {
    fn from(body: BoxedBody) -> Self {
        Self(Content::Made(body))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Content::Whole(rest) if rest.is_empty() => Poll::Ready(None),
            Content::Whole(rest) => Poll::Ready(Some(Ok(Frame::data(mem::take(rest))))),
            Content::Made(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(rest) => rest.is_empty(),
            Content::Made(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(rest) => SizeHint::with_exact(rest.len() as u64),
            Content::Made(body) => body.size_hint(),
        }
    }
}

/// The response of a handler.
pub type Response = http::Response<Body>;

/// The content type of plain text, as Go's HTTP library writes it.
pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// The content type of JSON, as Kubernetes writes it.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A body that is completely in memory.
pub fn full(content: impl Into<Bytes>) -> Body {
    Body(Content::Whole(content.into()))
}

/// A response with a body that is completely in memory.
pub fn content(code: StatusCode, content_type: HeaderValue, content: impl Into<Bytes>) -> Response {
    let mut response = Response::new(full(content));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// A response with a value that is not an API object, such as the index. As in Kubernetes, the JSON is indented by two spaces and
/// has no final newline.
pub fn raw_json(value: &impl Serialize) -> Response {
    match serde_json::to_vec_pretty(value) {
        Ok(json) => content(StatusCode::OK, JSON, json),
        Err(error) => status(&Status::internal(error.to_string())),
    }
}

/// The response for an error: the `Status` as JSON, its code, and `Retry-After` if the `Status` has a delay.
pub fn status(status: &Status) -> Response {
    // A `Status` may have a code outside of HTTP's range.
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = content(code, JSON, status.to_wire());
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response of Go's `http.NotFound`, which upstream gives for every path that it does not serve.
pub fn not_found() -> Response {
    content(StatusCode::NOT_FOUND, TEXT, "404 page not found\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_comes_once_says_how_much_is_left_and_shows_nothing_of_itself() {
        for mut body in [full("secret"), Body::new(full("secret")), full("secret").boxed().into()] {
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(6), false));
            let shown = format!("{body:?}");
            assert!(shown.starts_with("Body(") && !shown.contains("secret"), "{shown}");
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "secret");
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
            assert!(body.frame().await.is_none());
        }
        assert!(full("").is_end_stream() && full("").is_whole() && !Body::new(full("")).is_whole());
    }
}
