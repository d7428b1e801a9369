//! What the reconcile of the App, the watcher and the watches of mirrors know in common.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use kube::{Resource, ResourceExt};
use rdd_docker::Engine;
use rdd_runtime::Wake;
use rdd_types::{
    containers::{Container, ContainerNamespace, Image, MOBY, Volume},
    names::finalizer::MIRROR,
};
use tokio::sync::{Notify, watch};

use super::{
    app_key, intent,
    plan::Publication,
    queue::{Item, Kind, Look, Queue},
};

/// The connection to the engine, as the rest of the controller sees it. Cheap to clone.
#[derive(Clone)]
pub struct Link(Arc<Shared>);

struct Shared {
    /// The namespace of the mirrors, while there are to be any.
    wanted: watch::Sender<Option<String>>,
    phase: watch::Sender<Phase>,
    publication: watch::Sender<Publication>,
    queue: Queue,
    /// Whether the App waits for mirrors to go.
    waits: AtomicBool,
    orphans: Notify,
}

/// How the connection is.
#[derive(Debug, Clone, Default)]
pub(super) enum Phase {
    /// There is none.
    #[default]
    Off,
    /// It is being made.
    Connecting {
        /// Why the last one ended, or was not made.
        error: Option<String>,
    },
    /// Everything is mirrored.
    Live(Box<Live>),
}

/// A connection that stands.
#[derive(Debug, Clone)]
pub struct Live {
    /// The engine.
    pub engine: Engine,
    /// Where its mirrors are.
    pub namespace: String,
}

impl Default for Link {
    fn default() -> Self {
        Self(Arc::new(Shared {
            wanted: watch::Sender::new(None),
            phase: watch::Sender::new(Phase::Off),
            publication: watch::Sender::new(Publication::Unknown),
            queue: Queue::default(),
            waits: AtomicBool::new(false),
            orphans: Notify::new(),
        }))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("wanted", &*self.0.wanted.borrow()).field("phase", &self.phase()).finish()
    }
}

impl Link {
    /// The engine and the namespace of its mirrors, while it answers and everything is mirrored.
    pub fn live(&self) -> Option<Live> {
        match &*self.0.phase.borrow() {
            Phase::Live(live) => Some((**live).clone()),
            _ => None,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.0.phase.borrow().clone()
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.0.phase.send_replace(phase);
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// Mirrors are wanted in this namespace, or nowhere.
    pub(super) fn want(&self, namespace: Option<String>) {
        self.0.wanted.send_if_modified(|known| {
            let is_news = *known != namespace;
            if is_news {
                *known = namespace;
            }
            is_news
        });
    }

    pub(super) fn wanted(&self) -> watch::Receiver<Option<String>> {
        self.0.wanted.subscribe()
    }

    /// What is wanted, and what outsiders know.
    pub(super) fn standing(&self) -> (Option<String>, Publication) {
        (self.0.wanted.borrow().clone(), *self.0.publication.borrow())
    }

    /// Returns when there is no connection any more.
    pub(super) async fn off(&self) {
        // The sender lives as long as this does.
        let _ = self.0.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Off)).await;
    }

    pub(super) fn published(&self, is_published: bool) {
        self.0.publication.send_replace(if is_published { Publication::Published } else { Publication::Withdrawn });
    }

    /// A new connection is told of anew.
    pub(super) fn unpublish(&self) {
        self.0.publication.send_if_modified(|known| {
            let was = *known == Publication::Published;
            if was {
                *known = Publication::Unknown;
            }
            was
        });
    }

    pub(super) fn wait_for_mirrors(&self, waits: bool) {
        self.0.waits.store(waits, Ordering::SeqCst);
    }

    pub(super) fn look_for_orphans(&self) {
        self.0.orphans.notify_one();
    }

    pub(super) async fn orphaned(&self) {
        self.0.orphans.notified().await;
    }

    /// A container's object appeared, changed or vanished.
    pub(super) fn saw_container(&self, object: &Container) -> Wake {
        if !is_held(object) || intent::is_pending(object) {
            self.0.queue.add(Item::Container(object.name_any()), Look::Object);
        }
        self.told(object)
    }

    /// An image's object appeared, changed or vanished.
    pub(super) fn saw_image(&self, object: &Image) -> Wake {
        if !is_held(object) {
            let id = object.status.as_ref().map(|status| status.id.as_str()).filter(|id| !id.is_empty());
            let nameless = || Item::Nameless(Kind::Image, object.name_any());
            self.0.queue.add(id.map_or_else(nameless, |id| Item::Image(id.to_owned())), Look::Object);
        }
        self.told(object)
    }

    /// A volume's object appeared, changed or vanished.
    pub(super) fn saw_volume(&self, object: &Volume) -> Wake {
        if !is_held(object) {
            let name = object.status.as_ref().map(|status| status.name.as_str()).filter(|name| !name.is_empty());
            let nameless = || Item::Nameless(Kind::Volume, object.name_any());
            self.0.queue.add(name.map_or_else(nameless, |name| Item::Volume(name.to_owned())), Look::Object);
        }
        self.told(object)
    }

    /// A container namespace's object appeared, changed or vanished.
    pub(super) fn saw_namespace(&self, object: &ContainerNamespace) -> Wake {
        if object.name_any() == MOBY {
            self.0.queue.add(Item::Namespace, Look::Object);
        }
        self.told(object)
    }

    /// While all mirrors are to go, the App waits for the last; else it has nothing to do with any of them.
    fn told<K: Resource>(&self, _: &K) -> Wake {
        if self.0.wanted.borrow().is_none() {
            self.0.orphans.notify_one();
        }
        if self.0.waits.load(Ordering::SeqCst) { Wake::One(app_key()) } else { Wake::Nothing }
    }
}

/// Whether the object is there to stay and carries our finalizer. A new one of ours does, and of its changes we know: we made them.
fn is_held<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_none() && object.finalizers().iter().any(|finalizer| finalizer == MIRROR)
}
