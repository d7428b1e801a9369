//! Waits until a condition holds, with a timeout instead of a guessed delay.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

use rdd_stdx::backoff::Backoff;

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));

/// The result of one check of a condition: it holds, or it does not yet.
pub trait Probe {
    /// The value that is available once the condition holds.
    type Found;

    /// The value, or a description of what was observed instead.
    fn look(self) -> Result<Self::Found, String>;
}

impl<T> Probe for Option<T> {
    type Found = T;

    fn look(self) -> Result<T, String> {
        self.ok_or_else(|| "it did not hold".to_owned())
    }
}

/// The error is what a timeout reports as last seen.
impl<T, E: Display> Probe for Result<T, E> {
    type Found = T;

    fn look(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

/// Checks repeatedly until the condition holds, and returns the value.
///
/// It is level-triggered: the probe must report the current state, not an event. It is called at once, then after growing delays of at most
/// 100 ms, and once more after the timeout.
///
/// # Panics
///
/// If the condition does not hold `within` this time, with `what` was awaited and what was seen last.
#[track_caller]
pub fn eventually<P: Probe>(what: &str, within: Duration, mut probe: impl FnMut() -> P) -> P::Found {
    let deadline = Instant::now() + within;
    let mut delays = BACKOFF.delays();
    let mut last_chance = false;
    loop {
        match probe().look() {
            Ok(found) => return found,
            Err(seen) if last_chance => panic!("waited {within:?} for {what}; last seen: {seen}"),
            Err(_) => {}
        }
        std::thread::sleep(delays.advance().min(deadline.saturating_duration_since(Instant::now())));
        last_chance = Instant::now() >= deadline;
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use rdd_stdx::task::panic_message;

    use super::*;

    #[test]
    fn it_returns_what_was_found_at_the_first_look_that_holds() {
        let mut looks = 0;
        let found = eventually("the third look", Duration::from_secs(10), || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!((found, looks), (3, 3));
    }

    #[test]
    fn a_time_out_says_what_was_awaited_and_what_was_seen_last() {
        let panic = catch_unwind(|| {
            eventually("two replicas", Duration::from_millis(5), || Err::<(), _>("one replica"));
        });
        let message = panic_message(&*panic.unwrap_err());
        assert_eq!(message, "waited 5ms for two replicas; last seen: one replica");
    }

    #[test]
    fn it_looks_at_least_twice_however_short_the_time() {
        let mut looks = 0;
        eventually("the second look", Duration::ZERO, || {
            looks += 1;
            (looks > 1).then_some(())
        });
        assert_eq!(looks, 2);
    }
}
