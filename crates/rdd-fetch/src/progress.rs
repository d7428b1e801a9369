//! How far a download is.

use std::time::Duration;

use rdd_stdx::clock::SharedClock;
use tokio::sync::watch;

/// One moment of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// So many bytes are on disk.
    pub bytes: u64,
    /// Of so many, if that is known.
    pub total: Option<u64>,
    /// Bytes per second, lately.
    pub rate: u64,
}

impl Progress {
    /// A place to put it that others can look at: what to give to [`crate::Fetcher::fetch`], and where to look.
    pub fn channel() -> (impl Fn(Progress) + Send + Sync, watch::Receiver<Progress>) {
        let (sender, receiver) = watch::channel(Progress::default());
        let tell = move |progress| {
            sender.send_replace(progress);
        };
        (tell, receiver)
    }
}

/// Tells how far it is, not more often than somebody could look.
pub(crate) struct Meter<'a> {
    tell: &'a (dyn Fn(Progress) + Send + Sync),
    clock: SharedClock,
    told: Option<(Duration, u64)>,
    rate: u64,
}

const INTERVAL: Duration = Duration::from_millis(100);

impl<'a> Meter<'a> {
    pub(crate) fn new(tell: &'a (dyn Fn(Progress) + Send + Sync), clock: SharedClock) -> Self {
        Self { tell, clock, told: None, rate: 0 }
    }

    pub(crate) fn at(&mut self, bytes: u64, total: Option<u64>, is_last: bool) {
        let now = self.clock.steady();
        if let Some((then, before)) = self.told {
            let passed = now.saturating_sub(then);
            if passed < INTERVAL && !is_last {
                return;
            }
            if passed >= INTERVAL {
                let seconds = passed.as_secs_f64();
                let lately = bytes.saturating_sub(before) as f64 / seconds;
                // Half of what it was a second ago is forgotten.
                let kept = 0.5_f64.powf(seconds);
                let rate = if self.rate == 0 { lately } else { self.rate as f64 * kept + lately * (1.0 - kept) };
                self.rate = rate as u64;
            }
        }
        self.told = Some((now, bytes));
        (self.tell)(Progress { bytes, total, rate: self.rate });
    }
}

#[cfg(test)]
mod tests {
    use rdd_stdx::clock::ManualClock;

    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_moments_and_nobody_is_told_too_often() {
        let clock = ManualClock::shared(Duration::ZERO);
        let (tell, seen) = Progress::channel();
        let mut meter = Meter::new(&tell, clock.clone());
        meter.at(0, Some(100), false);
        clock.advance(Duration::from_millis(50));
        meter.at(10, Some(100), false);
        assert_eq!(seen.borrow().bytes, 0);
        clock.advance(Duration::from_millis(450));
        meter.at(50, Some(100), false);
        assert_eq!(*seen.borrow(), Progress { bytes: 50, total: Some(100), rate: 100 });
        meter.at(100, Some(100), true);
        assert_eq!(seen.borrow().bytes, 100);
    }
}
