//! Resolves the services of webhooks to addresses, without a cluster network.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

use rdd_meta::go_text::quote;
use serde::Deserialize;

use crate::state::{Resource, State};

/// Resolves services to addresses.
pub trait Resolve: Debug + Send + Sync {
    /// The `host:port` to connect to for a port of a service. The error is a sentence for the client.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<String, String>;
}

/// Resolves services by a fixed table and by Services of type ExternalName.
#[derive(Debug)]
pub struct Services {
    table: BTreeMap<String, String>,
    state: Arc<State>,
    services: Resource,
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Spec {
    r#type: Option<String>,
    external_name: Option<String>,
}

impl Services {
    /// The table maps `namespace/name:port` or, for all other ports, `namespace/name` to `host:port`. It takes
    /// precedence over the Services in the state.
    pub fn new(state: Arc<State>, table: BTreeMap<String, String>) -> Self {
        let services = Resource::new("", "services").expect("two plain words");
        Self { table, state, services }
    }

    fn external_name(&self, namespace: &str, name: &str) -> Result<String, String> {
        let key = self.services.key(Some(namespace), name).ok();
        let found = key.and_then(|key| self.state.get(&key));
        let found = found.ok_or_else(|| format!("service {} not found", quote(name)))?;
        let spec = serde_json::from_slice(found.wire()).map_or_else(|_| Spec::default(), |Service { spec }| spec);
        let external =
            spec.external_name.filter(|host| spec.r#type.as_deref() == Some("ExternalName") && !host.is_empty());
        external.ok_or_else(|| format!("no endpoints available for service {}", quote(name)))
    }
}

impl Resolve for Services {
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<String, String> {
        let listed = self.table.get(&format!("{namespace}/{name}:{port}"));
        if let Some(address) = listed.or_else(|| self.table.get(&format!("{namespace}/{name}"))) {
            return Ok(address.clone());
        }
        self.external_name(namespace, name).map(|host| format!("{host}:{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{mk_state, put};

    #[tokio::test]
    async fn the_table_counts_first_then_external_names() {
        let state = mk_state().await;
        let external = r#"{"metadata":{},"spec":{"type":"ExternalName","externalName":"hooks.example.com"}}"#;
        for name in ["a", "b"] {
            put(&state, "", "services", Some("ns"), name, external).await;
        }
        put(&state, "", "services", Some("ns"), "c", r#"{"metadata":{},"spec":{"type":"ClusterIP"}}"#).await;
        let table = [("ns/a", "127.0.0.1:1"), ("ns/a:8443", "127.0.0.1:2")];
        let table = table.map(|(from, to)| (from.to_owned(), to.to_owned())).into();
        let services = Services::new(state, table);
        let resolve = |name, port| services.resolve("ns", name, port).unwrap_or_else(|error| error);
        assert_eq!(resolve("a", 443), "127.0.0.1:1");
        assert_eq!(resolve("a", 8443), "127.0.0.1:2");
        assert_eq!(resolve("b", 443), "hooks.example.com:443");
        assert_eq!(resolve("c", 443), "no endpoints available for service \"c\"");
        assert_eq!(resolve("d", 443), "service \"d\" not found");
    }
}
