//! Asking one webhook: the question goes out, the answer comes back and is checked, by whichever way it is reached.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use rdd_meta::{Status, go_json, go_text::quote, gvk::GroupResource, status::Outcome};
use rdd_stdx::{dns::Resolver, task::Group};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    super::Attributes,
    answer::{self, Answer, NoAnswer},
    endpoint::Endpoint,
    hook::{Hook, SideEffects},
    local::{self, Local},
    network::{Answered, Network, Unanswered},
    problem::{self, Problem},
    resolve::Resolve,
    review,
    version::Naming,
};
use crate::serve::limits::RETRY_AFTER_SECONDS;

/// Asks webhooks, in this process or another.
#[derive(Debug)]
pub(super) struct Caller {
    local: Arc<Local>,
    network: Arc<Network>,
}

/// What a webhook may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Change the object.
    Mutating,
    /// Only agree or refuse.
    Validating,
}

impl Caller {
    pub(super) fn new(local: Arc<Local>, services: Arc<dyn Resolve>, resolver: Resolver) -> Self {
        Self { local, network: Arc::new(Network::new(services, resolver)) }
    }

    /// Asks a webhook and passes its warnings on. `objects` are the new and the old one, as the webhook is to see them.
    pub(super) async fn ask(
        &self,
        hook: &Hook,
        role: Role,
        attributes: &Attributes<'_>,
        naming: &Naming,
        objects: (Option<Value>, Option<Value>),
    ) -> Result<Answer, Problem> {
        check_dry_run(hook, attributes)?;
        let Some(version) = hook.review else {
            let known = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Problem::Calling(format!("could not create admission objects: {known}")));
        };
        let endpoint = hook.endpoint.as_ref();
        let endpoint = endpoint.map_err(|why| Problem::Calling(format!("could not get REST client: {why}")))?;
        let Ok(_call) = hook.calls.try_acquire() else {
            let why =
                format!("too many requests are waiting for admission webhook {}, try again later", quote(&hook.name));
            return Err(Problem::Final(Status::too_many_requests(why, RETRY_AFTER_SECONDS)));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let question = review::question(version, &uid, attributes, naming, objects);
        let left = attributes.deadline.saturating_duration_since(Instant::now());
        let answer = self.post(endpoint, question, hook.timeout.min(left)).await;
        let unanswered = |why| Problem::Calling(format!("failed to call webhook: {why}"));
        let answer = answer::read(version, &uid, role == Role::Mutating, &answer.map_err(unanswered)?);
        let answer = answer.map_err(|error| match error {
            NoAnswer::Undecodable(why) => unanswered(why),
            NoAnswer::Invalid(why) => Problem::Calling(format!("received invalid webhook response: {why}")),
        })?;
        for (key, value) in &answer.audit_annotations {
            tracing::debug!(webhook = hook.name, key, value, "an audit annotation of a webhook");
        }
        answer.warnings.iter().for_each(|warning| attributes.warnings.add(warning));
        if answer.allowed { Ok(answer) } else { Err(Problem::Rejected(problem::denied(&hook.name, answer.result))) }
    }

    /// The answer to a question, or why there is none, in the words of client-go.
    async fn post(&self, endpoint: &Arc<Endpoint>, question: Value, time: Duration) -> Result<Value, String> {
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let query = format!("timeout={seconds}s");
        let unsent = |why: String| format!("Post {}: {why}", quote(&format!("{endpoint}?{query}")));
        if let Some(handler) = self.local.get(&endpoint.address) {
            return local::call(&handler, question, time).await.map_err(unsent);
        }
        let json = Bytes::from(go_json::to_string(&question));
        let posted = self.send(endpoint, query.clone(), json, Instant::now() + time).await;
        decode(&posted.map_err(|error| match error {
            Unanswered::Unsent(why) => unsent(why),
            Unanswered::Broken(why) => {
                format!("unexpected error when reading response body. Please retry. Original error: {why}")
            }
        })?)
    }
}

impl Caller {
    /// Sends in a task of its own, which has a stack of its own: a TLS handshake is deep, and so is the request that waits.
    async fn send(
        &self,
        endpoint: &Arc<Endpoint>,
        query: String,
        json: Bytes,
        deadline: Instant,
    ) -> Result<Answered, Unanswered> {
        let (network, endpoint) = (Arc::clone(&self.network), Arc::clone(endpoint));
        let mut tasks = Group::default();
        tasks.spawn("ask a webhook", async move { network.post(&endpoint, &query, json, deadline).await });
        let ended = tasks.next().await.map(|ended| ended.outcome);
        let lost = |why: String| Err(Unanswered::Unsent(why));
        ended.map_or_else(|| lost("context canceled".to_owned()), |it| it.unwrap_or_else(|why| lost(why.to_string())))
    }
}

