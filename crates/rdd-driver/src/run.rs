//! The state of a started machine or cluster, and the channel that reports it.

use std::fmt;

use tokio::sync::watch;

/// The state of a started machine or cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It runs, but does not answer yet.
    Starting,
    /// It answers.
    Running(Health),
    /// It has ended, on request or by itself. No other state follows.
    Exited {
        /// The last line of its log, or else how it ended. One line, for people.
        last_words: String,
    },
}

/// The known problems of a running machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// One sentence per problem. Empty means healthy.
    pub errors: Vec<String>,
}

impl Health {
    /// No problems.
    pub const GOOD: Self = Self { errors: Vec::new() };

    /// Whether there is any problem.
    pub fn is_degraded(&self) -> bool {
        !self.errors.is_empty()
    }
}

/// A watch on a started machine or cluster. It always holds the latest state, so that a slow consumer misses no final state.
/// Every clone follows the same machine independently. Dropping a watch stops nothing.
#[derive(Clone)]
pub struct Run {
    states: watch::Receiver<State>,
}

/// The sender of a [`Run`]: a driver reports states to it.
#[derive(Debug)]
pub struct Reporter {
    states: watch::Sender<State>,
}

impl Run {
    /// A connected reporter and watch with this initial state.
    pub fn new(state: State) -> (Reporter, Self) {
        let reporter = Reporter { states: watch::Sender::new(state) };
        let run = reporter.watch();
        (reporter, run)
    }

    /// The latest state.
    pub fn state(&self) -> State {
        self.states.borrow().clone()
    }

    /// Waits for the next state that this watch has not returned yet. The first call returns at once.
    ///
    /// Returns `None` when no reporter remains: either the machine has exited and this watch has returned that state, or
    /// the driver was dropped and the machine has to be [adopted](crate::Driver::adopt).
    ///
    /// Cancel safe: dropping the future loses no state.
    pub async fn next(&mut self) -> Option<State> {
        // `changed` would wait for the reporter to be dropped after the final state was returned.
        let is_shown = matches!(self.states.has_changed(), Ok(false));
        if is_shown && self.is_over() {
            return None;
        }
        if self.states.changed().await.is_err() {
            return None;
        }
        Some(self.states.borrow_and_update().clone())
    }

    /// Waits until the machine has exited, and returns its last words. `None` if the reporter is gone before that.
    pub async fn exited(&mut self) -> Option<String> {
        let exited = self.states.wait_for(|state| matches!(state, State::Exited { .. })).await.ok()?;
        match &*exited {
            State::Exited { last_words } => Some(last_words.clone()),
            _ => None,
        }
    }

    /// Another watch on the same machine. Its first [`next`](Self::next) returns the current state.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let mut run = self.clone();
        // A cloned receiver has seen what the original has seen.
        run.states.mark_changed();
        run
    }

    /// Whether a driver still reports and the machine has not exited.
    pub fn is_watched(&self) -> bool {
        self.states.has_changed().is_ok() && !self.is_over()
    }

    fn is_over(&self) -> bool {
        matches!(*self.states.borrow(), State::Exited { .. })
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("state", &self.state()).finish()
    }
}

impl Reporter {
    /// Publishes a state if it differs from the last one. States after [`State::Exited`] are ignored.
    pub fn report(&self, state: State) {
        self.states.send_if_modified(|last| {
            // A second report, as of a stop and of the process's end, must not replace the first exit.
            if *last == state || matches!(last, State::Exited { .. }) {
                return false;
            }
            *last = state;
            true
        });
    }

    /// The last published state.
    pub fn state(&self) -> State {
        self.states.borrow().clone()
    }

    /// A new watch on this run.
    pub fn watch(&self) -> Run {
        let mut states = self.states.subscribe();
        states.mark_changed();
        Run { states }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(words: &str) -> State {
        State::Exited { last_words: words.to_owned() }
    }

    #[tokio::test]
    async fn a_slow_watcher_sees_the_latest_state_and_never_misses_the_end() {
        let (reporter, _) = Run::new(State::Starting);
        let mut run = reporter.watch();
        assert_eq!(run.next().await, Some(State::Starting));
        reporter.report(State::Running(Health::GOOD));
        reporter.report(exited("out of memory"));
        reporter.report(State::Starting);
        drop(reporter);
        assert!(!run.is_watched());
        assert_eq!(run.next().await, Some(exited("out of memory")), "nothing follows the end");
        assert_eq!(run.next().await, None);
        assert_eq!((run.state(), run.exited().await), (exited("out of memory"), Some("out of memory".to_owned())));
    }

    #[tokio::test]
    async fn after_the_end_nothing_is_waited_for_though_the_reporter_lives() {
        let (reporter, mut run) = Run::new(State::Starting);
        reporter.report(exited("done"));
        assert_eq!((run.next().await, run.next().await), (Some(exited("done")), None));
        assert!(!run.is_watched());
        assert_eq!(run.exited().await.as_deref(), Some("done"));
    }

    #[tokio::test]
    async fn a_driver_that_goes_away_is_no_exit() {
        let (reporter, mut run) = Run::new(State::Running(Health::GOOD));
        drop(reporter);
        assert_eq!(run.exited().await, None);
        assert_eq!(run.state(), State::Running(Health::GOOD), "for all we know it goes on");
    }
}
