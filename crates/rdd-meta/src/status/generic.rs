//! The Status that a client creates for an HTTP response without one.

use super::{Cause, Details, Reason, Status, resource::details_of};
use crate::{go_text::quote, gvk::GroupResource};

impl Status {
    /// The Status of a failed HTTP response whose body is not a Status, like upstream's `NewGenericServerResponse`.
    /// `method` is in upper case; `server_message` is the body, as the client read it.
    pub fn generic_response(
        code: u16,
        method: &str,
        resource: &GroupResource,
        name: &str,
        server_message: &str,
        retry_after_seconds: u32,
    ) -> Self {
        let (reason, mut message) = generic_reason(code, method, server_message);
        let verb = method.to_lowercase();
        match (resource.is_empty(), name.is_empty()) {
            (true, _) => {}
            (false, true) => message.push_str(&format!(" ({verb} {resource})")),
            (false, false) => message.push_str(&format!(" ({verb} {resource} {name})")),
        }
        let cause = Cause {
            reason: "UnexpectedServerResponse".to_owned(),
            message: server_message.to_owned(),
            ..Cause::default()
        };
        let details = Details { causes: vec![cause], retry_after_seconds, ..details_of(resource, name) };
        let status = Self::failure(Reason::InternalError, message).with_details(details);
        Self { reason, code, ..status }
    }
}

fn generic_reason(code: u16, method: &str, server_message: &str) -> (Option<Reason>, String) {
    let (reason, message) = match code {
        400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
        401 => (Reason::Unauthorized, "the server has asked for the client to provide credentials"),
        403 => (Reason::Forbidden, server_message),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"),
        406 if matches!(server_message, "" | "unknown") => {
            let message = "the server was unable to respond with a content type that the client supports";
            (Reason::NotAcceptable, message)
        }
        406 => (Reason::NotAcceptable, server_message),
        409 if method == "POST" => (Reason::AlreadyExists, "the server reported a conflict"),
        409 => (Reason::Conflict, "the server reported a conflict"),
        415 => (Reason::UnsupportedMediaType, server_message),
        422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
        429 => {
            let message = "the server has received too many requests and has asked us to try again later";
            (Reason::TooManyRequests, message)
        }
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => {
            let message = "the server was unable to return a response in the time allotted, but may still be processing \
                           the request";
            (Reason::Timeout, message)
        }
        500.. => {
            let message =
                format!("an error on the server ({}) has prevented the request from succeeding", quote(server_message));
            return (Some(Reason::InternalError), message);
        }
        _ => {
            let message =
                format!("the server responded with the status code {code} but did not return more information");
            return (None, message);
        }
    };
    (Some(reason), message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foos() -> GroupResource {
        GroupResource::new("example.com", "foos")
    }

    #[test]
    fn an_answer_without_a_status_is_told_by_its_code() {
        let told = |code, method| {
            let status = Status::generic_response(code, method, &foos(), "x", "body", 0);
            (status.code, status.reason, status.message)
        };
        let expected = |code, reason, message: &str| (code, reason, message.to_owned());
        assert_eq!(
            told(409, "POST"),
            expected(409, Some(Reason::AlreadyExists), "the server reported a conflict (post foos.example.com x)")
        );
        assert_eq!(told(409, "PUT").1, Some(Reason::Conflict));
        assert_eq!(told(403, "GET"), expected(403, Some(Reason::Forbidden), "body (get foos.example.com x)"));
        assert_eq!(
            told(502, "GET"),
            expected(
                502,
                Some(Reason::InternalError),
                "an error on the server (\"body\") has prevented the request from succeeding (get foos.example.com x)"
            )
        );
        assert_eq!(
            told(418, "GET"),
            expected(
                418,
                None,
                "the server responded with the status code 418 but did not return more information (get foos.example.com x)"
            )
        );
    }
}
