//! Who is told of every change as it becomes visible.

use std::{
    fmt::Debug,
    sync::{Arc, PoisonError, RwLock, Weak},
};

use super::{Object, event::Event};

/// Who has to know of every change, whoever made it and whether or not they waited for it: those who keep order, those who
/// serve what is stored.
pub trait Observe: Debug + Send + Sync {
    /// An object is now `current` and was `previous` before; it was made if there is no previous one, and is gone if there is
    /// no current one. Reads see the change already; whoever made it is answered when this returns.
    ///
    /// All changes pass here, one after the other: it must be quick, and must not wait for anything.
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>);

    /// So much has happened that nobody knows what: everything has to be looked at again.
    fn renewed(&self);
}

/// Those who are told. They are held loosely: who is gone is told nothing.
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

    fn each(&self, tell: impl Fn(&dyn Observe)) {
        let observers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        observers.iter().filter_map(Weak::upgrade).for_each(|observer| tell(&*observer));
    }
}
