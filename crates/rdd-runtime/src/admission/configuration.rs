//! Webhook configurations in the API: creating, restoring and removing those of a manager.

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
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};

use super::{HookKind, Operation, SideEffects, Webhook};
use crate::{
    Error, Kind,
    apply::{api_of, typed},
    error::{has_code, is_not_found},
    hooks::Reachable,
};

/// The field manager of the webhook configurations that managers apply.
pub const FIELD_MANAGER: &str = "rdd-webhook-manager";
/// The label of each such configuration; its value is the name of the manager that answers the webhook.
const MANAGER_LABEL: &str = "rdd.rancherdesktop.io/manager";
/// How often [`Configurations::apply`] tries to write a configuration, and the pause between two attempts.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// An admission rule for the objects of kind `K` in its own version, without subresources.
pub fn rule<K: Kind>(operations: &[Operation]) -> RuleWithOperations {
    RuleWithOperations {
        api_groups: Some(vec![K::group(&()).into_owned()]),
        api_versions: Some(vec![K::version(&()).into_owned()]),
        resources: Some(vec![K::plural(&()).into_owned()]),
        operations: Some(operations.iter().map(|operation| operation.word().to_owned()).collect()),
        scope: Some("*".to_owned()),
    }
}

/// A mutating or a validating webhook configuration.
pub(crate) trait Configuration: Kind {
    /// Which of the two it is.
    const KIND: HookKind;

    /// The hooks as JSON, without fields that have the server's default value.
    fn hooks(&self) -> Value;
}

impl Configuration for ValidatingWebhookConfiguration {
    const KIND: HookKind = HookKind::Validating;

    fn hooks(&self) -> Value {
        bare(json!(self.webhooks))
    }
}

impl Configuration for MutatingWebhookConfiguration {
    const KIND: HookKind = HookKind::Mutating;

    fn hooks(&self) -> Value {
        bare(json!(self.webhooks))
    }
}

/// Removes fields that have the server's default value, so that they do not count as a difference.
fn bare(mut hooks: Value) -> Value {
    let defaults = [
        ("timeoutSeconds", json!(10)),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("reinvocationPolicy", json!("Never")),
    ];
    for hook in hooks.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        hook.retain(|field, value| !defaults.iter().any(|(name, default)| name == field && default == value));
    }
    hooks
}

/// The manager that answers the webhook, from the label; `None` if the configuration does not belong to a manager.
pub(crate) fn manager_of(configuration: &impl Configuration) -> Option<&str> {
    configuration.meta().labels.as_ref()?.get(MANAGER_LABEL).map(String::as_str)
}

/// Writes and removes the webhook configurations of one manager.
#[derive(Clone)]
pub(crate) struct Configurations<'a> {
    pub(crate) client: &'a Client,
    pub(crate) manager: &'a str,
}

