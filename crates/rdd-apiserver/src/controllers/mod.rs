//! What keeps a server's objects in order by itself: garbage, namespaces, and what every namespace has.

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

/// One who looks at things when they change, one at a time, until they are in order.
trait Controller: Debug + Send + Sync + 'static {
    /// What is looked at.
    type Item: Ord + Clone + Debug + Send + Sync + 'static;
    /// For logs.
    const NAME: &'static str;

    fn queue(&self) -> &Arc<Queue<Self::Item>>;

    /// Puts into the queue what was left from before.
    fn start(&self);

    /// Puts into the queue what a change concerns; see [`Observe::changed`]: it must be quick.
    fn changed(&self, previous: Option<&Object>, current: Option<&Object>);

    /// Brings one thing into order. An error puts it back for later.
    fn handle(&self, item: &Self::Item) -> impl Future<Output = Result<(), Status>> + Send;
}

/// The controllers of a server.
#[derive(Debug)]
pub struct Controllers {
    garbage: Arc<garbage::Garbage>,
    namespaces: Arc<namespaces::Namespaces>,
    provision: Arc<provision::Provision>,
}

impl Controllers {
    /// Controllers that act through `local`. They do nothing before they run.
    pub fn new(local: &Local, endowment: Endowment) -> Self {
        Self {
            garbage: Arc::new(garbage::Garbage::new(local.clone())),
            namespaces: Arc::new(namespaces::Namespaces::new(local.clone())),
            provision: Arc::new(provision::Provision::new(local.clone(), endowment)),
        }
    }

    /// Starts them, each as a task of `group`.
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

/// How many things a controller looks at at the same time, each of them once.
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
                // Much of what is looked at needs nothing, and then nothing is waited for.
                tokio::task::coop::consume_budget().await;
            }
        });
    }
}

/// A built-in resource of the core API.
fn core(plural: &str) -> Resource {
    Resource::new("", plural).expect("a plain word")
}
