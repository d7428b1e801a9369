//! The trait that a controller implements: observe into a plain struct, plan without IO, act in named steps.

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde::Serialize;

use crate::{Context, Declaration, Error, Key, Kind};

/// Makes the world match the objects of one kind.
///
/// For one object at a time the runtime calls `observe`, then `plan`, then `act` for each step in order, and begins anew when the
/// object or anything it depends on changes, when `again` has passed, or, after an error, with a growing delay. Objects are
/// independent of each other: several are worked on at the same time, and one that fails, hangs or panics delays no other.
///
/// The process may die between any two instructions. Steps therefore are idempotent, and `observe` looks at the world, not at
/// what an earlier step remembers.
pub trait Controller: Send + Sync + 'static {
    /// The kind whose objects are reconciled.
    type Object: Kind + Serialize;
    /// All that `plan` needs, as a plain struct.
    type Observed: Send + Sync;
    /// What can be done.
    type Step: Step;

    /// What it is called, owns, watches and needs. Asked once.
    fn declaration(&self) -> Declaration;

    /// Looks at everything that the decision depends on. It changes nothing.
    fn observe(
        &self,
        object: Arc<Self::Object>,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Observed, Error>> + Send;

    /// Decides. It is pure: the same observation gives the same plan.
    fn plan(&self, observed: &Self::Observed) -> Plan<Self::Step>;

    /// Does one step. When it fails, the steps after it are left out.
    fn act(
        &self,
        step: &Self::Step,
        observed: &Self::Observed,
        cx: &Context,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// The step that tells of the failure of another, usually by a condition. The failure is retried in any case.
    fn after_failure(&self, failed: &Self::Step, observed: &Self::Observed, error: &Error) -> Option<Self::Step> {
        let _ = (failed, observed, error);
        None
    }

    /// Objects that have to exist: made at the start, and again when somebody deleted them.
    fn seeds(&self) -> Vec<Self::Object> {
        Vec::new()
    }

    /// What runs beside the reconciles for as long as the controller does: restarted, with a growing delay, whenever it ends.
    fn background(self: &Arc<Self>) -> Vec<Background> {
        Vec::new()
    }

    /// An object is gone: what is remembered about it can be forgotten.
    fn gone(&self, key: &Key) {
        let _ = key;
    }

    /// The process ends in an orderly way. No reconcile runs any more, the API still answers; the manager waits for this, for a time.
    fn stop(&self, cx: &Context) -> impl Future<Output = ()> + Send {
        let _ = cx;
        async {}
    }
}

/// Something that a plan can ask for. An enum implements it, by [`steps!`](crate::steps).
pub trait Step: fmt::Debug + Send + Sync {
    /// The names of all steps there are, so that tests can enumerate the places where a process can die.
    const ALL: &'static [&'static str];

    /// The name of this one, from [`ALL`](Self::ALL).
    fn name(&self) -> &'static str;
}

/// Implements [`Step`] for an enum. Each step stands here once, with its name, so that none is missing where they are enumerated.
///
/// Names after `also` are those of steps that no plan asks for: a [`Background`] takes them by itself, with
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

/// What to do, in order, and when to look again although nothing changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a plan that nobody carries out does nothing"]
pub struct Plan<S> {
    /// In order; the first that fails is the last that is tried.
    pub steps: Vec<S>,
    /// When to look again. Without it, only a change does.
    pub again: Option<Duration>,
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self { steps: Vec::new(), again: None }
    }
}

impl<S> Plan<S> {
    /// There is nothing to do.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// These steps.
    pub fn of(steps: impl IntoIterator<Item = S>) -> Self {
        Self { steps: steps.into_iter().collect(), again: None }
    }

    /// One step more.
    pub fn then(mut self, step: S) -> Self {
        self.steps.push(step);
        self
    }

    /// Looks again after this time at the latest.
    pub fn again(mut self, after: Duration) -> Self {
        self.again = Some(self.again.map_or(after, |earlier| earlier.min(after)));
        self
    }
}

/// A task of a controller that runs beside its reconciles.
#[derive(Clone)]
pub struct Background {
    /// What it is called in logs.
    pub name: &'static str,
    /// Starts it. If it ends, it is started again; at the end of the process it is cut off at its next await.
    pub run: Arc<dyn Fn(Context) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Background {
    /// A task of this name.
    pub fn new<F>(name: &'static str, run: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Error>> + Send + 'static,
    {
        Self { name, run: Arc::new(move |cx| Box::pin(run(cx))) }
    }
}
