//! The deadline of a wait.

use std::time::{Duration, Instant};

/// The time at which a wait ends; or never.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// A deadline this long from now; `None` never passes. A time too far to represent never passes either.
    pub fn after(bound: Option<Duration>) -> Self {
        Self(bound.and_then(|bound| Instant::now().checked_add(bound)))
    }

    /// Whether the deadline has passed.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }

    /// The remaining time, at most `most`; zero after the deadline.
    pub fn left_up_to(self, most: Duration) -> Duration {
        self.0.map_or(most, |until| until.saturating_duration_since(Instant::now()).min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_nothing_has_passed_and_no_bound_never_does() {
        let second = Duration::from_secs(1);
        assert!(Deadline::after(Some(Duration::ZERO)).has_passed());
        assert_eq!(Deadline::after(Some(Duration::ZERO)).left_up_to(second), Duration::ZERO);
        assert!(!Deadline::after(None).has_passed());
        assert_eq!(Deadline::after(None).left_up_to(second), second);
        assert_eq!(Deadline::after(Some(Duration::from_secs(60))).left_up_to(second), second);
        assert!(!Deadline::after(Some(Duration::MAX)).has_passed(), "beyond what the clock can count is never");
    }
}
