//! The controllers in the daemon's own process, which use its API without a network connection.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use kube::Client;
use rdd_apiserver::{admission::webhook, auth::Identity, core::Core, serve::Server};
use rdd_cli::ServeOptions;
use rdd_runtime::{
    discovery::Registry,
    hooks::{Hooks, Local, certificates},
    manager::{Manager, Options, Phase, Place, Role, Started},
    metrics::Metrics,
    selection::Selection,
};
use rdd_stdx::{backoff::Backoff, chain::Chain, clock::SharedClock};
use rdd_store::Store;

use crate::{
    controllers::{self, Parts},
    datastore,
    notify::Notifier,
    passthrough::Passthroughs,
};

/// The API user of the controllers.
const USER: &str = "system:rdd-controller-manager";
const MASTERS: &str = "system:masters";
/// The key of this manager in the registry of managers.
const NAME: &str = "embedded";
/// The backoff after failed starts.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// The maximum delay while the disk is full. Short, because the user waits after freeing space.
const FULL_DISK_RETRY_MAX: Duration = Duration::from_secs(3);

/// The dependencies of the embedded manager.
pub(crate) struct Embedded {
    options: ServeOptions,
    clock: SharedClock,
    client: Client,
    store: Arc<dyn Store>,
    webhooks: Arc<webhook::Local>,
    passthroughs: Arc<Passthroughs>,
    metrics: Metrics,
    api_port: u16,
    notifier: Notifier,
}

impl Embedded {
    pub(crate) fn new(
        options: &ServeOptions,
        clock: &SharedClock,
        (server, core, store): (&Server, &Core, &Arc<dyn Store>),
        (passthroughs, metrics): (Arc<Passthroughs>, Metrics),
        notifier: &Notifier,
    ) -> Self {
        let identity = Identity::new(USER, [MASTERS.to_owned()]);
        let client = Client::new(server.in_process(identity), "default");
        // External managers are found through the same API client.
        passthroughs.ask(Registry::new(client.clone()));
        Self {
            options: options.clone(),
            clock: Arc::clone(clock),
            client,
            store: Arc::clone(store),
            webhooks: Arc::clone(core.webhooks()),
            passthroughs,
            metrics,
            api_port: server.address().port(),
            notifier: notifier.clone(),
        }
    }

    /// Starts the controllers and retries until that succeeds. Each failure is reported to the notifier and in the API.
    pub(crate) async fn start(&self) -> Manager {
        let mut delays = BACKOFF.delays();
        loop {
            let mut delay = delays.advance();
            match self.try_start().await {
                Ok(manager) => return manager,
                Err(error) => {
                    let problem = format!("start the controllers: {}", Chain(error.as_ref()));
                    tracing::error!(
                        error = problem,
                        ?delay,
                        "the API is served without controllers; they are started again"
                    );
                    // A full disk is not a failed start: the daemon serves reads until there is space.
                    if let Some(reason) = datastore::full_disk(&*self.store) {
                        self.notifier.read_only(&reason);
                        delay = delay.min(FULL_DISK_RETRY_MAX);
                    } else {
                        self.notifier.failed(&problem);
                    }
                    // Publish the problem in the API as well, for clients that wait for readiness.
                    let told = Registry::new(self.client.clone()).annotate(false, Some(&problem)).await;
                    if let Err(error) = told {
                        tracing::warn!(error = %Chain(&error), "could not say in the API what stands in the way");
                    }
                }
            }
            tokio::time::sleep(delay).await;
        }
    }

    async fn try_start(&self) -> anyhow::Result<Manager> {
        let instance = &self.options.instance;
        let selection = Selection::parse(&self.options.controllers);
        let parts = Parts {
            instance,
            environment: &self.options.environment,
            verbosity: self.options.verbosity,
            clock: &self.clock,
            client: &self.client,
        };
        let controllers = controllers::embedded(&parts, &selection);
        self.passthroughs.answer_here(&controllers);
        let hooks = self.hooks(controllers.is_empty())?;
        let notifier = self.notifier.clone();
        // Metrics and passthrough of embedded controllers share the API's port.
        let api = format!("https://127.0.0.1:{}", self.api_port);
        let options = Options {
            name: NAME.to_owned(),
            role: Role::Embedded(Place {
                health_port: instance.ports.embedded_health,
                metrics_port: self.api_port,
                metrics_endpoint: format!("{api}/metrics"),
                passthrough_endpoint: format!("{api}/passthrough/"),
                passthrough_socket: None,
            }),
            client: self.client.clone(),
            clock: Arc::clone(&self.clock),
            hooks,
            probe: controllers::probe(),
            metrics: self.metrics.clone(),
            progress: Arc::new(move |phase| notifier.status(words(phase))),
        };
        match Manager::start(options, controllers).await? {
            Started::Running(manager) => Ok(*manager),
            Started::NothingToDo(_) => anyhow::bail!("another manager has taken the place of the daemon's own"),
        }
    }

    /// The webhooks of the controllers, which the server calls as functions. `none` means that there are no
    /// controllers.
    fn hooks(&self, none: bool) -> anyhow::Result<Arc<dyn Hooks>> {
        let instance = &self.options.instance;
        // Without controllers there are no webhooks, so no authority is created.
        let ca_bundle = if none {
            String::new()
        } else {
            let authority = certificates::authority(&instance.paths.tls_dir, &*self.clock);
            authority.context("prepare the authority of webhooks")?.certificate
        };
        let webhooks = Arc::clone(&self.webhooks);
        Ok(Arc::new(Local {
            base: format!("https://127.0.0.1:{}", instance.ports.webhook),
            ca_bundle,
            register: Arc::new(move |url, answer| Box::new(webhooks.register_url(url, answer))),
        }))
    }
}

/// The status texts that `svc start` and scripts depend on.
fn words(phase: Phase) -> &'static str {
    match phase {
        Phase::Registering => "waiting for controllers to register",
        Phase::Defining => "waiting for CRDs to be established",
    }
}
