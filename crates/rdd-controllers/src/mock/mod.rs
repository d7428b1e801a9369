//! The mock: a control plane with objects but without an engine, for tests of user interfaces.
//!
//! It runs in a daemon without other controllers and installs all CRDs. The namespace `rdd-mocks` owns all its objects; deleted ones come
//! back.

mod fixtures;
mod logs;

use std::{fmt, sync::Arc};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{ResourceExt, api::ObjectMeta};
use rdd_runtime::{
    Background, Context, Declaration, Error, Key, Plan, Wake,
    admission::{Decision, Operation, Request, Webhook},
    conditions,
};
use rdd_types::{
    Quantity,
    app::{APP, App, AppStatus, K3S_VERSIONS},
    conditions::{ConditionSpec, SETTLED, mock as specs},
    containers::{Container, ContainerNamespace, Image, Volume},
    names::field_manager,
    rdd::{HostInfo, HostInfoSpec, HostInfoStatus, SYSTEM},
};

use self::fixtures::Fixture;
use crate::{condition, k3s_versions, websocket::Sockets};

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "mock";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "mock";
/// The namespace that owns all objects of the mock.
pub const HOME: &str = "rdd-mocks";
/// The namespace of the containers, images and volumes.
const API_NAMESPACE: &str = "rancher-desktop";
/// The container namespace in their status.
const CONTAINER_NAMESPACE: &str = "buildkit";
/// The resources that the mock's HostInfo reports.
const CPUS: i64 = 32;
const MEMORY_BYTES: u64 = 12 << 30;

/// The controller.
#[derive(Debug, Default)]
pub struct Controller {
    sockets: Sockets,
}

/// The state that the plan depends on; empty for every namespace but [`HOME`].
#[derive(Debug, Default)]
pub struct Observed {
    home: Option<Arc<Namespace>>,
    has_namespace: bool,
    /// The objects that do not exist, or whose status differs.
    missing: Vec<Fixture>,
    host: Option<Arc<HostInfo>>,
    app: Option<Arc<App>>,
    versions: Option<k3s_versions::Observed>,
}

/// The actions of a plan.
#[derive(Clone, PartialEq)]
pub enum Step {
    /// Creates the namespace of the containers.
    MakeNamespace,
    /// Applies a missing object; the field is its index.
    Put(usize),
    /// Creates the HostInfo.
    MakeHost,
    /// Writes the status of the HostInfo.
    ReportHost,
    /// Reports the App as settled.
    Settle,
    /// Writes the list of Kubernetes versions.
    WriteVersions,
}

impl fmt::Debug for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(rdd_runtime::Step::name(self))
    }
}

rdd_runtime::steps!(Step {
    Self::MakeNamespace => "make-namespace",
    Self::Put(_) => "put",
    Self::MakeHost => "make-host",
    Self::ReportHost => "report-host",
    Self::Settle => "settle",
    Self::WriteVersions => "write-versions",
});

impl rdd_runtime::Controller for Controller {
    type Object = Namespace;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        let home = || Wake::One(Key::cluster(HOME));
        Declaration::new(NAME, GROUP)
            .field_manager(field_manager::MOCK)
            .crds(rdd_types::crds())
            .watches::<Namespace, Wake>(move |_| home())
            .watches::<ContainerNamespace, Wake>(move |_| home())
            .watches::<Container, Wake>(move |_| home())
            .watches::<Image, Wake>(move |_| home())
            .watches::<Volume, Wake>(move |_| home())
            .watches::<HostInfo, Wake>(move |_| home())
            .watches::<App, Wake>(move |_| home())
            .watches::<ConfigMap, Wake>(move |map| if map.name_any() == K3S_VERSIONS { home() } else { Wake::Nothing })
            .webhook(webhook())
            .passthrough(logs::passthrough(&self.sockets))
    }

    fn seeds(&self) -> Vec<Namespace> {
        vec![namespace(HOME)]
    }

    async fn observe(&self, object: Arc<Namespace>, cx: &Context) -> Result<Observed, Error> {
        // The controller's kind is Namespace, but it works for one of them only.
        if object.name_any() != HOME || object.metadata.deletion_timestamp.is_some() {
            return Ok(Observed::default());
        }
        let app = cx.cached::<App>().get(&Key::cluster(APP));
        // All objects belong to the namespace, so one reconcile handles them all.
        let wanted = fixtures::fixtures().into_iter().map(|fixture| fixture.owned_by(&object));
        Ok(Observed {
            has_namespace: cx.cached::<Namespace>().get(&Key::cluster(API_NAMESPACE)).is_some(),
            missing: wanted.filter(|fixture| !fixture.is_there(cx)).collect(),
            host: cx.cached::<HostInfo>().get(&Key::cluster(SYSTEM)),
            versions: app.clone().map(|app| k3s_versions::observe(app, cx)),
            app,
            home: Some(object),
        })
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan(observed)
    }

    async fn act(&self, step: &Step, observed: &Observed, cx: &Context) -> Result<(), Error> {
        let Some(home) = &observed.home else { return Ok(()) };
        match (step, &observed.host, &observed.app, &observed.versions) {
            (Step::MakeNamespace, ..) => {
                let mut made = namespace(API_NAMESPACE);
                made.metadata.owner_references = Context::owner_reference(&**home).map(|owner| vec![owner]);
                cx.apply(&made).await.map(drop)
            }
            (Step::Put(index), ..) => match observed.missing.get(*index) {
                Some(fixture) => fixture.put(cx).await,
                None => Ok(()),
            },
            (Step::MakeHost, ..) => cx.apply(&HostInfo::new(SYSTEM, HostInfoSpec::default())).await.map(drop),
            (Step::ReportHost, Some(host), ..) => cx.apply_status(&**host, &machine()).await.map(drop),
            (Step::Settle, _, Some(app), _) => settle(app, cx).await,
            (Step::WriteVersions, .., Some(versions)) => k3s_versions::write(versions, cx).await,
            _ => Ok(()),
        }
    }

    fn background(self: &Arc<Self>) -> Vec<Background> {
        vec![self.sockets.background()]
    }
}

