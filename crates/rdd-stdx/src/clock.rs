//! Clocks as arguments: a wall clock, which can jump, and a steady clock, which cannot.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A source of time.
pub trait Clock: Debug + Send + Sync {
    /// The time since the Unix epoch, by the system's clock. It can jump in both directions between two calls.
    fn wall(&self) -> Duration;

    /// The time since a fixed origin in this process. It never goes back and never jumps.
    fn steady(&self) -> Duration;
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The system's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Creates a clock whose steady time starts now.
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

/// A clock that a test advances.
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
    /// Creates a clock with this wall time.
    pub fn shared(wall: Duration) -> Arc<Self> {
        Arc::new(Self { now: Mutex::new(Reading { wall, steady: Duration::ZERO }) })
    }

    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        now.wall += by;
        now.steady += by;
    }

    /// Sets only the wall clock, as NTP, a user or a resume from suspend does.
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
