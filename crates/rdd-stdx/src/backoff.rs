//! Waiting longer after each failure, up to a bound.

use std::time::Duration;

/// How long one waits after failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure; it doubles with each further one.
    pub first: Duration,
    /// It never grows beyond this.
    pub longest: Duration,
}

impl Backoff {
    /// Delays from `first` up to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The delay after this many failures in a row.
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// The delays one after the other, from the first on.
    pub const fn delays(self) -> Delays {
        Delays { backoff: self, failures: 0 }
    }
}

/// The delays of something that is tried again and again. It never ends.
#[derive(Debug, Clone)]
pub struct Delays {
    backoff: Backoff,
    failures: u32,
}

impl Delays {
    /// How long to wait now: longer each time.
    pub fn advance(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.backoff.after(self.failures)
    }

    /// It went well: the next delay is the first one again.
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
