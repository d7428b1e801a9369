//! MutatingWebhookConfiguration and ValidatingWebhookConfiguration: validation of clients, rules and policies.

use std::collections::HashSet;

use rdd_meta::{
    FieldError,
    metadata::Metadata,
    names::{NameRule, dns_1035_label, dns_1123_subdomain},
};
use serde_json::{Value, json};

pub use super::admission::Compile;
use super::{
    admission::{
        FAILURE_POLICIES, MATCH_POLICIES, TAKE_ALL, default_matching, default_rules, known_error,
        match_conditions_errors, rule_errors,
    },
    common::{
        alike, count_generation, created, invalid_each, items_mut, list, number, port_problems, set_default,
        set_generation, shown_list, text, texts, unsupported_named, updated,
    },
    selector::{Leniency, label_selector_errors},
    weburl::WebUrl,
};
use crate::strategy::Strategy;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

const WEBHOOKS: Strategy = Strategy {
    prepare_for_create: |object| set_generation(object, 1),
    prepare_for_update: |_, new, old| count_generation("webhooks", new, old),
    validate_create: |object| validate_create(object, TAKE_ALL),
    validate_update: |_, new, old| validate_update(new, old, TAKE_ALL),
    unconditional_update: false,
    ..Strategy::CLUSTER
};

pub(crate) static VALIDATING: Strategy = Strategy { default: |object| default(object, false), ..WEBHOOKS };
pub(crate) static MUTATING: Strategy = Strategy { default: |object| default(object, true), ..WEBHOOKS };

fn default(object: &mut Value, mutating: bool) {
    for hook in items_mut(object, "webhooks") {
        set_default(hook, "failurePolicy", json!("Fail"));
        default_matching(hook);
        set_default(hook, "timeoutSeconds", json!(10));
        if mutating {
            set_default(hook, "reinvocationPolicy", json!("Never"));
        }
        default_rules(hook, "rules");
        if let Some(service) = hook.get_mut("clientConfig").and_then(|config| config.get_mut("service")) {
            set_default(service, "port", json!(443));
        }
    }
}

/// Validates a new configuration like the strategy, and compiles the match conditions with `compile`.
pub fn validate_create(object: &Value, compile: Compile<'_>) -> Vec<FieldError> {
    let rules = Rules {
        match_conditions: true,
        no_side_effects: true,
        known_review_version: true,
        unique_names: true,
        leniency: Leniency::default(),
        compile,
    };
    created(object, false, rules.errors(object))
}

/// Validates an update like the strategy, and compiles the match conditions with `compile`. Ratcheting: values that were accepted
/// before a rule existed stay valid.
pub fn validate_update(new: &Value, old: &Value, compile: Compile<'_>) -> Vec<FieldError> {
    let (hooks, old_hooks) = (list(&new["webhooks"]), list(&old["webhooks"]));
    let same = |(new, old): (&Value, &Value)| alike(&new["matchConditions"], &old["matchConditions"]);
    let is_known = |hook: &Value| {
        let versions = texts(&hook["admissionReviewVersions"]);
        versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
    };
    let rules = Rules {
        match_conditions: hooks.len() != old_hooks.len() || !hooks.iter().zip(old_hooks).all(same),
        no_side_effects: old_hooks.iter().all(|hook| NO_SIDE_EFFECTS.contains(&text(&hook["sideEffects"]))),
        known_review_version: old_hooks.iter().all(is_known),
        unique_names: old_hooks.iter().map(|hook| text(&hook["name"])).collect::<HashSet<_>>().len() == old_hooks.len(),
        leniency: Leniency { invalid_values: old_hooks.iter().any(has_invalid_selector), ..Leniency::default() },
        compile,
    };
    updated(new, old, false, rules.errors(new))
}

fn has_invalid_selector(hook: &Value) -> bool {
    let invalid = |field: &&str| !label_selector_errors("", &hook[*field], Leniency::default()).is_empty();
    ["namespaceSelector", "objectSelector"].iter().any(invalid)
}

/// The rules to enforce: all for a new object, some for an object that is older than they are.
struct Rules<'a> {
    match_conditions: bool,
    no_side_effects: bool,
    known_review_version: bool,
    unique_names: bool,
    leniency: Leniency,
    compile: Compile<'a>,
}

