//! Loads under way, and the horizon they hold.

use std::collections::{BTreeMap, HashSet};

use super::row::RowId;
use crate::Revision;

/// A load under way.
#[derive(Debug)]
pub(crate) struct Loading {
    pub(crate) horizon: Revision,
    /// Rows that were dead at the horizon but still there when the load began.
    pub(crate) dead: HashSet<RowId>,
    /// Everything up to here was handed out.
    pub(crate) reached: RowId,
    given_up_at: u64,
    total_until: u64,
}

/// All loads under way.
#[derive(Debug)]
pub(crate) struct Loads {
    under_way: BTreeMap<u64, Loading>,
    last: u64,
    idle: u64,
    total: u64,
}

impl Loads {
    /// Loads that may idle and last so many milliseconds.
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

    /// The load, with its time to idle renewed; `None` if it was given up.
    pub(crate) fn renew(&mut self, load: u64, now: u64) -> Option<&mut Loading> {
        let idle_until = now.saturating_add(self.idle);
        let loading = self.under_way.get_mut(&load)?;
        loading.given_up_at = idle_until.min(loading.total_until);
        Some(loading)
    }

    pub(crate) fn end(&mut self, load: u64) {
        self.under_way.remove(&load);
    }

    /// Whether the horizon must stay. Who has not read for too long no longer counts.
    pub(crate) fn hold(&mut self, now: u64) -> bool {
        self.under_way.retain(|_, loading| loading.given_up_at > now);
        !self.under_way.is_empty()
    }

    /// When the next one is given up.
    pub(crate) fn next(&self) -> Option<u64> {
        self.under_way.values().map(|loading| loading.given_up_at).min()
    }
}
