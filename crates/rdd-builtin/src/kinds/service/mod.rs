//! Service: validation and defaulting without address allocation, because this server runs no services.

mod rules;

use std::collections::HashSet;

use rdd_meta::{metadata::Metadata, names::NameRule};
use serde_json::{Value, json};

use super::common::{
    alike, created_by_rule, drop_field, items_mut, keep, list, metadata_errors, metadata_update_errors, number,
    object_at, set_default, set_default_text, text, texts, updated,
};
use crate::strategy::Strategy;

const AFFINITY_SECONDS: i64 = 10_800;

pub(crate) static STRATEGY: Strategy = Strategy {
    name_rule: NameRule::Dns1035Label,
    create_on_update: true,
    default,
    prepare_for_create: |object| drop_field("status", object),
    prepare_for_update: |endpoint, new, old| {
        if endpoint == "status" {
            keep("spec", new, old);
        } else {
            keep("status", new, old);
            drop_dependents_of_type(new, &old["spec"]);
        }
    },
    reset_fields: |endpoint| if endpoint == "status" { &["spec"] } else { &["status"] },
    validate_create: |object| {
        let mut errors = metadata_errors(object, true, NameRule::Dns1035Label);
        errors.extend(rules::spec_errors(&object["spec"]));
        created_by_rule(object, true, errors)
    },
    validate_update: |endpoint, new, old| {
        let mut errors = metadata_update_errors(new, old);
        if endpoint != "status" {
            errors.extend(rules::cluster_address_change_error(&new["spec"], &old["spec"]));
            errors.extend(rules::spec_errors(&new["spec"]));
        }
        updated(new, old, true, errors)
    },
    warnings: |new, _| warnings(new),
    selectable_fields: &["spec.clusterIP", "spec.type"],
    ..Strategy::NAMESPACED
};

fn is_external(spec: &Value) -> bool {
    match text(&spec["type"]) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !list(&spec["externalIPs"]).is_empty(),
        _ => false,
    }
}

fn default(object: &mut Value) {
    if object_at(object, "spec").is_none() {
        return;
    }
    let spec = &mut object["spec"];
    set_default_text(spec, "sessionAffinity", "None");
    match text(&spec["sessionAffinity"]) {
        "None" => drop_field("sessionAffinityConfig", spec),
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
        }
        _ => {}
    }
    set_default_text(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        set_default_text(port, "protocol", "TCP");
        let target = &port["targetPort"];
        if target.is_null() || *target == json!(0) || *target == json!("") {
            let number = number(&port["port"]);
            drop_field("targetPort", port);
            set_default(port, "targetPort", json!(number));
        }
    }
    if is_external(spec) {
        set_default_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(text(&spec["type"]), "ClusterIP" | "NodePort" | "LoadBalancer") {
        set_default(spec, "internalTrafficPolicy", json!("Cluster"));
    }
    if text(&spec["type"]) == "LoadBalancer" {
        set_default(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    default_addresses(spec);
}

/// Defaults `clusterIPs` to `clusterIP`: upstream keeps the address and the first of the list the same.
fn default_addresses(spec: &mut Value) {
    if text(&spec["type"]) == "ExternalName" {
        return;
    }
    let address = text(&spec["clusterIP"]).to_owned();
    if !address.is_empty() {
        set_default(spec, "clusterIPs", json!([address]));
    }
}

/// Clears the fields that depend on the type when the type changes, unless the update changed them too.
fn drop_dependents_of_type(new: &mut Value, old: &Value) {
    let Some(spec) = new.get_mut("spec") else { return };
    let lost = |test: fn(&Value) -> bool| test(old) && !test(spec);
    let has_address = |spec: &Value| text(&spec["type"]) != "ExternalName";
    let has_node_ports = |spec: &Value| matches!(text(&spec["type"]), "NodePort" | "LoadBalancer");
    let is_balanced = |spec: &Value| text(&spec["type"]) == "LoadBalancer";
    let checks_health =
        |spec: &Value| text(&spec["type"]) == "LoadBalancer" && text(&spec["externalTrafficPolicy"]) == "Local";
    let same = |field: &str| alike(&spec[field], &old[field]);
    let mut gone: Vec<&str> = Vec::new();
    if lost(has_address) {
        if same("clusterIP") && same("clusterIPs") {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        gone.extend(["ipFamilies", "ipFamilyPolicy"].into_iter().filter(|field| same(field)));
    }
    let rules: [(bool, &str); 4] = [
        (lost(checks_health), "healthCheckNodePort"),
        (lost(is_balanced), "allocateLoadBalancerNodePorts"),
        (lost(is_balanced), "loadBalancerClass"),
        (lost(is_external), "externalTrafficPolicy"),
    ];
    gone.extend(rules.into_iter().filter(|(lost, field)| *lost && same(field)).map(|(_, field)| field));
    let ports = |spec: &Value| -> HashSet<i64> {
        list(&spec["ports"]).iter().map(|port| number(&port["nodePort"])).filter(|port| *port != 0).collect()
    };
    let drop_ports = lost(has_node_ports) && ports(old).is_superset(&ports(spec));
    gone.into_iter().for_each(|field| drop_field(field, spec));
    if drop_ports {
        items_mut(spec, "ports").for_each(|port| drop_field("nodePort", port));
    }
    if text(&spec["type"]) != "LoadBalancer"
        && let Some(status) = new.get_mut("status")
    {
        drop_field("loadBalancer", status);
    }
}

/// Whether the service is headless.
fn is_headless(spec: &Value) -> bool {
    texts(&spec["clusterIPs"]) == ["None"]
}

fn warnings(object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let external_name = text(&spec["type"]) == "ExternalName";
    let has_external_addresses = !list(&spec["externalIPs"]).is_empty();
    let mut warnings = Vec::new();
    let mut warn_if = |applies: bool, text: &str| {
        if applies {
            warnings.push(text.to_owned());
        }
    };
    warn_if(
        Metadata::of(object).annotation("service.kubernetes.io/topology-aware-hints").is_some(),
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use \
         service.kubernetes.io/topology-mode instead",
    );
    let headless = is_headless(spec);
    warn_if(
        headless && !text(&spec["loadBalancerIP"]).is_empty(),
        "spec.loadBalancerIP is ignored for headless services",
    );
    warn_if(headless && has_external_addresses, "spec.externalIPs is ignored for headless services");
    warn_if(
        headless && text(&spec["sessionAffinity"]) != "None",
        "spec.SessionAffinity is ignored for headless services",
    );
    warn_if(external_name && has_external_addresses, "spec.externalIPs is ignored when spec.type is \"ExternalName\"");
    warn_if(
        !external_name && !text(&spec["externalName"]).is_empty(),
        "spec.externalName is ignored when spec.type is not \"ExternalName\"",
    );
    warn_if(
        text(&spec["trafficDistribution"]) == "PreferClose",
        "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
    );
    warnings
}
