//! The ConfigMap `k3s-versions` of an App: the supported versions of Kubernetes, and the version of each channel.

mod guard;
mod table;

use std::{collections::BTreeMap, fmt, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{Client, ResourceExt, api::ObjectMeta};
use rdd_runtime::{Context, Declaration, Error, Key, Plan, Wake};
use rdd_types::{
    app::{APP, App, K3S_VERSIONS},
    names::label,
};

pub use self::table::{bare, channel, channels, full, is_older, supports, versions};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "k3s-versions";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "app";

/// The controller.
pub struct Controller {
    client: Client,
}

impl fmt::Debug for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Controller").finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller whose webhook reads Apps through this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// The state that the plan depends on.
#[derive(Debug, Clone)]
pub struct Observed {
    pub(crate) app: Arc<App>,
    /// Whether the namespace exists and is not being deleted.
    pub(crate) has_namespace: bool,
    pub(crate) found: Option<Arc<ConfigMap>>,
}

/// The actions of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Writes the ConfigMap.
    Write,
}

rdd_runtime::steps!(Step {
    Self::Write => "write",
});

impl rdd_runtime::Controller for Controller {
    type Object = App;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        Declaration::new(NAME, GROUP)
            // By name, not by owner: a list without its owner reference must be restored too.
            .watches::<ConfigMap, Wake>(|map| match map.name_any() == K3S_VERSIONS {
                true => Wake::One(Key::cluster(APP)),
                false => Wake::Nothing,
            })
            // The list can only be written once its namespace exists.
            .watches::<Namespace, Wake>(|_| Wake::All)
            .webhook(guard::webhook(self.client.clone()))
    }

    async fn observe(&self, object: Arc<App>, cx: &Context) -> Result<Observed, Error> {
        Ok(observe(object, cx))
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        match step {
            Step::Write => write(observed, cx).await,
        }
    }
}

pub(crate) fn observe(app: Arc<App>, cx: &Context) -> Observed {
    let namespace = &app.spec.namespace;
    let stays = |namespace: Arc<Namespace>| namespace.metadata.deletion_timestamp.is_none();
    Observed {
        has_namespace: cx.cached::<Namespace>().get(&Key::cluster(namespace)).is_some_and(stays),
        found: cx.cached::<ConfigMap>().get(&Key::namespaced(namespace, K3S_VERSIONS)),
        app,
    }
}

pub(crate) fn plan(observed: &Observed) -> Plan<Step> {
    let is_wanted = observed.app.metadata.deletion_timestamp.is_none() && observed.has_namespace;
    let wanted = list(&observed.app);
    let is_right = observed.found.as_deref().is_some_and(|found| says(found, &wanted));
    if is_wanted && !is_right { Plan::of([Step::Write]) } else { Plan::nothing() }
}

pub(crate) async fn write(observed: &Observed, cx: &Context) -> Result<(), Error> {
    cx.apply(&list(&observed.app)).await.map(drop)
}

/// The labels of the list that do not depend on the App.
fn fixed_labels() -> BTreeMap<String, String> {
    let labels = [
        (label::NAME, "rdd-k3s-versions"),
        (label::COMPONENT, "k3s-versions"),
        (label::MANAGED_BY, "rdd-k3s-versions"),
    ];
    labels.map(|(label, value)| (label.to_owned(), value.to_owned())).into()
}

/// The desired ConfigMap of an App. It is applied, so keys and labels of other field managers stay.
fn list(app: &App) -> ConfigMap {
    let mut labels = fixed_labels();
    labels.insert(label::INSTANCE.to_owned(), app.name_any());
    let json = |map: BTreeMap<String, String>| serde_json::to_string(&map).expect("a map of texts is JSON");
    let data = [("versions".to_owned(), json(versions())), ("channels".to_owned(), json(channels()))];
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(K3S_VERSIONS.to_owned()),
            namespace: Some(app.spec.namespace.clone()),
            labels: Some(labels),
            owner_references: Context::owner_reference(app).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(data.into()),
        ..ConfigMap::default()
    }
}

/// Whether a ConfigMap has all the desired data, labels and owners. It may have more.
fn says(found: &ConfigMap, wanted: &ConfigMap) -> bool {
    let has = |found: Option<&BTreeMap<String, String>>, wanted: Option<&BTreeMap<String, String>>| {
        wanted.into_iter().flatten().all(|(key, value)| found.is_some_and(|found| found.get(key) == Some(value)))
    };
    has(found.data.as_ref(), wanted.data.as_ref())
        && has(found.metadata.labels.as_ref(), wanted.metadata.labels.as_ref())
        && wanted.owner_references().iter().all(|owner| found.owner_references().contains(owner))
}

#[cfg(test)]
mod tests {
    use rdd_types::app::AppSpec;

    use super::*;

    fn app() -> App {
        let mut app = App::new("app", AppSpec { namespace: "ns".to_owned(), ..AppSpec::default() });
        app.metadata.uid = Some("u".to_owned());
        app
    }

    fn observed(found: Option<ConfigMap>) -> Observed {
        Observed { app: Arc::new(app()), has_namespace: true, found: found.map(Arc::new) }
    }

    #[test]
    fn the_list_is_written_when_it_is_missing_or_wrong_and_only_then() {
        let right = list(&app());
        assert_eq!(plan(&observed(None)).steps, [Step::Write]);
        assert_eq!(plan(&observed(Some(right.clone()))).steps, []);
        type Change = fn(&mut ConfigMap);
        let wrong: [Change; 4] = [
            |map| drop(map.data.as_mut().unwrap().insert("versions".to_owned(), "{}".to_owned())),
            |map| drop(map.data.as_mut().unwrap().remove("channels")),
            |map| drop(map.metadata.labels.as_mut().unwrap().remove(label::INSTANCE)),
            |map| map.metadata.owner_references = None,
        ];
        for (index, change) in wrong.into_iter().enumerate() {
            let mut map = right.clone();
            change(&mut map);
            assert_eq!(plan(&observed(Some(map))).steps, [Step::Write], "change {index}");
        }
    }

    #[test]
    fn what_others_add_to_the_list_is_no_reason_to_write_it() {
        let mut map = list(&app());
        map.data.as_mut().unwrap().insert("note".to_owned(), "mine".to_owned());
        map.metadata.labels.as_mut().unwrap().insert("note".to_owned(), "mine".to_owned());
        assert_eq!(plan(&observed(Some(map))).steps, []);
    }

    #[test]
    fn nothing_is_written_for_an_app_that_goes_or_has_no_namespace() {
        let mut going = app();
        going.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        assert_eq!(plan(&Observed { app: Arc::new(going), ..observed(None) }).steps, []);
        assert_eq!(plan(&Observed { has_namespace: false, ..observed(None) }).steps, []);
    }
}
