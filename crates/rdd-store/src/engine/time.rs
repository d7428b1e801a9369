//! Store time: a clock that changes of the wall clock do not affect.

use std::time::Duration;

use rdd_stdx::clock::SharedClock;

use super::row::State;

/// Milliseconds that never go back: the time of the last write plus what passed since by the steady clock.
#[derive(Debug)]
pub(crate) struct StoreTime {
    clock: SharedClock,
    base: u64,
    origin: Duration,
}

impl StoreTime {
    /// Continues from the last write. Of the time since, by the wall clock, at most `closed_max` counts.
    pub(crate) fn resume(clock: SharedClock, state: &State, closed_max: Duration) -> Self {
        let base = resumed(state, millis(clock.wall()), millis(closed_max));
        let origin = clock.steady();
        Self { clock, base, origin }
    }

    pub(crate) fn now(&self) -> u64 {
        self.base + millis(self.clock.steady().saturating_sub(self.origin))
    }

    pub(crate) fn wall(&self) -> u64 {
        millis(self.clock.wall())
    }

    pub(crate) fn steady(&self) -> Duration {
        self.clock.steady()
    }
}

/// A new store starts at the wall-clock time, so that its times are readable.
fn resumed(state: &State, wall: u64, closed_max: u64) -> u64 {
    if state.time == 0 { wall } else { state.time + wall.saturating_sub(state.wall).min(closed_max) }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(time: u64, wall: u64) -> State {
        State { time, wall, ..State::default() }
    }

    #[test]
    fn time_continues_where_it_was_whatever_the_wall_clock_says() {
        assert_eq!(resumed(&state(0, 0), 5_000, 100), 5_000, "a new store takes the wall clock's");
        assert_eq!(resumed(&state(1_000, 9_000), 9_040, 100), 1_040, "a short pause counts");
        assert_eq!(resumed(&state(1_000, 9_000), 99_000, 100), 1_100, "a long one counts up to the bound");
        assert_eq!(resumed(&state(1_000, 9_000), 3_000, 100), 1_000, "a clock set back counts nothing");
    }
}
