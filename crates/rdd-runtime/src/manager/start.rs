//! The start of a manager, ordered so that "ready" means "usable".

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use futures::future::{join_all, try_join_all};
use kube::Client;
use rdd_stdx::chain::Chain;
use tokio_util::sync::CancellationToken;

use super::{
    ANNOUNCE, DEFINE, DISCARD, MANAGER, Manager, Options, Phase, Place, REGISTER, Role, hooks, stale::Stale,
    upkeep::Upkeep,
};
use crate::{
    Error, Registered,
    admission::remove_unanswered,
    cache::Caches,
    conditions, crds,
    discovery::{Claimed, Entry, Registry, is_alive},
    health::Health,
    listen, passthrough,
    probe::Points,
    supervise::Supervisor,
    worker::Tools,
};

/// How long to wait for the caches; after that, the start continues, and the controllers begin when their caches are synced.
const FILL: Duration = Duration::from_secs(20);

/// The outcome of a start.
#[derive(Debug)]
pub enum Started {
    /// The manager runs.
    Running(Box<Manager>),
    /// Other managers run all these controllers; nothing was started.
    NothingToDo(Claimed),
}

impl Manager {
    /// Starts these controllers. When it returns, webhooks are configured, CRDs are served, caches are filled, and the registry shows
    /// that the controllers are ready.
    ///
    /// # Flow
    /// The health endpoint listens (503) → webhooks are served → the manager registers, which claims its controllers → webhook
    /// configurations → CRDs → watches and workers → ready.
    ///
    /// # Guarantees
    /// - Webhook configurations of an earlier run are answered before anything is written.
    /// - No object of a kind can be written between the definition of the kind and its webhook.
    ///
    /// # Errors
    /// When the manager cannot register, or a configuration or CRD cannot be written. A slow cache is not an error.
    pub async fn start(options: Options, controllers: Vec<Registered>) -> Result<Started, Error> {
        let (client, own) = (options.client.clone(), options.name.clone());
        let is_embedded = matches!(options.role, Role::Embedded(_));
        let started = Self::start_once(options, controllers).await;
        if let Err(error) = &started
            && is_embedded
            && is_failing_webhook(error)
        {
            // A webhook of a manager that is gone refuses the daemon's own writes, and no other process would remove it.
            unblock(&client, own).await;
        }
        started
    }

    async fn start_once(options: Options, controllers: Vec<Registered>) -> Result<Started, Error> {
        let progress = Arc::clone(&options.progress);
        progress(Phase::Registering);
        let tools = tools(&options);
        let ending = tools.1;
        let tools = tools.0;
        // First of all: configurations of an earlier run match the writes of this start, and they fail closed.
        let served = hooks::Served::start(&*options.hooks, &controllers).await?;
        let mut manager = Manager {
            upkeep: Upkeep::new(&options.name, &options.role, &tools, served),
            name: options.name,
            ending,
            health: None,
            running: Default::default(),
            waiting: Default::default(),
            tools,
        };
        let claimed = manager.register(&options.role, &controllers).await?;
        // The daemon's manager starts even without controllers; a separate process would be useless.
        if let (Role::External(_), true) = (&options.role, claimed.own.is_empty()) {
            return Ok(Started::NothingToDo(claimed));
        }
        let is_ours = |controller: &Registered| {
            matches!(options.role, Role::Alone | Role::Embedded(_))
                || claimed.own.contains(controller.declaration().name)
        };
        // Controllers of other managers wait until their manager is gone.
        let (ours, waiting): (Vec<_>, Vec<_>) = controllers.into_iter().partition(is_ours);
        *manager.waiting.get_mut() = waiting;
        if let Role::Embedded(_) | Role::External(_) = options.role {
            let tools = &manager.tools;
            // Webhooks of waiting controllers count as answered: the manager serves them already.
            let answered = ours.iter().chain(manager.waiting.get_mut().iter());
            tools.points.around(MANAGER, DISCARD, hooks::remove_stale(&tools.client, &manager.name, answered)).await?;
        }
        if let Role::External(Place { passthrough_socket: Some(path), .. }) = &options.role {
            let routes = passthrough::routes(ours.iter().chain(manager.waiting.get_mut().iter()));
            manager.pass_through(path, routes)?;
        }
        progress(Phase::Defining);
        manager.run(ours).await?;
        manager.make_ready().await?;
        manager.upkeep.start(&manager.tools);
        if let Role::Embedded(_) = options.role {
            Stale::start(&manager.tools, &manager.name);
        }
        Ok(Started::Running(Box::new(manager)))
    }

    /// Serves the passthroughs of these controllers on a Unix socket. It must follow the claim: until then, another manager may use the
    /// socket.
    fn pass_through(&self, path: &Path, routes: passthrough::Routes) -> Result<(), Error> {
        if routes.is_empty() {
            return Ok(());
        }
        let socket = passthrough::Socket::bind(path, routes)?;
        self.tools.supervisor.start("passthrough".to_owned(), move || Box::pin(socket.clone().run()));
        Ok(())
    }

