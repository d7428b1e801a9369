//! Validation of services.

use std::{collections::HashSet, net::IpAddr};

use rdd_meta::{
    FieldError,
    names::{dns_1123_label, dns_1123_subdomain},
};
use serde_json::{Value, json};

use super::{is_external, is_headless};
use crate::kinds::{
    admission::known_error,
    common::{
        invalid_each, invalid_named, list, named, number, port_problems, qualified_name_errors, shown_list, structure,
        text, texts, unsupported_named,
    },
    selector::label_errors,
};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const AFFINITIES: [&str; 2] = ["ClientIP", "None"];
const TRAFFIC_POLICIES: [&str; 2] = ["Cluster", "Local"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;

/// Validates the spec of a service.
pub(super) fn spec_errors(spec: &Value) -> Vec<FieldError> {
    let kind = text(&spec["type"]);
    let ports = list(&spec["ports"]);
    let headless = is_headless(spec);
    let mut errors = Vec::new();
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid_string("spec.clusterIPs[0]", "None", why));
        }
        "ExternalName" => errors.extend(external_name_errors(spec)),
        _ => {}
    }
    let mut names = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        errors.extend(port_errors(&format!("spec.ports[{index}]"), port, ports.len() > 1, &mut names));
    }
    errors.extend(label_errors("spec.selector", &spec["selector"]));
    errors.extend(affinity_errors(spec));
    if kind != "ExternalName" {
        errors.extend(address_errors(spec));
    }
    if kind.is_empty() {
        errors.push(FieldError::required("spec.type", ""));
    } else if !TYPES.contains(&kind) {
        errors.push(unsupported_named("spec.type", kind, &TYPES));
    }
    errors.extend(port_list_errors(ports, kind));
    errors.extend(traffic_errors(spec));
    errors
}

fn external_name_errors(spec: &Value) -> Vec<FieldError> {
    let why = "may not be set for ExternalName services";
    let mut errors = Vec::new();
    for field in ["clusterIPs", "ipFamilies"] {
        if !list(&spec[field]).is_empty() {
            errors.push(FieldError::forbidden(format!("spec.{field}"), why));
        }
    }
    if !spec["ipFamilyPolicy"].is_null() {
        errors.push(FieldError::forbidden("spec.ipFamilyPolicy", why));
    }
    let name = text(&spec["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    } else {
        errors.extend(invalid_each("spec.externalName", name, dns_1123_subdomain(name)));
    }
    errors
}

fn port_errors<'a>(path: &str, port: &'a Value, needs_name: bool, names: &mut HashSet<&'a str>) -> Vec<FieldError> {
    let at = |field: &str| format!("{path}.{field}");
    let name = text(&port["name"]);
    let mut errors = Vec::new();
    if !name.is_empty() {
        errors.extend(invalid_each(&at("name"), name, dns_1123_label(name)));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(at("name"), &json!(name)));
        }
    } else if needs_name {
        errors.push(FieldError::required(at("name"), ""));
    }
    let refused = |field: &str, value: &Value, problems: Vec<String>| {
        let error = move |why| FieldError::invalid(at(field), value, why);
        problems.into_iter().map(error).collect::<Vec<_>>()
    };
    errors.extend(refused("port", &json!(number(&port["port"])), port_problems(number(&port["port"]))));
    match text(&port["protocol"]) {
        "" => errors.push(FieldError::required(at("protocol"), "")),
        protocol if PROTOCOLS.contains(&protocol) => {}
        other => errors.push(unsupported_named(at("protocol"), other, &PROTOCOLS)),
    }
    errors.extend(match &port["targetPort"] {
        Value::String(name) => refused("targetPort", &json!(name), port_name_problems(name)),
        target => refused("targetPort", &json!(number(target)), port_problems(number(target))),
    });
    if let Some(protocol) = port["appProtocol"].as_str() {
        errors.extend(qualified_name_errors(&at("appProtocol"), protocol));
    }
    errors
}

fn port_name_problems(name: &str) -> Vec<String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    let is_sign = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'-';
    let checks = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_sign),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(is_letter), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    checks.into_iter().filter(|(fails, _)| *fails).map(|(_, why)| why.to_owned()).collect()
}

