//! Webhook configurations in the API: applied as they should be, written only when they are not.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{
    api::admissionregistration::v1::{
        MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{HookKind, Operation, SideEffects, Webhook};
use crate::{Error, Kind, apply::api_of, error::is_not_found, hooks::Reachable};

/// Who owns the fields of our configurations.
pub const FIELD_MANAGER: &str = "rdd-webhook-manager";
/// On each of our configurations: the manager that answers it.
const MANAGER_LABEL: &str = "rdd.rancherdesktop.io/manager";
/// How often a configuration is tried, and how long after one another.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// A rule for the objects of a kind, in its own version, without sub-resources.
pub fn rule<K: Kind>(operations: &[Operation]) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![K::group(&()).into_owned()]),
        api_versions: Some(vec![K::version(&()).into_owned()]),
        resources: Some(vec![K::plural(&()).into_owned()]),
        operations: Some(operations.iter().map(|operation| operation.word().to_owned()).collect()),
        scope: Some("*".to_owned()),
    }
}

/// The configurations of one manager.
#[derive(Clone)]
pub(crate) struct Configurations<'a> {
    pub(crate) client: &'a Client,
    pub(crate) manager: &'a str,
}

impl Configurations<'_> {
    /// Applies the configuration of a webhook that is asked at this place.
    pub(crate) async fn apply(&self, webhook: &Webhook, reachable: &Reachable) -> Result<(), Error> {
        let wanted = desired(webhook, reachable, self.manager);
        let mut attempt = 1;
        loop {
            let error = match self.apply_once(webhook, &wanted).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if attempt == ATTEMPTS {
                return Err(
                    Error::from(error).context(format!("apply the webhook configuration {}", webhook.configuration))
                );
            }
            attempt += 1;
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn apply_once(&self, webhook: &Webhook, wanted: &Value) -> Result<(), kube::Error> {
        let api = match webhook.kind {
            HookKind::Mutating => api_of::<MutatingWebhookConfiguration>(self.client, None),
            HookKind::Validating => api_of::<ValidatingWebhookConfiguration>(self.client, None),
        };
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&webhook.configuration, &parameters, &Patch::Apply(wanted)).await.map(drop)
    }

    /// Removes configurations of this manager that it no longer answers: nobody would, and what they guard could not be written.
    pub(crate) async fn remove_others(&self, answered: &[&Webhook]) -> Result<(), Error> {
        self.remove::<ValidatingWebhookConfiguration>(answered, HookKind::Validating).await?;
        self.remove::<MutatingWebhookConfiguration>(answered, HookKind::Mutating).await
    }

    async fn remove<K: Kind>(&self, answered: &[&Webhook], kind: HookKind) -> Result<(), Error> {
        let api = Api::<K>::all(self.client.clone());
        let ours = ListParams::default().labels(&format!("{MANAGER_LABEL}={}", self.manager));
        for found in api.list_metadata(&ours).await?.items {
            let name = found.name_any();
            if answered.iter().any(|webhook| webhook.kind == kind && webhook.configuration == name) {
                continue;
            }
            tracing::info!(configuration = name, "nobody answers this webhook any more: its configuration goes");
            match api.delete(&name, &DeleteParams::default()).await {
                Err(error) if !is_not_found(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The configuration as it should be, in the form in which it is applied.
fn desired(webhook: &Webhook, reachable: &Reachable, manager: &str) -> Value {
    let (kind, name) = match webhook.kind {
        HookKind::Mutating => ("MutatingWebhookConfiguration", &webhook.configuration),
        HookKind::Validating => ("ValidatingWebhookConfiguration", &webhook.configuration),
    };
    let side_effects = match webhook.side_effects {
        SideEffects::None => "None",
        SideEffects::NoneOnDryRun => "NoneOnDryRun",
    };
    let mut hook = json!({
        "name": webhook.hook,
        "clientConfig": {
            "url": format!("{}{}", reachable.base, webhook.path()),
            "caBundle": STANDARD.encode(&reachable.ca_bundle),
        },
        "rules": webhook.rules,
        "failurePolicy": "Fail",
        "sideEffects": side_effects,
        "admissionReviewVersions": ["v1", "v1beta1"],
    });
    if let Some(selector) = &webhook.object_selector {
        hook["objectSelector"] = json!(selector);
    }
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        labels: Some([(MANAGER_LABEL.to_owned(), manager.to_owned())].into()),
        ..ObjectMeta::default()
    };
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": [hook]})
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::admission::{Decision, Request};

    #[test]
    fn a_configuration_says_where_it_is_asked_and_fails_closed() {
        let webhook = Webhook::validating::<ConfigMap>(
            "limavm-configmap-validator",
            &[Operation::Create, Operation::Delete],
            |_: &Request| Decision::allowed(),
        )
        .named("limavm-configmap-validator.lima.rancherdesktop.io");
        let reachable = Reachable::at("https://127.0.0.1:9445", "PEM");
        let wanted = desired(&webhook, &reachable, "embedded");
        let hook = &wanted["webhooks"][0];
        assert_eq!(hook["clientConfig"]["url"], "https://127.0.0.1:9445/validating-limavm-configmap-validator");
        assert_eq!(hook["clientConfig"]["caBundle"], "UEVN");
        assert_eq!(
            hook["rules"],
            json!([{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "DELETE"],
                "scope": "*",
            }])
        );
        assert_eq!((&hook["failurePolicy"], &hook["sideEffects"]), (&json!("Fail"), &json!("None")));
        assert_eq!(wanted["metadata"]["labels"]["rdd.rancherdesktop.io/manager"], "embedded");
    }
}
