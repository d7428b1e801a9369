//! An HTTP reply, and the check that it is a proper reply of a Kubernetes API.

use std::borrow::Cow;

use serde_json::Value;

/// The Status reasons that clients know.
const REASONS: &[&str] = &[
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServerTimeout",
    "ServiceUnavailable",
    "StoreReadError",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
];

/// An HTTP reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub code: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of this name, which is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The body as text, with invalid UTF-8 replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// The body as JSON; `Null` if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as JSON, if the reply has this status code.
    ///
    /// # Panics
    ///
    /// With the body, if it has another code.
    #[track_caller]
    pub fn expect(&self, code: u16) -> Value {
        assert_eq!(self.code, code, "{}", self.text());
        self.json()
    }

    /// The reason of a Status; empty if the body is not one.
    pub fn reason(&self) -> String {
        self.json()["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Why this is not a proper reply to any request; `None` if it is.
    ///
    /// A failure must be a Status in JSON with the same code and a reason that clients know. An internal error is never proper.
    pub fn improper(&self) -> Option<String> {
        let kind = self.header("content-type").unwrap_or_default();
        let is_readable = !kind.contains("yaml") && !kind.contains("protobuf");
        match self.code {
            200..=399 => None,
            // The client asked for another encoding, which is not decoded here; only a panic's text is searched for.
            400..=599 if !is_readable => self.text().contains("panic").then(|| self.text().into_owned()),
            // Go's HTTP server replies like this to a path without a handler.
            404 if kind.starts_with("text/plain") => None,
            // Kubernetes has no better code for some patches that do not apply; it gives no reason then, and neither does rdd.
            500 if self.json()["kind"] == "Status" && self.json().get("reason").is_none() => None,
            500 => Some(format!("a fault of the server: {}", self.text())),
            400..=599 => self.improper_status(kind),
            _ => Some(format!("the code {}", self.code)),
        }
    }

    fn improper_status(&self, kind: &str) -> Option<String> {
        let status = self.json();
        let told = status["kind"] == "Status" && status["apiVersion"] == "v1" && status["status"] == "Failure";
        let reason = status["reason"].as_str().unwrap_or_default();
        if !kind.starts_with("application/json") || !told {
            return Some(format!("{} without a Status, as {kind:?}: {}", self.code, self.text()));
        }
        if status["code"] != self.code || !REASONS.contains(&reason) {
            return Some(format!("{} with a Status of another kind: {}", self.code, self.text()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_reply(code: u16, kind: &str, body: &str) -> Reply {
        Reply { code, headers: vec![("content-type".to_owned(), kind.to_owned())], body: body.into() }
    }

    #[test]
    fn a_failure_is_proper_only_as_a_status_with_its_code_and_a_known_reason() {
        let status = |code: u16, reason: &str| {
            format!(r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","code":{code}}}"#)
        };
        let json = "application/json";
        assert_eq!(mk_reply(200, "text/plain", "anything").improper(), None);
        assert_eq!(mk_reply(404, "text/plain; charset=utf-8", "404 page not found\n").improper(), None);
        assert_eq!(mk_reply(400, json, &status(400, "BadRequest")).improper(), None);
        for bad in [
            mk_reply(400, json, &status(422, "Invalid")),
            mk_reply(400, json, &status(400, "Whatever")),
            mk_reply(400, "text/plain", &status(400, "BadRequest")),
            mk_reply(400, json, "{}"),
            mk_reply(400, json, ""),
            mk_reply(500, json, &status(500, "InternalError")),
            mk_reply(101, json, ""),
        ] {
            assert!(bad.improper().is_some(), "{bad:?}");
        }
    }
}