impl Configurations<'_> {
    /// Applies the configuration of a webhook that is reachable at this address. A failure is retried for a few seconds.
    pub(crate) async fn apply(&self, webhook: &Webhook, reachable: &Reachable) -> Result<(), Error> {
        let wanted = desired(webhook, reachable, self.manager);
        let mut attempt = 1;
        loop {
            let error = match self.apply_once(webhook, &wanted).await {
                Ok(_) => return Ok(()),
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

    async fn apply_once(&self, webhook: &Webhook, wanted: &Value) -> Result<DynamicObject, kube::Error> {
        let api = match webhook.kind {
            HookKind::Mutating => api_of::<MutatingWebhookConfiguration>(self.client, None),
            HookKind::Validating => api_of::<ValidatingWebhookConfiguration>(self.client, None),
        };
        // With force: fields that other field managers have set are taken over.
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        api.patch(&webhook.configuration, &parameters, &Patch::Apply(wanted)).await
    }

    /// Restores a configuration if `found` differs from what it should be; returns the configuration if it was written.
    ///
    /// Fields that other field managers have added to the hook are removed too: a selector, for example, could keep the server from
    /// calling the hook.
    pub(crate) async fn restore<K: Configuration>(
        &self,
        webhook: &Webhook,
        reachable: &Reachable,
        found: Option<&K>,
    ) -> Result<Option<K>, Error> {
        let wanted = desired(webhook, reachable, self.manager);
        // A needless write would cause another watch event, and so another restore.
        if found.is_some_and(|found| is_as_wanted(found, &wanted)) {
            return Ok(None);
        }
        let told = |error: kube::Error| {
            Error::from(error).context(format!("restore the webhook configuration {}", webhook.configuration))
        };
        let applied: K = typed(self.apply_once(webhook, &wanted).await.map_err(told)?)?;
        if is_as_wanted(&applied, &wanted) {
            return Ok(Some(applied));
        }
        // Apply leaves the fields of other managers in place. A merge patch replaces the whole list.
        let patch = json!({"webhooks": wanted["webhooks"]});
        let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let api = api_of::<K>(self.client, None);
        let patched = api.patch(&webhook.configuration, &parameters, &Patch::Merge(&patch)).await;
        typed(patched.map_err(told)?).map(Some)
    }

    /// Removes the configurations of this manager for webhooks that it no longer answers. They fail closed, so they would block all
    /// writes that they match.
    pub(crate) async fn remove_others(&self, answered: &[&Webhook]) -> Result<(), Error> {
        self.remove::<ValidatingWebhookConfiguration>(answered).await?;
        self.remove::<MutatingWebhookConfiguration>(answered).await
    }

    async fn remove<K: Configuration>(&self, answered: &[&Webhook]) -> Result<(), Error> {
        let api = Api::<K>::all(self.client.clone());
        // The label protects configurations that no manager has created.
        let ours = ListParams::default().labels(&format!("{MANAGER_LABEL}={}", self.manager));
        for found in api.list_metadata(&ours).await?.items {
            let name = found.name_any();
            if answered.iter().any(|webhook| webhook.kind == K::KIND && webhook.configuration == name) {
                continue;
            }
            remove_if_unchanged::<K>(self.client, &found.metadata).await?;
        }
        Ok(())
    }
}

/// Removes the configurations of every manager for which `answers` returns false.
pub(crate) async fn remove_unanswered(client: &Client, answers: &impl Fn(&str) -> bool) -> Result<(), Error> {
    remove_unanswered_of::<ValidatingWebhookConfiguration>(client, answers).await?;
    remove_unanswered_of::<MutatingWebhookConfiguration>(client, answers).await
}

async fn remove_unanswered_of<K: Configuration>(client: &Client, answers: &impl Fn(&str) -> bool) -> Result<(), Error> {
    let labelled = ListParams::default().labels(MANAGER_LABEL);
    for found in Api::<K>::all(client.clone()).list_metadata(&labelled).await?.items {
        if found.labels().get(MANAGER_LABEL).is_some_and(|manager| !answers(manager)) {
            remove_if_unchanged::<K>(client, &found.metadata).await?;
        }
    }
    Ok(())
}

/// Removes a configuration that no manager answers, unless it has changed since it was read: a manager may have taken it over.
pub(crate) async fn remove_if_unchanged<K: Configuration>(client: &Client, found: &ObjectMeta) -> Result<(), Error> {
    let name = found.name.clone().unwrap_or_default();
    let preconditions = Preconditions { uid: found.uid.clone(), resource_version: found.resource_version.clone() };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match Api::<K>::all(client.clone()).delete(&name, &parameters).await {
        // Already removed, or changed since it was read: then a manager has it again.
        Err(error) if is_not_found(&error) || has_code(&error, 409) => Ok(()),
        Err(error) => Err(Error::from(error).context(format!("remove the webhook configuration {name}"))),
        Ok(_) => {
            tracing::info!(configuration = name, "nobody answers this webhook any more: its configuration is gone");
            Ok(())
        }
    }
}

/// Whether a configuration has the desired label and hooks. Other differences do not matter.
fn is_as_wanted<K: Configuration>(found: &K, wanted: &Value) -> bool {
    // Both pass through the same type, so equal content has equal form.
    let Ok(wanted_object) = serde_json::from_value::<K>(wanted.clone()) else { return false };
    manager_of(found) == manager_of(&wanted_object) && found.hooks() == wanted_object.hooks()
}

/// The desired configuration, as the body of an apply.
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
