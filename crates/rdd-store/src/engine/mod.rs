//! The store engine: a single writer thread that owns the log, orders all requests and publishes commits.

mod core;
mod horizon;
pub(crate) mod index;
pub(crate) mod limits;
mod loads;
pub(crate) mod row;
mod stage;
pub(crate) mod time;

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

pub(crate) use self::core::Core;
use self::index::Index;
use crate::{
    Commits, Entry, Error, Limits, Load, Reply, Revision, Status, Store, Subscription, Txn,
    queue::{Queue, Request},
    reader::{Piece, Source},
    reply::Answer,
};

/// Implements [`Store`] for a type that wraps a [`Handle`].
macro_rules! delegate_store {
    ($store:ty) => {
        impl $crate::Store for $store {
            fn commit(&self, txn: $crate::Txn) -> $crate::Reply<$crate::Revision> {
                self.0.commit(txn)
            }

            fn get(&self, key: &str) -> $crate::Reply<Option<$crate::Entry>> {
                self.0.get(key)
            }

            fn status(&self) -> $crate::Status {
                self.0.status()
            }

            fn head(&self) -> $crate::Revision {
                self.0.head()
            }

            fn load(&self) -> $crate::Reply<$crate::Load> {
                self.0.load()
            }

            fn events(&self, after: $crate::Revision) -> $crate::Reply<$crate::Subscription> {
                self.0.events(after)
            }

            fn compact(&self, upto: $crate::Revision) -> $crate::Reply<$crate::Revision> {
                self.0.compact(upto)
            }

            fn progress(&self) -> $crate::Reply<$crate::Revision> {
                self.0.progress()
            }

            fn backup(&self, target: &std::path::Path) -> $crate::Reply<$crate::Revision> {
                self.0.backup(target)
            }

            fn close(&self) -> $crate::Reply<()> {
                self.0.close()
            }
        }
    };
}
pub(crate) use delegate_store;

/// A caller's handle: the queue to the writer and its latest status. Dropping it closes the store and joins the writer.
pub(crate) struct Handle {
    shared: Arc<Shared>,
    sizes: Box<dyn Fn() -> u64 + Send + Sync>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the writer and its callers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) status: Mutex<Status>,
}

impl Shared {
    pub(crate) fn new(limits: &Limits, index: &Index) -> Arc<Self> {
        let status = Status {
            head: index.head(),
            compacted: index.compacted(),
            live_keys: index.live.len() as u64,
            dead_rows: index.dead_rows(),
            subscribers: 0,
            lagged: 0,
            file_bytes: 0,
            commits: Commits::default(),
            writable: Ok(()),
        };
        Arc::new(Self { queue: Queue::new(limits.queue_requests, limits.queue_bytes), status: Mutex::new(status) })
    }

    /// Queues a request and returns its reply, or the queue's refusal.
    fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Reply<T> {
        let (answer, reply) = Reply::pair();
        match self.queue.push(request(answer)) {
            Ok(()) => reply,
            Err(error) => Reply::ready(Err(error)),
        }
    }
}

impl Source for Shared {
    fn pull_events(&self, after: Revision) -> Reply<Piece> {
        self.ask(|answer| Request::PullEvents { after, answer })
    }

    fn pull_entries(&self, load: u64) -> Reply<Vec<Entry>> {
        self.ask(|answer| Request::PullEntries { load, answer })
    }

    fn end_load(&self, load: u64) {
        // A refusal means that the store is closed, and then it has no loads.
        let _ = self.queue.push(Request::EndLoad { load });
    }
}

/// Closes the queue when the writer thread ends, also when it panics.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Ok(mut status) = self.0.status.lock() {
            status.writable = Err(Error::Closed);
        }
        self.0.queue.close();
    }
}

impl Handle {
    /// Starts the writer thread, which runs `body`. `body` returns the callers that wait for the store to be closed.
    pub(crate) fn start(
        shared: Arc<Shared>,
        sizes: impl Fn() -> u64 + Send + Sync + 'static,
        body: impl FnOnce() -> Vec<Answer<()>> + Send + 'static,
    ) -> std::io::Result<Self> {
        let closing = Closing(Arc::clone(&shared));
        let writer = std::thread::Builder::new().name("rdd-store".to_owned()).spawn(move || {
            let closing = closing;
            let waiting = body();
            // The queue closes before the replies, so that a caller whose `close` returned gets `Closed` from then on.
            drop(closing);
            for answer in waiting {
                answer.send(Ok(()));
            }
        })?;
        Ok(Self { shared, sizes: Box::new(sizes), writer: Mutex::new(Some(writer)) })
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl Store for Handle {
    fn commit(&self, txn: Txn) -> Reply<Revision> {
        if let Err(error) = txn.check() {
            return Reply::ready(Err(error));
        }
        self.shared.ask(|answer| Request::Commit { txn, answer })
    }

    fn get(&self, key: &str) -> Reply<Option<Entry>> {
        self.shared.ask(|answer| Request::Get { key: key.to_owned(), answer })
    }

    fn status(&self) -> Status {
        let status = self.shared.status.lock().expect("nothing panics while holding the status").clone();
        Status { file_bytes: (self.sizes)(), ..status }
    }

    fn head(&self) -> Revision {
        self.shared.status.lock().expect("nothing panics while holding the status").head
    }

    fn load(&self) -> Reply<Load> {
        self.shared.ask(|answer| Request::Load { answer })
    }

    fn events(&self, after: Revision) -> Reply<Subscription> {
        self.shared.ask(|answer| Request::Events { after, answer })
    }

    fn compact(&self, upto: Revision) -> Reply<Revision> {
        self.shared.ask(|answer| Request::Compact { upto, answer })
    }

    fn progress(&self) -> Reply<Revision> {
        self.shared.ask(|answer| Request::Progress { answer })
    }

    fn backup(&self, target: &Path) -> Reply<Revision> {
        self.shared.ask(|answer| Request::Backup { target: target.to_owned(), answer })
    }

    fn close(&self) -> Reply<()> {
        let (answer, reply) = Reply::pair();
        match self.shared.queue.push(Request::Close { answer: Some(answer) }) {
            Ok(()) => reply,
            // Only a closed store refuses this request.
            Err(_) => Reply::ready(Ok(())),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.shared.queue.push(Request::Close { answer: None });
        let writer = self.writer.get_mut().map(Option::take);
        if let Ok(Some(writer)) = writer
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}
