//! Everything behind the server's door, put together over a store.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdd_meta::{Reason, Status, options::DeleteOptions};
use rdd_stdx::{
    clock::SharedClock,
    task::{Ended, Group},
};
use rdd_store::Store;
use serde_json::Value;

use crate::{
    admission::{
        Admit, Chain,
        lifecycle::NamespaceLifecycle,
        webhook::{self, Webhooks},
    },
    builtin::{self, TokenReviewer},
    controllers::{self, Controllers, Endowment},
    crd::{self, DefinitionKind, Definitions, Deleter, Deletion, Ledger},
    health::{Check, Health},
    openapi::{self, OpenApi, StoredSchemas},
    registry::{Question, Registry, ResourceDef},
    rest::{Api, Order, Target, handler::Endpoints, local::Local},
    state::{self, Limits, MetadataExtract, Object, Observe, State},
    version::Version,
};

/// Who owns the fields that the server itself sets.
const MANAGER: &str = "rdd-apiserver";

/// What the core is made of.
pub struct Parts {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// Where time comes from.
    pub clock: SharedClock,
    /// What the server reports itself as.
    pub version: Version,
    /// What it hands to its namespaces.
    pub endowment: Endowment,
    /// Answers `serviceaccounts/token`.
    pub tokens: Option<Arc<dyn Question>>,
    /// Says whom a token stands for.
    pub reviewer: TokenReviewer,
    /// Plug-ins of the admission chain after the built-in ones.
    pub plugins: Vec<Arc<dyn Admit>>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("endowment", &self.endowment).finish_non_exhaustive()
    }
}

/// The API over a store, with all that keeps it in order. Dropping it ends its tasks.
#[derive(Debug)]
pub struct Core {
    api: Arc<Api>,
    endpoints: Arc<Endpoints>,
    webhooks: Arc<webhook::Local>,
    checks: HealthChecks,
    // Held for the state, which tells them of every change but does not keep them alive.
    _controllers: Arc<Controllers>,
    _definitions: Arc<Defined>,
    tasks: Group<()>,
}

/// Why the core could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store could not be read.
    #[error("load what is stored")]
    State(#[from] state::Error),
    /// What every server has could not be made.
    #[error("make the first objects: {}", .0.message)]
    Bootstrap(Box<Status>),
}

impl Core {
    /// Loads what is stored, serves what it defines, makes what is missing, and begins to keep order. When it returns, every
    /// request can be answered.
    pub async fn open(parts: Parts) -> Result<Self, OpenError> {
        Self::open_with(parts, Limits::default()).await
    }

