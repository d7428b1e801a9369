//! The watch over something that runs: a task tells how it is doing, until it is over or the task is told to let go.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::BoxFuture;
use rdd_stdx::task::Group;
use tokio_util::sync::CancellationToken;

use crate::{Reporter, Run, State};

/// How long a task that watches may take to let go.
const LET_GO_TAKES: Duration = Duration::from_secs(5);

/// The place of one watch.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Option<Watched>>);

/// What a task watches. The task gives back its reporter when it is told to let go.
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

    /// Watches from now on, in place of what was watched before.
    pub(crate) fn begin<S>(&self, name: &'static str, supervise: S) -> Run
    where
        S: FnOnce(&Reporter) -> BoxFuture<'_, ()> + Send + 'static,
    {
        let (reporter, run) = Run::new(State::Starting);
        let let_go = CancellationToken::new();
        let mut task = Group::default();
        let told = let_go.clone();
        task.spawn(name, async move {
            tokio::select! {
                biased;
                () = told.cancelled() => {}
                () = supervise(&reporter) => {}
            }
            reporter
        });
        *self.lock() = Some(Watched { run: run.clone(), let_go, task });
        run
    }

    /// The watch over something that is under way.
    pub(crate) fn under_way(&self) -> Option<Run> {
        let watched = self.lock();
        let run = &watched.as_ref()?.run;
        run.is_watched().then(|| run.afresh())
    }

    /// Ends the watch, so that what follows is not taken for a crash.
    pub(crate) async fn end(&self) -> Option<Reporter> {
        let mut watched = self.lock().take()?;
        watched.let_go.cancel();
        let ended = tokio::time::timeout(LET_GO_TAKES, watched.task.next()).await.ok().flatten()?;
        ended.outcome.ok()
    }
}
