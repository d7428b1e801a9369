//! The supervisor of a manager's tasks: it logs a task that ends, reports it as down, and restarts it with backoff.

use std::{
    collections::BTreeMap,
    fmt,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use rdd_stdx::{
    backoff::Backoff,
    chain::Chain,
    task::{Group, panic_message},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The backoff between restarts of a task.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
/// A task that ran for this long is restarted with the first delay.
const STABLE: Duration = Duration::from_mins(1);

/// Runs the tasks of a manager. Cheap to clone.
///
/// # Guarantees
/// - A task that returns, fails or panics is restarted until the shutdown begins.
/// - When the last clone is dropped, or at [`cut`](Self::cut), all tasks are cancelled.
#[derive(Clone)]
pub(crate) struct Supervisor(Arc<Inner>);

struct Inner {
    tasks: Mutex<Tasks>,
    down: Arc<Mutex<BTreeMap<String, String>>>,
    shutdown: CancellationToken,
}

#[derive(Default)]
struct Tasks {
    group: Group<()>,
    /// Set when the end has begun: no task is started any more.
    is_closed: bool,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor").field("down", &self.down()).finish()
    }
}

impl Supervisor {
    /// A supervisor whose tasks end when `shutdown` is cancelled.
    pub(crate) fn new(shutdown: CancellationToken) -> Self {
        Self(Arc::new(Inner { tasks: Mutex::default(), down: Arc::default(), shutdown }))
    }

    /// Starts a task, and restarts it with backoff whenever it ends before the shutdown.
    pub(crate) fn start(
        &self,
        name: String,
        run: impl Fn() -> BoxFuture<'static, Result<(), Error>> + Send + Sync + 'static,
    ) {
        let (down, shutdown) = (Arc::clone(&self.0.down), self.0.shutdown.clone());
        let mut tasks = self.tasks();
        // After the end has begun, a new task would outlive it.
        if !tasks.is_closed {
            tasks.group.spawn("supervised", keep_running(name, run, down, shutdown));
        }
    }

    /// The tasks that wait for a restart, each with the reason why it ended.
    pub(crate) fn down(&self) -> BTreeMap<String, String> {
        self.0.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until all tasks have ended, after the shutdown began or after [`cut`](Self::cut).
    pub(crate) async fn ended(&self) {
        let mut group = {
            let mut tasks = self.tasks();
            tasks.is_closed = true;
            std::mem::take(&mut tasks.group)
        };
        // The lock is released before this wait, because a task may call the supervisor.
        while group.next().await.is_some() {}
    }

    /// Cancels all tasks at their next await, as if the process had been killed. A task that is running may hold its resources a little
    /// longer: a caller that needs them free waits for [`ended`](Self::ended).
    pub(crate) fn cut(&self) {
        let mut tasks = self.tasks();
        tasks.is_closed = true;
        tasks.group.cancel();
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn keep_running(
    name: String,
    run: impl Fn() -> BoxFuture<'static, Result<(), Error>> + Send + Sync,
    down: Arc<Mutex<BTreeMap<String, String>>>,
    shutdown: CancellationToken,
) {
    let mut delays = BACKOFF.delays();
    while !shutdown.is_cancelled() {
        let began = Instant::now();
        down.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        // `run` itself may panic too, so it is called inside the future that catches panics.
        let ended = async { run().await };
        let ended = tokio::select! {
            ended = AssertUnwindSafe(ended).catch_unwind() => ended,
            () = shutdown.cancelled() => return,
        };
        // A task that ends because of the shutdown has not failed.
        if shutdown.is_cancelled() {
            return;
        }
        let why = match ended {
            Ok(Ok(())) => "it ended by itself".to_owned(),
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(panic) => format!("panicked: {}", panic_message(&*panic)),
        };
        if began.elapsed() > STABLE {
            delays.reset();
        }
        let delay = delays.advance();
        tracing::error!(task = name, error = why, ?delay, "a task ended and is started again");
        down.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), why);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_fails_or_panics_is_shown_and_started_again() {
        let shutdown = CancellationToken::new();
        let supervisor = Supervisor::new(shutdown.clone());
        let starts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&starts);
        supervisor.start("shaky".to_owned(), move || {
            let start = counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                match start {
                    0 => Err(Error::message("no disk")),
                    1 => panic!("no luck"),
                    _ => std::future::pending().await,
                }
            })
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(supervisor.down()["shaky"], "no disk");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(supervisor.down()["shaky"], "panicked: no luck");
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!((supervisor.down().len(), starts.load(Ordering::SeqCst)), (0, 3));
        shutdown.cancel();
        supervisor.ended().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_was_cut_has_let_go_of_everything_when_it_has_ended() {
        let supervisor = Supervisor::new(CancellationToken::new());
        let held = Arc::new(());
        let (begun, holding) = (Arc::new(tokio::sync::Notify::new()), Arc::clone(&held));
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (tells, released) = (Arc::clone(&begun), Arc::new(Mutex::new(released)));
        supervisor.start("busy".to_owned(), move || {
            let (tells, holding, released) = (Arc::clone(&tells), Arc::clone(&holding), Arc::clone(&released));
            Box::pin(async move {
                tells.notify_one();
                // A step without an await, which no cancellation interrupts.
                released.lock().unwrap().recv().unwrap();
                std::future::pending::<()>().await;
                drop(holding);
                Ok(())
            })
        });
        begun.notified().await;
        supervisor.cut();
        let mut ended = std::pin::pin!(supervisor.ended());
        assert_eq!(ended.as_mut().now_or_never(), None, "the step is not over");
        release.send(()).unwrap();
        ended.await;
        assert_eq!(Arc::strong_count(&held), 1);
        supervisor.start("late".to_owned(), || panic!("nothing is started after the end"));
        supervisor.ended().await;
        assert!(supervisor.down().is_empty());
    }
}