    /// As [`open`](Self::open), with a past of another length: tests shorten it to meet what has expired.
    pub async fn open_with(parts: Parts, limits: Limits) -> Result<Self, OpenError> {
        let Parts { store, clock, version, endowment, tokens, reviewer, plugins } = parts;
        let state = State::open(store, Arc::new(MetadataExtract), clock.clone(), limits).await?;
        let state = Arc::new(state);
        let ledger = Ledger::default();
        let builtin = builtin::resources(builtin::Parts {
            clock: clock.clone(),
            definitions: {
                let (ledger, clock) = (ledger.clone(), clock.clone());
                Box::new(move |generic| Arc::new(DefinitionKind::new(generic, ledger, clock)))
            },
            tokens,
            reviewer,
        });
        let registry = Arc::new(Registry::new(builtin));
        let definitions = Definitions::new(Arc::clone(&state), Arc::clone(&registry), ledger);
        definitions.load().await?;
        let mk_api = |chain| {
            let (state, registry, clock) = (Arc::clone(&state), Arc::clone(&registry), clock.clone());
            Arc::new(Api { state, registry, admission: Chain::new(chain), clock, order: Order::default() })
        };
        let lifecycle: Arc<dyn Admit> = Arc::new(NamespaceLifecycle::new(Arc::clone(&state)));
        // No webhook is asked yet: those of this process have not registered, and none may keep the server from starting.
        let first = Local::new(mk_api(vec![Arc::clone(&lifecycle)]), MANAGER);
        let is_complete = match controllers::bootstrap(&first, &endowment).await {
            Ok(()) => true,
            // A full disk: what is stored is served, and what is missing is made when there is space.
            Err(status) if status.reason == Some(Reason::ServiceUnavailable) => {
                tracing::warn!(reason = status.message, "the first objects cannot be made yet");
                false
            }
            Err(status) => return Err(OpenError::Bootstrap(Box::new(status))),
        };
        let missing = (!is_complete).then(|| endowment.clone());
        let webhooks = Arc::new(webhook::Local::default());
        let services = Arc::new(webhook::Services::new(Arc::clone(&state), BTreeMap::new()));
        let asked = Webhooks::new(Arc::clone(&state), Arc::clone(&registry), Arc::clone(&webhooks), services);
        let api = mk_api([lifecycle, Arc::new(asked)].into_iter().chain(plugins).collect());
        let defined = Arc::new(Defined(Arc::clone(&definitions)));
        state.observe(&defined);
        let local = Local::new(Arc::clone(&api), MANAGER);
        let controllers = Arc::new(Controllers::new(&local, endowment));
        state.observe(&controllers);

        let mut tasks = Group::default();
        controllers.run(&mut tasks);
        let (defining, registering) = (TaskCheck::default(), TaskCheck::default());
        let deleter = Arc::new(LocalDeleter(local.clone()));
        let controller = crd::Controller::new(definitions, deleter, clock.clone());
        let runs = defining.start();
        tasks.spawn("definitions", async move {
            let _runs = runs;
            if let Err(error) = controller.run().await {
                tracing::error!(error = %rdd_stdx::chain::Chain(&error), "definitions are no longer followed");
            }
        });
        if let Some(endowment) = missing {
            tasks.spawn("first objects", complete_bootstrap(first, endowment));
        }
        let runs = registering.start();
        let registered = Arc::new(AtomicBool::new(false));
        let keeping = controllers::keep_groups_registered(local, Arc::clone(&registered));
        tasks.spawn("apiservices", async move {
            let _runs = runs;
            keeping.await;
        });
        let checks = health_checks(defining, registering, registered);
        let documents = OpenApi::new(Box::new(Builtins), Box::new(StoredSchemas { state }), &version, clock);
        let endpoints = Arc::new(Endpoints::new(Arc::clone(&api), documents));
        Ok(Self { api, endpoints, webhooks, checks, _controllers: controllers, _definitions: defined, tasks })
    }

    /// The API, for those in this process.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// What answers requests.
    pub fn endpoints(&self) -> Arc<Endpoints> {
        Arc::clone(&self.endpoints)
    }

    /// Where webhooks of this process register.
    pub fn webhooks(&self) -> &Arc<webhook::Local> {
        &self.webhooks
    }

    /// Adds the checks of what runs behind the API, under the names that they have in every API server.
    pub fn add_checks(&mut self, health: Health) -> Health {
        self.checks.0.drain(..).fold(health, |health, (name, check)| health.check(name, check))
    }

    /// Waits until one of its tasks has ended, which none does by itself unless something is broken or the store was closed.
    pub async fn ended(&mut self) -> Option<Ended<()>> {
        self.tasks.next().await
    }
}

