//! The writer's loop: it takes requests in batches, writes one disk transaction per batch, publishes it, and replies.

mod answer;

use std::{collections::VecDeque, ops::ControlFlow, path::PathBuf, sync::Arc, time::Duration};

use rdd_stdx::{chain::Chain, clock::SharedClock};

use super::{
    Shared,
    horizon::{Ages, crowded_out},
    index::Index,
    loads::Loads,
    row::{Failure, Log, State, Write},
    stage::{Staged, Staging},
    time::{StoreTime, millis},
};
use crate::{
    Commits, Error, Limits, Revision, Txn,
    hub::Hub,
    queue::{Request, Wait},
    reply::Answer,
};

/// How many rows are removed with a commit beyond twice its own, and when the store is idle.
const REMOVE_EXTRA: usize = 16;
const REMOVE_IDLE: usize = 1_024;
/// How many garbage rows a busy store accumulates before it removes any: per live key, within bounds.
const GATHER_PER_KEY: usize = 4;
const GATHER_MIN: usize = 1_024;
const GATHER_MAX: usize = 16_384;
/// The store counts as quiet this long after the last commit.
const QUIET_AFTER_MS: u64 = 500;
/// The maximum number of keys that expire in one disk transaction.
const EXPIRE_AT_ONCE: usize = 512;
/// The delay before the store retries a write of its own after a full disk.
const RETRY_MS: u64 = 1_000;
/// The delay between a write and maintenance, and between two steps of maintenance.
const TIDY_AFTER_MS: u64 = 1_000;
const TIDY_PACE_MS: u64 = 20;

/// The writer's state, apart from the log itself.
pub(crate) struct Core {
    limits: Limits,
    time: StoreTime,
    index: Index,
    ages: Ages,
    loads: Loads,
    hub: Hub,
    shared: Arc<Shared>,
    commits: Commits,
    poisoned: Option<Error>,
    full: Option<Error>,
    /// The horizon that callers requested.
    wish: u64,
    /// The store does no writes of its own before this time.
    retry_at: u64,
    /// The horizon of a quiet store does not advance by age before this time.
    advance_at: u64,
    tidy_at: Option<u64>,
    /// From this time on the store counts as quiet.
    quiet_at: u64,
    backups: VecDeque<(PathBuf, Answer<Revision>)>,
    closing: bool,
    close_answers: Vec<Answer<()>>,
}

type Commit = (Txn, Answer<Revision>);

impl Core {
    pub(crate) fn new(limits: Limits, clock: SharedClock, mut index: Index, shared: Arc<Shared>) -> Self {
        index.settle();
        let time = StoreTime::resume(clock, &index.state, limits.closed_time);
        let now = time.now();
        Self {
            ages: Ages::new(millis(limits.history_age), index.state.compacted, index.head, now),
            loads: Loads::new(millis(limits.load_idle), millis(limits.load_total)),
            hub: Hub::new(limits.subscriber_batches),
            commits: Commits::default(),
            poisoned: None,
            full: None,
            wish: 0,
            retry_at: 0,
            advance_at: 0,
            tidy_at: Some(now + TIDY_AFTER_MS),
            quiet_at: now,
            backups: VecDeque::new(),
            closing: false,
            close_answers: Vec::new(),
            limits,
            time,
            index,
            shared,
        }
    }

    /// Serves requests until one closes the store. Returns the callers that wait for it to be closed.
    pub(crate) fn run<L: Log>(mut self, log: &mut L) -> Vec<Answer<()>> {
        while !self.closing {
            let wait = self.wait();
            self.round(log, wait);
            // Between rounds, because a copy runs rounds itself.
            if let Some((target, answer)) = self.backups.pop_front() {
                self.back_up(log, target, answer);
            }
        }
        self.shut_down(log);
        self.close_answers
    }

