//! `cluster-info`: prints the addresses of the control plane and the cluster services.

use serde_json::Value;

use crate::{api::Call, context::Ctl, error::Result};

/// Runs `cluster-info`.
pub(crate) fn run(ctl: &Ctl<'_>) -> Result<()> {
    if ctl.flags.args.first().is_some_and(|word| word == "dump") {
        return Err(super::elsewhere("cluster-info dump"));
    }
    let host = ctl.api.url();
    let namespace = ctl.flags.given("namespace").unwrap_or("kube-system");
    let call = Call::get(format!("/api/v1/namespaces/{namespace}/services"));
    let listed = ctl.call(&call.query("labelSelector", "kubernetes.io/cluster-service=true"));
    let told = listed.and_then(|services| {
        ctl.print(&format!("Kubernetes control plane is running at {host}\n"))?;
        let services = services["items"].as_array().into_iter().flatten();
        services.map(|service| service_line(&host, service)).try_for_each(|line| ctl.print(&line))
    });
    ctl.print("\nTo further debug and diagnose cluster problems, use 'kubectl cluster-info dump'.\n")?;
    told
}

fn service_line(host: &str, service: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ports = service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let (name, namespace) = (text(&service["metadata"]["name"]), text(&service["metadata"]["namespace"]));
    let link = match service["status"]["loadBalancer"]["ingress"].get(0) {
        Some(ingress) => {
            let ip = text(&ingress["ip"]);
            let address = if ip.is_empty() { text(&ingress["hostname"]) } else { ip };
            ports.iter().map(|port| format!("http://{address}:{} ", port["port"])).collect()
        }
        None => {
            let target = ports.first().map_or_else(|| name.clone(), |port| proxy_target(&name, port));
            format!("{host}/api/v1/namespaces/{namespace}/services/{target}/proxy")
        }
    };
    let label = text(&service["metadata"]["labels"]["kubernetes.io/name"]);
    format!("{} is running at {link}\n", if label.is_empty() { name } else { label })
}

/// The proxy target of a service port: `name`, `name:port` or `https:name:port`.
fn proxy_target(name: &str, port: &Value) -> String {
    let port_name = port["name"].as_str().unwrap_or_default();
    match (port_name == "https" || port["port"] == 443, port_name) {
        (true, _) => format!("https:{name}:{port_name}"),
        (false, "") => name.to_owned(),
        (false, _) => format!("{name}:{port_name}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_are_told_by_their_proxy_or_their_address() {
        let dns = json!({
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"kubernetes.io/name": "CoreDNS"}},
            "spec": {"ports": [{"name": "dns", "port": 53}]},
        });
        assert_eq!(
            service_line("https://x", &dns),
            "CoreDNS is running at https://x/api/v1/namespaces/kube-system/services/kube-dns:dns/proxy\n"
        );
        let balanced = json!({
            "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80}]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "h"}]}},
        });
        assert_eq!(service_line("https://x", &balanced), "web is running at http://h:80 \n");
        assert_eq!(proxy_target("a", &json!({"port": 443})), "https:a:");
    }
}
