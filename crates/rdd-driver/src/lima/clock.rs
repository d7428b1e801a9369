//! The guest's clock, which gets our time before K3s makes certificates by it.
//!
//! K3s signs everything with authorities that it makes at its first start and keeps for as long as the data lives; no certificate begins before
//! its authority does. Made by a clock that is ahead, they are of no use to anybody here until that time has come, and K3s has no way to make
//! others without a cluster that can be reached. So they are made by our clock.

use std::time::Duration;

use rdd_stdx::{chain::Chain, clock::Clock};

use super::cluster::{Guest, QUESTION_TAKES};
use crate::Error;

/// How many seconds two clocks may be apart without anything being done: less than K3s takes until its first certificate is looked at.
const CLOSE: u64 = 2;
/// How many seconds a clock may be off that cannot be set: by then it is worth a word, but no refusal.
const BEARABLE: u64 = 60;
/// The beginning of 2026, in seconds since the epoch. A machine that believes to be before that has a clock that nobody should go by.
const WRITTEN: Duration = Duration::from_secs(1_767_225_600);

impl Guest<'_> {
    /// Sets the guest's clock to ours, unless it shows the same. An error if it is far off and cannot be set.
    pub(super) async fn set_clock_right(&self, clock: &dyn Clock) -> Result<(), Error> {
        let vm = &self.machine.vm;
        let asked = clock.wall();
        let said = self.ask(&["clock"], QUESTION_TAKES).await?;
        let answered = clock.wall();
        let off = ahead((asked, answered), &said).ok_or_else(|| no_answer(&said))?;
        if off.unsigned_abs() <= CLOSE {
            return Ok(());
        }
        if answered < WRITTEN {
            tracing::warn!(vm, off, "the clocks of machine and host differ, and this host's cannot be right");
            return Ok(());
        }
        match self.set_clock(clock, answered.saturating_sub(asked)).await {
            Ok(left) if left.unsigned_abs() <= BEARABLE => {
                tracing::warn!(vm, off, left, "the clock of the machine was off, and has been set");
                Ok(())
            }
            Err(error) if off.unsigned_abs() <= BEARABLE => {
                tracing::warn!(vm, off, error = %Chain(&error), "the clock of the machine is off, and cannot be set");
                Ok(())
            }
            Ok(left) => Err(refusal(vm, left, "it does not stay where it is set".to_owned())),
            Err(Error::Program { message, .. }) => Err(refusal(vm, off, message)),
            Err(error) => Err(error),
        }
    }

    /// By how many seconds it is ahead afterwards. `trip` is how long a question took: by half of that what is said is late when it arrives.
    async fn set_clock(&self, clock: &dyn Clock, trip: Duration) -> Result<i64, Error> {
        let asked = clock.wall();
        let seconds = (asked + trip / 2).as_secs().to_string();
        let said = self.ask(&["clock", &seconds], QUESTION_TAKES).await?;
        ahead((asked, clock.wall()), &said).ok_or_else(|| no_answer(&said))
    }
}

fn refusal(vm: &str, off: i64, reason: String) -> Error {
    Error::Clock { vm: vm.to_owned(), skew: spell(off), reason }
}

fn no_answer(answer: &str) -> Error {
    Error::Program { program: "date in the guest".to_owned(), message: format!("it answered {:?}", answer.trim()) }
}

/// By how many seconds the guest is ahead, or behind if that is negative; `None` if it did not say. What lies within the question is nothing.
fn ahead((asked, answered): (Duration, Duration), said: &str) -> Option<i64> {
    let guest: i64 = said.trim().parse().ok()?;
    let seconds = |time: Duration| i64::try_from(time.as_secs()).ok();
    let (from, until) = (seconds(asked)?, seconds(answered)?);
    guest.checked_sub(guest.clamp(from.min(until), until.max(from)))
}

/// As people say it: `3 hours ahead of`.
fn spell(off: i64) -> String {
    let side = if off < 0 { "behind" } else { "ahead of" };
    let (number, unit) = match off.unsigned_abs() {
        seconds @ 0..120 => (seconds, "seconds"),
        seconds @ 120..7200 => (seconds / 60, "minutes"),
        seconds @ 7200..172_800 => (seconds / 3600, "hours"),
        seconds => (seconds / 86_400, "days"),
    };
    format!("{number} {unit} {side}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_by_what_the_question_does_not_explain() {
        let between = |from, until| (Duration::from_millis(from), Duration::from_millis(until));
        for (times, said, off) in [
            (between(10_900, 14_100), "10\n", Some(0)),
            (between(10_900, 14_100), "14", Some(0)),
            (between(10_900, 14_100), "20", Some(6)),
            (between(10_900, 14_100), "3", Some(-7)),
            (between(10_900, 14_100), "-100", Some(-110)),
            // Ours was set back meanwhile.
            (between(14_000, 10_000), "12", Some(0)),
            (between(10_000, 10_000), "", None),
            (between(10_000, 10_000), "noon", None),
            (between(10_000, 10_000), "99999999999999999999", None),
            (between(10_000, 10_000), "-9223372036854775808", None),
        ] {
            assert_eq!(ahead(times, said), off, "{said:?} at {times:?}");
        }
    }

    #[test]
    fn how_far_it_is_off_is_said_as_people_say_it() {
        let said = [61, -61, 7199, 10_800, -172_800, 86_400 * 400].map(spell);
        assert_eq!(
            said,
            [
                "61 seconds ahead of",
                "61 seconds behind",
                "119 minutes ahead of",
                "3 hours ahead of",
                "2 days behind",
                "400 days ahead of"
            ]
        );
    }
}