    /// Registers as the role requires; returns the claimed controllers.
    async fn register(&mut self, role: &Role, controllers: &[Registered]) -> Result<Claimed, Error> {
        let (Role::Embedded(place) | Role::External(place)) = role else { return Ok(Claimed::default()) };
        let id = uuid::Uuid::new_v4().to_string();
        let health = Health::new(&id, self.tools.supervisor.clone());
        let server = listen::Server::new(listen::bind(place.health_port).await?, None, health.handler())?;
        let port = server.port();
        self.tools.supervisor.start("health".to_owned(), move || Box::pin(server.clone().run()));
        self.health = Some(health);
        let entry = self.entry(place, port, id, controllers);
        let registry = Registry::new(self.tools.client.clone());
        let registering = async {
            match role {
                Role::External(_) => {
                    let wanted: Vec<_> = controllers.iter().map(|controller| controller.declaration().name).collect();
                    registry.claim(&self.name, &entry, &wanted).await
                }
                // Without controllers the manager is ready at once, and one write does both.
                _ => registry.renew(&self.name, &entry, controllers.is_empty()).await.map(|()| Claimed::default()),
            }
        };
        let claimed = self.tools.points.around(MANAGER, REGISTER, registering).await?;
        self.upkeep.set_registered(registry, entry);
        Ok(claimed)
    }

    fn entry(&self, place: &Place, health_port: u16, id: String, controllers: &[Registered]) -> Entry {
        let names: Vec<_> = controllers.iter().map(|one| one.declaration().name.to_owned()).collect();
        let mut passthroughs = BTreeMap::new();
        for one in controllers.iter().map(Registered::declaration).filter(|one| !one.passthroughs.is_empty()) {
            let endpoints = one.passthroughs.iter().map(|passthrough| passthrough.endpoint.to_owned());
            passthroughs.insert(one.name.to_owned(), endpoints.collect());
        }
        Entry {
            health_port,
            metrics_port: place.metrics_port,
            enabled_controllers: (!names.is_empty()).then_some(names),
            enabled_passthroughs: passthroughs,
            start_time: conditions::now(&*self.tools.clock).to_string(),
            health_endpoint: format!("http://localhost:{health_port}/healthz"),
            metrics_endpoint: place.metrics_endpoint.clone(),
            passthrough_endpoint: place.passthrough_endpoint.clone(),
            id,
        }
    }

    /// Configures the webhooks of these controllers, installs their CRDs, starts them, and waits for their caches, up to a timeout.
    pub(super) async fn run(&self, controllers: Vec<Registered>) -> Result<(), Error> {
        // Webhooks before CRDs, so that no object can be written unchecked.
        self.upkeep.hooks().configure(&self.tools, &self.name, &controllers).await?;
        let client = &self.tools.client;
        let definitions = controllers.iter().flat_map(|one| one.declaration().crds.iter().map(std::slice::from_ref));
        let steps =
            definitions.map(|definition| self.tools.points.around(MANAGER, DEFINE, crds::install(client, definition)));
        try_join_all(steps).await?;
        let started: Vec<_> = controllers.into_iter().map(|one| one.start(self.tools.clone())).collect();
        // A kind that is not served counts as settled, so it does not delay the start.
        let needs: Vec<_> = started.iter().flat_map(|one| &one.needs).map(|view| view.settled()).collect();
        self.upkeep.add(started.iter().map(|one| Arc::clone(&one.declaration)));
        self.with_running(|running| running.extend(started));
        if tokio::time::timeout(FILL, join_all(needs)).await.is_err() {
            tracing::warn!("some watches are not filled yet; their controllers start later");
        }
        for (controller, kind) in self.missing() {
            tracing::warn!(
                controller,
                kind,
                "the server does not serve a kind that a controller needs; it waits for it"
            );
        }
        Ok(())
    }

    async fn make_ready(&self) -> Result<(), Error> {
        if let Some(health) = &self.health {
            health.set_ready(true);
        }
        let with_controllers = |(_, entry): &&(Registry, Entry)| entry.enabled_controllers.is_some();
        if let Some((registry, entry)) = self.upkeep.registered().filter(with_controllers) {
            self.tools.points.around(MANAGER, ANNOUNCE, registry.annotate(true, None)).await?;
            tracing::info!(manager = self.name, controllers = ?entry.enabled_controllers, "controllers are ready");
        }
        Ok(())
    }
}

/// Whether the server refused a write because a required webhook did not answer.
fn is_failing_webhook(error: &Error) -> bool {
    // The API has no code of its own for this; the message is upstream's.
    error.code() == Some(500) && Chain(error).to_string().contains("failed calling webhook")
}

/// Removes the webhook configurations of managers that are certainly gone.
async fn unblock(client: &Client, own: String) {
    let unblocked = async {
        let list = Registry::new(client.clone()).read().await?;
        // This manager is not registered yet, so the list does not show that it is alive.
        let mut living = BTreeSet::from([own]);
        for (name, entry) in list.map(|list| list.entries).unwrap_or_default() {
            if is_alive(&entry).await {
                living.insert(name);
            }
        }
        remove_unanswered(client, &|manager| living.contains(manager)).await
    };
    if let Err(error) = unblocked.await {
        tracing::warn!(error = %Chain(&error), "could not remove webhooks that nobody answers");
    }
}

fn tools(options: &Options) -> (Tools, CancellationToken) {
    let ending = CancellationToken::new();
    let supervisor = Supervisor::new(ending.clone());
    let tools = Tools {
        client: options.client.clone(),
        clock: options.clock.clone(),
        caches: Caches::new(options.client.clone(), supervisor.clone()),
        supervisor,
        metrics: options.metrics.clone(),
        points: Points::new(Arc::clone(&options.probe)),
        stopping: CancellationToken::new(),
    };
    (tools, ending)
}
