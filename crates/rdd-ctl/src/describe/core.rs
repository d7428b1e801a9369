//! Descriptions of the core kinds that kubectl formats specially.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rdd_meta::metadata::Metadata;
use serde_json::Value;

use super::{Page, events, list_at, policy, text_at};
use crate::{
    api::Call,
    context::Ctl,
    error::{Error, Result},
    print::table::format_labels,
};

fn append_events(ctl: &Ctl<'_>, object: &Value, page: &mut Page) {
    if ctl.flags.is_on("show-events")
        && let Ok(found) = events::find(ctl, object)
    {
        events::write(ctl, &found, page);
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    value.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default()
}

pub(super) fn config_map(ctl: &Ctl<'_>, object: &Value, page: &mut Page) -> Result<()> {
    page.head(object, true);
    page.write(0, "\nData\n====\n");
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        page.write(0, &format!("{key}:\n----\n{}\n\n", value.as_str().unwrap_or_default()));
    }
    page.write(0, "\nBinaryData\n====\n");
    for (key, value) in object["binaryData"].as_object().into_iter().flatten() {
        page.write(0, &format!("{key}: {} bytes\n", bytes_of(value).len()));
    }
    page.write(0, "\n");
    if ctl.flags.is_on("show-events") {
        events::write(ctl, &events::find(ctl, object)?, page);
    }
    Ok(())
}

pub(super) fn secret(object: &Value, page: &mut Page) {
    page.head(object, true);
    let kind = text_at(object, &["type"]);
    page.write(0, &format!("\nType:\t{kind}\n"));
    page.write(0, "\nData\n====\n");
    for (key, value) in object["data"].as_object().into_iter().flatten() {
        let bytes = bytes_of(value);
        // kubectl shows service account tokens in full, and of all other values only the size.
        if key == "token" && kind == "kubernetes.io/service-account-token" {
            page.write(0, &format!("{key}:\t{}\n", String::from_utf8_lossy(&bytes)));
        } else {
            page.write(0, &format!("{key}:\t{} bytes\n", bytes.len()));
        }
    }
}

pub(super) fn namespace(ctl: &Ctl<'_>, object: &Value, page: &mut Page) -> Result<()> {
    page.head(object, false);
    page.write(0, &format!("Status:\t{}\n", text_at(object, &["status", "phase"])));
    let conditions = list_at(object, &["status", "conditions"]);
    if !conditions.is_empty() {
        page.write(0, "Conditions:\n");
        page.write(1, "Type\tStatus\tLastTransitionTime\tReason\tMessage\n");
        page.write(1, "----\t------\t------------------\t------\t-------\n");
    }
    for condition in conditions {
        let word = |name| text_at(condition, &[name]);
        let time = rfc1123(word("lastTransitionTime"));
        let (kind, status, reason, message) = (word("type"), word("status"), word("reason"), word("message"));
        page.write(1, &format!("{kind}\t{status}\t{time}\t{reason}\t{message}\n"));
    }
    let name = Metadata::of(object).name();
    if let Some(quotas) = listed(ctl, &format!("/api/v1/namespaces/{name}/resourcequotas"))? {
        page.write(0, "\n");
        resource_quotas(&quotas, page);
    }
    if let Some(ranges) = listed(ctl, &format!("/api/v1/namespaces/{name}/limitranges"))? {
        page.write(0, "\n");
        limit_ranges(&ranges, page);
    }
    Ok(())
}

