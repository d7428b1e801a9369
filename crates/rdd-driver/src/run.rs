//! A machine that was started: how it is doing, told to whoever watches.

use std::fmt;

use tokio::sync::watch;

/// How a started machine is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It does not answer yet.
    Starting,
    /// It answers.
    Running(Health),
    /// It has ended, asked to or not. Nothing follows.
    Exited {
        /// The last line that it logged, or else how it ended; one line, for people.
        last_words: String,
    },
}

/// What is wrong with a machine that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// One sentence for each trouble; none means that all is well.
    pub errors: Vec<String>,
}

impl Health {
    /// All is well.
    pub const GOOD: Self = Self { errors: Vec::new() };

    /// Whether something is wrong.
    pub fn is_degraded(&self) -> bool {
        !self.errors.is_empty()
    }
}

/// A watch over a started machine. It shows the latest state, so that nothing is lost on a slow watcher; clones see the
/// same machine, each for itself. Dropping it stops nothing.
#[derive(Clone)]
pub struct Run {
    states: watch::Receiver<State>,
}

/// The other end of a [`Run`]: what a driver reports to.
#[derive(Debug)]
pub struct Reporter {
    states: watch::Sender<State>,
}

impl Run {
    /// A watch and its reporter, beginning with this state.
    pub fn new(state: State) -> (Reporter, Self) {
        let reporter = Reporter { states: watch::Sender::new(state) };
        let run = reporter.watch();
        (reporter, run)
    }

    /// The latest state.
    pub fn state(&self) -> State {
        self.states.borrow().clone()
    }

    /// Waits for a state that this watch has not shown by this method yet: the first call returns at once.
    ///
    /// `None` when nobody reports any more: the machine has exited and that was shown, or its driver is gone and what
    /// runs has to be [adopted](crate::Driver::adopt).
    ///
    /// A call that is dropped before it is ready loses nothing.
    pub async fn next(&mut self) -> Option<State> {
        let is_shown = matches!(self.states.has_changed(), Ok(false));
        if is_shown && self.is_over() {
            return None;
        }
        if self.states.changed().await.is_err() {
            return None;
        }
        Some(self.states.borrow_and_update().clone())
    }

    /// Waits until the machine has exited, and returns its last words; `None` when nobody reports any more.
    pub async fn exited(&mut self) -> Option<String> {
        let exited = self.states.wait_for(|state| matches!(state, State::Exited { .. })).await.ok()?;
        match &*exited {
            State::Exited { last_words } => Some(last_words.clone()),
            _ => None,
        }
    }

    /// Another watch over the same machine, which has shown nothing yet.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let mut run = self.clone();
        run.states.mark_changed();
        run
    }

    /// Whether somebody still reports: a driver is there, and the machine has not exited.
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
    /// Tells a state, if it is another than the last. After [`State::Exited`] nothing more is told.
    pub fn report(&self, state: State) {
        self.states.send_if_modified(|last| {
            if *last == state || matches!(last, State::Exited { .. }) {
                return false;
            }
            *last = state;
            true
        });
    }

    /// The last state that was told.
    pub fn state(&self) -> State {
        self.states.borrow().clone()
    }

    /// One more watch.
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
