//! Fault injection and request counters of the fake engine.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{refusal::Refusal, route::Route, world::World};

/// The effect of a fault on a request.
#[derive(Debug, Clone)]
pub enum Effect {
    /// The engine refuses it.
    Refuse(Refusal),
    /// The answer is delayed; the request takes effect after the delay.
    Delay(Duration),
    /// The request is never answered.
    Hang,
    /// The connection closes without an answer, and the request has no effect.
    HangUp,
    /// The request takes effect, then the connection closes without an answer.
    DoAndHangUp,
    /// The request takes effect; the answer is delayed.
    Stall(Duration),
}

/// A fault: which requests it applies to, and how often.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The route.
    pub route: Route,
    /// Only requests for this object, as they name it; all if `None`.
    pub object: Option<String>,
    /// How many requests it applies to; all if `None`.
    pub times: Option<usize>,
    /// The effect.
    pub effect: Effect,
}

impl Fault {
    /// A fault of every request to this route.
    pub fn always(route: Route, effect: Effect) -> Self {
        Self { route, object: None, times: None, effect }
    }

    /// A fault of the next request to this route.
    pub fn once(route: Route, effect: Effect) -> Self {
        Self { times: Some(1), ..Self::always(route, effect) }
    }

    /// Restricts the fault to requests for this object.
    pub fn about(self, object: impl Into<String>) -> Self {
        Self { object: Some(object.into()), ..self }
    }
}

/// A function that runs before a request is handled, with the name of its object.
pub(super) type Hook = Arc<dyn Fn(&mut World, &str) + Send + Sync>;

/// Faults, hooks and counters.
#[derive(Default)]
pub(super) struct Faults {
    faults: Mutex<Vec<Fault>>,
    hooks: Mutex<Vec<(Route, Hook)>>,
    counts: Mutex<BTreeMap<Route, Count>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("faults", &self.faults).field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// The counters of a route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) requests: usize,
    pub(super) now: usize,
    pub(super) peak: usize,
}

impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        lock(&self.faults).push(fault);
    }

    pub(super) fn clear(&self) {
        lock(&self.faults).clear();
        lock(&self.hooks).clear();
    }

    pub(super) fn hook(&self, route: Route, hook: Hook) {
        lock(&self.hooks).push((route, hook));
    }

    pub(super) fn hooks_of(&self, route: Route) -> Vec<Hook> {
        lock(&self.hooks).iter().filter(|(of, _)| *of == route).map(|(_, hook)| Arc::clone(hook)).collect()
    }

    /// The effects that apply to this request; counts down the faults that are limited.
    pub(super) fn take(&self, route: Route, object: &str) -> Vec<Effect> {
        let mut faults = lock(&self.faults);
        let mut effects = Vec::new();
        for fault in faults.iter_mut() {
            let meant = fault.route == route && fault.object.as_deref().is_none_or(|wanted| wanted == object);
            if meant && fault.times != Some(0) {
                fault.times = fault.times.map(|times| times - 1);
                effects.push(fault.effect.clone());
            }
        }
        faults.retain(|fault| fault.times != Some(0));
        effects
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>, route: Route) -> Entered {
        let mut counts = lock(&self.counts);
        let count = counts.entry(route).or_default();
        count.requests += 1;
        count.now += 1;
        count.peak = count.peak.max(count.now);
        drop(counts);
        Entered { faults: Arc::clone(self), route }
    }

    pub(super) fn counts(&self) -> BTreeMap<Route, Count> {
        lock(&self.counts).clone()
    }

    pub(super) fn forget_counts(&self) {
        for count in lock(&self.counts).values_mut() {
            *count = Count { requests: 0, now: count.now, peak: count.now };
        }
    }
}

/// The guard of a request in flight.
pub(super) struct Entered {
    faults: Arc<Faults>,
    route: Route,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(count) = lock(&self.faults.counts).get_mut(&self.route) {
            count.now = count.now.saturating_sub(1);
        }
    }
}

/// The counter of connections.
#[derive(Debug, Default)]
pub(super) struct Connections(pub(super) AtomicUsize);

impl Connections {
    pub(super) fn opened(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Ignores poisoning: a test that panics with a lock must not fail others that use the same engine.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