impl Rules<'_> {
    fn errors(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = Metadata::of(object).validate_create(false, NameRule::DnsSubdomain);
        let mut names = HashSet::new();
        for (index, hook) in list(&object["webhooks"]).iter().enumerate() {
            let path = format!("webhooks[{index}]");
            errors.extend(self.hook_errors(&path, hook));
            errors.extend(self.review_versions_errors(&format!("{path}.admissionReviewVersions"), hook));
            let name = text(&hook["name"]);
            if self.unique_names && !name.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
            }
        }
        errors
    }

    fn hook_errors(&self, path: &str, hook: &Value) -> Vec<FieldError> {
        let at = |field: &str| format!("{path}.{field}");
        let mut errors = hook_name_errors(&at("name"), text(&hook["name"]));
        for (index, rule) in list(&hook["rules"]).iter().enumerate() {
            errors.extend(rule_errors(&format!("{path}.rules[{index}]"), rule));
        }
        errors.extend(known_error(at("failurePolicy"), &hook["failurePolicy"], &FAILURE_POLICIES));
        errors.extend(known_error(at("matchPolicy"), &hook["matchPolicy"], &MATCH_POLICIES));
        errors.extend(self.side_effects_error(&at("sideEffects"), &hook["sideEffects"]));
        let timeout = &hook["timeoutSeconds"];
        if timeout.as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            let why = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(at("timeoutSeconds"), timeout, why));
        }
        for field in ["namespaceSelector", "objectSelector"] {
            errors.extend(label_selector_errors(&at(field), &hook[field], self.leniency));
        }
        errors.extend(known_error(at("reinvocationPolicy"), &hook["reinvocationPolicy"], &["IfNeeded", "Never"]));
        errors.extend(client_errors(&at("clientConfig"), &hook["clientConfig"]));
        if self.match_conditions {
            errors.extend(match_conditions_errors(&at("matchConditions"), &hook["matchConditions"], self.compile));
        }
        errors
    }

    fn side_effects_error(&self, path: &str, side_effects: &Value) -> Option<FieldError> {
        let allowed: &[&str] = if self.no_side_effects { &NO_SIDE_EFFECTS } else { &SIDE_EFFECTS };
        match side_effects.as_str() {
            None => Some(FieldError::required(path, format!("must specify one of {}", allowed.join(", ")))),
            Some(given) => (!allowed.contains(&given)).then(|| unsupported_named(path, given, allowed)),
        }
    }

    fn review_versions_errors(&self, path: &str, hook: &Value) -> Vec<FieldError> {
        let versions = texts(&hook["admissionReviewVersions"]);
        let known = REVIEW_VERSIONS.join(", ");
        if versions.is_empty() {
            return vec![FieldError::required(path, format!("must specify one of {known}"))];
        }
        let mut errors = Vec::new();
        let mut seen = HashSet::new();
        for (index, version) in versions.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if !seen.insert(*version) {
                errors.push(FieldError::invalid_string(path, version, "duplicate version"));
            } else {
                errors.extend(invalid_each(&path, version, dns_1035_label(version)));
            }
        }
        if self.known_review_version && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
            let why = format!("must include at least one of {known}");
            errors.push(FieldError::invalid_text(path, shown_list(&hook["admissionReviewVersions"]), why));
        }
        errors
    }
}

/// Validates a webhook's name, which needs at least three parts.
fn hook_name_errors(path: &str, name: &str) -> Vec<FieldError> {
    let problems = dns_1123_subdomain(name);
    if name.is_empty() {
        vec![FieldError::required(path, "")]
    } else if !problems.is_empty() {
        vec![FieldError::invalid_string(path, name, problems.join(","))]
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        vec![FieldError::invalid_string(path, name, why)]
    } else {
        Vec::new()
    }
}

fn client_errors(path: &str, config: &Value) -> Vec<FieldError> {
    let (url, service) = (&config["url"], &config["service"]);
    match (url.is_null(), service.is_null()) {
        (false, true) => url_errors(&format!("{path}.url"), text(url)),
        (true, false) => service_errors(&format!("{path}.service"), service),
        _ => vec![FieldError::required(path, "exactly one of url or service is required")],
    }
}

fn url_errors(path: &str, url: &str) -> Vec<FieldError> {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match WebUrl::parse(url) {
        Ok(url) => url,
        Err(problem) => {
            return vec![FieldError::required(path, format!("url must be a valid URL: {problem}{FORM}"))];
        }
    };
    let mut errors = Vec::new();
    let mut refuse = |value: &str, why: String| errors.push(FieldError::invalid_string(path, value, why));
    if url.scheme != "https" {
        refuse(&url.scheme, format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        refuse(&url.host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = &url.user {
        refuse(user, "user information is not permitted in the URL".to_owned());
    }
    if !url.fragment.is_empty() {
        refuse(&url.fragment, "fragments are not permitted in the URL".to_owned());
    }
    if !url.query.is_empty() {
        refuse(&url.query, "query parameters are not permitted in the URL".to_owned());
    }
    errors
}

fn service_errors(path: &str, service: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    // Upstream swaps name and namespace in this call, so it reports a missing one as the other.
    for (reported, field) in [("name", "namespace"), ("namespace", "name")] {
        if text(&service[field]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{reported}"), ""));
        }
    }
    let problems = port_problems(number(&service["port"]));
    if !problems.is_empty() {
        let why = format!("port is not valid: {}", problems.join(", "));
        errors.push(FieldError::invalid(format!("{path}.port"), &json!(number(&service["port"])), why));
    }
    errors.extend(url_path_errors(&format!("{path}.path"), text(&service["path"])));
    errors
}

fn url_path_errors(path: &str, url_path: &str) -> Vec<FieldError> {
    let refused = |why: String| FieldError::invalid_string(path, url_path, why);
    match url_path {
        "" | "/" => return Vec::new(),
        "//" => return vec![refused("segment[0] may not be empty".to_owned())],
        _ => {}
    }
    let mut errors = Vec::new();
    if !url_path.starts_with('/') {
        errors.push(refused("must start with a '/'".to_owned()));
    }
    // Upstream drops the first byte, whatever it is; here it must be a whole character.
    let rest = url_path.strip_prefix(|_: char| true).unwrap_or_default();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            errors.push(refused(format!("segment[{index}] may not be empty")));
            continue;
        }
        let problems = dns_1123_subdomain(segment).into_iter();
        errors.extend(problems.map(|problem| refused(format!("segment[{index}]: {problem}"))));
    }
    errors
}
