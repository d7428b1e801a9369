//! Stands between the daemon and its engine, and hangs up when it is told to: what a watcher sees of a connection that breaks.

use std::{
    fs, io,
    os::unix::{
        fs::MetadataExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// A socket in the place of an engine's, which passes everything on to it.
pub(crate) struct Proxy {
    socket: PathBuf,
    inode: u64,
    open: Arc<Mutex<Vec<UnixStream>>>,
}

impl Proxy {
    /// Takes the place of the socket; the engine's own goes on under another name.
    pub(crate) fn in_place_of(socket: &Path) -> io::Result<Self> {
        let behind = socket.with_extension("behind");
        fs::rename(socket, &behind)?;
        let listener = UnixListener::bind(socket)?;
        let inode = fs::metadata(socket)?.ino();
        let open: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let streams = Arc::clone(&open);
        std::thread::spawn(move || {
            // It waits for connections until the process ends; one that nobody can reach any more costs nothing.
            for accepted in listener.incoming().flatten() {
                let _ = pass(accepted, &behind, &streams);
            }
        });
        Ok(Self { socket: socket.to_owned(), inode, open })
    }

    /// Whether it still has its place: an engine that was started again has taken it.
    pub(crate) fn is_in_place(&self) -> bool {
        fs::metadata(&self.socket).is_ok_and(|found| found.ino() == self.inode)
    }

    /// Ends all connections, and says how many there were.
    pub(crate) fn hang_up(&self) -> usize {
        let streams = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = streams.iter().filter(|stream| stream.shutdown(std::net::Shutdown::Both).is_ok());
        ended.count() / 2
    }
}

fn pass(client: UnixStream, behind: &Path, open: &Mutex<Vec<UnixStream>>) -> io::Result<()> {
    let engine = UnixStream::connect(behind)?;
    open.lock().unwrap_or_else(PoisonError::into_inner).extend([client.try_clone()?, engine.try_clone()?]);
    for (mut from, mut to) in [(client.try_clone()?, engine.try_clone()?), (engine, client)] {
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            // One end is over: the other has nobody to talk to.
            let _ = to.shutdown(std::net::Shutdown::Both);
            let _ = from.shutdown(std::net::Shutdown::Both);
        });
    }
    Ok(())
}
