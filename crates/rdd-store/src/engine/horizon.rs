//! The compaction policy: which revision history reaches back to, by age, rows and bytes.

use std::collections::VecDeque;

use super::index::Dead;

/// When revisions were written, approximately, in a bounded number of buckets.
#[derive(Debug)]
pub(crate) struct Ages {
    buckets: VecDeque<Bucket>,
    age: u64,
    /// The newest revision that is older than the history age.
    passed: u64,
}

#[derive(Debug)]
struct Bucket {
    first_at: u64,
    last_at: u64,
    revision: u64,
}

/// Buckets per history age: history is kept at most this fraction longer than configured.
const BUCKETS: u64 = 256;

impl Ages {
    /// Counts everything up to `head` as written `now`. After a restart, clients can therefore resume from any retained revision
    /// for one more full age, even if the clocks changed.
    pub(crate) fn new(age: u64, compacted: u64, head: u64, now: u64) -> Self {
        let mut ages = Self { buckets: VecDeque::new(), age, passed: compacted };
        if head > compacted {
            ages.note(head, now);
        }
        ages
    }

    /// Records that a revision was written.
    pub(crate) fn note(&mut self, revision: u64, at: u64) {
        match self.buckets.back_mut() {
            Some(bucket) if at - bucket.first_at < self.age / BUCKETS => {
                bucket.last_at = at;
                bucket.revision = revision;
            }
            _ => self.buckets.push_back(Bucket { first_at: at, last_at: at, revision }),
        }
    }

    /// The newest revision that is older than the history age.
    pub(crate) fn passed(&mut self, now: u64) -> u64 {
        while let Some(bucket) = self.buckets.front()
            && bucket.last_at.saturating_add(self.age) <= now
        {
            self.passed = bucket.revision;
            self.buckets.pop_front();
        }
        self.passed
    }

    /// When the horizon can move beyond `compacted` next; `None` if there is no later revision.
    pub(crate) fn next(&self, compacted: u64) -> Option<u64> {
        if self.passed > compacted {
            return Some(0);
        }
        self.buckets.front().map(|bucket| bucket.last_at.saturating_add(self.age))
    }
}

/// The revision up to which history must be compacted to keep its rows and bytes within bounds; 0 if they are.
///
/// It compacts slightly more than necessary, so that a store at its bound does not move its horizon with each commit.
pub(crate) fn crowded_out(dead: &VecDeque<Dead>, dead_bytes: u64, rows_max: usize, bytes_max: u64) -> u64 {
    if dead.len() <= rows_max && dead_bytes <= bytes_max {
        return 0;
    }
    let (rows_goal, bytes_goal) = (rows_max - rows_max / 64, bytes_max - bytes_max / 64);
    let (mut rows, mut bytes, mut revision) = (dead.len(), dead_bytes, 0);
    for row in dead {
        if rows <= rows_goal && bytes <= bytes_goal {
            break;
        }
        rows -= 1;
        bytes -= u64::from(row.bytes);
        revision = row.killer;
    }
    revision
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::row::RowId;

    #[test]
    fn a_revision_passes_when_it_is_older_than_the_age() {
        let mut ages = Ages::new(1_000, 0, 0, 0);
        assert_eq!(ages.next(0), None);
        ages.note(1, 10);
        ages.note(2, 500);
        assert_eq!((ages.passed(1_009), ages.next(0)), (0, Some(1_010)));
        assert_eq!((ages.passed(1_010), ages.next(0), ages.next(1)), (1, Some(0), Some(1_500)));
        assert_eq!((ages.passed(9_999), ages.next(2)), (2, None));
    }

    #[test]
    fn buckets_are_bounded_and_never_let_go_early() {
        let mut ages = Ages::new(256_000, 0, 0, 0);
        for revision in 1..=100_000_u64 {
            ages.note(revision, revision * 10);
            let passed = ages.passed(revision * 10);
            assert!(passed * 10 + 256_000 <= revision * 10 || passed == 0, "revision {passed} went early");
            assert!(ages.buckets.len() as u64 <= BUCKETS + 2);
        }
        assert!(ages.passed(1_000_000) > 70_000);
    }

    #[test]
    fn after_a_restart_all_history_stays_for_one_more_age() {
        let mut ages = Ages::new(1_000, 5, 9, 70_000);
        assert_eq!(ages.passed(70_999), 5);
        assert_eq!(ages.passed(71_000), 9);
    }

    #[test]
    fn too_much_history_is_crowded_out_oldest_first() {
        let dead: VecDeque<_> = (1..=200).map(|killer| Dead { killer, id: RowId(0), bytes: 10, sum: 0 }).collect();
        assert_eq!(crowded_out(&dead, 2_000, 200, 2_000), 0);
        assert_eq!(crowded_out(&dead, 2_000, 128, u64::MAX), 74, "down to 126 rows");
        assert_eq!(crowded_out(&dead, 2_000, usize::MAX, 640), 137, "down to 630 bytes");
    }
}
