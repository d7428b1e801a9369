//! Assembles the API over a store: state, registry, admission, controllers, and the handler that serves them.

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

/// The field manager of the fields that the server itself sets.
const MANAGER: &str = "rdd-apiserver";

/// The dependencies of a [`Core`].
pub struct Parts {
    /// Persists the objects.
    pub store: Arc<dyn Store>,
    /// The source of time.
    pub clock: SharedClock,
    /// The version that the server reports.
    pub version: Version,
    /// The initial namespaces, and the facts that the server publishes in every namespace.
    pub endowment: Endowment,
    /// Serves the subresource `serviceaccounts/token`; without it the server does not have the subresource.
    pub tokens: Option<Arc<dyn Question>>,
    /// Authenticates tokens for TokenReviews.
    pub reviewer: TokenReviewer,
    /// Admission plug-ins that run after the built-in ones.
    pub plugins: Vec<Arc<dyn Admit>>,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("endowment", &self.endowment).finish_non_exhaustive()
    }
}

/// The API over a store, with its controllers. Dropping it cancels its tasks.
#[derive(Debug)]
pub struct Core {
    api: Arc<Api>,
    endpoints: Arc<Endpoints>,
    webhooks: Arc<webhook::Local>,
    checks: HealthChecks,
    // The state notifies these two of every change but holds them weakly, so they must be kept alive here.
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
    /// The objects that every server has could not be created.
    #[error("make the first objects: {}", .0.message)]
    Bootstrap(Box<Status>),
}

impl Core {
    /// Opens the API over a store.
    ///
    /// # Flow
    /// 1. Load all stored objects, and register the resources of stored CustomResourceDefinitions.
    /// 2. Create the objects that every server has, such as the default namespace, if they are absent.
    /// 3. Start the controllers.
    ///
    /// # Guarantees
    /// When this returns, the server can answer every request. If the store accepts no writes, for example on a full disk, step 2
    /// continues in the background and the server serves what is stored.
    ///
    /// # Errors
    /// [`OpenError`]: the stored objects cannot be loaded, or step 2 fails for another reason than an unavailable store.
    pub async fn open(parts: Parts) -> Result<Self, OpenError> {
        Self::open_with(parts, Limits::default()).await
    }

    /// As [`open`](Self::open), with other limits for the watch history. Tests shorten it, so that revisions expire.
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
        // Without webhooks: those of this process have not registered yet, and none may keep the server from starting.
        let first = Local::new(mk_api(vec![Arc::clone(&lifecycle)]), MANAGER);
        let is_complete = match controllers::bootstrap(&first, &endowment).await {
            Ok(()) => true,
            // The disk is full, for example: serve what is stored, and create the rest when writes succeed again.
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
        // From here on a definition is served as soon as its write is applied.
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

    /// The API, for code in this process.
    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    /// The handler that serves requests.
    pub fn endpoints(&self) -> Arc<Endpoints> {
        Arc::clone(&self.endpoints)
    }

    /// The registry of webhooks that run in this process.
    pub fn webhooks(&self) -> &Arc<webhook::Local> {
        &self.webhooks
    }

    /// Adds the health checks of the tasks behind the API, under the names that Kubernetes API servers use.
    pub fn add_checks(&mut self, health: Health) -> Health {
        self.checks.0.drain(..).fold(health, |health, (name, check)| health.check(name, check))
    }

    /// Waits until one of the tasks has ended. This happens only if something is broken or the store was closed.
    pub async fn ended(&mut self) -> Option<Ended<()>> {
        self.tasks.next().await
    }
}

/// The time between two attempts to create the first objects while the store accepts no writes.
const BOOTSTRAP_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Creates the first objects as soon as the store accepts writes. Then it stays pending, because the end of a task means a
/// failure (see [`Core::ended`]).
async fn complete_bootstrap(local: Local, endowment: Endowment) {
    loop {
        tokio::time::sleep(BOOTSTRAP_RETRY_INTERVAL).await;
        if controllers::bootstrap(&local, &endowment).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}

/// Health checks by name.
struct HealthChecks(Vec<(&'static str, Check)>);

impl fmt::Debug for HealthChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// A flag that is set while a task runs, as a health check.
#[derive(Debug, Clone, Default)]
struct TaskCheck(Arc<AtomicBool>);

/// The guard that a task holds while it runs; its drop clears the flag, also after a panic or a cancellation.
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

/// The health checks of the tasks behind the API. Upstream's report whether a post-start hook has completed. The two checks
/// without a condition stand for work that completes before the server listens, so they always succeed.
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

/// Registers the resource of a CustomResourceDefinition as soon as the state applies the definition.
#[derive(Debug)]
struct Defined(Arc<Definitions>);

impl Observe for Defined {
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>) {
        if let Some(object) = current.or(previous).filter(|object| self.0.defines(object)) {
            self.0.observe(object);
        }
    }

    fn renewed(&self) {
        // The controller of definitions watches them too: its watch expires as well, and it then relists all of them.
    }
}

/// Deletes all objects of a definition that is being deleted.
#[derive(Debug)]
struct LocalDeleter(Local);

impl Deleter for LocalDeleter {
    fn delete_all<'f>(&'f self, def: &'f Arc<ResourceDef>) -> Deletion<'f> {
        Box::pin(async move {
            let Some(storage) = def.storage() else { return Ok(()) };
            for object in self.0.api().state.now(&storage.all()) {
                // Deletion is the same in every version, so the first will do.
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

/// The OpenAPI schemas of the built-in kinds.
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
