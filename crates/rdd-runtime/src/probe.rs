//! A place before and after every step, where tests make the process die.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use crate::Error;

/// When, as seen from the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum When {
    /// It has not begun.
    Before,
    /// It has been done, well.
    After,
}

/// A place in the life of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Point<'a> {
    /// The controller's name.
    pub controller: &'a str,
    /// The step's name.
    pub step: &'a str,
    /// Before or after it.
    pub when: When,
}

/// What the runtime is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Go,
    /// Stop everything at once, as if the process had been killed.
    Die,
}

/// Asked at every point.
pub trait Probe: fmt::Debug + Send + Sync {
    /// Decides what happens there.
    fn at(&self, point: Point<'_>) -> Verdict;
}

/// The points of one manager: whoever takes a step takes it through here.
#[derive(Debug, Clone)]
pub(crate) struct Points {
    probe: Arc<dyn Probe>,
    /// Cancelled when the probe says that all of it is to end as if it had been killed.
    dead: CancellationToken,
}

impl Points {
    pub(crate) fn new(probe: Arc<dyn Probe>) -> Self {
        Self { probe, dead: CancellationToken::new() }
    }

    /// Takes a step, with a point before it and, if it went well, one after it.
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

    /// Goes on, unless the probe says that all of it is to end here.
    async fn pass(&self, point: Point<'_>) {
        if self.probe.at(point) == Verdict::Die {
            self.dead.cancel();
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the probe has said so.
    pub(crate) async fn dead(&self) {
        self.dead.cancelled().await;
    }
}

/// Never stops anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unhurt;

impl Probe for Unhurt {
    fn at(&self, _: Point<'_>) -> Verdict {
        Verdict::Go
    }
}

/// Dies at one point, the given time that it is reached; never again.
#[derive(Debug)]
pub struct KillAt {
    controller: String,
    step: String,
    when: When,
    nth: u32,
    reached: AtomicU32,
}

impl KillAt {
    /// The first time that this point is reached.
    pub fn first(controller: &str, step: &str, when: When) -> Self {
        Self { controller: controller.to_owned(), step: step.to_owned(), when, nth: 1, reached: AtomicU32::new(0) }
    }

    /// Reads `<controller>/<step>[:after][:N]`.
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

    /// Whether it was reached so often that it killed.
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
