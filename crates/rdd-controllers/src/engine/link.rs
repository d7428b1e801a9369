//! The state that the App's reconcile, the watcher and the watches of mirrors share.

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

/// The connection to the engine, shared within the controller. Cheap to clone.
#[derive(Clone)]
pub struct Link(Arc<Shared>);

struct Shared {
    /// The namespace for mirrors; `None` if the engine must not be connected.
    wanted: watch::Sender<Option<String>>,
    phase: watch::Sender<Phase>,
    publication: watch::Sender<Publication>,
    queue: Queue,
    /// Whether the App waits until its mirrors are gone.
    waits: AtomicBool,
    orphans: Notify,
}

/// The phase of the connection.
#[derive(Debug, Clone, Default)]
pub(super) enum Phase {
    /// There is no connection.
    #[default]
    Off,
    /// The watcher is connecting.
    Connecting {
        /// Why the last connection or attempt ended.
        error: Option<String>,
    },
    /// The engine is connected and mirrored.
    Live(Box<Live>),
}

/// An established connection.
#[derive(Debug, Clone)]
pub struct Live {
    /// The client of the engine.
    pub engine: Engine,
    /// The namespace of its mirrors.
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
    /// The established connection; `None` until the engine is completely mirrored.
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
        // `send_replace` works without receivers, unlike `send`.
        self.0.phase.send_replace(phase);
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// Sets the namespace for mirrors. `None` ends the connection.
    pub(super) fn want(&self, namespace: Option<String>) {
        // Only a change wakes the watcher.
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

    /// The wanted namespace, and what is published.
    pub(super) fn standing(&self) -> (Option<String>, Publication) {
        (self.0.wanted.borrow().clone(), *self.0.publication.borrow())
    }

    /// Returns when there is no connection.
    pub(super) async fn off(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Off)).await;
    }

    pub(super) fn published(&self, is_published: bool) {
        self.0.publication.send_replace(if is_published { Publication::Published } else { Publication::Withdrawn });
    }

    /// Marks a publication as outdated, so that a new connection publishes again.
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

    /// Enqueues a container whose object was added, changed or deleted.
    pub(super) fn saw_container(&self, object: &Container) -> Wake {
        // The controller's own writes need no synchronization, but requests do.
        if !is_held(object) || intent::is_pending(object) {
            self.0.queue.add(Item::Container(object.name_any()), Look::Object);
        }
        self.told(object)
    }

    /// Enqueues an image whose object was added, changed or deleted.
    pub(super) fn saw_image(&self, object: &Image) -> Wake {
        if !is_held(object) {
            let id = object.status.as_ref().map(|status| status.id.as_str()).filter(|id| !id.is_empty());
            let nameless = || Item::Nameless(Kind::Image, object.name_any());
            self.0.queue.add(id.map_or_else(nameless, |id| Item::Image(id.to_owned())), Look::Object);
        }
        self.told(object)
    }

    /// Enqueues a volume whose object was added, changed or deleted.
    pub(super) fn saw_volume(&self, object: &Volume) -> Wake {
        if !is_held(object) {
            let name = object.status.as_ref().map(|status| status.name.as_str()).filter(|name| !name.is_empty());
            let nameless = || Item::Nameless(Kind::Volume, object.name_any());
            self.0.queue.add(name.map_or_else(nameless, |name| Item::Volume(name.to_owned())), Look::Object);
        }
        self.told(object)
    }

    /// Enqueues the namespace if its object was added, changed or deleted.
    pub(super) fn saw_namespace(&self, object: &ContainerNamespace) -> Wake {
        if object.name_any() == MOBY {
            self.0.queue.add(Item::Namespace, Look::Object);
        }
        self.told(object)
    }

    /// Enqueues the App if it waits for its mirrors to go; otherwise changes of mirrors do not concern it.
    fn told<K: Resource>(&self, _: &K) -> Wake {
        if self.0.wanted.borrow().is_none() {
            self.0.orphans.notify_one();
        }
        if self.0.waits.load(Ordering::SeqCst) { Wake::One(app_key()) } else { Wake::Nothing }
    }
}

/// Whether the object has our finalizer and is not being deleted. Changes of such an object are our own writes, which need no
/// synchronization.
fn is_held<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_none() && object.finalizers().iter().any(|finalizer| finalizer == MIRROR)
}
