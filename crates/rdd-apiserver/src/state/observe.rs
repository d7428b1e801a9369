//! Observers: called synchronously for every change as it becomes visible.

use std::{
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use super::{Object, event::Event};

/// Receives every change of the state, from any writer, whether or not the writer waited for it. For code that must
/// be consistent with the objects, such as the registry that serves CRDs.
///
/// The follower calls observers in revision order, after readers can see the change and before the writer's commit
/// returns.
pub trait Observe: Debug + Send + Sync {
    /// An object changed from `previous` to `current`. There is no `previous` if it was created, and no `current` if
    /// it was deleted.
    ///
    /// All changes pass through here, one after the other: it must be fast and must not wait for anything.
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>);

    /// The state was reloaded from the store and individual changes were lost: the observer must read everything
    /// again.
    fn renewed(&self);
}

/// The registered observers, held weakly: a dropped observer is no longer called.
#[derive(Debug, Default)]
pub(super) struct Observers(RwLock<Vec<Weak<dyn Observe>>>);

impl Observers {
    pub(super) fn add(&self, observer: Weak<dyn Observe>) {
        let mut observers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|known| known.strong_count() > 0);
        observers.push(observer);
    }

    pub(super) fn tell(&self, events: &[Arc<Event>]) {
        self.each(|observer| {
            events.iter().for_each(|event| observer.changed(event.previous.as_deref(), event.current.as_deref()));
        });
    }

    pub(super) fn renew(&self) {
        self.each(|observer| observer.renewed());
    }

    fn each(&self, call: impl Fn(&dyn Observe)) {
        let observers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        observers.iter().filter_map(Weak::upgrade).for_each(|observer| call(&*observer));
    }
}
