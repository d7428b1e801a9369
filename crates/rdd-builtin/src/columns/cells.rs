//! The cells of each kind's printer columns, computed like upstream's printers.

use rdd_meta::{metadata::Metadata, time::Timestamp};
use serde_json::{Value, json};

const UNKNOWN: &str = "<unknown>";
const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'v>(object: &'v Value, pointer: &str) -> &'v [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn size(object: &Value, pointer: &str) -> usize {
    object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

fn name(object: &Value) -> Value {
    Metadata::of(object).name().into()
}

fn since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map_or_else(|| UNKNOWN.to_owned(), |time| time.age(now))
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(Metadata::of(object).creation_timestamp(), now).into()
}

pub(super) fn generic(object: &Value, _now: Timestamp) -> Vec<Value> {
    let created = Metadata::of(object).creation_timestamp().map(Timestamp::format_time);
    vec![name(object), created.unwrap_or_else(|| "0001-01-01T00:00:00Z".to_owned()).into()]
}

pub(super) fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), (size(object, "/data") + size(object, "/binaryData")).into(), age(object, now)]
}

pub(super) fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/status/phase").into(), age(object, now)]
}

pub(super) fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/type").into(), size(object, "/data").into(), age(object, now)]
}

pub(super) fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

pub(super) fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/spec/holderIdentity").into(), age(object, now)]
}

pub(super) fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "/webhooks").len().into(), age(object, now)]
}

pub(super) fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let time = |pointer: &str| Timestamp::parse_time(text(object, pointer)).ok();
    let micro = |pointer: &str| Timestamp::parse_micro_time(text(object, pointer)).ok();
    let first = since(time("/firstTimestamp").or_else(|| micro("/eventTime")), now);
    let mut last = time("/lastTimestamp").map_or_else(|| first.clone(), |time| since(Some(time), now));
    let mut count = object.get("count").and_then(Value::as_i64).unwrap_or(0);
    if let Some(series) = object.get("series").filter(|series| series.is_object()) {
        last = since(micro("/series/lastObservedTime"), now);
        count = series.get("count").and_then(Value::as_i64).unwrap_or(0);
    } else if count == 0 {
        // An event without a count happened once.
        count = 1;
    }
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let target = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source(object).into(),
        text(object, "/message").trim().into(),
        first.into(),
        count.into(),
        name(object),
    ]
}

fn source(event: &Value) -> String {
    let either = |first: &str, second: &str| {
        let found = text(event, first);
        if found.is_empty() { text(event, second).to_owned() } else { found.to_owned() }
    };
    let component = either("/source/component", "/reportingComponent");
    match either("/source/host", "/reportingInstance") {
        instance if instance.is_empty() => component,
        instance => format!("{component}, {instance}"),
    }
}

pub(super) fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in object.pointer("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = object.pointer("/status/used").and_then(|used| used.get(resource)).and_then(Value::as_str);
        let entry = format!("{resource}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or("0"));
        if resource.starts_with("limits.") { limits.push(entry) } else { requests.push(entry) }
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age(object, now)]
}

pub(super) fn service(object: &Value, now: Timestamp) -> Vec<Value> {
    let cluster_ip = items(object, "/spec/clusterIPs").first().and_then(Value::as_str).unwrap_or(NONE);
    let ports: Vec<String> = items(object, "/spec/ports").iter().map(port).collect();
    let ports = if ports.is_empty() { NONE.to_owned() } else { ports.join(",") };
    let selector = object.pointer("/spec/selector").and_then(Value::as_object).into_iter().flatten();
    let selector: Vec<String> =
        selector.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    vec![
        name(object),
        text(object, "/spec/type").into(),
        cluster_ip.into(),
        external_ip(object).into(),
        ports.into(),
        age(object, now),
        if selector.is_empty() { NONE.into() } else { selector.join(",").into() },
    ]
}

fn port(port: &Value) -> String {
    let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
    let protocol = text(port, "/protocol");
    match number("nodePort") {
        node if node > 0 => format!("{}:{node}/{protocol}", number("port")),
        _ => format!("{}/{protocol}", number("port")),
    }
}

fn external_ip(service: &Value) -> String {
    let external: Vec<&str> = items(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" if external.is_empty() => NONE.to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let ingress = items(service, "/status/loadBalancer/ingress").iter();
            let address = |entry: &'_ Value| match (text(entry, "/ip"), text(entry, "/hostname")) {
                ("", hostname) => hostname.to_owned(),
                (ip, _) => ip.to_owned(),
            };
            let mut all: Vec<String> = ingress.map(address).filter(|address| !address.is_empty()).collect();
            all.sort();
            all.dedup();
            all.extend(external.into_iter().map(str::to_owned));
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => UNKNOWN.to_owned(),
    }
}

pub(super) fn admission_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    let kind = match object.pointer("/spec/paramKind").filter(|kind| kind.is_object()) {
        Some(kind) => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
        None => UNSET.to_owned(),
    };
    vec![name(object), items(object, "/spec/validations").len().into(), kind.into(), age(object, now)]
}

pub(super) fn policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let none = json!({});
    let reference = object.pointer("/spec/paramRef").unwrap_or(&none);
    let parameter = match (text(reference, "/name"), text(reference, "/namespace"), reference.get("selector")) {
        ("", _, Some(chosen)) if chosen.is_object() => selector(chosen),
        ("", _, _) => UNSET.to_owned(),
        (name, "", _) => format!("*/{name}"),
        (name, namespace, _) => format!("{namespace}/{name}"),
    };
    vec![name(object), text(object, "/spec/policyName").into(), parameter.into(), age(object, now)]
}

/// Formats a selector like its generated Go `String` method.
fn selector(chosen: &Value) -> String {
    let labels = chosen.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expression = |found: &Value| {
        let values: Vec<&str> = items(found, "/values").iter().filter_map(Value::as_str).collect();
        let (key, operator) = (text(found, "/key"), text(found, "/operator"));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{}],}},", values.join(" "))
    };
    let expressions: String = items(chosen, "/matchExpressions").iter().map(expression).collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

pub(super) fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = match object.pointer("/spec/service").filter(|service| service.is_object()) {
        Some(service) => format!("{}/{}", text(service, "/namespace"), text(service, "/name")),
        None => "Local".to_owned(),
    };
    let available = items(object, "/status/conditions").iter().find(|found| text(found, "/type") == "Available");
    let available = match available.map(|found| (text(found, "/status"), text(found, "/reason"))) {
        None => "Unknown".to_owned(),
        Some((status, reason)) if status != "True" && !reason.is_empty() => format!("{status} ({reason})"),
        Some((status, _)) => status.to_owned(),
    };
    vec![name(object), service.into(), available.into(), age(object, now)]
}

pub(super) fn role_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let of_kind = |kind: &str| {
        let subjects = items(object, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
        let shown = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
            _ => text(subject, "/name").to_owned(),
        });
        Value::from(shown.collect::<Vec<_>>().join(", "))
    };
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    vec![name(object), role.into(), age(object, now), of_kind("User"), of_kind("Group"), of_kind("ServiceAccount")]
}
