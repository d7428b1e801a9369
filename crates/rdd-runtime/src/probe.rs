//! Kill points before and after each step, at which tests end the process.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use crate::Error;

/// Before or after the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// The step has not begun.
    Before,
    /// The step has succeeded.
    After,
}

/// A kill point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Point<'a> {
    /// The name of the controller.
    pub controller: &'a str,
    /// The name of the step.
    pub step: &'a str,
    /// Before or after the step.
    pub when: When,
}

/// The decision of a [`Probe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Continue.
    Go,
    /// End everything at once, as if the process had been killed.
    Die,
}

/// Decides at each kill point whether the process goes on. Outside of tests, it is [`Unhurt`].
pub trait Probe: fmt::Debug + Send + Sync {
    /// Returns the decision for this kill point.
    fn at(&self, point: Point<'_>) -> Verdict;
}

/// The kill points of one manager. Every step runs through [`around`](Self::around).
#[derive(Debug, Clone)]
pub(crate) struct Points {
    probe: Arc<dyn Probe>,
    /// Cancelled when the probe has decided to end everything.
    dead: CancellationToken,
}

impl Points {
    pub(crate) fn new(probe: Arc<dyn Probe>) -> Self {
        Self { probe, dead: CancellationToken::new() }
    }

    /// Runs a step between its two kill points. A step that fails does not reach the second one.
    pub(crate) async fn around<T>(
        &self,
        controller: &str,
        step: &str,
        doing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        self.pass(Point { controller, step, when: When::Before }).await;
        let done = doing.await?;
        self.pass(Point { controller, step, when: When::After }).await;
        Ok(done)
    }

    /// Reaches a kill point. If the probe decides to end everything, this never returns.
    async fn pass(&self, point: Point<'_>) {
        if self.probe.at(point) == Verdict::Die {
            // The caller must not take another step. The manager sees `dead` and cancels this future.
            self.dead.cancel();
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the probe has decided to end everything.
    pub(crate) async fn dead(&self) {
        self.dead.cancelled().await;
    }
}

/// The probe that never ends anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unhurt;

impl Probe for Unhurt {
    fn at(&self, _: Point<'_>) -> Verdict {
        Verdict::Go
    }
}

/// A probe that ends everything once, when one kill point is reached for the n-th time.
#[derive(Debug)]
pub struct KillAt {
    controller: String,
    step: String,
    when: When,
    nth: u32,
    reached: AtomicU32,
}

impl KillAt {
    /// Ends everything the first time that this kill point is reached.
    pub fn first(controller: &str, step: &str, when: When) -> Self {
        Self { controller: controller.to_owned(), step: step.to_owned(), when, nth: 1, reached: AtomicU32::new(0) }
    }

    /// Parses `<controller>/<step>[:after][:N]`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let (controller, step) = words.next()?.split_once('/')?;
        let mut point = Self::first(controller, step, When::Before);
        for word in words {
            match word {
                "before" => point.when = When::Before,
                "after" => point.when = When::After,
                number => point.nth = number.parse().ok().filter(|nth| *nth > 0)?,
            }
        }
        (!controller.is_empty() && !step.is_empty()).then_some(point)
    }

    /// Whether the kill point has been reached N times.
    pub fn has_killed(&self) -> bool {
        self.reached.load(Ordering::SeqCst) >= self.nth
    }
}

impl Probe for KillAt {
    fn at(&self, point: Point<'_>) -> Verdict {
        if (point.controller, point.step, point.when) != (&*self.controller, &*self.step, self.when) {
            return Verdict::Go;
        }
        let times = self.reached.fetch_add(1, Ordering::SeqCst) + 1;
        if times == self.nth { Verdict::Die } else { Verdict::Go }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_written_as_controller_step_moment_and_time() {
        let at = |text: &str| KillAt::parse(text).map(|point| (point.controller, point.step, point.when, point.nth));
        let point = |when, nth| Some(("limavm".to_owned(), "create".to_owned(), when, nth));
        assert_eq!(at("limavm/create"), point(When::Before, 1));
        assert_eq!(at("limavm/create:after"), point(When::After, 1));
        assert_eq!(at("limavm/create:3"), point(When::Before, 3));
        assert_eq!(at("limavm/create:after:2"), point(When::After, 2));
        for text in ["", "limavm", "/create", "limavm/", "limavm/create:0", "limavm/create:soon"] {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn it_dies_once() {
        let probe = KillAt::parse("c/s:2").unwrap();
        let point = Point { controller: "c", step: "s", when: When::Before };
        let verdicts =
            [probe.at(point), probe.at(Point { when: When::After, ..point }), probe.at(point), probe.at(point)];
        assert_eq!(verdicts, [Verdict::Go, Verdict::Go, Verdict::Die, Verdict::Go]);
        assert!(probe.has_killed());
    }
}
