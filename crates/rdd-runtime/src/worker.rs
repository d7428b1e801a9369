//! The reconcile loop of one controller: several objects concurrently, each isolated from the failures of the others.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::FutureExt;
use kube::{Resource, ResourceExt, api::PostParams};
use rdd_stdx::{
    chain::Chain,
    clock::SharedClock,
    task::{Ended, Group, panic_message},
};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    Context, Controller, Declaration, Error, Key, Plan, Step,
    apply::api_of,
    cache::{Cached, Caches, View},
    context::Identity,
    declaration::Wiring,
    error::has_code,
    events, finalizer,
    metrics::{self, Metrics},
    probe::Points,
    queue::{Outcome, Queue},
    supervise::Supervisor,
};

/// The step in which the runtime adds the finalizer, for controllers that declare one.
pub const ENSURE_FINALIZER: &str = "ensure-finalizer";
/// From this many conflicts in a row on, a conflict is logged like any other failure.
const CONFLICTS_MAX: u32 = 6;

/// The shared services that a manager gives to each of its controllers.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) client: kube::Client,
    pub(crate) clock: SharedClock,
    pub(crate) caches: Caches,
    pub(crate) supervisor: Supervisor,
    pub(crate) metrics: Metrics,
    pub(crate) points: Points,
    /// Cancelled when the manager begins to stop: no new reconcile starts.
    pub(crate) stopping: CancellationToken,
}

/// A type-erased controller that a manager can run.
pub struct Registered {
    declaration: Arc<Declaration>,
    steps: &'static [&'static str],
    start: Box<dyn FnOnce(Arc<Declaration>, Tools) -> Running + Send + Sync>,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.declaration.fmt(f)
    }
}

impl Registered {
    /// Registers a controller.
    pub fn new<C: Controller>(controller: C) -> Self {
        Self::shared(Arc::new(controller))
    }

    /// Registers a controller that the caller shares, for example with its passthrough handlers.
    pub fn shared<C: Controller>(controller: Arc<C>) -> Self {
        let declaration = Arc::new(controller.declaration());
        Self {
            declaration,
            steps: C::Step::ALL,
            start: Box::new(move |declaration, tools| start(controller, declaration, tools)),
        }
    }

    /// The controller's declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The names of all its steps, including the runtime's [`ENSURE_FINALIZER`].
    pub fn steps(&self) -> Vec<&'static str> {
        let own = self.declaration.finalizer.map(|_| ENSURE_FINALIZER);
        own.into_iter().chain(self.steps.iter().copied()).collect()
    }

    pub(crate) fn start(self, tools: Tools) -> Running {
        (self.start)(self.declaration, tools)
    }
}

/// A controller that a manager has started.
pub(crate) struct Running {
    pub(crate) declaration: Arc<Declaration>,
    pub(crate) needs: Vec<Arc<dyn View>>,
    pub(crate) queue: Arc<Queue>,
    /// Cancelled when the last reconcile has ended.
    pub(crate) drained: CancellationToken,
    pub(crate) stop: Box<dyn Fn() -> futures::future::BoxFuture<'static, ()> + Send + Sync>,
}

fn start<C: Controller>(controller: Arc<C>, declaration: Arc<Declaration>, tools: Tools) -> Running {
    let queue = Arc::new(Queue::default());
    let (events, written) = events::of(tools.client.clone(), declaration.name);
    let field_manager =
        declaration.field_manager.map_or_else(|| format!("{}-controller", declaration.name), str::to_owned);
    let identity = Identity { name: declaration.name, field_manager, finalizer: declaration.finalizer };
    let context = Context {
        client: tools.client.clone(),
        clock: tools.clock.clone(),
        events,
        shutdown: tools.stopping.clone(),
        controller: Arc::new(identity),
        caches: tools.caches.clone(),
        queue: Arc::clone(&queue),
        key: None,
        points: tools.points.clone(),
    };
    let objects = tools.caches.get::<C::Object>();
    let needs = wire(&declaration, &objects, &queue, &tools.caches);
    tools.metrics.follow(declaration.name, Arc::clone(&queue));
    let (stopped, stopping) = (Arc::clone(&controller), context.clone());
    let background = controller.background();
    let worker = Arc::new(Worker {
        seeds: controller.seeds(),
        controller,
        declaration: Arc::clone(&declaration),
        context: context.clone(),
        objects,
        told: Mutex::default(),
        tools: tools.clone(),
        drained: CancellationToken::new(),
    });
    let drained = worker.drained.clone();
    let name = declaration.name;
    tools.supervisor.start(format!("events of {name}"), move || Box::pin(written.clone().run()));
    for task in background {
        let context = context.clone();
        tools.supervisor.start(format!("{} of {name}", task.name), move || (task.run)(context.clone()));
    }
    let needed = needs.clone();
    tools.supervisor.start(format!("controller {name}"), move || {
        let (worker, needed) = (Arc::clone(&worker), needed.clone());
        Box::pin(async move { worker.run(needed).await })
    });
    Running {
        declaration,
        needs,
        queue,
        drained,
        stop: Box::new(move || {
            let (controller, context) = (Arc::clone(&stopped), stopping.clone());
            Box::pin(async move { controller.stop(&context).await })
        }),
    }
}

