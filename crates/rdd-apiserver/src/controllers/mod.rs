//! The controllers of the API server itself: garbage collection, namespace deletion, and the defaults of every namespace.

mod garbage;
mod namespaces;
mod provision;
mod queue;
mod services;

use std::{fmt::Debug, sync::Arc};

use rdd_meta::Status;
use rdd_stdx::task::Group;

use self::queue::Queue;
use crate::{
    offload::offload,
    rest::local::Local,
    state::{Object, Observe, Resource},
};

pub use provision::{Endowment, bootstrap};
pub use services::keep_groups_registered;

/// A controller: it reconciles the items of its queue, each with one worker at a time.
///
/// # Flow
/// [`changed`](Self::changed) and [`start`](Self::start) enqueue items; workers call [`handle`](Self::handle) for each. After an
/// error the item is retried with backoff.
///
/// # Assumptions
/// `handle` is idempotent and reads the current state: several changes of an item lead to one call.
trait Controller: Debug + Send + Sync + 'static {
    /// The key of one reconciliation.
    type Item: Ord + Clone + Debug + Send + Sync + 'static;
    /// The name of the controller's tasks, for logs.
    const NAME: &'static str;

    fn queue(&self) -> &Arc<Queue<Self::Item>>;

    /// Enqueues everything that may need work, at start and after the state was loaded again.
    fn start(&self);

    /// Enqueues the items that a change affects. It must not block; see [`Observe::changed`].
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>);

    /// Reconciles one item. After an error the worker retries it with backoff.
    fn handle(&self, item: &Self::Item) -> impl Future<Output = Result<(), Status>> + Send;
}

/// All controllers of a server.
///
/// They observe the state from the start ([`Observe`]); the workers begin with [`run`](Self::run).
#[derive(Debug)]
pub struct Controllers {
    garbage: Arc<garbage::Garbage>,
    namespaces: Arc<namespaces::Namespaces>,
    provision: Arc<provision::Provision>,
}

impl Controllers {
    /// Creates controllers that read and write through `local`. They do no work before [`run`](Self::run).
    pub fn new(local: &Local, endowment: Endowment) -> Self {
        Self {
            garbage: Arc::new(garbage::Garbage::new(local.clone())),
            namespaces: Arc::new(namespaces::Namespaces::new(local.clone())),
            provision: Arc::new(provision::Provision::new(local.clone(), endowment)),
        }
    }

    /// Starts the workers of each controller as tasks of `group`.
    pub fn run<E: Send + 'static>(&self, group: &mut Group<E>) {
        spawn(group, &self.garbage);
        spawn(group, &self.namespaces);
        spawn(group, &self.provision);
    }
}

impl Observe for Controllers {
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>) {
        self.garbage.changed(previous, current);
        self.namespaces.changed(previous, current);
        self.provision.changed(previous, current);
    }

    fn renewed(&self) {
        self.garbage.start();
        self.namespaces.start();
        self.provision.start();
    }
}

/// How many items a controller handles concurrently.
const WORKERS: usize = 4;

fn spawn<C: Controller, E: Send + 'static>(group: &mut Group<E>, controller: &Arc<C>) {
    for worker in 0..WORKERS {
        let controller = Arc::clone(controller);
        group.spawn(C::NAME, async move {
            if worker == 0 {
                controller.start();
            }
            loop {
                let item = controller.queue().next().await;
                match offload(controller.handle(&item)).await {
                    Ok(()) => controller.queue().done(&item),
                    Err(status) => {
                        tracing::debug!(controller = C::NAME, item = ?item, error = %status.message, "will try again");
                        controller.queue().retry(item);
                    }
                }
                // Items that need no work never await anything; without this they would starve the other tasks of the thread.
                tokio::task::coop::consume_budget().await;
            }
        });
    }
}

/// The resource with this plural name in the core group.
fn core(plural: &str) -> Resource {
    Resource::new("", plural).expect("a plain word")
}