/// Lists a collection; `None` if the server does not have the resource.
fn listed(ctl: &Ctl<'_>, path: &str) -> Result<Option<Vec<Value>>> {
    match ctl.call(&Call::get(path)) {
        Ok(mut list) => Ok(Some(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())),
        Err(error) if Error::is_not_found(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn resource_quotas(quotas: &[Value], page: &mut Page) {
    if quotas.is_empty() {
        return page.write(0, "No resource quota.\n");
    }
    page.write(0, "Resource Quotas\n");
    for quota in quotas {
        page.write(1, &format!("Name:\t{}\n", Metadata::of(quota).name()));
        policy::scopes(quota, (1, "*"), page);
        page.write(1, "Resource\tUsed\tHard\n");
        page.write(1, "--------\t---\t---\n");
        for (resource, hard) in quota["status"]["hard"].as_object().into_iter().flatten() {
            let used = text_at(quota, &["status", "used", resource]);
            let used = if used.is_empty() { "0" } else { used };
            page.write(1, &format!("{resource}\t{used}\t{}\n", hard.as_str().unwrap_or_default()));
        }
    }
}

fn limit_ranges(ranges: &[Value], page: &mut Page) {
    if ranges.is_empty() {
        return page.write(0, "No LimitRange resource.\n");
    }
    page.write(
        0,
        "Resource Limits\n Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio\n",
    );
    page.write(0, " ----\t--------\t---\t---\t---------------\t-------------\t-----------------------\n");
    for limit in ranges.iter().flat_map(|range| list_at(range, &["spec", "limits"])) {
        let fields = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
        let mut resources: Vec<&String> =
            fields.iter().filter_map(|field| limit[field].as_object()).flat_map(|map| map.keys()).collect();
        resources.sort();
        resources.dedup();
        for resource in resources {
            let cells: Vec<&str> = fields.iter().map(|field| limit[field][resource].as_str().unwrap_or("-")).collect();
            page.write(0, &format!(" {}\t{resource}\t{}\n", text_at(limit, &["type"]), cells.join("\t")));
        }
    }
}

pub(super) fn service_account(ctl: &Ctl<'_>, object: &Value, page: &mut Page) {
    page.head(object, true);
    let secrets = list_at(object, &["imagePullSecrets"]);
    let mut header = "Image pull secrets:";
    if secrets.is_empty() {
        page.write(0, &format!("{header}\t<none>\n"));
    }
    for secret in secrets {
        page.write(0, &format!("{header}\t{}\n", text_at(secret, &["name"])));
        header = "                   ";
    }
    append_events(ctl, object, page);
}

pub(super) fn service(ctl: &Ctl<'_>, object: &Value, page: &mut Page) {
    page.head(object, true);
    let spec = &object["spec"];
    let metadata = Metadata::of(object);
    let selector = format_labels(&serde_json::json!({ "metadata": { "labels": spec["selector"] } }));
    page.write(0, &format!("Selector:\t{selector}\n"));
    page.write(0, &format!("Type:\t{}\n", text_at(spec, &["type"])));
    optional(page, "IP Family Policy", text_at(spec, &["ipFamilyPolicy"]));
    page.write(0, &format!("IP Families:\t{}\n", joined(spec, "ipFamilies").unwrap_or_else(|| "<none>".to_owned())));
    page.write(0, &format!("IP:\t{}\n", text_at(spec, &["clusterIP"])));
    page.write(0, &format!("IPs:\t{}\n", joined(spec, "clusterIPs").unwrap_or_else(|| "<none>".to_owned())));
    optional(page, "External IPs", &joined(spec, "externalIPs").unwrap_or_default());
    optional(page, "Desired LoadBalancer IP", text_at(spec, &["loadBalancerIP"]));
    optional(page, "External Name", text_at(spec, &["externalName"]));
    optional(page, "LoadBalancer Ingress", &ingress(object));
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", metadata.namespace());
    let call = Call::get(path).query("labelSelector", format!("kubernetes.io/service-name={}", metadata.name()));
    let slices = ctl.call(&call).unwrap_or(Value::Null);
    for port in list_at(spec, &["ports"]) {
        service_port(port, list_at(&slices, &["items"]), page);
    }
    page.write(0, &format!("Session Affinity:\t{}\n", text_at(spec, &["sessionAffinity"])));
    optional(page, "External Traffic Policy", text_at(spec, &["externalTrafficPolicy"]));
    optional(page, "Internal Traffic Policy", text_at(spec, &["internalTrafficPolicy"]));
    if let Some(port) = spec["healthCheckNodePort"].as_i64().filter(|port| *port != 0) {
        page.write(0, &format!("HealthCheck NodePort:\t{port}\n"));
    }
    optional(page, "LoadBalancer Source Ranges", &joined(spec, "loadBalancerSourceRanges").unwrap_or_default());
    optional(page, "Traffic Distribution", text_at(spec, &["trafficDistribution"]));
    append_events(ctl, object, page);
}

fn optional(page: &mut Page, label: &str, value: &str) {
    if !value.is_empty() {
        page.write(0, &format!("{label}:\t{value}\n"));
    }
}

fn joined(spec: &Value, field: &str) -> Option<String> {
    let items: Vec<&str> = list_at(spec, &[field]).iter().filter_map(Value::as_str).collect();
    (!items.is_empty()).then(|| items.join(","))
}

fn ingress(object: &Value) -> String {
    let addresses = list_at(object, &["status", "loadBalancer", "ingress"]).iter().map(|ingress| {
        let (ip, mode) = (text_at(ingress, &["ip"]), text_at(ingress, &["ipMode"]));
        match (ip, mode) {
            ("", _) => text_at(ingress, &["hostname"]).to_owned(),
            (ip, "") => ip.to_owned(),
            (ip, mode) => format!("{ip} ({mode})"),
        }
    });
    addresses.collect::<Vec<_>>().join(", ")
}

fn service_port(port: &Value, slices: &[Value], page: &mut Page) {
    let name = text_at(port, &["name"]);
    let shown = if name.is_empty() { "<unset>" } else { name };
    let protocol = text_at(port, &["protocol"]);
    page.write(0, &format!("Port:\t{shown}\t{}/{protocol}\n", port["port"].as_i64().unwrap_or(0)));
    page.write(0, &format!("TargetPort:\t{}/{protocol}\n", rdd_meta::go_text::plain(&port["targetPort"])));
    if let Some(node) = port["nodePort"].as_i64().filter(|port| *port != 0) {
        page.write(0, &format!("NodePort:\t{shown}\t{node}/{protocol}\n"));
    }
    page.write(0, &format!("Endpoints:\t{}\n", endpoints(slices, name)));
}

/// The first three addresses behind a port, and the number of others.
fn endpoints(slices: &[Value], name: &str) -> String {
    if slices.is_empty() {
        return "<none>".to_owned();
    }
    let mut found: Vec<String> = Vec::new();
    for slice in slices {
        let ready = list_at(slice, &["endpoints"]).iter().filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let addresses: Vec<&str> =
            ready.filter_map(|endpoint| list_at(endpoint, &["addresses"]).first().and_then(Value::as_str)).collect();
        let ports = list_at(slice, &["ports"]);
        if ports.is_empty() {
            found.extend(addresses.iter().map(|address| (*address).to_owned()));
        }
        for port in ports.iter().filter(|port| text_at(port, &["name"]) == name) {
            let number = port["port"].as_i64().unwrap_or(0);
            found.extend(addresses.iter().map(|address| match address.contains(':') {
                true => format!("[{address}]:{number}"),
                false => format!("{address}:{number}"),
            }));
        }
    }
    let first = found.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    if found.len() > 3 { format!("{first} + {} more...", found.len() - 3) } else { first }
}

/// Formats a time like RFC 1123.
fn rfc1123(text: &str) -> String {
    let Ok(time) = rdd_meta::time::Timestamp::parse_time(text) else { return text.to_owned() };
    let days = time.seconds().div_euclid(86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let formatted = time.format_time();
    let (date, clock) = formatted.trim_end_matches('Z').split_once('T').unwrap_or((&formatted, ""));
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return formatted.clone() };
    let month = month.parse::<usize>().ok().and_then(|month| months.get(month.saturating_sub(1))).unwrap_or(&"Jan");
    format!("{weekday}, {day} {month} {year} {clock} +0000")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn three_endpoints_are_named_and_the_others_counted() {
        let endpoint = |address: &str| json!({ "addresses": [address] });
        let slice = json!({
            "ports": [{ "name": "", "port": 80 }],
            "endpoints": [endpoint("10.0.0.1"), endpoint("10.0.0.2"), endpoint("::1"), endpoint("10.0.0.4"),
                { "addresses": ["10.0.0.5"], "conditions": { "ready": false } }],
        });
        assert_eq!(endpoints(&[slice], ""), "10.0.0.1:80,10.0.0.2:80,[::1]:80 + 1 more...");
        assert_eq!(endpoints(&[], ""), "<none>");
    }

    #[test]
    fn times_are_those_of_mails() {
        assert_eq!(rfc1123("2024-02-29T12:34:56Z"), "Thu, 29 Feb 2024 12:34:56 +0000");
    }
}
