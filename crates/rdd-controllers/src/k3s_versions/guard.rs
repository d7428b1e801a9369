//! Denies the deletion of the version list while an App owns it.

use futures::future::BoxFuture;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference},
};
use kube::{Api, Client, Resource, ResourceExt};
use rdd_meta::{GroupResource, Status};
use rdd_runtime::admission::{Admission, Decision, Operation, Request, Webhook};
use rdd_types::app::{App, GROUP, K3S_VERSIONS};

/// The name of the webhook configuration.
const CONFIGURATION: &str = "k3s-versions-validator";

/// The webhook. It reviews deletions of ConfigMaps with the labels of the list.
pub(super) fn webhook(client: Client) -> Webhook {
    Webhook::validating::<ConfigMap>(CONFIGURATION, &[Operation::Delete], Guard { client })
        .named(&format!("{CONFIGURATION}.{GROUP}"))
        .selecting(LabelSelector { match_labels: Some(super::fixed_labels()), ..LabelSelector::default() })
}

struct Guard {
    client: Client,
}

impl Admission for Guard {
    fn review<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Decision> {
        Box::pin(async move {
            let Some(Ok(map)) = request.old_as::<ConfigMap>() else { return Decision::allowed() };
            // A list without an owner can be deleted.
            let Some(owner) = owner(&map) else { return Decision::allowed() };
            match Api::<App>::all(self.client.clone()).get_opt(&owner.name).await {
                Ok(app) if app.as_ref().is_some_and(|app| needs(app, owner)) => refusal(&map),
                Ok(_) => Decision::allowed(),
                Err(error) => Decision::failed(&error),
            }
        })
    }
}

/// The owner reference to the App, if this ConfigMap is the list and an App is its controller.
fn owner(map: &ConfigMap) -> Option<&OwnerReference> {
    let labels = map.labels();
    let is_list = map.name_any() == K3S_VERSIONS
        && super::fixed_labels().iter().all(|(label, value)| labels.get(label) == Some(value));
    let is_app = |owner: &&OwnerReference| {
        owner.controller == Some(true) && owner.kind == App::kind(&()) && owner.api_version == App::api_version(&())
    };
    map.owner_references().iter().find(is_app).filter(|_| is_list)
}

fn needs(app: &App, owner: &OwnerReference) -> bool {
    app.metadata.deletion_timestamp.is_none() && app.metadata.uid.as_ref() == Some(&owner.uid)
}

fn refusal(map: &ConfigMap) -> Decision {
    let why = format!(
        "refusing to delete *v1.ConfigMap {}/{}",
        map.metadata.namespace.as_deref().unwrap_or_default(),
        map.name_any()
    );
    // The original puts the kind in the place of the resource's plural name.
    let resource = GroupResource::new("", "ConfigMap");
    Decision::Denied(Box::new(Status::forbidden_resource(&resource, &map.name_any(), &why)))
}

#[cfg(test)]
mod tests {
    use rdd_types::app::AppSpec;
    use serde_json::json;

    use super::*;

    fn map(change: impl FnOnce(&mut serde_json::Value)) -> ConfigMap {
        let mut map = json!({"metadata": {
            "name": "k3s-versions", "namespace": "ns", "labels": crate::k3s_versions::fixed_labels(),
            "ownerReferences": [{
                "apiVersion": "app.rancherdesktop.io/v1alpha1", "kind": "App", "name": "app", "uid": "u", "controller": true,
            }],
        }});
        change(&mut map);
        serde_json::from_value(map).unwrap()
    }

    #[test]
    fn only_the_list_that_an_app_controls_is_guarded() {
        assert!(owner(&map(|_| ())).is_some());
        type Change = fn(&mut serde_json::Value);
        let changes: [Change; 5] = [
            |map| map["metadata"]["name"] = json!("other"),
            |map| map["metadata"]["labels"] = json!({}),
            |map| map["metadata"]["ownerReferences"] = json!([]),
            |map| map["metadata"]["ownerReferences"][0]["controller"] = json!(false),
            |map| map["metadata"]["ownerReferences"][0]["apiVersion"] = json!("app.rancherdesktop.io/v1"),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            assert!(owner(&map(change)).is_none(), "change {index}");
        }
    }

    #[test]
    fn an_app_that_goes_or_is_another_needs_no_list() {
        let guarded = map(|_| ());
        let mut app = App::new("app", AppSpec::default());
        assert!(!needs(&app, owner(&guarded).unwrap()));
        app.metadata.uid = Some("u".to_owned());
        assert!(needs(&app, owner(&guarded).unwrap()));
        app.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        assert!(!needs(&app, owner(&guarded).unwrap()));
    }

    #[test]
    fn the_refusal_is_in_the_words_of_the_original() {
        let Decision::Denied(status) = refusal(&map(|_| ())) else { panic!("it refuses") };
        assert_eq!(status.code, 403);
        let text = r#"ConfigMap "k3s-versions" is forbidden: refusing to delete *v1.ConfigMap ns/k3s-versions"#;
        assert_eq!(status.message, text);
    }
}
