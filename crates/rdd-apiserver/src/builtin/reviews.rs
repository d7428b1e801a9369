//! Access and token reviews. Every authenticated user may do everything, so every access review allows.

use std::{fmt, sync::Arc};

use rdd_builtin::{kinds, strategy::Strategy};
use rdd_meta::{
    Status,
    fields::FieldSelector,
    labels::{LabelSelector, Operator, Requirement},
    metadata::MetadataMut,
};
use rdd_stdx::clock::SharedClock;
use serde_json::{Map, Value, json};

use crate::{auth::Identity, registry::Answerer};

/// The result of a successful token review.
#[derive(Debug, Clone)]
pub struct Reviewed {
    /// The user that the token authenticates.
    pub identity: Arc<Identity>,
    /// The requested audiences for which the token is valid.
    pub audiences: Vec<String>,
}

/// Authenticates tokens for reviews.
#[derive(Clone)]
pub struct TokenReviewer(Arc<Review>);

type Review = dyn Fn(&str, &[String]) -> Option<Reviewed> + Send + Sync;

impl TokenReviewer {
    /// Creates a reviewer from a function of the token and the requested audiences.
    pub fn new(review: impl Fn(&str, &[String]) -> Option<Reviewed> + Send + Sync + 'static) -> Self {
        Self(Arc::new(review))
    }

    /// Authenticates a token. Without `audiences` the server's own audience is required. Returns `None` if the token is invalid or is
    /// valid for none of the audiences.
    pub fn review(&self, token: &str, audiences: &[String]) -> Option<Reviewed> {
        (self.0)(token, audiences)
    }
}

impl fmt::Debug for TokenReviewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenReviewer")
    }
}

/// Rejects a review that upstream rejects as malformed before it evaluates it.
fn check(group: &str, kind: &str, question: &Value) -> Result<(), Status> {
    let bad_request = kinds::of(group, kind).map_or(Strategy::CLUSTER.bad_request, |strategy| strategy.bad_request);
    bad_request(question).map_or(Ok(()), |why| Err(Status::bad_request(why)))
}

/// `SelfSubjectReview`: returns the user of the request.
#[derive(Debug)]
pub(super) struct SelfReview {
    pub(super) clock: SharedClock,
}

impl Answerer for SelfReview {
    fn answer(&self, question: Value, asker: &Identity, _namespace: Option<&str>) -> Result<Value, Status> {
        check("authentication.k8s.io", "SelfSubjectReview", &question)?;
        let mut answer = json!({"apiVersion": question["apiVersion"], "kind": question["kind"]});
        if let Some(mut metadata) = MetadataMut::of(&mut answer) {
            metadata.set_creation_timestamp(Some(self.clock.wall().into()));
        }
        answer["status"] = json!({"userInfo": asker.user_info()});
        Ok(answer)
    }
}

/// `TokenReview`: returns the user of a token.
#[derive(Debug)]
pub(super) struct TokenReview {
    pub(super) reviewer: TokenReviewer,
}

impl Answerer for TokenReview {
    fn answer(&self, mut question: Value, _asker: &Identity, _namespace: Option<&str>) -> Result<Value, Status> {
        check("authentication.k8s.io", "TokenReview", &question)?;
        let token = question.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
        let audiences = question.pointer("/spec/audiences").and_then(Value::as_array).into_iter().flatten();
        let audiences: Vec<String> = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        let reviewed = self.reviewer.review(token, &audiences);
        question["status"] = review_status(question["status"].take(), reviewed);
        Ok(question)
    }
}

/// The status of the response: that of the request with the result of the review merged into it. For an invalid token the review sets
/// no user and no audiences, and for a valid one no error, so values of the request remain there, as upstream.
fn review_status(given: Value, reviewed: Option<Reviewed>) -> Value {
    let mut status = match given {
        Value::Object(given) => given,
        _ => Map::new(),
    };
    match reviewed {
        Some(reviewed) => {
            status.insert("authenticated".to_owned(), true.into());
            status.insert("user".to_owned(), reviewed.identity.user_info());
            status.insert("audiences".to_owned(), reviewed.audiences.into());
        }
        None => {
            status.remove("authenticated");
            status.entry("user").or_insert_with(|| json!({}));
            status.insert("error".to_owned(), "invalid bearer token".into());
        }
    }
    status.into()
}

/// `SubjectAccessReview` and its variants: always allow.
#[derive(Debug)]
pub(super) struct AccessReview {
    pub(super) kind: &'static str,
}

