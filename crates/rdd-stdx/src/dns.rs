//! Resolves host names on dedicated threads, so that a DNS server that does not respond delays nothing else.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use tokio::{net::TcpStream, sync::oneshot};

use crate::task::panic_message;

/// The maximum number of concurrent lookups. Each occupies a thread, for up to half a minute if no DNS server responds.
const THREADS_MAX: usize = 16;
/// The maximum number of names that wait for a thread. Further lookups fail at once.
const WAITING_MAX: usize = 64;

/// The blocking function that resolves a name.
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;
/// The result of a lookup. All callers that asked for the name share the error.
type Found = Result<Arc<[IpAddr]>, Arc<io::Error>>;

/// Resolves host names with the system's blocking resolver on a few dedicated threads.
///
/// tokio's own lookups use its pool of blocking threads, and a few names whose DNS server does not respond would occupy
/// the whole pool. Here a name occupies at most one thread: concurrent callers that ask for the same name share one
/// lookup. Threads exist only while there are names to resolve.
///
/// Lookups have no timeout. Callers drop the future at their own deadline; a queued name without remaining callers is
/// skipped.
#[derive(Clone)]
pub struct Resolver(Arc<Shared>);

struct Shared {
    lookup: Box<Lookup>,
    threads_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The callers of each name that is being resolved or queued.
    callers: HashMap<String, Vec<oneshot::Sender<Found>>>,
    /// The queued names, oldest first.
    waiting: VecDeque<String>,
    threads: usize,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

/// Connects to the first address of a host that accepts, like [`TcpStream::connect`], with the shared resolver.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = None;
    for address in Resolver::shared().lookup(host, port).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"))))
}

impl Resolver {
    /// The resolver of this process.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Resolver> = LazyLock::new(|| Resolver::new(THREADS_MAX, system_lookup));
        &SHARED
    }

    /// Creates a resolver with a maximum number of threads; tests pass a `lookup` that hangs.
    pub fn new(threads_max: usize, lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { lookup: Box::new(lookup), threads_max: threads_max.max(1), state: Mutex::default() }))
    }

    /// Resolves a host to its addresses, in order of preference. An IP address, also in brackets, resolves to itself.
    ///
    /// # Errors
    /// The error of the lookup, or [`io::ErrorKind::WouldBlock`] if too many names are queued.
    pub async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = literal.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let found = self.ask(host)?.await.map_err(|_| io::Error::other("the lookup was given up"))?;
        match found {
            Ok(addresses) => Ok(addresses.iter().map(|address| SocketAddr::new(*address, port)).collect()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// Joins the lookup of a name that is in progress, or queues a new one.
    fn ask(&self, host: &str) -> io::Result<oneshot::Receiver<Found>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.0.lock();
        if let Some(callers) = state.callers.get_mut(host) {
            callers.retain(|caller| !caller.is_closed());
            callers.push(sender);
            return Ok(receiver);
        }
        if state.waiting.len() >= WAITING_MAX {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "too many host name lookups are waiting"));
        }
        state.callers.insert(host.to_owned(), vec![sender]);
        state.waiting.push_back(host.to_owned());
        if state.threads < self.0.threads_max {
            let shared = Arc::clone(&self.0);
            match std::thread::Builder::new().name("resolver".to_owned()).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                // The existing threads will get to it.
                Err(error) if state.threads > 0 => tracing::warn!(%error, "cannot start another resolver thread"),
                Err(error) => {
                    state.waiting.pop_back();
                    state.callers.remove(host);
                    return Err(error);
                }
            }
        }
        Ok(receiver)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves queued names until the queue is empty.
    fn work(&self) {
        while let Some(host) = self.next() {
            // A panic must not leave the callers waiting or the count of threads wrong.
            let found = catch_unwind(AssertUnwindSafe(|| (self.lookup)(&host)));
            let found = found.unwrap_or_else(|panic| Err(io::Error::other(panic_message(&*panic))));
            let found: Found = found.map(Into::into).map_err(Arc::new);
            let callers = self.lock().callers.remove(&host).unwrap_or_default();
            for caller in callers {
                // A caller that has given up dropped its receiver.
                let _ = caller.send(found.clone());
            }
        }
    }

    /// The next queued name that still has callers. `None` ends the calling thread.
    fn next(&self) -> Option<String> {
        let mut state = self.lock();
        while let Some(host) = state.waiting.pop_front() {
            if state.callers.get(&host).is_some_and(|callers| callers.iter().any(|caller| !caller.is_closed())) {
                return Some(host);
            }
            state.callers.remove(&host);
        }
        state.threads -= 1;
        None
    }
}

