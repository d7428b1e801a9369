//! The in-memory table of one resource: its current objects, past snapshots, and recent changes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, RwLock, RwLockReadGuard},
};

use rdd_store::Revision;
use tokio::sync::watch;

use super::{Key, Limits, Object, event::Event, tree::Tree};

/// The table of one resource. Only the follower writes; readers clone what they need and release the lock at once.
#[derive(Debug)]
pub(super) struct Table {
    kept: RwLock<Kept>,
    wake: watch::Sender<()>,
}

#[derive(Debug)]
struct Kept {
    /// The objects as of a revision, valid until the next one. Never empty; the last is the current one.
    snapshots: VecDeque<(Revision, Tree)>,
    /// The objects of the last snapshot by key, because a lookup in the tree compares a dozen keys.
    now: HashMap<Key, Arc<Object>, foldhash::fast::RandomState>,
    /// All changes after `events_after`, in order.
    events: VecDeque<Arc<Event>>,
    events_after: Revision,
    /// The number of the first of `events`, counted since the process started.
    first: u64,
    bytes: usize,
}

/// The current state of a table, for a new reader.
#[derive(Debug)]
pub(super) struct Head {
    /// The revision of the last change of this resource, or of the load.
    pub(super) revision: Revision,
    pub(super) objects: Tree,
    /// The number that the next event will have.
    pub(super) cursor: u64,
}

/// The requested position is no longer kept; the oldest one is the value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone(pub(super) Revision);

impl Table {
    /// A table loaded at a revision.
    pub(super) fn new(revision: Revision, objects: Tree) -> Self {
        Self { kept: RwLock::new(Kept::new(revision, objects, 0)), wake: watch::Sender::new(()) }
    }

    /// The current objects.
    pub(super) fn head(&self) -> Head {
        let kept = self.read();
        let (revision, objects) = kept.head();
        Head { revision: *revision, objects: objects.clone(), cursor: kept.end() }
    }

    /// The current object of a key.
    pub(super) fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.read().now.get(key).cloned()
    }

    /// The objects at a revision that is already visible.
    pub(super) fn at(&self, revision: Revision) -> Result<Tree, Gone> {
        let kept = self.read();
        let later = kept.snapshots.partition_point(|(at, _)| *at <= revision);
        match later.checked_sub(1).and_then(|index| kept.snapshots.get(index)) {
            Some((_, objects)) => Ok(objects.clone()),
            None => Err(Gone(kept.snapshots.front().map_or(revision, |(at, _)| *at))),
        }
    }

    /// Makes the changes of one revision visible and drops what the limits do not keep. It does not wake watches yet.
    pub(super) fn publish(&self, revision: Revision, events: Vec<Arc<Event>>, past: Revision, limits: &Limits) {
        // The trees are built before the write lock is taken, which blocks readers. There is only one writer, so the
        // head cannot change.
        let mut objects = self.read().head().1.clone();
        for event in &events {
            objects = match &event.current {
                Some(object) => objects.with(Arc::clone(object)),
                None => objects.without(event.key().as_str()),
            };
        }
        let mut kept = self.kept.write().expect("nothing panics while holding a table");
        kept.snapshots.push_back((revision, objects));
        for event in &events {
            match &event.current {
                Some(object) => kept.now.insert(object.key().clone(), Arc::clone(object)),
                None => kept.now.remove(event.key()),
            };
        }
        kept.bytes += events.iter().map(|event| event.bytes()).sum::<usize>();
        kept.events.extend(events);
        kept.trim(past, limits);
    }

    /// Replaces everything by a load at a revision, after changes were missed: all watches of this resource expire.
    pub(super) fn replace(&self, revision: Revision, objects: Tree) {
        let mut kept = self.kept.write().expect("nothing panics while holding a table");
        // One number is skipped, so that even the cursor of a watch that had seen everything is before the first.
        let first = kept.end() + 1;
        let before = std::mem::replace(&mut *kept, Kept::new(revision, objects, first));
        // Freeing the old history can take long; readers must not wait for it.
        drop(kept);
        drop(before);
    }

    /// Drops history that the limits no longer keep.
    pub(super) fn trim(&self, past: Revision, limits: &Limits) {
        self.kept.write().expect("nothing panics while holding a table").trim(past, limits);
    }

    /// The number of the first event after a revision.
    pub(super) fn cursor_after(&self, revision: Revision) -> Result<u64, Gone> {
        let kept = self.read();
        if revision < kept.events_after {
            return Err(Gone(kept.events_after));
        }
        Ok(kept.first + kept.events.partition_point(|event| event.revision <= revision) as u64)
    }

    /// Up to `most` events from this number on; none if they have not happened yet.
    pub(super) fn events(&self, cursor: u64, most: usize) -> Result<Vec<Arc<Event>>, Gone> {
        let kept = self.read();
        let index = cursor.checked_sub(kept.first).ok_or(Gone(kept.events_after))?;
        let index = usize::try_from(index).unwrap_or(usize::MAX).min(kept.events.len());
        let end = index.saturating_add(most).min(kept.events.len());
        Ok(kept.events.range(index..end).cloned().collect())
    }

    /// The change of a key at a revision.
    pub(super) fn find(&self, key: &Key, revision: Revision) -> Option<Arc<Event>> {
        let kept = self.read();
        let start = kept.events.partition_point(|event| event.revision < revision);
        let mut same = kept.events.range(start..).take_while(|event| event.revision == revision);
        same.find(|event| event.key() == key).cloned()
    }

    /// Wakes all watches of this resource.
    pub(super) fn wake(&self) {
        self.wake.send_replace(());
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.wake.subscribe()
    }

    fn read(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().expect("nothing panics while holding a table")
    }
}

