//! Secret: validates the required keys per type and the total size of at most 1 MiB, and converts `stringData` to data.

use base64::{Engine, prelude::BASE64_STANDARD};
use rdd_meta::{FieldError, metadata::Metadata, names::NameRule};
use serde_json::{Value, json};

use super::{
    common::{
        base64_size_bytes, config_key_problems, created_by_rule, invalid_each, keep, members, metadata_errors,
        metadata_update_errors, named, object_at, set_default_text, text, updated,
    },
    configmap::{SIZE_BYTES_MAX, immutable_errors},
    gojson,
};
use crate::strategy::Strategy;

const TYPE_TLS: &str = "kubernetes.io/tls";

pub(crate) static STRATEGY: Strategy = Strategy {
    default,
    prepare_for_update: |_, new, old| {
        if text(&new["type"]).is_empty() {
            keep("type", new, old);
        }
    },
    validate_create: |object| created_by_rule(object, true, errors(object)),
    validate_update: |_, new, old| updated(new, old, true, update_errors(new, old)),
    warnings: |new, _| tls_warning(new).into_iter().collect(),
    selectable_fields: &["type"],
    ..Strategy::NAMESPACED
};

/// Defaults the type, and moves `stringData` to data, where it overrides existing keys.
fn default(object: &mut Value) {
    set_default_text(object, "type", "Opaque");
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|members| members.remove("stringData")) else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    if let Some(data) = object_at(object, "data") {
        for (key, value) in texts {
            data.insert(key, json!(BASE64_STANDARD.encode(text(&value))));
        }
    }
}

fn errors(object: &Value) -> Vec<FieldError> {
    let mut errors = metadata_errors(object, true, NameRule::DnsSubdomain);
    let mut size_bytes = 0;
    for (key, value) in members(&object["data"]) {
        errors.extend(invalid_each(&format!("data[{key}]"), key, config_key_problems(key)));
        size_bytes += base64_size_bytes(text(value));
    }
    if size_bytes > SIZE_BYTES_MAX {
        errors.push(FieldError::too_long("data", SIZE_BYTES_MAX));
    }
    errors.extend(content_errors(object));
    errors
}

fn content_errors(object: &Value) -> Vec<FieldError> {
    let required = |key: &str| FieldError::required(format!("data[{key}]"), "");
    let has = |key: &str| object["data"].get(key).is_some();
    let missing = |keys: &[&str]| keys.iter().filter(|key| !has(key)).map(|key| required(key)).collect();
    match text(&object["type"]) {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let named = Metadata::of(object).annotation(name).is_some_and(|value| !value.is_empty());
            let path = format!("metadata.annotations[{name}]");
            if named { Vec::new() } else { vec![FieldError::required(path, "")] }
        }
        "kubernetes.io/dockercfg" => json_errors(object, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json_errors(object, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => missing(&["username", "password"]),
        "kubernetes.io/ssh-auth" if text(&object["data"]["ssh-privatekey"]).is_empty() => {
            vec![required("ssh-privatekey")]
        }
        TYPE_TLS => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

fn decoded(value: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(text(value)).unwrap_or_default()
}

fn json_errors(object: &Value, key: &str) -> Vec<FieldError> {
    let path = format!("data[{key}]");
    let Some(value) = object["data"].get(key) else { return vec![FieldError::required(path, "")] };
    let problem = gojson::object_problem(&decoded(value));
    problem.map(|why| FieldError::invalid_string(path, "<secret contents redacted>", why)).into_iter().collect()
}

fn update_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut found = metadata_update_errors(new, old);
    if text(&new["type"]) != text(&old["type"]) {
        found.push(FieldError::invalid_text("type", named(text(&new["type"])), super::common::IMMUTABLE));
    }
    found.extend(immutable_errors(new, old, &["data"]));
    found.extend(errors(new));
    found
}

/// The error of Go's `tls.X509KeyPair` for a TLS secret without a certificate or key. It does not check that the two match.
fn tls_warning(object: &Value) -> Option<String> {
    if text(&object["type"]) != TYPE_TLS {
        return None;
    }
    let labels = |key: &str| pem_labels(&decoded(&object["data"][key]));
    let is_key = |label: &String| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let (certificates, keys) = (labels("tls.crt"), labels("tls.key"));
    if !certificates.iter().any(|label| label == "CERTIFICATE") {
        return Some(match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [alone] if is_key(alone) => {
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may \
                 have been switched"
                    .to_owned()
            }
            skipped => format!(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
                 following types: [{}]",
                skipped.join(" ")
            ),
        });
    }
    if keys.iter().any(is_key) {
        return None;
    }
    Some(match keys.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [alone] if alone == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        skipped => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the \
             following types: [{}]",
            skipped.join(" ")
        ),
    })
}

/// The labels of the well-formed PEM blocks in a text.
fn pem_labels(bytes: &[u8]) -> Vec<String> {
    let contents = String::from_utf8_lossy(bytes);
    let mut labels = Vec::new();
    let mut rest: &str = &contents;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        rest = after;
        let Some((label, body)) = after.split_once("-----") else { break };
        let Some((body, after)) = body.split_once(&format!("-----END {label}-----")) else { continue };
        let digits: String = body.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
        if !label.contains('\n') && BASE64_STANDARD.decode(digits).is_ok_and(|bytes| !bytes.is_empty()) {
            labels.push(label.to_owned());
            rest = after;
        }
    }
    labels
}