/// Subscribes the controller's queue to its own kind and its watches; returns the caches that must be synced before it works.
fn wire<K: crate::Kind>(
    declaration: &Declaration,
    objects: &Cached<K>,
    queue: &Arc<Queue>,
    caches: &Caches,
) -> Vec<Arc<dyn View>> {
    let own = Arc::clone(queue);
    objects.subscribe(move |object| own.wake(Key::of(object)));
    let (everyone, one) = (objects.clone(), objects.clone());
    let wiring = Wiring {
        caches: caches.clone(),
        queue: Arc::clone(queue),
        everyone: Arc::new(move || everyone.keys()),
        exists: Arc::new(move |key| one.get(key).is_some()),
        owner: (K::group(&()).into_owned(), K::kind(&()).into_owned()),
    };
    let watched = declaration.watches.iter().map(|watch| (watch.wire)(&wiring));
    std::iter::once(Arc::new(objects.clone()) as Arc<dyn View>).chain(watched).collect()
}

struct Worker<C: Controller> {
    controller: Arc<C>,
    declaration: Arc<Declaration>,
    seeds: Vec<C::Object>,
    context: Context,
    objects: Cached<C::Object>,
    /// The last logged error of each failing object, so that a lasting failure is logged once.
    told: Mutex<HashMap<Key, String>>,
    tools: Tools,
    drained: CancellationToken,
}

/// The result of one reconcile.
struct Attempt {
    key: Key,
    result: Result<Option<Duration>, Error>,
    took: Duration,
}

impl<C: Controller> Worker<C> {
    /// Reconciles until the manager stops, then waits for the running reconciles.
    async fn run(self: Arc<Self>, needs: Vec<Arc<dyn View>>) -> Result<(), Error> {
        let stopping = self.tools.stopping.clone();
        tokio::select! {
            () = all_synced(&needs) => {}
            () = stopping.cancelled() => return self.rest().await,
        }
        // If the supervisor restarted this task, the reconciles of its predecessor are gone: their keys go back into the queue.
        let queue = Arc::clone(&self.context.queue);
        queue.recover();
        self.seeds.iter().for_each(|seed| queue.wake(Key::of(seed)));
        let mut running = Group::default();
        loop {
            tokio::select! {
                () = stopping.cancelled() => break,
                Some(ended) = running.next(), if !running.is_empty() => self.note(ended),
                (key, ()) = queue.next(), if running.len() < self.declaration.workers => {
                    running.spawn("reconcile", Arc::clone(&self).attempt(key));
                }
            }
        }
        while let Some(ended) = running.next().await {
            self.note(ended);
        }
        self.rest().await
    }

    /// Signals that nothing runs any more, and never returns: the supervisor would treat an end as a failure and restart the task.
    async fn rest(&self) -> Result<(), Error> {
        self.drained.cancel();
        std::future::pending().await
    }

