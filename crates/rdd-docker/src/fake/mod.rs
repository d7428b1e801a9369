//! An engine in memory that speaks Docker's protocol on a real socket, and does what a test tells it to.
//!
//! ```text
//! let engine = FakeEngine::start(&folder.join("docker.sock"))?;
//! let image = engine.change(|world| world.import_image(Some("box:1"), BTreeMap::new()))?;
//! let id = engine.change(|world| world.create_container(NewContainer::sleeper("one", "box:1")))?;
//! engine.fault(Fault::once(Route::ContainerInspect, Effect::Hang).about(&id));
//! assert_eq!(engine.requests(Route::ContainerList), 1);
//! ```
//!
//! It answers as dockerd does, down to what dockerd does not tell: a tag that moves to another image leaves no event of the
//! image that had it, and only the last [`REMEMBERED`] events can be asked for. The contract in [`crate::suite`] is run
//! against both.

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

/// The versions of the API that it speaks unless it is told otherwise: 1.41 and all later ones that are known.
const VERSIONS: (u32, u32) = (41, 54);

/// What the server and the handle share.
#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    faults: Arc<Faults>,
    /// The oldest and the newest minor version of API 1.
    versions: Mutex<(u32, u32)>,
    /// Whether event streams withhold what happens.
    silent: watch::Sender<bool>,
    connections: Connections,
}

impl Shared {
    fn look<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut lock(&self.world))
    }
}

/// A fake engine. Dropping it ends it and removes its socket.
#[derive(Debug)]
pub struct FakeEngine {
    shared: Arc<Shared>,
    socket: PathBuf,
    server: Option<Server>,
}

impl FakeEngine {
    /// Starts an engine without anything in it. It runs on a thread of its own, so it can be used from any runtime and from none.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(socket: &Path) -> io::Result<Self> {
        Self::start_with(socket, 1)
    }

    /// The same, with IDs that follow from a seed.
    ///
    /// # Errors
    /// When the socket cannot be made.
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

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Looks at what the engine has, or changes it, as somebody else's request would.
    pub fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        self.shared.look(change)
    }

    /// Makes as many containers, stopped, and images as this, each container with the image of its number modulo the images; nobody is told.
    ///
    /// # Errors
    /// When one of their names is taken.
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

    /// Lets something go wrong from now on.
    pub fn fault(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    /// Calls a function before every request to a route is answered, with the world and the object that the request names: what
    /// happens between a list and an inspect, for one.
    pub fn before(&self, route: Route, hook: impl Fn(&mut World, &str) + Send + Sync + 'static) {
        self.shared.faults.hook(route, Arc::new(hook));
    }

    /// Lets nothing go wrong any more and forgets what is to be called.
    pub fn heal(&self) {
        self.shared.faults.clear();
        self.shared.silent.send_replace(false);
    }

    /// How many requests a route got since the start, or since [`FakeEngine::forget_requests`].
    pub fn requests(&self, route: Route) -> usize {
        self.shared.faults.counts().get(&route).map_or(0, |count| count.requests)
    }

    /// How many requests each route got that got any.
    pub fn all_requests(&self) -> BTreeMap<Route, usize> {
        let counts = self.shared.faults.counts().into_iter();
        counts.map(|(route, count)| (route, count.requests)).filter(|(_, requests)| *requests > 0).collect()
    }

    /// How many requests to a route were under way at once, at most.
    pub fn peak(&self, route: Route) -> usize {
        self.shared.faults.counts().get(&route).map_or(0, |count| count.peak)
    }

    /// Counts from zero.
    pub fn forget_requests(&self) {
        self.shared.faults.forget_counts();
    }

    /// How many connections there were since the start.
    pub fn connections(&self) -> usize {
        self.shared.connections.opened()
    }

    /// Sets its clock ahead of the machine's, or behind it.
    pub fn set_clock_ahead(&self, ahead: SignedDuration) {
        self.change(|world| world.ahead = ahead);
    }

    /// Speaks only these versions of the API: 1.`oldest` to 1.`newest`.
    pub fn set_versions(&self, oldest: u32, newest: u32) {
        *lock(&self.shared.versions) = (oldest, newest);
    }

    /// Ends all event streams in good order.
    pub fn end_events(&self) {
        self.change(|world| world.journal.tell(Heard::End));
    }

    /// Breaks all event streams off.
    pub fn break_events(&self) {
        self.change(|world| world.journal.tell(Heard::Break));
    }

    /// Event streams withhold what happens, until [`FakeEngine::heal`] or this with `false`. Then all of it is sent, as far as
    /// it is remembered.
    pub fn silence_events(&self, silent: bool) {
        self.shared.silent.send_replace(silent);
    }

    /// Ends as if killed: all connections break off, and the socket is gone. What it has stays, but for the events.
    pub fn crash(&mut self) {
        self.server = None;
        self.change(World::forget_events);
    }

    /// Listens again after [`FakeEngine::crash`].
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn revive(&mut self) -> io::Result<()> {
        if self.server.is_none() {
            self.server = Some(Server::start(&self.socket, &self.shared)?);
        }
        Ok(())
    }
}