/// How often it is tried to make the first objects while the store accepts no writes.
const BOOTSTRAP_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Makes the first objects as soon as the store accepts writes. It never ends, as no task of the core does.
async fn complete_bootstrap(local: Local, endowment: Endowment) {
    loop {
        tokio::time::sleep(BOOTSTRAP_RETRY_INTERVAL).await;
        if controllers::bootstrap(&local, &endowment).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}

/// Checks by name.
struct HealthChecks(Vec<(&'static str, Check)>);

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Whether a task runs: from its start to its end.
#[derive(Debug, Clone, Default)]
struct TaskCheck(Arc<AtomicBool>);

/// Held by a task while it runs.
struct TaskRuns(Arc<AtomicBool>);

impl TaskCheck {
    fn start(&self) -> TaskRuns {
        self.0.store(true, Ordering::SeqCst);
        TaskRuns(Arc::clone(&self.0))
    }

    fn check(self, what: &'static str) -> Check {
        Box::new(move || if self.0.load(Ordering::SeqCst) { Ok(()) } else { Err(format!("{what} has ended")) })
    }
}

impl Drop for TaskRuns {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// The checks of what runs behind the API. Upstream's say that a hook after the start has done its work: of those here, the two without a
/// condition belong to work that is done before the server listens, and are true from then on as they are there.
fn health_checks(defining: TaskCheck, registering: TaskCheck, registered: Arc<AtomicBool>) -> HealthChecks {
    let done = || -> Check { Box::new(|| Ok(())) };
    let is_registered: Check = Box::new(move || {
        let registered = registered.load(Ordering::SeqCst);
        if registered { Ok(()) } else { Err("not all APIServices are written yet".to_owned()) }
    });
    HealthChecks(vec![
        ("poststarthook/start-apiextensions-controllers", defining.check("the controller of definitions")),
        ("poststarthook/crd-informer-synced", done()),
        ("poststarthook/start-system-namespaces-controller", done()),
        ("poststarthook/apiservice-registration-controller", registering.check("the registration of APIServices")),
        ("autoregister-completion", is_registered),
    ])
}

/// Serves what a definition defines from the moment in which it is seen.
#[derive(Debug)]
struct Defined(Arc<Definitions>);

impl Observe for Defined {
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>) {
        if let Some(object) = current.or(previous).filter(|object| self.0.defines(object)) {
            self.0.observe(object);
        }
    }

    fn renewed(&self) {
        // Their controller watches them too: its watch has expired, and it looks at all of them.
    }
}

/// Deletes the objects of a definition that goes.
#[derive(Debug)]
struct LocalDeleter(Local);

impl Deleter for LocalDeleter {
    fn delete_all<'f>(&'f self, def: &'f Arc<ResourceDef>) -> Deletion<'f> {
        Box::pin(async move {
            let Some(storage) = def.storage() else { return Ok(()) };
            for object in self.0.api().state.now(&storage.all()) {
                let target = Target {
                    def: Arc::clone(def),
                    version: 0,
                    namespace: object.namespace().map(str::to_owned),
                    name: Some(object.name().to_owned()),
                    subresource: None,
                };
                self.0.delete_target(&target, &DeleteOptions::default()).await?;
            }
            Ok(())
        })
    }
}

/// The schemas of the built-in kinds.
#[derive(Debug)]
struct Builtins;

impl openapi::Definitions for Builtins {
    fn name(&self, group: &str, version: &str, kind: &str) -> Option<String> {
        rdd_builtin::openapi::definition_name(group, version, kind).map(str::to_owned)
    }

    fn closure(&self, names: &[&str]) -> BTreeMap<String, Value> {
        rdd_builtin::openapi::closure(names.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding E-18
    #[test]
    fn the_checks_have_upstreams_names_and_fail_with_their_task() {
        let (defining, registering) = (TaskCheck::default(), TaskCheck::default());
        let (defines, registers) = (defining.start(), registering.start());
        let registered = Arc::new(AtomicBool::new(false));
        let checks = health_checks(defining, registering, Arc::clone(&registered)).0;
        let failing = || checks.iter().filter(|(_, check)| check().is_err()).map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(failing(), ["autoregister-completion"]);
        registered.store(true, Ordering::SeqCst);
        assert!(failing().is_empty());
        drop(defines);
        assert_eq!(failing(), ["poststarthook/start-apiextensions-controllers"]);
        drop(registers);
        assert_eq!(failing()[1..], ["poststarthook/apiservice-registration-controller"]);
    }
}
