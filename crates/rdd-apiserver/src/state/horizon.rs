//! Finds the newest revision of some time ago; older ones may be dropped.

use std::{collections::VecDeque, time::Duration};

use rdd_store::Revision;

/// Revisions and when they were the newest, in slots of a hundredth of the retained age.
#[derive(Debug)]
pub(super) struct Horizon {
    age: Duration,
    slots: VecDeque<Slot>,
    past: Revision,
}

#[derive(Debug)]
struct Slot {
    begun: Duration,
    /// When `revision`, the last one of this slot, became the newest.
    at: Duration,
    revision: Revision,
}

impl Horizon {
    pub(super) fn new(age: Duration) -> Self {
        Self { age, slots: VecDeque::new(), past: Revision(0) }
    }

    /// Records that a revision is the newest now.
    pub(super) fn note(&mut self, now: Duration, revision: Revision) {
        // A busy store would otherwise add one slot per revision.
        let width = self.age / 100;
        match self.slots.back_mut() {
            Some(slot) if now < slot.begun + width => (slot.at, slot.revision) = (now, revision),
            _ => self.slots.push_back(Slot { begun: now, at: now, revision }),
        }
    }

    /// The revision that was the newest `age` ago, or a slightly older one.
    pub(super) fn at(&mut self, now: Duration) -> Revision {
        while let Some(slot) = self.slots.pop_front_if(|slot| slot.at + self.age <= now) {
            self.past = slot.revision;
        }
        self.past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_past_when_it_has_been_the_newest_for_so_long() {
        let second = Duration::from_secs;
        let mut horizon = Horizon::new(second(300));
        for (now, revision) in [(0, 1), (1, 2), (2, 3), (10, 4), (400, 5)] {
            horizon.note(second(now), Revision(revision));
        }
        // The first three share a slot, which is over when the last of them is.
        let table = [(0, 0), (301, 0), (302, 3), (309, 3), (310, 4), (699, 4), (700, 5), (9_999, 5)];
        for (now, past) in table {
            assert_eq!(horizon.at(second(now)), Revision(past), "at {now}");
        }
    }

    #[test]
    fn a_busy_store_takes_about_a_hundred_slots() {
        let mut horizon = Horizon::new(Duration::from_secs(300));
        for number in 0..30_000 {
            let now = Duration::from_millis(number * 100);
            horizon.note(now, Revision(number));
            horizon.at(now);
        }
        assert!(horizon.slots.len() <= 102, "{}", horizon.slots.len());
    }
}
