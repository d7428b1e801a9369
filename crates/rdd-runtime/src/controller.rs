//! The trait that a controller implements: observe into a plain struct, plan without I/O, act in named steps.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::Serialize;

use crate::{Context, Declaration, Error, Key, Kind};

/// Reconciles the objects of one kind: makes the world match each object.
///
/// # Flow
/// For each key in its queue, the runtime calls `observe`, then `plan`, then `act` for each step in order. It reconciles the object
/// again
/// - when the object, or an object that the [`Declaration`] watches, changes,
/// - when the plan's `requeue_after` has passed,
/// - after an error, with an exponential backoff.
///
/// If the declaration has a finalizer, the runtime adds it before the first `observe`. An object that is being deleted and no longer
/// has this finalizer is not reconciled. When an object is gone, the runtime calls [`gone`](Self::gone) instead.
///
/// # Guarantees
/// - Two reconciles of the same object never run at the same time.
/// - Objects are independent: several are reconciled concurrently, and one that fails, hangs or panics does not delay the others.
/// - A change during a reconcile is not lost: the object is reconciled once more afterwards.
/// - No reconcile starts before the caches of the watched kinds hold the server's objects.
///
/// # Assumptions
/// The process may die between any two instructions. Steps must therefore be idempotent, and `observe` must read the state of the
/// world, not what an earlier step remembers in memory. The cache may lag behind the server; a write on a stale version fails with
/// a conflict and is retried.
///
/// # Errors
/// An error, a panic or a timeout ends the reconcile and requeues the object with backoff. The first few conflicts (409) in a row are
/// logged at debug level only, because another reconcile with the newer object resolves them.
pub trait Controller: Send + Sync + 'static {
    /// The kind whose objects this controller reconciles.
    type Object: Kind + Serialize;
    /// Everything that `plan` needs, as a plain struct.
    type Observed: Send + Sync;
    /// The actions that a plan can consist of.
    type Step: Step;

    /// Its name, what it owns and watches, and what it requires. The runtime calls this once, before the start.
    fn declaration(&self) -> Declaration;

    /// Reads everything that the decision depends on. It must not change anything.
    fn observe(
        &self,
        object: Arc<Self::Object>,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Observed, Error>> + Send;

    /// Decides what to do. It must be pure: the same observation gives the same plan.
    fn plan(&self, observed: &Self::Observed) -> Plan<Self::Step>;

    /// Executes one step. If it fails, the runtime skips the remaining steps.
    fn act(
        &self,
        step: &Self::Step,
        observed: &Self::Observed,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The step that reports the failure of another step, usually by setting a condition. The failed reconcile is retried in any case.
    fn after_failure(&self, failed: &Self::Step, observed: &Self::Observed, error: &Error) -> Option<Self::Step> {
        let _ = (failed, observed, error);
        None
    }

    /// Objects that must exist. The runtime creates them at the start, and again after they are deleted.
    fn seeds(&self) -> Vec<Self::Object> {
        Vec::new()
    }

    /// Tasks that run beside the reconciles while the controller runs. The runtime restarts a task that ends, with backoff.
    fn background(self: &Arc<Self>) -> Vec<Background> {
        Vec::new()
    }

    /// Called when an object no longer exists, so that the controller can drop what it remembers about it.
    fn gone(&self, key: &Key) {
        let _ = key;
    }

    /// Called at a graceful shutdown, after the last reconcile and while the API still answers. The manager waits for it, up to a timeout.
    fn stop(&self, cx: &Context) -> impl Future<Output = ()> + Send {
        let _ = cx;
        async {}
    }
}

/// One idempotent action of a plan. An enum implements it through the macro [`steps!`](crate::steps).
pub trait Step: fmt::Debug + Send + Sync {
    /// The names of all steps, so that tests can enumerate the kill points.
    const ALL: &'static [&'static str];

    /// The name of this step, one of [`ALL`](Self::ALL).
    fn name(&self) -> &'static str;
}

/// Implements [`Step`] for an enum. Each variant is listed once with its name, so that [`Step::ALL`] is always complete.
///
/// The names after `also` belong to steps that are in no plan: a [`Background`] runs them itself, with
/// [`Context::step`].
#[macro_export]
macro_rules! steps {
    ($steps:ty { $($step:pat => $name:literal),+ $(,)? } $(also [$($other:literal),+ $(,)?])?) => {
        impl $crate::Step for $steps {
            const ALL: &'static [&'static str] = &[$($name,)+ $($($other,)+)?];

            fn name(&self) -> &'static str {
                match self {
                    $($step => $name,)+
                }
            }
        }
    };
}

/// The steps to execute in order, and when to reconcile again if nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan does nothing until the runtime executes it"]
pub struct Plan<S> {
    /// Executed in order; the first failure ends the reconcile.
    pub steps: Vec<S>,
    /// Reconcile again after this time. With `None`, only a change triggers the next reconcile.
    pub again: Option<Duration>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { steps: Vec::new(), again: None }
    }
}

impl<S> Plan<S> {
    /// A plan without steps.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A plan of these steps.
    pub fn of(steps: impl IntoIterator<Item = S>) -> Self {
        Self { steps: steps.into_iter().collect(), again: None }
    }

    /// Appends a step.
    pub fn then(mut self, step: S) -> Self {
        self.steps.push(step);
        self
    }

    /// Requeues the object after at most this time; of several calls, the shortest time counts.
    pub fn again(mut self, after: Duration) -> Self {
        // The earliest of several requests wins.
        self.again = Some(self.again.map_or(after, |earlier| earlier.min(after)));
        self
    }
}

/// A task that a controller runs beside its reconciles.
#[derive(Clone)]
pub struct Background {
    /// Its name in logs.
    pub name: &'static str,
    /// Starts the task. The supervisor restarts it when it ends, and cancels it at its next await when the manager ends.
    pub run: Arc<dyn Fn(Context) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Background {
    /// A task with this name.
    pub fn new<F>(name: &'static str, run: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        Self { name, run: Arc::new(move |cx| Box::pin(run(cx))) }
    }
}
