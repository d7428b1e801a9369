//! Reads and subscriptions, which the writer serves from the index and the log between its writes.

use std::{ops::ControlFlow, sync::Arc};

use super::Core;
use crate::{
    Batch, Entry, Error, Event, Load, Revision, Subscription,
    engine::row::{Log, RowId},
    queue::Request,
    reader::{Piece, Source},
};

impl Core {
    pub(super) fn answer<L: Log>(&mut self, log: &mut L, now: u64, request: Request) {
        match request {
            Request::Get { key, answer } => answer.send(self.get(log, &key)),
            Request::Events { after, answer } => answer.send(self.events(log, after)),
            Request::PullEvents { after, answer } => answer.send(self.pull_events(log, after)),
            Request::Load { answer } => answer.send(Ok(self.load(now))),
            Request::PullEntries { load, answer } => answer.send(self.pull_entries(log, load, now)),
            Request::Progress { answer } => answer.send(Ok(self.progress())),
            Request::Backup { target, answer } => self.backups.push_back((target, answer)),
            Request::Close { answer } => {
                self.closing = true;
                self.close_answers.extend(answer);
            }
            Request::Commit { .. } | Request::Compact { .. } | Request::EndLoad { .. } => {
                unreachable!("dealt with before")
            }
        }
    }

    fn get<L: Log>(&self, log: &mut L, key: &str) -> Result<Option<Entry>, Error> {
        let Some(live) = self.index.live.get(key) else { return Ok(None) };
        let mut found = None;
        let read = log.read(RowId(live.id.0 - 1), live.id, &mut |row| {
            found = row.value.map(|value| Entry { key: row.key, revision: row.id.revision(), value });
            ControlFlow::Continue(())
        });
        read.map_err(|source| Error::Read { action: "read an entry of the store", source })?;
        Ok(found)
    }

    fn events<L: Log>(&mut self, log: &mut L, after: Revision) -> Result<Subscription, Error> {
        self.check_not_future(after)?;
        let piece = self.pull_events(log, after)?;
        Ok(Subscription::new(Arc::clone(&self.shared) as Arc<dyn Source>, after, piece))
    }

    /// Reads the next piece of history, in whole revisions. The piece that reaches the newest revision also subscribes to the
    /// hub: both happen in one step of the writer, so no batch is lost or repeated.
    fn pull_events<L: Log>(&mut self, log: &mut L, after: Revision) -> Result<Piece, Error> {
        if after < self.index.compacted() {
            return Err(Error::Compacted { compacted: self.index.compacted() });
        }
        let (mut batches, mut bytes, mut complete) = (Vec::<Batch>::new(), 0, true);
        let read = log.read(RowId::end_of(after), RowId(i64::MAX), &mut |row| {
            let revision = row.id.revision();
            if batches.last().is_none_or(|batch| batch.revision != revision) {
                // Ends only between revisions, so that batches stay whole.
                if bytes >= self.limits.piece_bytes {
                    complete = false;
                    return ControlFlow::Break(());
                }
                batches.push(Batch { revision, events: Vec::new() });
            }
            bytes += row.bytes() as usize;
            let event = Event { change: row.change(), key: row.key };
            batches.last_mut().expect("one was just pushed").events.push(event);
            ControlFlow::Continue(())
        });
        read.map_err(|source| Error::Read { action: "read the history of the store", source })?;
        let head = self.index.head();
        if complete && batches.last().map_or(after, |batch| batch.revision) < head {
            // After a restore the newest revision is ahead of the newest row.
            batches.push(Batch { revision: head, events: Vec::new() });
        }
        let tail = complete.then(|| self.hub.join());
        Ok(Piece { batches: batches.into_iter().map(Arc::new).collect(), tail })
    }

    fn load(&mut self, now: u64) -> Load {
        let horizon = self.index.compacted();
        let id = self.loads.begin(horizon, self.index.dead_at_horizon(), now);
        Load::new(Arc::clone(&self.shared) as Arc<dyn Source>, id, horizon)
    }

    fn pull_entries<L: Log>(&mut self, log: &mut L, load: u64, now: u64) -> Result<Vec<Entry>, Error> {
        // Removes expired loads first, possibly this one.
        self.loads.hold(now);
        let loading = self.loads.renew(load, now).ok_or(Error::LoadExpired)?;
        let (mut entries, mut bytes) = (Vec::new(), 0);
        let read = log.read(loading.reached, RowId::end_of(loading.horizon), &mut |row| {
            loading.reached = row.id;
            // Dead at the horizon, but not removed yet when the load began.
            if loading.dead.contains(&row.id) {
                return ControlFlow::Continue(());
            }
            bytes += row.bytes() as usize;
            let revision = row.id.revision();
            entries.extend(row.value.map(|value| Entry { key: row.key, revision, value }));
            if bytes >= self.limits.piece_bytes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.map_err(|source| Error::Read { action: "load the entries of the store", source })?;
        Ok(entries)
    }

    fn progress(&mut self) -> Revision {
        let revision = self.index.head();
        self.hub.notify(&Arc::new(Batch { revision, events: Vec::new() }));
        revision
    }

    pub(super) fn check_not_future(&self, asked: Revision) -> Result<(), Error> {
        let head = self.index.head();
        if asked > head { Err(Error::FutureRevision { asked, head }) } else { Ok(()) }
    }
}
