//! A fake container engine in memory that speaks Docker's protocol on a real socket, with fault injection for tests.
//!
//! ```text
//! let engine = FakeEngine::start(&folder.join("docker.sock"))?;
//! let image = engine.change(|world| world.import_image(Some("box:1"), BTreeMap::new()))?;
//! let id = engine.change(|world| world.create_container(NewContainer::sleeper("one", "box:1")))?;
//! engine.fault(Fault::once(Route::ContainerInspect, Effect::Hang).about(&id));
//! assert_eq!(engine.requests(Route::ContainerList), 1);
//! ```
//!
//! It behaves like dockerd, including dockerd's gaps: moving a tag to another image emits no event for the image that had it, and
//! only the last [`REMEMBERED`] events can be queried. The contract in [`crate::suite`] runs against both.

mod answer;
mod containers;
mod faults;
mod images;
mod journal;
mod program;
mod query;
mod refusal;
mod route;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod wire;
mod world;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use jiff::SignedDuration;
use rdd_stdx::clock::SystemClock;
use tokio::sync::watch;

use faults::{Connections, Faults, lock};
use journal::Heard;
use server::Server;

pub use containers::NewContainer;
pub use faults::{Effect, Fault};
pub use journal::{Event, REMEMBERED};
pub use program::Output;
pub use refusal::{Done, Refusal};
pub use route::Route;
pub use world::{Container, Image, Line, Mount, State, Status, Volume, World};

/// The default minor API versions: 1.41 and all later ones that are known.
const VERSIONS: (u32, u32) = (41, 54);

/// The state that the server and the handle share.
#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    faults: Arc<Faults>,
    /// The oldest and the newest minor version of API 1.
    versions: Mutex<(u32, u32)>,
    /// Whether event streams are held back.
    silent: watch::Sender<bool>,
    connections: Connections,
}

impl Shared {
    fn look<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut lock(&self.world))
    }
}

/// A fake engine. Dropping it stops the server and removes the socket.
#[derive(Debug)]
pub struct FakeEngine {
    shared: Arc<Shared>,
    socket: PathBuf,
    server: Option<Server>,
}

impl FakeEngine {
    /// Starts an empty engine. It runs on its own thread, so it works with any runtime and without one.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn start(socket: &Path) -> io::Result<Self> {
        Self::start_with(socket, 1)
    }

    /// Like [`start`](Self::start), with IDs that are derived from a seed.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn start_with(socket: &Path, seed: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            world: Mutex::new(World::new(SystemClock::shared(), seed)),
            faults: Arc::default(),
            versions: Mutex::new(VERSIONS),
            silent: watch::Sender::new(false),
            connections: Connections::default(),
        });
        let server = Some(Server::start(socket, &shared)?);
        Ok(Self { shared, socket: socket.to_owned(), server })
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Reads or changes the engine's objects, as another client's request would.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.shared.look(change)
    }

    /// Creates that many stopped containers and images without events. Container n uses image n modulo the number of images.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn fill(&self, containers: usize, images: usize) -> Result<(), Refusal> {
        self.change(|world| {
            for number in 0..images {
                let labels = BTreeMap::from([("number".to_owned(), number.to_string())]);
                world.import_image(Some(&format!("filled/image-{number}:1")), labels)?;
            }
            for number in 0..containers {
                let image = format!("filled/image-{}:1", number % images.max(1));
                world.create_container(NewContainer::sleeper(&format!("filled-{number}"), &image))?;
            }
            world.forget_events();
            Ok(())
        })
    }

    /// Injects a fault.
    pub fn fault(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    /// Runs a function before every request to a route is handled, with the world and the object that the request names. With it,
    /// a test changes something between a list and an inspect.
    pub fn before(&self, route: Route, hook: impl Fn(&mut World, &str) + Send + Sync + 'static) {
        self.shared.faults.hook(route, Arc::new(hook));
    }

    /// Removes all faults and hooks.
    pub fn heal(&self) {
        self.shared.faults.clear();
        self.shared.silent.send_replace(false);
    }

    /// How many requests a route received since the start, or since [`FakeEngine::forget_requests`].
    pub fn requests(&self, route: Route) -> usize {
        self.shared.faults.counts().get(&route).map_or(0, |count| count.requests)
    }

    /// The number of requests of each route that received any.
    pub fn all_requests(&self) -> BTreeMap<Route, usize> {
        let counts = self.shared.faults.counts().into_iter();
        counts.map(|(route, count)| (route, count.requests)).filter(|(_, requests)| *requests > 0).collect()
    }

    /// The maximum number of concurrent requests to a route.
    pub fn peak(&self, route: Route) -> usize {
        self.shared.faults.counts().get(&route).map_or(0, |count| count.peak)
    }

    /// Resets the counters.
    pub fn forget_requests(&self) {
        self.shared.faults.forget_counts();
    }

    /// The number of connections since the start.
    pub fn connections(&self) -> usize {
        self.shared.connections.opened()
    }

    /// Sets the offset of the engine's clock from the machine's.
    pub fn set_clock_ahead(&self, ahead: SignedDuration) {
        self.change(|world| world.ahead = ahead);
    }

    /// Restricts the supported API versions to 1.`oldest` to 1.`newest`.
    pub fn set_versions(&self, oldest: u32, newest: u32) {
        *lock(&self.shared.versions) = (oldest, newest);
    }

    /// Ends all event streams cleanly.
    pub fn end_events(&self) {
        self.change(|world| world.journal.tell(Heard::End));
    }

    /// Breaks all event streams.
    pub fn break_events(&self) {
        self.change(|world| world.journal.tell(Heard::Break));
    }

    /// Holds back all events until [`FakeEngine::heal`] or a call with `false`. Then they are sent, as far as they are
    /// remembered.
    pub fn silence_events(&self, silent: bool) {
        self.shared.silent.send_replace(silent);
    }

    /// Crashes: breaks all connections and removes the socket. Objects stay, events are lost.
    pub fn crash(&mut self) {
        self.server = None;
        self.change(World::forget_events);
    }

    /// Listens again after [`FakeEngine::crash`].
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn revive(&mut self) -> io::Result<()> {
        if self.server.is_none() {
            self.server = Some(Server::start(&self.socket, &self.shared)?);
        }
        Ok(())
    }
}
