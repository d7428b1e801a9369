//! Sets the guest's clock to the host's time before K3s creates certificates.
//!
//! K3s signs all certificates with authorities that it creates at its first start and keeps as long as its data. No
//! certificate is valid before its authority is. If the guest's clock is ahead, the certificates are not valid on the
//! host until that time, and K3s cannot replace them without a reachable cluster.

use std::time::Duration;

use rdd_stdx::{chain::Chain, clock::Clock};

use super::cluster::{Guest, QUESTION_TAKES};
use crate::Error;

/// The difference in seconds that needs no correction: less than K3s takes until its first certificate is used.
const CLOSE: u64 = 2;
/// The difference in seconds up to which a clock that cannot be set causes a warning instead of an error.
const BEARABLE: u64 = 60;
/// The beginning of 2026, in seconds since the epoch. A host whose clock shows an earlier time has a wrong clock.
const WRITTEN: Duration = Duration::from_secs(1_767_225_600);

impl Guest<'_> {
    /// Sets the guest's clock to ours if they differ.
    ///
    /// # Errors
    /// [`Error::Clock`] if it is far off and cannot be set.
    pub(super) async fn set_clock_right(&self, clock: &dyn Clock) -> Result<(), Error> {
        let vm = &self.machine.vm;
        let asked = clock.wall();
        let said = self.ask(&["clock"], QUESTION_TAKES).await?;
        let answered = clock.wall();
        let off = ahead((asked, answered), &said).ok_or_else(|| no_answer(&said))?;
        if off.unsigned_abs() <= CLOSE {
            return Ok(());
        }
        // The guest's clock may be the right one: do not set it to a wrong time.
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
            // Another program in the guest changes the clock.
            Ok(left) => Err(refusal(vm, left, "it does not stay where it is set".to_owned())),
            Err(Error::Program { message, .. }) => Err(refusal(vm, off, message)),
            Err(error) => Err(error),
        }
    }

    /// Sets the clock and returns by how many seconds the guest is ahead afterwards. `trip` is the duration of a round
    /// trip; the time is adjusted by half of it.
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

/// By how many seconds the guest is ahead, negative if it is behind; `None` if the reply has no number. A time between
/// question and reply counts as equal.
fn ahead((asked, answered): (Duration, Duration), said: &str) -> Option<i64> {
    let guest: i64 = said.trim().parse().ok()?;
    let seconds = |time: Duration| i64::try_from(time.as_secs()).ok();
    let (from, until) = (seconds(asked)?, seconds(answered)?);
    // min and max also handle a host clock that was set back during the question.
    guest.checked_sub(guest.clamp(from.min(until), until.max(from)))
}

/// The difference in words: `3 hours ahead of`.
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
            // The host's clock was set back in between.
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
