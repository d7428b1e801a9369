//! Extracts upstream's descriptions of definitions and fields from the schemas in `k8s-openapi`.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        admissionregistration::v1 as admissionregistration, authentication::v1 as authentication,
        authorization::v1 as authorization, autoscaling::v1 as autoscaling, coordination::v1 as coordination,
        core::v1 as core, events::v1 as events, rbac::v1 as rbac,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    apimachinery::pkg::apis::meta::v1 as meta,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

/// The schemas of all served kinds and of everything that they reference, by definition name.
pub(crate) fn all() -> BTreeMap<String, Value> {
    let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
    macro_rules! kinds {
        ($($kind:ty),* $(,)?) => { $( generator.subschema_for::<$kind>(); )* };
    }
    kinds!(
        core::ConfigMap,
        core::Event,
        core::Namespace,
        core::ResourceQuota,
        core::Secret,
        core::Service,
        core::ServiceAccount,
        admissionregistration::MutatingWebhookConfiguration,
        admissionregistration::ValidatingWebhookConfiguration,
        admissionregistration::ValidatingAdmissionPolicy,
        admissionregistration::ValidatingAdmissionPolicyBinding,
        apiextensions::CustomResourceDefinition,
        apiregistration::APIService,
        coordination::Lease,
        events::Event,
        rbac::ClusterRole,
        rbac::ClusterRoleBinding,
        rbac::Role,
        rbac::RoleBinding,
        authentication::SelfSubjectReview,
        authentication::TokenRequest,
        authentication::TokenReview,
        authorization::LocalSubjectAccessReview,
        authorization::SelfSubjectAccessReview,
        authorization::SelfSubjectRulesReview,
        authorization::SubjectAccessReview,
        autoscaling::Scale,
        meta::DeleteOptions,
        meta::ListMeta,
        meta::Status,
        meta::WatchEvent<k8s_openapi::apimachinery::pkg::runtime::RawExtension>,
    );
    let mut described: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();
    let lists: Vec<(String, Value)> = described.iter().filter_map(|(name, schema)| list(name, schema)).collect();
    described.extend(lists);
    split_watch_event(&mut described);
    described
}

/// Moves a description: the crate puts the words about the object of a watch event on the event, upstream on the object.
fn split_watch_event(described: &mut BTreeMap<String, Value>) {
    let event =
        described.get_mut("io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent").expect("it is one of the kinds above");
    let words = event["description"].as_str().unwrap_or_default().to_owned();
    if let Some((of_event, of_object)) = words.split_once("\n\n") {
        event["description"] = of_event.into();
        event["properties"]["object"]["description"] = of_object.trim_end().into();
    }
}

/// The schema of a list. The crate has none, so its descriptions are ours.
fn list(name: &str, item: &Value) -> Option<(String, Value)> {
    let properties = item["properties"].as_object()?;
    let (api_version, kind) = (properties.get("apiVersion")?, properties.get("kind")?);
    let (_, short) = name.rsplit_once('.')?;
    let schema = json!({
        "description": format!("{short}List is a list of {short} objects."),
        "properties": {
            "apiVersion": api_version,
            "items": {"description": format!("The {short} objects.")},
            "kind": kind,
            "metadata": {"description": "Where in the history the list was taken, and how to go on."},
        },
    });
    Some((format!("{name}List"), schema))
}
