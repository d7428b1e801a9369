//! The encodings of a document, and how one is chosen by the `Accept` header.

use http::HeaderValue;

use crate::{represent::accept, respond};

/// The two names of protobuf in each version. Clients may use both; the older one is not a valid media type, so responses never have
/// it.
const PROTOBUF_V2: &str = "com.github.proto-openapi.spec.v2.v1.0+protobuf";
const PROTOBUF_V2_DEPRECATED: &str = "com.github.proto-openapi.spec.v2@v1.0+protobuf";
const PROTOBUF_V3: &str = "com.github.proto-openapi.spec.v3.v1.0+protobuf";
const PROTOBUF_V3_DEPRECATED: &str = "com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// The encoding of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// JSON.
    Json,
    /// The protobuf message that `gnostic` defines.
    Protobuf,
}

impl Form {
    /// The form of version 2 that an `Accept` header prefers, or `None` if it accepts none. Without a header it is JSON.
    pub(super) fn of_v2(accepted: &str) -> Option<Self> {
        Self::first(
            accepted,
            &[("json", Self::Json), (PROTOBUF_V2_DEPRECATED, Self::Protobuf), (PROTOBUF_V2, Self::Protobuf)],
        )
    }

    /// Like [`of_v2`](Self::of_v2), for version 3.
    pub(super) fn of_v3(accepted: &str) -> Option<Self> {
        Self::first(
            accepted,
            &[("json", Self::Json), (PROTOBUF_V3, Self::Protobuf), (PROTOBUF_V3_DEPRECATED, Self::Protobuf)],
        )
    }

    fn first(accepted: &str, offered: &[(&str, Self)]) -> Option<Self> {
        let accepted = if accepted.is_empty() { "*/*" } else { accepted };
        let clauses = accept::clauses(accepted);
        let taken = |clause: &accept::Clause<'_>| offered.iter().find(|(subtype, _)| clause.covers(subtype));
        clauses.iter().find_map(taken).map(|(_, form)| *form)
    }

    /// The `Content-Type` of the document, in version 2 or 3.
    pub(super) fn content_type(self, is_v2: bool) -> HeaderValue {
        HeaderValue::from_static(match (self, is_v2) {
            (Self::Json, _) => return respond::JSON,
            (Self::Protobuf, true) => "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            (Self::Protobuf, false) => "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clause_that_is_preferred_decides_and_json_is_first_among_equals() {
        let form = |accepted: &str| Form::of_v2(accepted);
        let (json, protobuf) = (Some(Form::Json), Some(Form::Protobuf));
        for accepted in ["", "*/*", "application/*", "application/json", "text/html, */*;q=0.1"] {
            assert_eq!(form(accepted), json, "{accepted}");
        }
        for name in [PROTOBUF_V2, PROTOBUF_V2_DEPRECATED] {
            assert_eq!(form(&format!("application/{name}")), protobuf);
            assert_eq!(form(&format!("application/yaml, application/{name};q=0.5")), protobuf);
            assert_eq!(form(&format!("application/{name};q=0.5, application/json")), json);
            assert_eq!(Form::of_v3(&format!("application/{name}")), None);
        }
        for name in [PROTOBUF_V3, PROTOBUF_V3_DEPRECATED] {
            assert_eq!(Form::of_v3(&format!("application/{name}")), protobuf);
            assert_eq!(form(&format!("application/{name}")), None);
        }
        for accepted in ["text/html", "application/yaml", "application/protobuf", "?"] {
            assert_eq!(form(accepted), None, "{accepted}");
        }
    }

    #[test]
    fn the_name_of_the_media_type_is_said_as_it_is_asked_for() {
        assert_eq!(Form::Protobuf.content_type(true), format!("application/{PROTOBUF_V2}"));
        assert_eq!(Form::Protobuf.content_type(false), format!("application/{PROTOBUF_V3}"));
    }
}