fn system_lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in (host, 0).to_socket_addrs()? {
        // The system returns an address once per socket type.
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        time::Duration,
    };

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A resolver for which names that begin with `hang` block until the sender is dropped, with the number of its
    /// lookups.
    fn mk_resolver(threads_max: usize) -> (Resolver, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (release, released) = mpsc::channel::<()>();
        let (released, count) = (Mutex::new(released), Arc::new(AtomicUsize::new(0)));
        let lookups = Arc::clone(&count);
        let resolver = Resolver::new(threads_max, move |host| {
            lookups.fetch_add(1, Ordering::SeqCst);
            if host.starts_with("hang") {
                let _ = released.lock().unwrap().recv();
            }
            if host == "panic" {
                panic!("on purpose");
            }
            Ok(vec![Ipv4Addr::new(127, 0, 0, 7).into()])
        });
        (resolver, release, count)
    }

    // Finding A-6
    #[tokio::test]
    async fn a_name_that_hangs_takes_one_thread_however_many_ask_for_it() {
        let (resolver, release, count) = mk_resolver(2);
        let mut hanging: Vec<_> = (0..100).map(|_| resolver.ask("hang").unwrap()).collect();
        for host in ["a", "b", "c"] {
            let found = timeout(SOON, resolver.lookup(host, 443)).await.expect("others are found meanwhile");
            assert_eq!(found.unwrap(), ["127.0.0.7:443".parse().unwrap()]);
        }
        assert!(hanging.iter_mut().all(|caller| caller.try_recv().is_err()));
        drop(release);
        for caller in hanging {
            assert_eq!(timeout(SOON, caller).await.unwrap().unwrap().unwrap().len(), 1);
        }
        assert_eq!(count.load(Ordering::SeqCst), 4, "one lookup for the hundred");
    }

    #[tokio::test]
    async fn lookups_that_nobody_waits_for_are_not_begun_and_the_queue_has_a_bound() {
        let (resolver, release, count) = mk_resolver(1);
        let first = resolver.ask("hang").unwrap();
        let dropped: Vec<_> = (0..WAITING_MAX - 1).map(|number| resolver.ask(&format!("name{number}"))).collect();
        while count.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let last = resolver.ask("last").unwrap();
        assert_eq!(resolver.ask("one too many").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(dropped);
        drop(release);
        timeout(SOON, first).await.unwrap().unwrap().unwrap();
        timeout(SOON, last).await.unwrap().unwrap().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert!(resolver.0.lock().callers.is_empty());
    }

    #[tokio::test]
    async fn addresses_need_no_lookup_and_a_panic_is_an_error() {
        let (resolver, _release, count) = mk_resolver(1);
        for (host, expected) in [("127.0.0.1", "127.0.0.1:1"), ("::1", "[::1]:1"), ("[::1]", "[::1]:1")] {
            assert_eq!(resolver.lookup(host, 1).await.unwrap(), [expected.parse().unwrap()]);
        }
        assert_eq!(count.load(Ordering::SeqCst), 0);
        let error = timeout(SOON, resolver.lookup("panic", 1)).await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "on purpose");
        assert_eq!(timeout(SOON, resolver.lookup("a", 1)).await.unwrap().unwrap().len(), 1, "the thread lives on");
    }

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let addresses = timeout(SOON, Resolver::shared().lookup("localhost", 80)).await.unwrap().unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 80), "{addresses:?}");
        assert!(!addresses.is_empty());
    }
}
