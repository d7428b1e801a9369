//! Validation of `spec.conversion`: the strategy and the webhook.

use std::collections::HashSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_meta::{go_text, names};

use super::{
    Demands, ca_bundle,
    definition::{ClientConfig, Conversion, Service},
};
use crate::field::{Error, Path};

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Whether one of the versions is supported, or none is given.
pub(crate) fn has_recognized_version(versions: &[String]) -> bool {
    versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(&version.as_str()))
}

/// Validates `spec.conversion`. `demands` names the checks that apply to an update.
pub(super) fn validate(path: &Path<'_>, conversion: &Conversion, demands: &Demands) -> Vec<Error> {
    let mut errors = super::spec::one_of(&path.child("strategy"), &conversion.strategy, &["None", "Webhook"]);
    let client = path.child("webhookClientConfig");
    let versions = path.child("conversionReviewVersions");
    if conversion.strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if conversion.client_config.is_some() {
            errors.push(Error::forbidden(client, detail));
        }
        if !conversion.review_versions.is_empty() {
            errors.push(Error::forbidden(versions, detail));
        }
        return errors;
    }
    match &conversion.client_config {
        None => errors.push(Error::required(client, "required when strategy is set to Webhook")),
        // Exactly one of the two names the webhook.
        Some(ClientConfig { url: Some(url), service: None, .. }) => {
            errors.extend(webhook_url(&client.child("url"), url))
        }
        Some(ClientConfig { url: None, service: Some(service), .. }) => {
            errors.extend(webhook_service(&client.child("service"), service));
        }
        Some(_) => errors.push(Error::required(client, "exactly one of url or service is required")),
    }
    let bundle = conversion.client_config.as_ref().map(|client| client.ca_bundle.as_slice()).unwrap_or_default();
    if demands.valid_ca_bundle
        && let Err(why) = ca_bundle::check_ca_bundle(bundle)
    {
        errors.push(Error::invalid(client.child("caBundle"), STANDARD.encode(bundle).as_str(), why));
    }
    errors.extend(review_versions(&versions, &conversion.review_versions, demands.recognized_review_version));
    errors
}

/// Validates the versions of ConversionReview that the webhook understands, in order of preference.
fn review_versions(path: &Path<'_>, versions: &[String], recognized: bool) -> Vec<Error> {
    if versions.is_empty() {
        return vec![Error::required(path, "")];
    }
    let mut errors = Vec::new();
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let place = path.index(index);
        if !seen.insert(version) {
            errors.push(Error::invalid(place, version.as_str(), "duplicate version"));
            continue;
        }
        errors.extend(
            names::dns_1035_label(version)
                .into_iter()
                .map(|objection| Error::invalid(place, version.as_str(), objection)),
        );
    }
    if recognized && !has_recognized_version(versions) {
        errors.push(Error::invalid(path, versions, "must include at least one of v1, v1beta1"));
    }
    errors
}

/// Validates the URL of a webhook: `https://host[/path]`.
fn webhook_url(path: &Path<'_>, url: &str) -> Vec<Error> {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut errors = Vec::new();
    // Split by hand, because upstream reports each part of a URL that is not allowed.
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = rest.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", rest));
    let authority = rest.strip_prefix("//").map_or("", |after| after.split('/').next().unwrap_or_default());
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if crate::format::parse_request_uri(url).is_none() && !scheme.is_empty() {
        let detail = format!("url must be a valid URL: parse {}: invalid URL{FORM}", go_text::quote(url));
        return vec![Error::required(path, detail)];
    }
    let scheme = scheme.to_lowercase();
    if scheme != "https" {
        errors.push(Error::invalid(path, &scheme, format!("'https' is the only allowed URL scheme{FORM}")));
    }
    if host.is_empty() {
        errors.push(Error::invalid(path, host, format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(Error::invalid(path, fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(Error::invalid(path, query, "query parameters are not permitted in the URL"));
    }
    errors
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Validates the service of a webhook.
fn webhook_service(path: &Path<'_>, service: &Service) -> Vec<Error> {
    let mut errors = Vec::new();
    // Upstream passes the two in the wrong order: it reports a missing namespace as a missing name, and first.
    for (name, value) in [("name", &service.namespace), ("namespace", &service.name)] {
        if value.is_empty() {
            errors.push(Error::required(path.child(name), ""));
        }
    }
    if !(1..=65535).contains(&service.port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(path.child("port"), service.port, detail));
    }
    let Some(url_path) = service.path.as_deref().filter(|path| !matches!(*path, "" | "/")) else { return errors };
    let place = path.child("path");
    if url_path == "//" {
        errors.push(Error::invalid(place, url_path, "segment[0] may not be empty"));
        return errors;
    }
    if !url_path.starts_with('/') {
        errors.push(Error::invalid(place, url_path, "must start with a '/'"));
    }
    let mut rest = url_path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        let objections = match segment {
            "" => vec![format!("segment[{index}] may not be empty")],
            _ => names::dns_1123_subdomain(segment).into_iter().map(|one| format!("segment[{index}]: {one}")).collect(),
        };
        errors.extend(objections.into_iter().map(|objection| Error::invalid(place, url_path, objection)));
    }
    errors
}
