//! One supervising task per machine or cluster. The task reports states until the process ends or the driver cancels the task.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use rdd_stdx::task::Group;
use tokio_util::sync::CancellationToken;

use crate::{Reporter, Run, State};

/// How long a cancelled supervision task may take to end.
const LET_GO_TAKES: Duration = Duration::from_secs(5);

/// Holds at most one supervision task.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Option<Watched>>);

/// A running supervision task. It returns its reporter when it ends or is cancelled.
#[derive(Debug)]
struct Watched {
    run: Run,
    let_go: CancellationToken,
    task: Group<Reporter>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Option<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a supervision task and replaces the previous one.
    pub(crate) fn begin<S>(&self, name: &'static str, supervise: S) -> Run
    where
        S: FnOnce(&Reporter) -> BoxFuture<'_, ()> + Send + 'static,
    {
        let (reporter, run) = Run::new(State::Starting);
        let let_go = CancellationToken::new();
        let mut task = Group::default();
        let cancelled = let_go.clone();
        task.spawn(name, async move {
            tokio::select! {
                // Cancellation wins: a process that ends because of a requested stop is not reported as a crash.
                biased;
                () = cancelled.cancelled() => {}
                () = supervise(&reporter) => {}
            }
            reporter
        });
        *self.lock() = Some(Watched { run: run.clone(), let_go, task });
        run
    }

    /// A new watch of the current run. `None` if no task supervises one.
    pub(crate) fn under_way(&self) -> Option<Run> {
        let watched = self.lock();
        let run = &watched.as_ref()?.run;
        run.is_watched().then(|| run.afresh())
    }

    /// Cancels the task and returns its reporter. The caller then reports the result of the stop itself, so that it is not
    /// taken for a crash.
    pub(crate) async fn end(&self) -> Option<Reporter> {
        let mut watched = self.lock().take()?;
        watched.let_go.cancel();
        let ended = tokio::time::timeout(LET_GO_TAKES, watched.task.next()).await.ok().flatten()?;
        ended.outcome.ok()
    }
}
