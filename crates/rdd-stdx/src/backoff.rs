//! Exponential backoff with a maximum delay.

use std::time::Duration;

/// The delays after consecutive failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The delay after the first failure; it doubles with each further one.
    pub first: Duration,
    /// The maximum delay.
    pub longest: Duration,
}

impl Backoff {
    /// Creates a backoff from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The delay after this many consecutive failures.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// An iterator-like sequence of the delays, from the first one.
    pub const fn delays(self) -> Delays {
        Delays { backoff: self, failures: 0 }
    }
}

/// The delays of a retry loop. The sequence does not end.
#[derive(Debug, Clone)]
pub struct Delays {
    backoff: Backoff,
    failures: u32,
}

impl Delays {
    /// Returns the next delay, which is longer than the previous one up to the maximum.
    pub fn advance(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.after(self.failures)
    }

    /// Resets the sequence after a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_mins(3));

    #[test]
    fn the_delay_doubles_up_to_a_bound() {
        let millis: Vec<_> = (0..=5).map(|failures| BACKOFF.after(failures).as_millis()).collect();
        assert_eq!(millis, [5, 5, 10, 20, 40, 80]);
        let longest = Duration::from_mins(3);
        assert_eq!(
            (BACKOFF.after(16), BACKOFF.after(17), BACKOFF.after(u32::MAX)),
            (Duration::from_millis(163_840), longest, longest)
        );
    }

    #[test]
    fn delays_grow_until_it_goes_well() {
        let mut delays = BACKOFF.delays();
        let mut three = || [(); 3].map(|()| delays.advance().as_millis());
        assert_eq!(three(), [5, 10, 20]);
        assert_eq!(three(), [40, 80, 160]);
        delays.reset();
        assert_eq!(delays.advance(), BACKOFF.first);
    }
}
