//! The fake engine's server: a thread that answers on the socket.

use std::{
    io,
    os::unix::net::UnixListener as Listener,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread::JoinHandle,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rdd_stdx::task::Group;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::{Shared, answer};

/// A running server. Dropping it breaks all connections.
#[derive(Debug)]
pub(super) struct Server {
    socket: PathBuf,
    end: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(socket: &Path, shared: &Arc<Shared>) -> io::Result<Self> {
        // Remove the socket of an earlier server that was killed.
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = Listener::bind(socket)?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (end, shared) = (CancellationToken::new(), Arc::clone(shared));
        let ends = end.clone();
        let serve = move || {
            runtime.block_on(async {
                // If registering the listener fails, no request is answered, and every test fails visibly.
                if let Ok(listener) = UnixListener::from_std(listener) {
                    tokio::select! { () = accept(&listener, &shared) => {}, () = ends.cancelled() => {} }
                }
            });
        };
        let thread = std::thread::Builder::new().name("fake-engine".to_owned()).spawn(serve)?;
        Ok(Self { socket: socket.to_owned(), end, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed.
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Accepts and serves connections. Dropping the future closes them.
async fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    let mut connections: Group<()> = Group::default();
    loop {
        tokio::select! {
            Some(_) = connections.next() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                shared.connections.0.fetch_add(1, Ordering::Relaxed);
                connections.spawn("connection", serve(stream, Arc::clone(shared)));
            }
        }
    }
}

async fn serve(stream: UnixStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| answer::answer(Arc::clone(&shared), request));
    // Errors are expected: clients disconnect, and faults close connections.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
