//! Notary: records every change of its value in a ConfigMap; an example of a controller that owns an object and has a finalizer.

mod admission;
mod plan;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use rdd_runtime::{Context, Declaration, Error, Key, Plan, conditions, sweep};
use rdd_stdx::chain::Chain;
use rdd_types::{
    names::{field_manager, label},
    rdd::{Notary, NotaryStatus},
};
use serde_json::json;

pub use self::plan::{Observed, Step};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "notary";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "rdd";

/// The status of a ConfigMap that was written.
const UPDATED: &str = "Updated";

/// The controller.
#[derive(Debug, Default)]
pub struct Controller {
    /// The last generation of each Notary for which events were published, so that each is published once.
    told: Mutex<HashMap<Key, i64>>,
}

impl rdd_runtime::Controller for Controller {
    type Object = Notary;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new(NAME, GROUP)
            .crds(rdd_types::crds_of(NAME))
            .cleans_up()
            .owns::<ConfigMap>()
            .webhook(admission::webhook())
    }

    async fn observe(&self, object: Arc<Notary>, cx: &Context) -> Result<Observed, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let map = cx.cached::<ConfigMap>().get(&Key::namespaced(namespace, &object.spec.config_map_name));
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).get(&Key::of(&*object)).copied();
        // The record of events is in memory only: after a restart, each Notary is reported once more.
        Ok(Observed { is_told: told == object.metadata.generation, notary: object, map })
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan::plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        let notary = &*observed.notary;
        match step {
            Step::Tell => self.tell(notary, cx),
            Step::Record => record(notary, observed.map.as_deref(), cx).await?,
            Step::Report => report(notary, cx).await?,
            Step::Complain { reason, note } => cx.events.warning(notary, reason, "SyncValue", note),
            Step::Sweep => {
                let namespace = notary.namespace().unwrap_or_default();
                sweep::owned(&cx.client, &notary.metadata, &namespace).await?;
            }
            Step::Release => cx.release(notary).await?,
        }
        Ok(())
    }

    fn after_failure(&self, failed: &Step, _: &Observed, error: &Error) -> Option<Step> {
        let reason = match failed {
            Step::Record => "ConfigMapError",
            Step::Report => "StatusUpdateError",
            _ => return None,
        };
        Some(Step::Complain { reason, note: Chain(error).to_string() })
    }

    fn gone(&self, key: &Key) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

impl Controller {
    /// Publishes events about a new generation, and whether it changed the value.
    fn tell(&self, notary: &Notary, cx: &Context) {
        let note = format!("Notary spec updated with value: {}", notary.spec.value);
        cx.events.normal(notary, "Reconcile", "SpecUpdate", &note);
        if !plan::is_change(notary) {
            let note = "Spec update received but value unchanged, no ConfigMap update needed";
            cx.events.normal(notary, "NoChange", "SyncValue", note);
        }
        let generation = notary.metadata.generation.unwrap_or_default();
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(Key::of(notary), generation);
    }
}

/// Records the change in the ConfigMap, and creates the ConfigMap if it does not exist.
async fn record(notary: &Notary, found: Option<&ConfigMap>, cx: &Context) -> Result<(), Error> {
    let namespace = notary.namespace().unwrap_or_default();
    let api: Api<ConfigMap> = Api::namespaced(cx.client.clone(), &namespace);
    let count = plan::count(notary);
    let text = format!("timestamp={},value={}", conditions::now(&*cx.clock), notary.spec.value);
    let data = [
        (plan::change_key(count), text.clone()),
        ("latest_change".to_owned(), text),
        ("change_count".to_owned(), count.to_string()),
    ];
    let labels = [
        (label::MANAGED_BY.to_owned(), "notary-controller".to_owned()),
        (label::INSTANCE.to_owned(), notary.name_any()),
    ];
    let name = &notary.spec.config_map_name;
    // A merge patch keeps the records of earlier changes and keys of other clients.
    let written = if found.is_some() {
        let patch = json!({"metadata": {"labels": BTreeMap::from(labels)}, "data": BTreeMap::from(data)});
        let parameters = PatchParams { field_manager: Some(field_manager::RDD.to_owned()), ..PatchParams::default() };
        api.patch(name, &parameters, &Patch::Merge(patch)).await
    } else {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.into()),
                owner_references: Context::owner_reference(notary).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(data.into()),
            ..ConfigMap::default()
        };
        let parameters = PostParams { field_manager: Some(field_manager::RDD.to_owned()), ..PostParams::default() };
        api.create(&parameters, &map).await
    };
    written.map(drop).map_err(|error| Error::from(error).context(format!("write ConfigMap {namespace}/{name}")))
}

async fn report(notary: &Notary, cx: &Context) -> Result<(), Error> {
    let before = notary.status.clone().unwrap_or_default();
    let status = NotaryStatus {
        // The count names the next key, so it grows only after the record is written.
        change_count: before.change_count.saturating_add(1),
        config_map_status: UPDATED.to_owned(),
        last_recorded_value: notary.spec.value.clone(),
    };
    cx.apply_status(notary, &status).await?;
    let note = format!("Value change recorded in ConfigMap: {} -> {}", before.last_recorded_value, notary.spec.value);
    cx.events.normal(notary, "ValueRecorded", "SyncValue", &note);
    Ok(())
}
