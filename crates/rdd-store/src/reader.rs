//! What a caller reads from: subscriptions and loads, pulled in bounded pieces.

use std::{collections::VecDeque, fmt::Debug, sync::Arc};

use crate::{Batch, Entry, Error, Reply, Revision, hub::Tail};

/// Where subscriptions and loads pull from.
pub(crate) trait Source: Debug + Send + Sync {
    /// The next piece of history after a revision.
    fn pull_events(&self, after: Revision) -> Reply<Piece>;
    /// The next entries of a load; none when it is complete.
    fn pull_entries(&self, load: u64) -> Reply<Vec<Entry>>;
    /// The load is over.
    fn end_load(&self, load: u64);
}

/// A piece of history. The one that reaches the newest revision comes with the live rest.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) batches: Vec<Arc<Batch>>,
    pub(crate) tail: Option<Tail>,
}

/// An ordered stream of batches, each exactly once.
#[derive(Debug)]
pub struct Subscription {
    source: Arc<dyn Source>,
    ready: VecDeque<Arc<Batch>>,
    state: State,
    /// Everything up to here was handed out.
    last: Revision,
}

#[derive(Debug)]
enum State {
    /// More history has to be pulled, after this revision.
    Behind(Revision),
    /// It is being pulled. Kept here, so that a cancelled `next` loses nothing.
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

    /// The next batch; an empty one is a notice of progress. The error is the end, and every later call repeats it:
    /// [`Error::Lagged`] if it read too slowly, [`Error::Compacted`] if history went before it was read,
    /// [`Error::Closed`]. Nothing is lost when the future is dropped before it is ready.
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

    /// As [`next`](Self::next), blocking this thread. It panics inside an asynchronous task.
    pub fn next_blocking(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            if let Some(batch) = self.step()? {
                return Ok(batch);
            }
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

    /// What can be done without waiting: hand out what is ready, or ask for more.
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

/// All live entries as of the compaction horizon, in pieces. While it lives, the horizon does not move.
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

    /// The revision as of which the entries are: give it to [`events`](crate::Store::events).
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The next entries, in the order of their revisions; none when all have been handed out. Nothing is lost when the
    /// future is dropped before it is ready.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        let source = &self.source;
        let reply = self.pulling.get_or_insert_with(|| source.pull_entries(self.id));
        let entries = reply.await;
        self.pulling = None;
        entries
    }

    /// As [`next`](Self::next), blocking this thread. It panics inside an asynchronous task.
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
