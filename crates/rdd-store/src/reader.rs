//! The read handles of a store: subscriptions and loads, both pulled in bounded pieces.

use std::{collections::VecDeque, fmt::Debug, sync::Arc};

use crate::{Batch, Entry, Error, Reply, Revision, hub::Tail};

/// The writer as seen by subscriptions and loads, which pull from it.
pub(crate) trait Source: Debug + Send + Sync {
    /// Requests the next piece of history after a revision.
    fn pull_events(&self, after: Revision) -> Reply<Piece>;
    /// Requests the next entries of a load; an empty reply means that the load is complete.
    fn pull_entries(&self, load: u64) -> Reply<Vec<Entry>>;
    /// Ends a load, which frees the horizon.
    fn end_load(&self, load: u64);
}

/// A piece of history. The piece that reaches the newest revision brings the live tail.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) batches: Vec<Arc<Batch>>,
    pub(crate) tail: Option<Tail>,
}

/// An ordered stream of batches, each delivered exactly once: history first, then live.
#[derive(Debug)]
pub struct Subscription {
    source: Arc<dyn Source>,
    ready: VecDeque<Arc<Batch>>,
    state: State,
    /// The revision of the last batch that was returned.
    last: Revision,
}

#[derive(Debug)]
enum State {
    /// There is more history to pull, after this revision.
    Behind(Revision),
    /// The next piece is being pulled. The reply is kept here, so that a cancelled `next` loses nothing.
    Pulling(Reply<Piece>),
    Live(Tail),
    Ended(Error),
}

impl Subscription {
    pub(crate) fn new(source: Arc<dyn Source>, after: Revision, piece: Piece) -> Self {
        let mut subscription = Self { source, ready: VecDeque::new(), state: State::Behind(after), last: after };
        subscription.take(piece);
        subscription
    }

    /// Returns the next batch; a batch without events is a bookmark. It is cancel safe: dropping the future loses no batch.
    ///
    /// # Errors
    /// An error ends the subscription, and every later call returns it again: [`Error::Lagged`] if the reader was too slow,
    /// [`Error::Compacted`] if the history was compacted before it was read, [`Error::Closed`] when the store was closed.
    pub async fn next(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            if let Some(batch) = self.step()? {
                return Ok(batch);
            }
            match &mut self.state {
                State::Pulling(reply) => {
                    let pulled = reply.await;
                    self.pulled(pulled);
                }
                State::Live(tail) => {
                    let received = tail.receiver.recv().await;
                    self.received(received);
                }
                State::Behind(_) | State::Ended(_) => {}
            }
        }
    }

    /// Like [`next`](Self::next), but blocks this thread. Panics in an asynchronous task.
    pub fn next_blocking(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            if let Some(batch) = self.step()? {
                return Ok(batch);
            }
            // The state is moved out because waiting consumes the reply.
            match std::mem::replace(&mut self.state, State::Ended(Error::Closed)) {
                State::Pulling(reply) => self.pulled(reply.wait()),
                State::Live(mut tail) => {
                    let received = tail.receiver.blocking_recv();
                    self.state = State::Live(tail);
                    self.received(received);
                }
                other @ (State::Behind(_) | State::Ended(_)) => self.state = other,
            }
        }
    }

    /// Does what needs no waiting: returns a ready batch, or requests the next piece.
    fn step(&mut self) -> Result<Option<Arc<Batch>>, Error> {
        if let Some(batch) = self.ready.pop_front() {
            self.last = batch.revision;
            return Ok(Some(batch));
        }
        match &self.state {
            State::Ended(error) => Err(error.clone()),
            State::Behind(after) => {
                self.state = State::Pulling(self.source.pull_events(*after));
                Ok(None)
            }
            State::Pulling(_) | State::Live(_) => Ok(None),
        }
    }

    fn pulled(&mut self, pulled: Result<Piece, Error>) {
        match pulled {
            Ok(piece) => self.take(piece),
            Err(error) => self.state = State::Ended(error),
        }
    }

    fn received(&mut self, received: Option<Arc<Batch>>) {
        match received {
            Some(batch) => self.ready.push_back(batch),
            None => {
                // The hub drops the sender of a slow subscriber, too; only the flag distinguishes that from a closed store.
                let closed = matches!(&self.state, State::Live(tail) if tail.is_closed());
                let error = if closed { Error::Closed } else { Error::Lagged { resume_after: self.last } };
                self.state = State::Ended(error);
            }
        }
    }

    fn take(&mut self, piece: Piece) {
        let reached = piece.batches.last().map_or(self.last, |batch| batch.revision);
        self.ready.extend(piece.batches);
        self.state = match piece.tail {
            Some(tail) => State::Live(tail),
            None => State::Behind(reached),
        };
    }
}

/// All live entries as of the compaction horizon, in pieces. The horizon does not move until the load is dropped or expires.
#[derive(Debug)]
pub struct Load {
    source: Arc<dyn Source>,
    id: u64,
    revision: Revision,
    pulling: Option<Reply<Vec<Entry>>>,
}

impl Load {
    pub(crate) fn new(source: Arc<dyn Source>, id: u64, revision: Revision) -> Self {
        Self { source, id, revision, pulling: None }
    }

    /// The revision that the entries are as of: pass it to [`events`](crate::Store::events).
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the next entries, ordered by revision; an empty list when all have been returned. It is cancel safe.
    ///
    /// # Errors
    /// [`Error::LoadExpired`] if the load was not read for too long, [`Error::Read`] if the database fails.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        let source = &self.source;
        let reply = self.pulling.get_or_insert_with(|| source.pull_entries(self.id));
        let entries = reply.await;
        self.pulling = None;
        entries
    }

    /// Like [`next`](Self::next), but blocks this thread. Panics in an asynchronous task.
    pub fn next_blocking(&mut self) -> Result<Vec<Entry>, Error> {
        let reply = self.pulling.take().unwrap_or_else(|| self.source.pull_entries(self.id));
        reply.wait()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.source.end_load(self.id);
    }
}