    /// Takes the waiting requests and executes them: commits first, in one disk transaction, then the others.
    fn round<L: Log>(&mut self, log: &mut L, wait: Wait) {
        let requests = self.shared.queue.take(wait, self.limits.batch_requests, self.limits.batch_bytes);
        let idle = requests.is_empty();
        let (mut commits, mut compacts, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for request in requests {
            match request {
                Request::Commit { txn, answer } => commits.push((txn, answer)),
                Request::Compact { upto, answer } => match self.check_not_future(upto) {
                    Ok(()) => {
                        self.wish = self.wish.max(upto.0);
                        // A caller that compacts wants the space now, so removal does not wait for a quiet store.
                        self.quiet_at = 0;
                        compacts.push(answer);
                    }
                    Err(error) => answer.send(Err(error)),
                },
                // At once: a caller that drops a load and then compacts expects a free horizon.
                Request::EndLoad { load } => self.loads.end(load),
                other => others.push(other),
            }
        }
        // Read after the wait, which may have been long.
        let now = self.time.now();
        let outcome = self.write(log, now, commits, idle || !compacts.is_empty());
        for answer in compacts {
            answer.send(outcome.clone().map(|()| self.index.compacted()));
        }
        for request in others {
            self.answer(log, now, request);
        }
        if idle {
            self.tidy(log, now);
        }
        self.report();
    }

    /// Writes one disk transaction with the commits, the expired keys, and some rows that history no longer needs.
    ///
    /// With `own`, the store may also write without a commit, to advance the horizon.
    fn write<L: Log>(&mut self, log: &mut L, now: u64, commits: Vec<Commit>, own: bool) -> Result<(), Error> {
        if let Some(error) = self.poisoned.clone() {
            for (_, answer) in commits {
                answer.send(Err(error.clone()));
            }
            return Err(error);
        }
        let mut staging = Staging::new(&self.index, now);
        // After a full disk expiry waits too: a deletion needs space like any other row.
        if now >= self.retry_at {
            staging.expire(EXPIRE_AT_ONCE);
        }
        let stage = |(txn, answer)| (answer, staging.add(txn));
        let answers: Vec<_> = commits.into_iter().map(stage).collect();
        let staged = staging.finish();
        let outcome = self.write_staged(log, now, &staged, own);
        self.commits.conflicts += staged.conflicts;
        if outcome.is_ok() {
            for batch in &staged.batches {
                self.hub.publish(batch);
            }
        }
        // Before the replies: a caller with a reply must find its commit in the status.
        self.report();
        for (answer, result) in answers {
            // A conflict may be with a transaction that failed just now, so it fails with the same error.
            answer.send(outcome.clone().and(result));
        }
        outcome
    }

    fn write_staged<L: Log>(&mut self, log: &mut L, now: u64, staged: &Staged, own: bool) -> Result<(), Error> {
        let own = own && now >= self.retry_at;
        let compacted = self.horizon(now, own);
        let remove: Vec<_> = self.index.removable(self.removals(now, staged.rows.len(), own)).collect();
        // After a full disk, writing the state alone from time to time probes whether there is space again.
        let due = own && (compacted != self.index.state.compacted || self.full.is_some());
        if staged.rows.is_empty() && remove.is_empty() && !due {
            return Ok(());
        }
        let (remove, removed_sums): (Vec<_>, Vec<_>) = remove.into_iter().unzip();
        let mut state = State { compacted, ..self.stamped(now) };
        state.rows = state.rows + staged.rows.len() as u64 - remove.len() as u64;
        // Exclusive or both adds and removes a row, in any order.
        let sums = staged.notes.iter().map(|note| note.live.sum).chain(removed_sums);
        state.digest = sums.fold(state.digest, |digest, sum| digest ^ sum);

        let started = self.time.steady();
        let written = log.write(&Write { rows: &staged.rows, remove: &remove, state });
        self.count(self.time.steady().saturating_sub(started), written.is_ok());
        if let Err(failure) = written {
            return Err(self.failed(log, now, &failure));
        }
        if self.full.take().is_some() {
            tracing::info!("there is space on the disk again; the store accepts writes");
        }
        self.index.state = state;
        self.index.removed(remove.len());
        for note in &staged.notes {
            self.index.add(note.clone());
        }
        self.index.settle();
        if !staged.rows.is_empty() {
            self.ages.note(self.index.head, now);
            self.quiet_at = now + QUIET_AFTER_MS;
        }
        self.commits.transactions += staged.batches.len() as u64;
        self.commits.expired += staged.expired;
        self.tidy_at = Some(self.tidy_at.map_or(now + TIDY_AFTER_MS, |at| at.max(now + TIDY_PACE_MS)));
        Ok(())
    }

    /// How many garbage rows to remove with a disk transaction of `rows` rows.
    ///
    /// While the store is busy, garbage accumulates, about as much as there are keys: by the time a row is removed, its
    /// neighbours are dead too, and its page is written once instead of once per row. A quiet store removes all.
    fn removals(&self, now: u64, rows: usize, own: bool) -> usize {
        let slack =
            (GATHER_PER_KEY * self.index.live.len()).clamp(GATHER_MIN, GATHER_MAX).min(self.limits.history_rows);
        match rows {
            0 if own && now >= self.quiet_at => REMOVE_IDLE,
            0 => 0,
            rows if self.index.backlog() > slack => 2 * rows + REMOVE_EXTRA,
            _ => 0,
        }
    }

    /// The new compaction horizon. A load in progress keeps the current one.
    fn horizon(&mut self, now: u64, own: bool) -> u64 {
        let current = self.index.state.compacted;
        if self.loads.hold(now) {
            return current;
        }
        let Limits { history_rows, history_bytes, .. } = self.limits;
        let crowded = crowded_out(&self.index.dead, self.index.dead_bytes, history_rows, history_bytes);
        let due = self.ages.passed(now);
        // An idle store pays a disk transaction for each move, so it moves in steps of a sixteenth of the age.
        if own && due > current {
            self.advance_at = now + millis(self.limits.history_age) / 16;
        }
        current.max(crowded).max(due).max(self.wish.min(self.index.head))
    }

    fn stamped(&self, now: u64) -> State {
        State { time: now, wall: self.time.wall(), ..self.index.state }
    }

    fn count(&mut self, took: Duration, succeeded: bool) {
        self.commits.groups += 1;
        self.commits.failures += u64::from(!succeeded);
        self.commits.busy += took;
        self.commits.longest = self.commits.longest.max(took);
    }

    /// Records a failed write and returns the error for the callers. A broken log is poisoned: the store writes nothing more.
    fn failed<L: Log>(&mut self, log: &mut L, now: u64, failure: &Failure) -> Error {
        self.retry_at = now + RETRY_MS;
        let (error, known) = match failure {
            Failure::Full { folder, cause } => {
                (Error::DiskFull { folder: folder.clone(), source: Arc::clone(cause) }, self.full.is_some())
            }
            Failure::Broken(cause) => (Error::Poisoned { cause: Chain(&**cause).to_string() }, false),
        };
        if !known {
            tracing::error!(error = %Chain(failure.cause()), "{error}");
        }
        match failure {
            Failure::Full { .. } => self.full = Some(error.clone()),
            Failure::Broken(_) => {
                log.seal();
                self.poisoned = Some(error.clone());
            }
        }
        error
    }

    /// Copies the store, serving requests between the steps.
    fn back_up<L: Log>(&mut self, log: &mut L, target: PathBuf, answer: Answer<Revision>) {
        let copied = log.copy(&target, &mut |log, wait| {
            self.round(log, wait);
            if self.closing { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        answer.send(copied);
    }

    fn tidy<L: Log>(&mut self, log: &mut L, now: u64) {
        if self.poisoned.is_some() || self.tidy_at.is_none_or(|at| at > now) {
            return;
        }
        self.tidy_at = match log.tidy() {
            Ok(true) => Some(now + TIDY_PACE_MS),
            Ok(false) => None,
            Err(failure) => {
                self.failed(log, now, &failure);
                Some(now + RETRY_MS)
            }
        };
    }

    /// How long the writer may sleep if no request arrives. Without pending work it sleeps until one does.
    fn wait(&mut self) -> Wait {
        let now = self.time.now();
        let holding = self.loads.hold(now);
        let mut next = self.loads.next();
        let mut at = |time: u64| next = Some(next.map_or(time, |next| next.min(time)));
        if self.poisoned.is_none() {
            let compacted = self.index.state.compacted;
            if let Some((expires, _)) = self.index.expiries.first() {
                at((*expires).max(self.retry_at));
            }
            if self.index.backlog() > 0 {
                at(self.quiet_at.max(self.retry_at));
            }
            // A held horizon cannot move: its timers would wake the writer for nothing.
            if !holding && self.wish.min(self.index.head) > compacted {
                at(self.retry_at);
            }
            if !holding && let Some(passes) = self.ages.next(compacted) {
                at(passes.max(self.advance_at).max(self.retry_at));
            }
            if self.full.is_some() {
                at(self.retry_at);
            }
            if let Some(tidy) = self.tidy_at {
                at(tidy);
            }
        }
        match next {
            None => Wait::Forever,
            Some(time) if time <= now => Wait::No,
            Some(time) => Wait::AtMost(Duration::from_millis(time - now)),
        }
    }

    fn report(&self) {
        let mut status = self.shared.status.lock().expect("nothing panics while holding the status");
        status.head = self.index.head();
        status.compacted = self.index.compacted();
        status.live_keys = self.index.live.len() as u64;
        status.dead_rows = self.index.dead_rows();
        status.subscribers = self.hub.len();
        status.lagged = self.hub.lagged();
        status.commits = self.commits;
        status.writable = match self.poisoned.as_ref().or(self.full.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        };
    }

    /// Writes the current time, so that store time continues from here, and completes the files.
    fn shut_down<L: Log>(&mut self, log: &mut L) {
        // A poisoned log must not be written again.
        if self.poisoned.is_some() {
            return;
        }
        let state = self.stamped(self.time.now());
        let written = log.write(&Write { rows: &[], remove: &[], state }).and_then(|()| log.finish());
        if let Err(failure) = written {
            tracing::warn!(error = %Chain(failure.cause()), "the store was closed with its write-ahead log left in place");
        }
    }
}

#[cfg(test)]
mod tests;
