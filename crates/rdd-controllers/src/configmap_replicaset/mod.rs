//! ConfigMapReplicaSet: keeps a number of ConfigMaps; an example of a controller that owns many objects.

mod plan;

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use rdd_runtime::{Context, Declaration, Error, Plan, is_not_found, sweep};
use rdd_types::{
    names::{field_manager, label},
    rdd::{ConfigMapReplicaSet, ConfigMapReplicaSetStatus},
};

pub use self::plan::{Observed, Step};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "configmapreplicaset";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "rdd";

/// How many ConfigMaps are created or deleted concurrently. The server commits concurrent writes together.
const AT_ONCE: usize = 32;

/// The controller.
#[derive(Debug, Clone, Copy, Default)]
pub struct Controller;

impl rdd_runtime::Controller for Controller {
    type Object = ConfigMapReplicaSet;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new(NAME, GROUP).crds(rdd_types::crds_of(NAME)).cleans_up().owns::<ConfigMap>()
    }

    async fn observe(&self, object: Arc<ConfigMapReplicaSet>, cx: &Context) -> Result<Observed, Error> {
        let maps = cx.cached::<ConfigMap>().in_namespace(&object.namespace().unwrap_or_default());
        let replicas = plan::replicas(&object, maps);
        Ok(Observed { set: object, replicas })
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan::plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        let set = &*observed.set;
        let namespace = set.namespace().unwrap_or_default();
        let api: Api<ConfigMap> = Api::namespaced(cx.client.clone(), &namespace);
        match step {
            Step::Create(indexes) => {
                let made: Vec<_> = indexes.iter().map(|index| create(&api, set, *index)).collect();
                stream::iter(made).buffer_unordered(AT_ONCE).try_collect::<()>().await
            }
            Step::Remove(indexes) => {
                let surplus = indexes.iter().filter_map(|index| observed.replicas.get(index));
                let gone: Vec<_> = surplus.map(|map| delete(&api, map)).collect();
                stream::iter(gone).buffer_unordered(AT_ONCE).try_collect::<()>().await
            }
            Step::Report(ready) => {
                let status = ConfigMapReplicaSetStatus { ready_replicas: *ready, conditions: Vec::new() };
                cx.apply_status(set, &status).await.map(drop)
            }
            Step::Sweep => sweep::owned(&cx.client, &set.metadata, &namespace).await.map(drop),
            Step::Release => cx.release(set).await,
        }
    }
}

/// The labels of the ConfigMaps that a set owns.
fn labels(set: &ConfigMapReplicaSet) -> BTreeMap<String, String> {
    let labels = [
        (label::NAME, "configmap".to_owned()),
        (label::INSTANCE, set.name_any()),
        (label::COMPONENT, "controller".to_owned()),
        (label::MANAGED_BY, "rdd-configmapreplicaset".to_owned()),
    ];
    labels.map(|(label, value)| (label.to_owned(), value)).into()
}

async fn create(api: &Api<ConfigMap>, set: &ConfigMapReplicaSet, index: i32) -> Result<(), Error> {
    let name = plan::name(set, index);
    let mut data = set.spec.data.clone();
    data.insert("index".to_owned(), index.to_string());
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels(set)),
            owner_references: Context::owner_reference(set).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(data),
        ..ConfigMap::default()
    };
    let parameters = PostParams { field_manager: Some(field_manager::RDD.to_owned()), ..PostParams::default() };
    match api.create(&parameters, &map).await {
        Ok(_) => Ok(()),
        // Either an earlier reconcile created it and the cache does not have it yet, or the name belongs to another owner.
        Err(error) if rdd_runtime::has_code(&error, 409) => match api.get_opt(&name).await? {
            Some(found) if plan::is_owned(set, &found) => Ok(()),
            _ => Err(Error::from(error).context(format!("create ConfigMap {name}"))),
        },
        Err(error) => Err(Error::from(error).context(format!("create ConfigMap {name}"))),
    }
}

async fn delete(api: &Api<ConfigMap>, map: &ConfigMap) -> Result<(), Error> {
    // Another ConfigMap of the same name may exist by now; the uid protects it.
    let only_this = Preconditions { uid: map.uid(), resource_version: None };
    match api.delete(&map.name_any(), &DeleteParams::default().preconditions(only_this)).await {
        Err(error) if !is_not_found(&error) => {
            Err(Error::from(error).context(format!("delete ConfigMap {}", map.name_any())))
        }
        _ => Ok(()),
    }
}
