//! Watches: a cursor in the shared history of a resource, and nothing that grows.

use std::{collections::VecDeque, fmt, sync::Arc};

use rdd_store::Revision;
use tokio::sync::watch;

use super::{
    Change, Error, Filter, Kind, Object, Scope,
    event::Event,
    shared::Shared,
    table::{Gone, Table},
    tree::Tree,
};

/// So many events are taken out of the history at a time.
const CHUNK: usize = 64;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// With the objects that are there now, then the changes from there on.
    Now,
    /// With the first change after this revision.
    After(Revision),
}

/// What a watch tells.
#[derive(Debug, Clone)]
pub enum Item {
    /// A change; or an object of the initial state, as an addition under its own revision.
    Change(Change),
    /// The initial state is complete, as of this revision. It is told once, and only if the watch began with it.
    Synced(Revision),
}

/// The changes of a scope, in order, none missing and none twice.
///
/// It holds a place in the history that all watchers share. One that does not read on holds up nobody: when the history
/// has moved past its place, it ends with [`Error::Expired`]. Dropping it is all it takes to end it.
pub struct Watch {
    shared: Arc<Shared>,
    table: Arc<Table>,
    wake: watch::Receiver<()>,
    scope: Scope,
    filter: Option<Filter>,
    initial: Option<Initial>,
    /// Taken out of the history and not looked at yet.
    chunk: VecDeque<Arc<Event>>,
    /// The number of the first event that has not been taken.
    cursor: u64,
    /// Nothing up to this revision is told any more.
    after: Revision,
    /// The revision of the last event that was looked at; before the first, `after`.
    reached: Revision,
}

/// The rest of the initial state.
#[derive(Debug)]
struct Initial {
    objects: Tree,
    /// The next object has this key, or a later one.
    start: String,
    end: String,
}

impl Watch {
    pub(super) fn new(
        shared: &Arc<Shared>,
        scope: &Scope,
        from: WatchFrom,
        filter: Option<Filter>,
    ) -> Result<Self, Error> {
        let resource = scope.resource();
        let table = shared.table_or_new(resource.prefix(), || resource.clone());
        let (cursor, after, initial) = match from {
            WatchFrom::Now => {
                // In this order: everything up to `applied` is in what is read after it.
                let applied = shared.applied();
                let head = table.head();
                let initial = Initial { objects: head.objects, start: scope.start().to_owned(), end: scope.end() };
                (head.cursor, applied.max(head.revision), Some(initial))
            }
            WatchFrom::After(revision) => {
                let cursor = table.cursor_after(revision);
                let cursor = cursor.map_err(|Gone(oldest)| Error::Expired { wanted: revision, oldest })?;
                (cursor, revision, None)
            }
        };
        Ok(Self {
            shared: Arc::clone(shared),
            wake: table.subscribe(),
            table,
            scope: scope.clone(),
            filter,
            initial,
            chunk: VecDeque::new(),
            cursor,
            after,
            reached: after,
        })
    }

    /// The next thing to be told, waiting until there is one. Nothing is lost when the future is dropped before it is ready.
    ///
    /// [`Error::Expired`] if the history moved past this watch, or began anew; [`Error::Closed`] if the state is closed
    /// and everything it knew was told. Both are the end.
    pub async fn next(&mut self) -> Result<Item, Error> {
        loop {
            if let Some(item) = self.try_next()? {
                return Ok(item);
            }
            if self.chunk.is_empty() {
                // The table lives as long as this watch does, and its sender with it.
                let _ = self.wake.changed().await;
            } else {
                tokio::task::consume_budget().await;
            }
        }
    }

    /// The next thing to be told, if it can be had without waiting.
    ///
    /// `None` also comes after a number of changes that were of no interest here, so that one who watches little of much
    /// gives way to others.
    pub fn try_next(&mut self) -> Result<Option<Item>, Error> {
        if let Some(item) = self.next_initial() {
            return Ok(Some(item));
        }
        if self.chunk.is_empty() {
            self.take_chunk()?;
        }
        for _ in 0..CHUNK {
            let Some(event) = self.chunk.pop_front() else { break };
            self.reached = self.reached.max(event.revision);
            if let Some(change) = self.seen(&event) {
                return Ok(Some(Item::Change(change)));
            }
        }
        if self.chunk.is_empty() {
            self.take_chunk()?;
        }
        Ok(None)
    }

    /// Everything up to this revision was told, so that a bookmark may promise it. It is never less than the revision of
    /// what was told last, and never goes back.
    ///
    /// `None` while no revision can be promised: before the initial state is complete, between two changes of one
    /// revision, and after the watch has expired.
    pub fn progress(&self) -> Option<Revision> {
        if self.initial.is_some() {
            return None;
        }
        // In this order: what is not in the history now came after `applied`.
        let applied = self.shared.applied();
        let waiting = match self.chunk.front() {
            Some(event) => Some(Arc::clone(event)),
            None => self.table.events(self.cursor, 1).ok()?.pop(),
        };
        match waiting {
            // All changes of one revision come into the history together, so what was reached is complete; the other
            // resources may still be a little behind.
            None => Some(applied.max(self.reached)),
            Some(event) if event.revision > self.reached => Some(self.reached.max(Revision(event.revision.0 - 1))),
            Some(event) if event.revision <= self.after => Some(self.after),
            Some(_) => None,
        }
    }

    fn next_initial(&mut self) -> Option<Item> {
        if let Some(object) = self.initial.as_mut()?.next(self.filter.as_ref()) {
            return Some(Item::Change(Change { kind: Kind::Added, object }));
        }
        self.initial = None;
        Some(Item::Synced(self.after))
    }

    fn take_chunk(&mut self) -> Result<(), Error> {
        // Whoever publishes after this wakes us again.
        self.wake.borrow_and_update();
        let ended = self.shared.has_ended();
        let events = self.table.events(self.cursor, CHUNK);
        let events = events.map_err(|Gone(oldest)| Error::Expired { wanted: self.reached, oldest })?;
        if ended && events.is_empty() {
            return Err(Error::Closed);
        }
        self.cursor += events.len() as u64;
        self.chunk = events.into();
        Ok(())
    }

    fn seen(&mut self, event: &Event) -> Option<Change> {
        // A watch may begin after a revision that has not happened.
        if event.revision <= self.after || !self.scope.contains(event.key()) {
            return None;
        }
        event.seen_by(|object: &Object| self.filter.as_ref().is_none_or(|filter| filter(object)))
    }
}

impl Initial {
    fn next(&mut self, filter: Option<&Filter>) -> Option<Arc<Object>> {
        let mut within = self.objects.from(&self.start).take_while(|object| object.key().as_str() < self.end.as_str());
        let object = within.find(|object| filter.is_none_or(|filter| filter(object))).cloned()?;
        self.start.clear();
        self.start.push_str(object.key().as_str());
        self.start.push('\0');
        Some(object)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Watch");
        debug.field("scope", &self.scope).field("after", &self.after).field("cursor", &self.cursor);
        debug.field("filter", &self.filter.is_some()).finish_non_exhaustive()
    }
}