fn check_dry_run(hook: &Hook, attributes: &Attributes<'_>) -> Result<(), Problem> {
    match hook.side_effects {
        _ if !attributes.dry_run => Ok(()),
        SideEffects::None => Ok(()),
        SideEffects::Unstated => Err(Problem::Calling("Webhook SideEffects is nil".to_owned())),
        SideEffects::Some => {
            let text = format!("admission webhook {} does not support dry run", quote(&hook.name));
            Err(Problem::Final(Status::bad_request(text)))
        }
    }
}

/// The JSON of an answer. Mirrors `transformResponse` and `Into` of client-go.
fn decode(answered: &Answered) -> Result<Value, String> {
    let Answered { status, content_type, body, .. } = answered;
    if !(200..=206).contains(&status.as_u16()) {
        return Err(unsuccessful(answered));
    }
    if body.is_empty() {
        let kind = if content_type.is_empty() { "application/json" } else { content_type };
        return Err(format!("0-length response with status code: {} and content type: {kind}", status.as_u16()));
    }
    let parsed = serde_json::from_slice(body).ok().filter(Value::is_object);
    parsed.ok_or_else(|| {
        let why = match serde_json::from_slice::<Value>(body) {
            Err(error) if body.trim_ascii_start().starts_with(b"{") => syntax_error(&error, body),
            found => {
                // Anything else is YAML to upstream, and most text is a string in YAML.
                let found = match found {
                    Ok(Value::Array(_)) => "array",
                    Ok(Value::Number(_)) => "number",
                    Ok(Value::Bool(_)) => "bool",
                    _ => "string",
                };
                format!(
                    "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
                     \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
                )
            }
        };
        format!("couldn't get version/kind; json parse error: {why}")
    })
}

/// What is wrong with text that should be JSON, in Go's words as far as they can be told from ours.
pub(super) fn syntax_error(error: &serde_json::Error, text: &[u8]) -> String {
    let first = String::from_utf8_lossy(text.trim_ascii_start()).chars().next();
    match first {
        _ if error.is_eof() => "unexpected end of JSON input".to_owned(),
        Some(first) if !first.is_ascii_digit() && !"{[\"-tfn".contains(first) => {
            format!("invalid character '{first}' looking for beginning of value")
        }
        _ => error.to_string(),
    }
}

fn unsuccessful(answered: &Answered) -> String {
    let said = Status::from_wire(&answered.body).filter(|status| status.status == Outcome::Failure);
    said.map_or_else(|| generic(answered), |status| status.message)
}

fn generic(answered: &Answered) -> String {
    const SHOWN_MAX: usize = 2048;
    let is_text = answered.content_type.is_empty() || answered.content_type.starts_with("text/");
    let shown = &answered.body[..answered.body.len().min(SHOWN_MAX)];
    let text = String::from_utf8_lossy(shown);
    let message = if is_text { text.trim() } else { "unknown" };
    let (code, retry) = (answered.status.as_u16(), answered.retry_after_seconds);
    Status::generic_response(code, "POST", &GroupResource::default(), "", message, retry).message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: u16, content_type: &str, body: &str) -> Result<Value, String> {
        let status = http::StatusCode::from_u16(code).unwrap();
        let body = Bytes::copy_from_slice(body.as_bytes());
        decode(&Answered { status, content_type: content_type.to_owned(), retry_after_seconds: 0, body })
    }

    #[test]
    fn an_answer_that_is_none_is_told_as_client_go_tells_it() {
        assert_eq!(check(200, "", r#"{"a":1}"#).unwrap(), serde_json::json!({"a": 1}));
        for (code, content_type, body, expected) in [
            (200, "", "", "0-length response with status code: 200 and content type: application/json"),
            (404, "text/plain", "404 page not found\n", "the server could not find the requested resource"),
            (
                500,
                "text/plain; charset=utf-8",
                "boom\n",
                "an error on the server (\"boom\") has prevented the request from succeeding",
            ),
            (
                500,
                "application/json",
                "{}",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (302, "", "", "the server responded with the status code 302 but did not return more information"),
            (403, "application/json", r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no"}"#, "no"),
        ] {
            assert_eq!(check(code, content_type, body).unwrap_err(), expected, "{code} {body}");
        }
        let text = check(200, "text/html", "<html>").unwrap_err();
        assert!(
            text.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal string"),
            "{text}"
        );
        let torn = check(200, "", r#"{"a":"#).unwrap_err();
        assert!(
            torn.starts_with("couldn't get version/kind; json parse error: unexpected end of JSON input"),
            "{torn}"
        );
    }
}