    async fn attempt(self: Arc<Self>, key: Key) -> Attempt {
        let object = format!("{}/{key}", <C::Object as kube::Resource>::kind(&()));
        let span = tracing::debug_span!("reconcile", controller = self.declaration.name, object);
        let began = self.tools.clock.steady();
        let patience = self.declaration.patience;
        let bounded = tokio::time::timeout(patience, self.reconcile(&key));
        // A panic must end this reconcile only; the other objects of the controller go on.
        let result = match AssertUnwindSafe(bounded).catch_unwind().instrument(span).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::TooLong(patience)),
            Err(panic) => Err(Error::Panicked(panic_message(&*panic))),
        };
        Attempt { key, result, took: self.tools.clock.steady().saturating_sub(began) }
    }

    async fn reconcile(&self, key: &Key) -> Result<Option<Duration>, Error> {
        let Some(mut object) = self.objects.get(key) else {
            self.controller.gone(key);
            return self.sow(key).await.map(|()| None);
        };
        let deleting = object.meta().deletion_timestamp.is_some();
        if let Some(finalizer) = self.declaration.finalizer {
            let held = object.finalizers().iter().any(|known| known == finalizer);
            if deleting && !held {
                // Our finalizer is already removed. Other finalizers still hold the object; their owners remove them.
                return Ok(None);
            }
            if !held {
                let ensure = finalizer::ensure(&self.context.client, &*object, finalizer);
                object = Arc::new(self.tools.points.around(self.declaration.name, ENSURE_FINALIZER, ensure).await?);
                // `observe` and later writes must see the version with the finalizer, or they would conflict.
                self.objects.offer(&object);
            }
        }
        let context = Context { key: Some(key.clone()), ..self.context.clone() };
        let observed = self.controller.observe(object, &context).await?;
        let Plan { steps, again } = self.controller.plan(&observed);
        if !steps.is_empty() {
            let names: Vec<_> = steps.iter().map(Step::name).collect();
            tracing::debug!(steps = ?names, ?again, "plan");
        }
        for step in &steps {
            self.act(step, &observed, &context).await?;
        }
        Ok(again)
    }

    async fn act(&self, step: &C::Step, observed: &C::Observed, context: &Context) -> Result<(), Error> {
        let Err(error) = self.act_once(step, observed, context).await else { return Ok(()) };
        let Some(report_step) = self.controller.after_failure(step, observed, &error) else { return Err(error) };
        // If reporting the failure fails too, the error carries both; the retry repeats both.
        match self.act_once(&report_step, observed, context).await {
            Ok(()) => Err(error),
            Err(second) => Err(Error::Twice { first: Box::new(error), second: Box::new(second) }),
        }
    }

    async fn act_once(&self, step: &C::Step, observed: &C::Observed, context: &Context) -> Result<(), Error> {
        context.step(step.name(), self.controller.act(step, observed, context)).await
    }

    /// Creates an object of `Controller::seeds` that does not exist.
    async fn sow(&self, key: &Key) -> Result<(), Error> {
        let Some(seed) = self.seeds.iter().find(|seed| Key::of(*seed) == *key) else {
            self.context.queue.forget(key);
            return Ok(());
        };
        let text = serde_json::to_value(seed).and_then(serde_json::from_value);
        let seed = text.map_err(|error| Error::because("write an object as JSON", error))?;
        let api = api_of::<C::Object>(&self.context.client, key.namespace.as_deref());
        let parameters =
            PostParams { field_manager: Some(finalizer::FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match api.create(&parameters, &seed).await {
            // 409: another process has created it meanwhile.
            Err(error) if !has_code(&error, 409) => Err(Error::from(error).context(format!("create {key}"))),
            _ => Ok(()),
        }
    }

    /// Gives the object back to the queue, counts the reconcile and logs a failure.
    fn note(&self, ended: Ended<Attempt>) {
        let Ok(Attempt { key, result, took }) = ended.outcome else {
            // `attempt` catches panics, and single reconciles are never cancelled: the whole group ends here.
            return;
        };
        let outcome = result.as_ref().map_or(Outcome::Failed, |again| Outcome::Done(*again));
        // The object has changed since it was read. A reconcile of the newer version resolves this, so it is not logged as a failure.
        let is_conflict = result.as_ref().is_err_and(Error::is_conflict);
        let (failures, delay) = self.context.queue.done(&key, outcome);
        let quiet = is_conflict && failures < CONFLICTS_MAX;
        self.tools.metrics.ended(
            self.declaration.name,
            match &result {
                Ok(None) => metrics::Result::Success,
                Ok(Some(_)) => metrics::Result::Again,
                Err(Error::Panicked(_)) => metrics::Result::Panic,
                Err(_) if is_conflict => metrics::Result::Conflict,
                Err(_) => metrics::Result::Error,
            },
            took,
        );
        match result {
            Ok(_) => self.recovered(&key),
            Err(error) if quiet => tracing::debug!(object = %key, error = %Chain(&error), "changed meanwhile"),
            Err(error) => self.failed(&key, &error, failures, delay),
        }
    }

    fn recovered(&self, key: &Key) {
        if self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key).is_some() {
            tracing::info!(controller = self.declaration.name, object = %key, "works again");
        }
    }

    /// Logs a failure once as a warning; repetitions of the same error are logged at debug level.
    fn failed(&self, key: &Key, error: &Error, attempt: u32, delay: Option<Duration>) {
        let text = Chain(error).to_string();
        let before = self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), text.clone());
        let controller = self.declaration.name;
        if before.as_ref() == Some(&text) {
            tracing::debug!(controller, object = %key, error = text, attempt, ?delay, "still fails");
        } else {
            tracing::warn!(controller, object = %key, error = text, attempt, ?delay, "failed, and is tried again");
        }
    }
}

/// Waits until all these caches hold the server's objects.
async fn all_synced(needs: &[Arc<dyn View>]) {
    for view in needs {
        view.synced().await;
    }
}
