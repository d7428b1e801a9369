//! Time as an argument: the wall clock, which jumps, and a steady one, which does not.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Where a component takes its time from.
pub trait Clock: Debug + Send + Sync {
    /// Time since the Unix epoch, as the machine believes it to be. It may jump either way between two calls.
    fn wall(&self) -> Duration;

    /// Time since some fixed origin of this process. It never goes back and never jumps.
    fn steady(&self) -> Duration;
}

/// A clock that several owners share.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose steady time begins now.
    pub fn shared() -> SharedClock {
        Arc::new(Self { origin: Instant::now() })
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine for the time")]
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn steady(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock that a test moves by hand.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    wall: Duration,
    steady: Duration,
}

impl ManualClock {
    /// A clock whose wall time starts at `wall`.
    pub fn shared(wall: Duration) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new(Reading { wall, steady: Duration::ZERO }) })
    }

    /// Lets time pass: both clocks move.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        now.wall += by;
        now.steady += by;
    }

    /// Sets the wall clock alone, as NTP, a user or a resumed laptop does.
    pub fn jump_to(&self, wall: Duration) {
        self.lock().wall = wall;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.now.lock().expect("no one panics while holding a test clock")
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Duration {
        self.lock().wall
    }

    fn steady(&self) -> Duration {
        self.lock().steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_wall_clock_leaves_the_steady_one_alone() {
        let clock = ManualClock::shared(Duration::from_secs(1_000));
        clock.advance(Duration::from_secs(5));
        clock.jump_to(Duration::from_secs(10));
        assert_eq!((clock.wall().as_secs(), clock.steady().as_secs()), (10, 5));
    }
}