impl Kept {
    fn new(revision: Revision, objects: Tree, first: u64) -> Self {
        let now = objects.from("").map(|object| (object.key().clone(), Arc::clone(object))).collect();
        let snapshots = [(revision, objects)].into();
        Self { snapshots, now, events: VecDeque::new(), events_after: revision, first, bytes: 0 }
    }

    fn head(&self) -> &(Revision, Tree) {
        self.snapshots.back().expect("there is always a newest snapshot")
    }

    fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    fn trim(&mut self, past: Revision, limits: &Limits) {
        while let Some(oldest) = self.events.front() {
            let old = oldest.revision <= past && self.events.len() > limits.history_floor;
            if !old && self.events.len() <= limits.history_events && self.bytes <= limits.history_bytes {
                break;
            }
            self.bytes -= oldest.bytes();
            self.events_after = oldest.revision;
            self.first += 1;
            self.events.pop_front();
        }
        // A snapshot keeps superseded objects alive as much as an event does, so it is dropped with them. The
        // snapshot that was the newest at the oldest kept revision stays.
        let past = past.max(self.events_after);
        let unneeded = self.snapshots.partition_point(|(at, _)| *at <= past).saturating_sub(1);
        self.snapshots.drain(..unneeded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Object, object::tests::mk_object};

    fn mk(name: &str, revision: u64) -> Arc<Object> {
        mk_object(name, revision, r#"{"metadata":{}}"#)
    }

    fn limits(events: usize, floor: usize) -> Limits {
        Limits { history_events: events, history_floor: floor, ..Limits::default() }
    }

    /// A table loaded as of revision 10, with the revisions 11 to 15, of which 13 changed two objects.
    fn mk_table(past: u64, limits: &Limits) -> Table {
        let table = Table::new(Revision(10), Tree::default());
        for (revision, names) in [(11, "a"), (12, "b"), (13, "ab"), (14, "c"), (15, "a")] {
            let head = table.head().objects;
            let change = |name: char| {
                let current = mk(&name.to_string(), revision);
                let previous = head.get(current.key().as_str()).cloned();
                Event::new(Revision(revision), previous, Some(current)).unwrap()
            };
            table.publish(Revision(revision), names.chars().map(change).collect(), Revision(past), limits);
        }
        table
    }

    fn revisions(table: &Table, cursor: u64) -> Vec<u64> {
        table.events(cursor, 100).unwrap().iter().map(|event| event.revision.0).collect()
    }

    #[test]
    fn the_past_can_be_read_at_every_revision_from_the_load_on() {
        let table = mk_table(0, &limits(100, 100));
        for (revision, count) in [(10, 0), (11, 1), (12, 2), (13, 2), (14, 3), (15, 3), (99, 3)] {
            assert_eq!(table.at(Revision(revision)).unwrap().from("").count(), count, "at {revision}");
        }
        assert_eq!(table.at(Revision(9)).unwrap_err(), Gone(Revision(10)));
        assert_eq!(table.cursor_after(Revision(9)), Err(Gone(Revision(10))));
        assert_eq!(revisions(&table, table.cursor_after(Revision(12)).unwrap()), [13, 13, 14, 15]);
        assert!(revisions(&table, table.cursor_after(Revision(15)).unwrap()).is_empty());
    }

    #[test]
    fn age_spares_the_floor_of_events_but_no_snapshot() {
        let table = mk_table(14, &limits(100, 3));
        assert_eq!(revisions(&table, table.cursor_after(Revision(13)).unwrap()), [14, 15]);
        assert_eq!(table.cursor_after(Revision(12)), Err(Gone(Revision(13))));
        assert_eq!(table.at(Revision(13)).unwrap_err(), Gone(Revision(14)));
        assert_eq!(table.at(Revision(14)).unwrap().from("").count(), 3);
    }

    #[test]
    fn count_and_bytes_bound_events_and_snapshots_whatever_the_floor() {
        let by_bytes = Limits { history_bytes: 0, ..limits(100, 100) };
        for (limits, after) in [(limits(2, 100), 13), (by_bytes, 15)] {
            let table = mk_table(0, &limits);
            assert_eq!(table.cursor_after(Revision(after - 1)), Err(Gone(Revision(after))));
            assert_eq!(table.at(Revision(after - 1)).unwrap_err(), Gone(Revision(after)));
            assert!(table.at(Revision(after)).is_ok() && table.cursor_after(Revision(after)).is_ok());
        }
    }

    #[test]
    fn a_cursor_from_before_a_new_beginning_is_gone_even_if_it_had_seen_everything() {
        let table = mk_table(0, &limits(100, 100));
        let seen_all = table.head().cursor;
        assert!(table.events(seen_all, 1).unwrap().is_empty());
        table.replace(Revision(40), Tree::default());
        assert_eq!(table.events(seen_all, 1).unwrap_err(), Gone(Revision(40)));
        assert!(table.events(table.head().cursor, 1).unwrap().is_empty());
    }

    #[test]
    fn a_change_is_found_by_key_and_revision() {
        let table = mk_table(0, &limits(100, 100));
        let found = |name: &str, revision| table.find(mk(name, 1).key(), Revision(revision)).is_some();
        assert_eq!(
            [found("a", 13), found("b", 13), found("c", 13), found("a", 12), found("a", 99)],
            [true, true, false, false, false]
        );
    }
}
