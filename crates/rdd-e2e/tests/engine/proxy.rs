//! A proxy between the daemon and its engine that breaks connections on request, as a watcher would experience a lost connection.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::Shutdown,
    os::unix::{
        fs::MetadataExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A socket in place of the engine's, which forwards everything to the engine.
pub(crate) struct Proxy {
    socket: PathBuf,
    inode: u64,
    open: Arc<Mutex<Vec<Connection>>>,
}

/// A connection through the proxy.
#[derive(Clone)]
struct Connection {
    client: Arc<UnixStream>,
    engine: Arc<UnixStream>,
    /// Whether the daemon reads the engine's events on it; then it is the watcher's.
    is_watcher: Arc<AtomicBool>,
}

impl Proxy {
    /// Takes the place of the socket; the engine's own socket gets another name.
    pub(crate) fn in_place_of(socket: &Path) -> io::Result<Self> {
        let behind = socket.with_extension("behind");
        fs::rename(socket, &behind)?;
        let listener = UnixListener::bind(socket)?;
        let inode = fs::metadata(socket)?.ino();
        let open: Arc<Mutex<Vec<Connection>>> = Arc::default();
        let connections = Arc::clone(&open);
        std::thread::spawn(move || {
            // The thread accepts connections until the process ends; an unreachable listener costs nothing.
            for accepted in listener.incoming().flatten() {
                let _ = pass(accepted, &behind, &connections);
            }
        });
        Ok(Self { socket: socket.to_owned(), inode, open })
    }

    /// Whether the proxy is still in place; an engine that was restarted has replaced it.
    pub(crate) fn is_in_place(&self) -> bool {
        fs::metadata(&self.socket).is_ok_and(|found| found.ino() == self.inode)
    }

    /// Whether the daemon's watcher is connected through the proxy.
    pub(crate) fn has_watcher(&self) -> bool {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.iter().any(|connection| connection.is_watcher.load(Ordering::Relaxed))
    }

    /// Closes all connections. Returns whether the watcher's was among them.
    pub(crate) fn hang_up(&self) -> bool {
        let connections = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        connections.iter().for_each(Connection::end);
        connections.iter().any(|connection| connection.is_watcher.load(Ordering::Relaxed))
    }
}

impl Connection {
    fn end(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.engine.shutdown(Shutdown::Both);
    }

    /// Forwards the client's data, and detects the request for events. The tests' own event reader uses no filters, so it is not detected.
    fn pass_requests(&self) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        loop {
            let read = (&*self.client).read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            let line = buffer[..read].split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line);
            if line.starts_with("GET ") && line.contains("/events?") && line.contains("filters=") {
                self.is_watcher.store(true, Ordering::Relaxed);
            }
            (&*self.engine).write_all(&buffer[..read])?;
        }
    }
}

fn pass(client: UnixStream, behind: &Path, open: &Arc<Mutex<Vec<Connection>>>) -> io::Result<()> {
    let engine = Arc::new(UnixStream::connect(behind)?);
    let connection = Connection { client: Arc::new(client), engine, is_watcher: Arc::default() };
    open.lock().unwrap_or_else(PoisonError::into_inner).push(connection.clone());
    let (requests, answers, open) = (connection.clone(), connection, Arc::clone(open));
    std::thread::spawn(move || {
        let _ = requests.pass_requests();
        requests.end();
    });
    std::thread::spawn(move || {
        let _ = io::copy(&mut &*answers.engine, &mut &*answers.client);
        // One side is closed, so the other one is closed too.
        answers.end();
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|connection| !Arc::ptr_eq(&connection.client, &answers.client));
    });
    Ok(())
}
