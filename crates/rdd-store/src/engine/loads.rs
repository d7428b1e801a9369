//! The loads in progress and the compaction horizon that they hold.

use std::collections::{BTreeMap, HashSet};

use super::row::RowId;
use crate::Revision;

/// A load in progress.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(crate) horizon: Revision,
    /// Rows that were dead at the horizon but not yet removed when the load began.
    pub(crate) dead: HashSet<RowId>,
    /// The last row that was read.
    pub(crate) reached: RowId,
    given_up_at: u64,
    total_until: u64,
}

/// All loads in progress.
#[derive(Debug)]
pub(crate) struct Loads {
    under_way: BTreeMap<u64, Loading>,
    last: u64,
    idle: u64,
    total: u64,
}

impl Loads {
    /// Creates the table; `idle` and `total` are the timeouts in milliseconds.
    pub(crate) fn new(idle: u64, total: u64) -> Self {
        Self { under_way: BTreeMap::new(), last: 0, idle, total }
    }

    pub(crate) fn begin(&mut self, horizon: Revision, dead: HashSet<RowId>, now: u64) -> u64 {
        self.last += 1;
        let (idle_until, total_until) = (now.saturating_add(self.idle), now.saturating_add(self.total));
        let given_up_at = idle_until.min(total_until);
        self.under_way.insert(self.last, Loading { horizon, dead, reached: RowId(-1), given_up_at, total_until });
        self.last
    }

    /// Returns the load and restarts its idle timeout; `None` if it has expired.
    pub(crate) fn renew(&mut self, load: u64, now: u64) -> Option<&mut Loading> {
        let idle_until = now.saturating_add(self.idle);
        let loading = self.under_way.get_mut(&load)?;
        loading.given_up_at = idle_until.min(loading.total_until);
        Some(loading)
    }

    pub(crate) fn end(&mut self, load: u64) {
        self.under_way.remove(&load);
    }

    /// Removes expired loads; returns whether one is left that holds the horizon.
    pub(crate) fn hold(&mut self, now: u64) -> bool {
        self.under_way.retain(|_, loading| loading.given_up_at > now);
        !self.under_way.is_empty()
    }

    /// When the next load expires.
    pub(crate) fn next(&self) -> Option<u64> {
        self.under_way.values().map(|loading| loading.given_up_at).min()
    }
}
