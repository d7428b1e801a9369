//! What may come of asking a webhook other than consent, and what the client hears of it.

use rdd_meta::{
    Reason, Status,
    go_text::quote,
    status::{Details, Outcome},
};
use serde_json::Value;

use super::hook::Hook;

/// What may come of asking a webhook other than consent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Problem {
    /// It could not be asked, or did not answer as it must. Its failure policy decides what that means.
    Calling(String),
    /// It refused.
    Rejected(Status),
    /// Something else, whatever the failure policy.
    Final(Status),
}

/// What the client hears: nothing, if the webhook may fail.
pub(super) fn conclude(hook: &Hook, problem: Problem) -> Option<Status> {
    match problem {
        Problem::Calling(why) => {
            let error = format!("failed calling webhook {}: {why}", quote(&hook.name));
            if hook.ignores_failure {
                tracing::warn!(webhook = hook.uid, error, "a webhook failed and is ignored");
                return None;
            }
            tracing::warn!(webhook = hook.uid, error, "a webhook failed and the request is refused");
            Some(Status::internal(error))
        }
        Problem::Rejected(status) | Problem::Final(status) => Some(status),
    }
}

/// The refusal of a webhook, from the Status that it gave, if it gave one. Mirrors `ToStatusErr`.
pub(super) fn denied(name: &str, result: Option<Value>) -> Status {
    let result = result.unwrap_or(Value::Null);
    let text = |field: &str| result.get(field).and_then(Value::as_str).unwrap_or_default();
    let denied = format!("admission webhook {} denied the request", quote(name));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = result.get("code").and_then(Value::as_i64).unwrap_or_default();
    let reason = result.get("reason").filter(|reason| *reason != "");
    let reason: Option<Reason> = reason.and_then(|reason| serde_json::from_value(reason.clone()).ok());
    let details: Option<Details> = result.get("details").and_then(|it| serde_json::from_value(it.clone()).ok());
    let mut status = Status::bad_request(message);
    status.status = Outcome::Failure;
    // A refusal is no success, whatever it calls itself; and no code has four digits.
    status.code = u16::try_from(code).ok().filter(|code| (400..1000).contains(code)).unwrap_or(400);
    status.reason = reason;
    status.details = details.map(Box::new);
    status
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_told_by_message_then_reason_then_nothing() {
        let prefix = "admission webhook \"a.b\" denied the request";
        for (result, code, message) in [
            (Value::Null, 400, format!("{prefix} without explanation")),
            (json!({"code": 403, "message": "no", "reason": "Forbidden"}), 403, format!("{prefix}: no")),
            (json!({"reason": "too tired"}), 400, format!("{prefix}: too tired")),
            (json!({"status": "Success", "code": 200, "message": "yes"}), 400, format!("{prefix}: yes")),
            (json!({"code": 70_000}), 400, format!("{prefix} without explanation")),
            (json!({"code": 429}), 429, format!("{prefix} without explanation")),
        ] {
            let status = denied("a.b", Some(result.clone()).filter(|it| !it.is_null()));
            assert_eq!((status.code, &status.message, status.status), (code, &message, Outcome::Failure), "{result}");
        }
    }

    #[test]
    fn reason_and_details_are_passed_on() {
        let details = json!({"name": "x", "kind": "configmaps", "causes": [{"message": "m", "field": "f"}]});
        let status = denied("a", Some(json!({"reason": "NotFound", "code": 404, "details": details})));
        assert_eq!(status.reason, Some(Reason::NotFound));
        assert_eq!(serde_json::to_value(status.details).unwrap(), details);
        assert_eq!(denied("a", Some(json!({"reason": "Tired"}))).reason, Some(Reason::Other("Tired".into())));
        assert_eq!(denied("a", Some(json!({"reason": ""}))).reason, None);
    }
}
