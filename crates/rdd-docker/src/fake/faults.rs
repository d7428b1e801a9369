//! What a test lets go wrong, and what it counts.

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

/// What becomes of a request instead of, or before, its answer.
#[derive(Debug, Clone)]
pub enum Effect {
    /// It is refused.
    Refuse(Refusal),
    /// It is answered later than usual.
    Delay(Duration),
    /// It is never answered.
    Hang,
    /// The connection ends without an answer. What was asked for is not done.
    HangUp,
    /// What was asked for is done; then the connection ends without an answer.
    DoAndHangUp,
    /// What was asked for is done; the answer comes later than usual.
    Stall(Duration),
}

/// For which requests, and how often, something goes wrong.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Which requests.
    pub route: Route,
    /// Those about this object alone, as they name it; about all, if it is left out.
    pub object: Option<String>,
    /// How often; always, if it is left out.
    pub times: Option<usize>,
    /// What happens.
    pub effect: Effect,
}

impl Fault {
    /// Something that goes wrong with all requests to this route.
    pub fn always(route: Route, effect: Effect) -> Self {
        Self { route, object: None, times: None, effect }
    }

    /// Something that goes wrong with the next request to this route.
    pub fn once(route: Route, effect: Effect) -> Self {
        Self { times: Some(1), ..Self::always(route, effect) }
    }

    /// The same, but only for requests about this object.
    pub fn about(self, object: impl Into<String>) -> Self {
        Self { object: Some(object.into()), ..self }
    }
}

/// Called before a request is answered, with the object that it is about.
pub(super) type Hook = Arc<dyn Fn(&mut World, &str) + Send + Sync>;

/// Faults, hooks and counts.
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

/// How often a route was asked.
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

    /// What happens to a request now; what happens a number of times has happened once more.
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

    /// Counts a request until what is returned is dropped.
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

/// A request that is being answered.
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

/// How many connections there are.
#[derive(Debug, Default)]
pub(super) struct Connections(pub(super) AtomicUsize);

impl Connections {
    pub(super) fn opened(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A test that fails while it holds a lock must not fail others that look at the same engine.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