fn affinity_errors(spec: &Value) -> Vec<FieldError> {
    let affinity = text(&spec["sessionAffinity"]);
    let config = &spec["sessionAffinityConfig"];
    let path = "spec.sessionAffinityConfig";
    let mut errors = Vec::new();
    if affinity.is_empty() {
        errors.push(FieldError::required("spec.sessionAffinity", ""));
    } else if !AFFINITIES.contains(&affinity) {
        errors.push(unsupported_named("spec.sessionAffinity", affinity, &AFFINITIES));
    }
    let why = "when session affinity type is ClientIP";
    let seconds = &config["clientIP"]["timeoutSeconds"];
    match affinity {
        "ClientIP" if config.is_null() => errors.push(FieldError::required(path, why)),
        "ClientIP" if config["clientIP"].is_null() => {
            errors.push(FieldError::required(format!("{path}.clientIP"), why));
        }
        "ClientIP" if seconds.is_null() => {
            errors.push(FieldError::required(format!("{path}.clientIP.timeoutSeconds"), why));
        }
        "ClientIP" if !(1..=AFFINITY_SECONDS_MAX).contains(&number(seconds)) => {
            let why = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
            errors.push(FieldError::invalid(format!("{path}.clientIP.timeoutSeconds"), seconds, why));
        }
        "None" if !config.is_null() => {
            errors.push(FieldError::forbidden(path, "must not be set when session affinity is None"));
        }
        _ => {}
    }
    errors
}

fn address_errors(spec: &Value) -> Vec<FieldError> {
    let path = "spec.clusterIPs";
    let (first, addresses) = (text(&spec["clusterIP"]), texts(&spec["clusterIPs"]));
    let refused = |why: &str| FieldError::invalid_text(path, shown_list(&spec["clusterIPs"]), why);
    let mut errors = Vec::new();
    match addresses.first() {
        None if !first.is_empty() => errors.push(FieldError::required(path, "")),
        Some(_) if first.is_empty() => errors.push(refused("must be empty when `clusterIP` is not specified")),
        Some(address) if *address != first => errors.push(refused("first value must match `clusterIP`")),
        _ => {}
    }
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                errors.push(refused("'None' must be the first and only value"));
            }
        } else if address.parse::<IpAddr>().is_err() {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid_string(format!("{path}[{index}]"), address, why));
        }
    }
    if addresses.len() > 2 {
        errors.push(refused("may only hold up to 2 values"));
    }
    errors
}

/// The cluster address is immutable as long as the service has one.
pub(super) fn cluster_address_change_error(new: &Value, old: &Value) -> Option<FieldError> {
    let external = |spec: &Value| text(&spec["type"]) == "ExternalName";
    let [new_address, old_address] = [new, old].map(|spec| text(&spec["clusterIP"]));
    let changed = !external(new) && !external(old) && !old_address.is_empty() && new_address != old_address;
    let shown = shown_list(&new["clusterIPs"]);
    changed.then(|| FieldError::invalid_text("spec.clusterIPs[0]", shown, "may not change once set"))
}

fn port_list_errors(ports: &[Value], kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let node_port = |port: &Value| number(&port["nodePort"]);
    for (index, port) in ports.iter().enumerate() {
        if kind == "ClusterIP" && node_port(port) != 0 {
            let path = format!("spec.ports[{index}].nodePort");
            errors.push(FieldError::forbidden(path, "may not be used when `type` is 'ClusterIP'"));
        }
    }
    let mut node_ports = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        if node_port(port) != 0 && !node_ports.insert((text(&port["protocol"]), node_port(port))) {
            errors.push(FieldError::duplicate(format!("spec.ports[{index}].nodePort"), &port["nodePort"]));
        }
    }
    let mut numbers = HashSet::new();
    for (index, port) in ports.iter().enumerate() {
        if !numbers.insert((text(&port["protocol"]), number(&port["port"]))) {
            let path = format!("spec.ports[{index}]");
            errors.push(FieldError { value: Some(port_text(port)), ..FieldError::duplicate(path, &Value::Null) });
        }
    }
    errors
}

/// A port of which only protocol and number are set, in Go's format.
fn port_text(port: &Value) -> String {
    structure(&[
        ("Name", named("")),
        ("Protocol", named(text(&port["protocol"]))),
        ("AppProtocol", "null".to_owned()),
        ("Port", number(&port["port"]).to_string()),
        ("TargetPort", "0".to_owned()),
        ("NodePort", "0".to_owned()),
    ])
}

fn traffic_errors(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policy = text(&spec["externalTrafficPolicy"]);
    let path = "spec.externalTrafficPolicy";
    if !is_external(spec) {
        if !policy.is_empty() {
            errors.push(invalid_named(path, policy, "may only be set for externally-accessible services"));
        }
    } else if policy.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !TRAFFIC_POLICIES.contains(&policy) {
        errors.push(unsupported_named(path, policy, &TRAFFIC_POLICIES));
    }
    let path = "spec.internalTrafficPolicy";
    let needs_policy = matches!(text(&spec["type"]), "ClusterIP" | "NodePort" | "LoadBalancer");
    if needs_policy && spec["internalTrafficPolicy"].is_null() {
        errors.push(FieldError::required(path, ""));
    }
    errors.extend(known_error(path.to_owned(), &spec["internalTrafficPolicy"], &TRAFFIC_POLICIES));
    if let Some(distribution) = spec["trafficDistribution"].as_str() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !known.contains(&distribution) {
            errors.push(FieldError::not_supported("spec.trafficDistribution", &json!(distribution), &known));
        }
    }
    errors
}