impl Answerer for AccessReview {
    fn answer(&self, mut question: Value, _asker: &Identity, namespace: Option<&str>) -> Result<Value, Status> {
        check("authorization.k8s.io", self.kind, &question)?;
        let asked = question.pointer("/spec/resourceAttributes/namespace").and_then(Value::as_str).unwrap_or_default();
        // A LocalSubjectAccessReview must be about the namespace of its path.
        if let Some(namespace) = namespace
            && asked != namespace
        {
            let why = format!("spec.resourceAttributes.namespace must match namespace: {namespace}");
            return Err(Status::bad_request(why));
        }
        let ignored = unread_selectors(&question["spec"]["resourceAttributes"]);
        question["status"] = json!({"allowed": true});
        if !ignored.is_empty() {
            question["status"]["evaluationError"] = ignored.join("; ").into();
        }
        Ok(question)
    }
}

/// Errors for selectors that are ignored in whole or in part because they do not parse. The request is allowed all the same: a selector
/// could only narrow it.
fn unread_selectors(attributes: &Value) -> Vec<String> {
    let fields = selector(
        &attributes["fieldSelector"],
        |text| FieldSelector::parse(text).is_ok(),
        |requirement| {
            let values = requirement["values"].as_array().map_or(0, Vec::len);
            values == 1 && matches!(requirement["operator"].as_str(), Some("In" | "NotIn"))
        },
    );
    let labels =
        selector(&attributes["labelSelector"], |text| LabelSelector::parse(text).is_ok(), is_label_requirement);
    [("fieldSelector", fields), ("labelSelector", labels)]
        .into_iter()
        .filter_map(|(name, ignored)| Some(format!("spec.resourceAttributes.{name} {}", ignored?)))
        .collect()
}

/// Which part of a selector is ignored, if any. If there are requirements, the text of the selector is not used.
fn selector(
    selector: &Value,
    is_text: impl Fn(&str) -> bool,
    is_requirement: impl Fn(&Value) -> bool,
) -> Option<&'static str> {
    let requirements = selector["requirements"].as_array().map_or(&[][..], Vec::as_slice);
    let (read, unread): (Vec<&Value>, Vec<&Value>) = requirements.iter().partition(|one| is_requirement(one));
    let all = "ignored due to parse error";
    match (read.is_empty(), unread.is_empty()) {
        (false, false) => Some("partially ignored due to parse error"),
        (true, false) => Some(all),
        (false, true) => None,
        (true, true) => {
            let text = selector["rawSelector"].as_str().unwrap_or_default();
            (!text.is_empty() && !is_text(text)).then_some(all)
        }
    }
}

fn is_label_requirement(requirement: &Value) -> bool {
    let operator = match requirement["operator"].as_str() {
        Some("In") => Operator::In,
        Some("NotIn") => Operator::NotIn,
        Some("Exists") => Operator::Exists,
        Some("DoesNotExist") => Operator::DoesNotExist,
        _ => return false,
    };
    let values = requirement["values"].as_array().into_iter().flatten();
    let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
    Requirement::new(requirement["key"].as_str().unwrap_or_default(), operator, values).is_ok()
}

/// `SelfSubjectRulesReview`: returns rules that allow everything.
#[derive(Debug)]
pub(super) struct RulesReview;

impl Answerer for RulesReview {
    fn answer(&self, question: Value, _asker: &Identity, _namespace: Option<&str>) -> Result<Value, Status> {
        check("authorization.k8s.io", "SelfSubjectRulesReview", &question)?;
        let namespace = question.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        Ok(json!({
            "apiVersion": question["apiVersion"],
            "kind": question["kind"],
            "metadata": {},
            "spec": {},
            "status": {
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding E-18
    #[test]
    fn the_status_of_a_token_review_is_that_of_the_request_with_the_outcome_written_over_it() {
        let reviewed = || Reviewed { identity: Arc::new(Identity::user()), audiences: vec!["api".to_owned()] };
        let user = json!({"username": "user", "groups": ["system:authenticated"]});
        let given = json!({"authenticated": true, "user": {"username": "me"}, "audiences": ["x"], "error": "old"});
        let known = json!({"authenticated": true, "user": user, "audiences": ["api"]});
        assert_eq!(review_status(Value::Null, Some(reviewed())), known);
        let mut with_error = known;
        with_error["error"] = "old".into();
        assert_eq!(review_status(given.clone(), Some(reviewed())), with_error);
        let unknown = json!({"user": {}, "error": "invalid bearer token"});
        assert_eq!(review_status(Value::Null, None), unknown);
        let kept = json!({"user": {"username": "me"}, "audiences": ["x"], "error": "invalid bearer token"});
        assert_eq!(review_status(given, None), kept);
    }
}
