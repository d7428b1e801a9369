//! A webhook, read once from its configuration.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rdd_meta::labels::LabelSelector;
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::{
    condition::Conditions,
    endpoint::{self, Endpoint},
    rule::{Rule, Scope},
    selector,
};
use crate::serve::limits::MUTATING_IN_FLIGHT;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Calls in progress to one webhook. A request that waits for a webhook still counts as a write in flight, so a webhook that
/// does not answer must not hold all of those.
const CALLS_MAX: usize = MUTATING_IN_FLIGHT / 4;

/// A webhook, with everything that can be prepared before it is called.
#[derive(Debug)]
pub(super) struct Hook {
    /// Tells it from all others of its kind: `<configuration>/<name>/<number among those of that name>`.
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
    /// Whether equivalent resources count: `matchPolicy: Equivalent`.
    pub(super) equivalent: bool,
    /// Whether a failure to call it is let pass: `failurePolicy: Ignore`.
    pub(super) ignores_failure: bool,
    pub(super) namespaces: Result<LabelSelector, String>,
    pub(super) objects: Result<LabelSelector, String>,
    pub(super) conditions: Conditions,
    pub(super) side_effects: SideEffects,
    pub(super) timeout: Duration,
    /// The first of its review versions that we know too.
    pub(super) review: Option<ReviewVersion>,
    /// Whether it wants to see what later ones changed: `reinvocationPolicy: IfNeeded`.
    pub(super) reinvoked: bool,
    pub(super) endpoint: Result<Arc<Endpoint>, String>,
    /// One permit for each call in progress.
    pub(super) calls: Semaphore,
}

/// What a webhook does beside its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideEffects {
    /// It does not say.
    Unstated,
    /// Nothing, at least not on a dry run.
    None,
    /// Something.
    Some,
}

/// The versions of AdmissionReview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// The version alone.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1beta1 => "v1beta1",
        }
    }
}

/// A configuration, as it is stored; those that mutate and those that validate are alike.
#[derive(Debug, Deserialize)]
struct Configuration {
    webhooks: Option<Vec<Stored>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(default)]
    name: String,
    client_config: Option<endpoint::Stored>,
    rules: Option<Vec<StoredRule>>,
    failure_policy: Option<String>,
    match_policy: Option<String>,
    namespace_selector: Option<selector::Stored>,
    object_selector: Option<selector::Stored>,
    side_effects: Option<String>,
    timeout_seconds: Option<u32>,
    admission_review_versions: Option<Vec<String>>,
    reinvocation_policy: Option<String>,
    match_conditions: Option<Vec<StoredCondition>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredRule {
    operations: Option<Vec<String>>,
    api_groups: Option<Vec<String>>,
    api_versions: Option<Vec<String>>,
    resources: Option<Vec<String>>,
    scope: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StoredCondition {
    expression: String,
}

/// The webhooks of a configuration, in its order. What the stored form leaves out has its default.
pub(super) fn read(configuration: &str, json: &[u8]) -> Result<Vec<Arc<Hook>>, serde_json::Error> {
    let stored: Configuration = serde_json::from_slice(json)?;
    let mut seen: HashMap<String, usize> = HashMap::new();
    let hooks = stored.webhooks.unwrap_or_default().into_iter().map(|hook| {
        let number = seen.entry(hook.name.clone()).or_default();
        let uid = format!("{configuration}/{}/{number}", hook.name);
        *number += 1;
        Arc::new(hook.compile(uid))
    });
    Ok(hooks.collect())
}

impl Stored {
    fn compile(self, uid: String) -> Hook {
        let expressions = self.match_conditions.unwrap_or_default().into_iter().map(|condition| condition.expression);
        let versions = self.admission_review_versions.unwrap_or_default();
        Hook {
            uid,
            name: self.name,
            rules: self.rules.unwrap_or_default().into_iter().map(StoredRule::compile).collect(),
            equivalent: self.match_policy.is_none_or(|policy| policy == "Equivalent"),
            ignores_failure: self.failure_policy.is_some_and(|policy| policy == "Ignore"),
            namespaces: self.namespace_selector.unwrap_or_default().compile(),
            objects: self.object_selector.unwrap_or_default().compile(),
            conditions: Conditions::compile(expressions),
            side_effects: match self.side_effects.as_deref() {
                None => SideEffects::Unstated,
                Some("None" | "NoneOnDryRun") => SideEffects::None,
                Some(_) => SideEffects::Some,
            },
            timeout: self.timeout_seconds.map_or(TIMEOUT, |seconds| Duration::from_secs(seconds.into())),
            review: versions.iter().find_map(|version| match version.as_str() {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1beta1),
                _ => None,
            }),
            reinvoked: self.reinvocation_policy.is_some_and(|policy| policy == "IfNeeded"),
            endpoint: self.client_config.unwrap_or_default().compile().map(Arc::new),
            calls: Semaphore::new(CALLS_MAX),
        }
    }
}

impl StoredRule {
    fn compile(self) -> Rule {
        Rule {
            operations: self.operations.unwrap_or_default(),
            groups: self.api_groups.unwrap_or_default(),
            versions: self.api_versions.unwrap_or_default(),
            resources: self.resources.unwrap_or_default(),
            scope: Scope::parse(self.scope.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_webhook_leaves_out_has_upstreams_default() {
        let hooks = read("c", br#"{"webhooks":[{"name":"a"},{"name":"b"},{"name":"a","timeoutSeconds":3}]}"#).unwrap();
        let uids: Vec<&str> = hooks.iter().map(|hook| hook.uid.as_str()).collect();
        assert_eq!(uids, ["c/a/0", "c/b/0", "c/a/1"]);
        let hook = &hooks[0];
        assert!(hook.equivalent && !hook.ignores_failure && !hook.reinvoked);
        assert!(hook.namespaces.as_ref().is_ok_and(LabelSelector::is_empty));
        assert_eq!((hook.timeout, hook.side_effects, hook.review), (TIMEOUT, SideEffects::Unstated, None));
        assert_eq!(hooks[2].timeout, Duration::from_secs(3));
        assert!(read("c", br#"{"webhooks":null}"#).unwrap().is_empty());
    }

    #[test]
    fn the_first_review_version_that_both_know_is_spoken() {
        let version = |versions: &str| {
            let json = format!(r#"{{"webhooks":[{{"name":"a","admissionReviewVersions":{versions}}}]}}"#);
            read("c", json.as_bytes()).unwrap()[0].review.map(ReviewVersion::as_str)
        };
        assert_eq!(version(r#"["v2","v1beta1","v1"]"#), Some("v1beta1"));
        assert_eq!(version(r#"["v1","v1beta1"]"#), Some("v1"));
        assert_eq!(version(r#"["v3"]"#), None);
    }
}
