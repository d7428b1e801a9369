//! Watches: a cursor in the shared history of a resource, without a buffer that grows.

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

/// How many events a watch takes from the history at a time.
const CHUNK: usize = 64;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// With the current objects, then the changes after them.
    Now,
    /// With the first change after this revision.
    After(Revision),
}

/// An item of a watch.
#[derive(Debug, Clone)]
pub enum Item {
    /// A change; or an object of the initial state, as an addition at its own revision.
    Change(Change),
    /// The initial state is complete, as of this revision. It comes once, and only if the watch began with
    /// [`WatchFrom::Now`].
    Synced(Revision),
}

/// The changes of a scope, in order, each exactly once.
///
/// It is a position in the history that all watches of the resource share. A slow watch does not block anything: when
/// the history no longer contains its position, it ends with [`Error::Expired`]. Dropping it ends it.
pub struct Watch {
    shared: Arc<Shared>,
    table: Arc<Table>,
    wake: watch::Receiver<()>,
    scope: Scope,
    filter: Option<Filter>,
    initial: Option<Initial>,
    /// Taken from the history and not examined yet.
    chunk: VecDeque<Arc<Event>>,
    /// The number of the first event that has not been taken.
    cursor: u64,
    /// Events up to this revision are skipped.
    after: Revision,
    /// The revision of the last event examined; before the first, `after`.
    reached: Revision,
}

/// The remaining objects of the initial state.
#[derive(Debug)]
struct Initial {
    objects: Tree,
    /// The next object has this key or a later one.
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
                // The order matters: everything up to `applied` is in a head that is read after it.
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

    /// The next item; waits until there is one. Dropping the future loses nothing.
    ///
    /// [`Error::Expired`] if the history no longer contains this watch's position, or was reloaded;
    /// [`Error::Closed`] if the state has ended and all of its changes were delivered. Both end the watch.
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

    /// The next item if there is one without waiting.
    ///
    /// It also returns `None` after a number of changes that the watch does not select, so that a watch of few
    /// objects in a busy resource yields to other tasks.
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

    /// Everything up to this revision was delivered, so a bookmark may carry it. It is never lower than the revision
    /// of the last item, and never decreases.
    ///
    /// `None` while there is no such revision: before the initial state is complete, between two changes of one
    /// revision, and after the watch has expired.
    pub fn progress(&self) -> Option<Revision> {
        if self.initial.is_some() {
            return None;
        }
        // The order matters: an event that is not in the history now came after `applied`.
        let applied = self.shared.applied();
        let waiting = match self.chunk.front() {
            Some(event) => Some(Arc::clone(event)),
            None => self.table.events(self.cursor, 1).ok()?.pop(),
        };
        match waiting {
            // All changes of one revision enter the history together, so the revision reached is complete. `applied`
            // may still lag behind it, because other tables publish the same revision later.
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
        // Marked as seen before reading the history, so that an event published after the read wakes this watch
        // again.
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
        // A watch may begin after a revision that has not happened yet.
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
