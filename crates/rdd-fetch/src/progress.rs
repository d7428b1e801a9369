//! The progress of a download.

use std::time::Duration;

use rdd_stdx::clock::SharedClock;
use tokio::sync::watch;

/// The progress at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The bytes on disk.
    pub bytes: u64,
    /// The total number of bytes, if known.
    pub total: Option<u64>,
    /// The recent rate in bytes per second.
    pub rate: u64,
}

impl Progress {
    /// Creates a callback for [`crate::Fetcher::fetch`] and a receiver of the latest progress.
    pub fn channel() -> (impl Fn(Progress) + Send + Sync, watch::Receiver<Progress>) {
        let (sender, receiver) = watch::channel(Progress::default());
        let tell = move |progress| {
            sender.send_replace(progress);
        };
        (tell, receiver)
    }
}

/// Reports progress at a limited rate.
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
                // Exponential moving average: the weight of older rates halves every second.
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