fn plan(observed: &Observed) -> Plan<Step> {
    let mut plan = Plan::nothing();
    if observed.home.is_none() {
        return plan;
    }
    if !observed.has_namespace {
        plan = plan.then(Step::MakeNamespace);
    }
    for index in 0..observed.missing.len() {
        plan = plan.then(Step::Put(index));
    }
    match observed.host.as_deref() {
        // The new object triggers a reconcile, which writes its status.
        None => plan = plan.then(Step::MakeHost),
        Some(host) if host.status.as_ref() != Some(&machine()) => plan = plan.then(Step::ReportHost),
        Some(_) => {}
    }
    // The App is created by the user: the mock only reports its status.
    let app = observed.app.as_deref().filter(|app| app.metadata.deletion_timestamp.is_none());
    if app.is_some_and(|app| !is_settled(app)) {
        plan = plan.then(Step::Settle);
    }
    if observed.versions.as_ref().is_some_and(|versions| !k3s_versions::plan(versions).steps.is_empty()) {
        plan = plan.then(Step::WriteVersions);
    }
    plan
}

fn machine() -> HostInfoStatus {
    HostInfoStatus { cpus: CPUS, memory: Some(Quantity::binary(MEMORY_BYTES)) }
}

fn namespace(name: &str) -> Namespace {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    Namespace { metadata, ..Namespace::default() }
}

fn settled_spec(app: &App) -> &'static ConditionSpec {
    if app.spec.running { &specs::SETTLED_RUNNING } else { &specs::SETTLED_STOPPED }
}

fn is_settled(app: &App) -> bool {
    let status = app.status.as_ref();
    status.is_some_and(|status| condition::is_set(settled_spec(app), &status.conditions, app.metadata.generation))
}

async fn settle(app: &App, cx: &Context) -> Result<(), Error> {
    let mut conditions = app.status.clone().unwrap_or_default().conditions;
    // The apply may only name this controller's own condition.
    conditions.retain(|condition| condition.type_ == SETTLED);
    let now = conditions::now(&*cx.clock);
    condition::set(&settled_spec(app).pending(), &mut conditions, app.metadata.generation, now);
    cx.apply_status(app, &AppStatus { conditions, ..AppStatus::default() }).await.map(drop)
}

/// The webhook that denies the deletion of [`HOME`].
fn webhook() -> Webhook {
    let review = |request: &Request| {
        if request.operation == Operation::Delete && request.name == HOME {
            Decision::denied("deletion of mock namespace is not allowed")
        } else {
            Decision::allowed()
        }
    };
    let name = "mock-namespace-no-delete";
    Webhook::validating::<Namespace>(name, &[Operation::Delete], review)
        .named(&format!("{name}.mock.rancherdesktop.io"))
}

#[cfg(test)]
mod tests {
    use rdd_types::app::AppSpec;

    use super::*;

    fn observed() -> Observed {
        let host = HostInfo { status: Some(machine()), ..HostInfo::new(SYSTEM, HostInfoSpec::default()) };
        Observed {
            home: Some(Arc::new(namespace(HOME))),
            has_namespace: true,
            host: Some(Arc::new(host)),
            ..Observed::default()
        }
    }

    #[test]
    fn all_is_put_in_place_and_then_left_alone() {
        let nothing =
            Observed { home: Some(Arc::new(namespace(HOME))), missing: fixtures::fixtures(), ..Observed::default() };
        let steps = plan(&nothing).steps;
        assert_eq!(steps.first(), Some(&Step::MakeNamespace));
        assert_eq!(steps.iter().filter(|step| matches!(step, Step::Put(_))).count(), nothing.missing.len());
        assert_eq!(steps.last(), Some(&Step::MakeHost));
        assert_eq!(plan(&observed()).steps, []);
        assert_eq!(plan(&Observed::default()).steps, []);
    }

    #[test]
    fn an_app_is_settled_as_soon_as_it_asks() {
        let app = App::new(APP, AppSpec { running: true, ..AppSpec::default() });
        let mut settled = app.clone();
        let mut conditions = Vec::new();
        condition::set(&specs::SETTLED_RUNNING.pending(), &mut conditions, None, Default::default());
        settled.status = Some(AppStatus { conditions, ..AppStatus::default() });
        let steps = |app: &App| plan(&Observed { app: Some(Arc::new(app.clone())), ..observed() }).steps;
        assert_eq!(steps(&app), [Step::Settle]);
        assert_eq!(steps(&settled), []);
        settled.spec.running = false;
        assert_eq!(steps(&settled), [Step::Settle]);
        settled.metadata.deletion_timestamp = Some(rdd_types::Time(Default::default()));
        assert_eq!(steps(&settled), []);
    }

    #[test]
    fn a_machine_that_is_said_to_be_another_is_put_right() {
        let wrong = HostInfo::new(SYSTEM, HostInfoSpec::default());
        assert_eq!(plan(&Observed { host: Some(Arc::new(wrong)), ..observed() }).steps, [Step::ReportHost]);
    }
}
