//! Mirrors the container engine: each container, image and volume is an API object, and requests on the object act on the thing.
//!
//! The controller has two parts. The reconcile of the App decides whether to connect, and reports the state of the connection ([`plan`]).
//! The watcher (`watcher`) is the connection: it synchronizes everything once, then each thing that the engine or the API reports as
//! changed, several at a time (`work`).

mod action;
mod container;
mod desk;
mod image;
pub mod intent;
mod link;
pub mod logs;
mod mirror;
pub mod plan;
#[cfg(test)]
mod plan_tests;
mod publish;
mod queue;
mod tags;
mod volume;
mod watcher;
mod work;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use kube::Client;
use rdd_runtime::{Background, BoxError, Context, Declaration, Error, Key, Plan, conditions as said};
use rdd_stdx::chain::Chain;
use rdd_types::{
    app::{APP, App},
    containers::{Container, ContainerNamespace, Image, Volume},
};
use serde_json::json;

pub use self::link::Link;
use self::{
    link::Phase,
    mirror::Mirrors,
    plan::{Connection, Observed, Step},
};
use crate::websocket::Sockets;

/// The controller's name, in `--controllers` and in discovery.
pub const NAME: &str = "engine";
/// The controller's group in `--controllers`.
pub const GROUP: &str = "containers";
/// How long the end of a connection may take.
const GOODBYE: Duration = Duration::from_secs(30);

/// The configuration of the controller.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The socket of the engine.
    pub socket: PathBuf,
    /// Publishes the socket to other programs.
    pub publisher: Arc<dyn Publisher>,
}

/// Publishes the engine's socket to programs outside the daemon, for example as a docker context.
pub trait Publisher: fmt::Debug + Send + Sync {
    /// Publishes the socket. Called after each connection, when the engine is mirrored; a repeated call changes nothing.
    fn publish(&self) -> BoxFuture<'_, Result<(), BoxError>>;

    /// Removes the publication. Called also if this process has published nothing, because a process that was killed may have.
    fn withdraw(&self) -> BoxFuture<'_, Result<(), BoxError>>;
}

/// A publisher that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpublished;

impl Publisher for Unpublished {
    fn publish(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }

    fn withdraw(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The controller.
pub struct Controller {
    client: Client,
    setup: Setup,
    link: Link,
    sockets: Sockets,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller").field("setup", &self.setup).field("link", &self.link).finish_non_exhaustive()
    }
}

impl Controller {
    /// A controller with this configuration. The logs endpoint reads the API through `client`.
    pub fn new(client: Client, setup: Setup) -> Self {
        Self { client, setup, link: Link::default(), sockets: Sockets::default() }
    }

    /// The connection, for other users of the engine.
    pub fn link(&self) -> &Link {
        &self.link
    }
}

impl rdd_runtime::Controller for Controller {
    type Object = App;
    type Observed = Observed;
    type Step = Step;

    fn declaration(&self) -> Declaration {
        let [containers, images, volumes, namespaces] = [(); 4].map(|()| self.link.clone());
        let link = self.link.clone();
        let source = logs::Source::new(self.client.clone(), move || link.live().map(|live| live.engine));
        Declaration::new(NAME, GROUP)
            // There is only one App.
            .workers(1)
            .passthrough(logs::passthrough(source, &self.sockets))
            .watches::<Container, _>(move |object| containers.saw_container(object))
            .watches::<Image, _>(move |object| images.saw_image(object))
            .watches::<Volume, _>(move |object| volumes.saw_volume(object))
            .watches::<ContainerNamespace, _>(move |object| namespaces.saw_namespace(object))
    }

    async fn observe(&self, app: Arc<App>, cx: &Context) -> Result<Observed, Error> {
        let mirrors = Mirrors::of(cx);
        let connection = match self.link.phase() {
            Phase::Off => Connection::Off,
            Phase::Connecting { error } => Connection::Connecting { error },
            Phase::Live(_) => Connection::Live,
        };
        let (is_wanted, publication) = self.link.standing();
        // From here on, the deletion of a mirror enqueues the App.
        self.link.wait_for_mirrors(plan::clears(&app));
        let mirrors = mirrors.count(&app.spec.namespace);
        Ok(Observed { app, connection, is_wanted, publication, mirrors, now: said::now(&*cx.clock) })
    }

    fn plan(&self, observed: &Observed) -> Plan<Step> {
        plan::plan(observed)
    }

    async fn act(&self, step: &Step, seen: &Observed, cx: &Context) -> Result<(), Error> {
        match step {
            Step::Connect => {
                self.link.want(Some(seen.app.spec.namespace.clone()));
                Ok(())
            }
            Step::Disconnect => {
                self.link.want(None);
                let off = tokio::time::timeout(GOODBYE, self.link.off()).await;
                off.map_err(|_| Error::message("the connection to the engine does not end"))
            }
            Step::Publish => {
                self.setup.publisher.publish().await.map_err(|error| Error::because("publish the engine", error))?;
                // Only after success: a failed publication is repeated by the next plan.
                self.link.published(true);
                Ok(())
            }
            Step::Withdraw => self.withdraw().await,
            Step::DeleteMirrors => Mirrors::of(cx).clear(cx, |namespace| namespace == seen.app.spec.namespace).await,
            Step::Report(condition) => cx.apply_status(&*seen.app, &json!({"conditions": [condition]})).await.map(drop),
        }
    }

    fn background(self: &Arc<Self>) -> Vec<Background> {
        let controller = Arc::clone(self);
        let watcher = Background::new("watcher", move |cx| {
            let controller = Arc::clone(&controller);
            async move { watcher::run(&controller.link, &controller.setup, cx).await }
        });
        vec![watcher, self.sockets.background()]
    }

    /// Without an App, the connection ends and the watcher removes the mirrors.
    fn gone(&self, _: &Key) {
        self.link.want(None);
        self.link.look_for_orphans();
    }

    /// The mirrors stay: the next daemon continues with them.
    async fn stop(&self, _: &Context) {
        self.link.want(None);
        if tokio::time::timeout(GOODBYE, self.link.off()).await.is_err() {
            tracing::warn!("the connection to the engine does not end");
        }
        if let Err(error) = self.withdraw().await {
            tracing::warn!(error = %Chain(&error), "could not withdraw what was published of the engine");
        }
    }
}

impl Controller {
    async fn withdraw(&self) -> Result<(), Error> {
        self.setup.publisher.withdraw().await.map_err(|error| Error::because("withdraw the engine", error))?;
        self.link.published(false);
        Ok(())
    }
}

/// The key of the singleton App.
fn app_key() -> Key {
    Key::cluster(APP)
}
