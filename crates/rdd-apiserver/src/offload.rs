//! Moves CPU-heavy work off the async workers, so that it does not delay other requests.
//!
//! A request that parses, merges or validates a large object computes for tens of milliseconds. On an async worker this delays
//! every task that the runtime has queued there, `/livez` included. Therefore a request announces the size of its work
//! ([`announce`]) before it starts. From then on the future around the request ([`offload`]) runs every poll inside tokio's
//! `block_in_place`, which hands the worker's queue to another thread. A semaphore limits these polls to one per core; other
//! heavy requests wait for a permit without blocking a thread.
//! For code that is not in a future, such as bodies that are produced while they are sent, [`run`] does the same for one call.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, ready},
    thread::available_parallelism,
};

use pin_project_lite::pin_project;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::{Semaphore, SemaphorePermit},
    task::block_in_place,
};

/// The size of JSON from which work counts as heavy. A write parses, merges, validates and encodes an object at about 100 ns per
/// byte if the object consists of small list items, so work of this size may take 10 ms.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;

/// The size to announce for work whose duration does not depend on the size of an object, such as compiling a schema.
pub(crate) const UNBOUNDED: usize = usize::MAX;

/// One permit per core. It may be a static because the number of cores is a property of the machine, not of a server.
static CPU_SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, usize::from)));

thread_local! {
    /// Whether the future that this thread is polling has announced heavy work.
    static IS_HEAVY: Cell<bool> = const { Cell::new(false) };
}

/// Announces work on this many bytes. If the work is heavy, the caller continues off the async workers.
pub(crate) async fn announce(bytes: usize) {
    if bytes < HEAVY_BYTES || IS_HEAVY.get() {
        return;
    }
    // `Offload` sees the flag when this poll returns, and offloads the next one.
    IS_HEAVY.set(true);
    yield_once().await;
}

/// Yields between two stages of heavy work, so that other heavy requests get a permit and a request whose deadline has passed
/// ends here.
pub(crate) async fn pause() {
    if IS_HEAVY.get() {
        yield_once().await;
    }
}

/// Is pending once, and ready when it is polled again.
fn yield_once() -> impl Future<Output = ()> {
    let mut has_yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Runs a function that works on this many bytes, off the async workers if the work is heavy.
pub(crate) fn run<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    if bytes < HEAVY_BYTES || IS_HEAVY.get() { work() } else { leave_worker(work) }
}

/// Runs `work` after handing the worker's queue to another thread. A current-thread runtime has no other thread, so there `work`
/// simply runs.
fn leave_worker<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => block_in_place(work),
        _ => work(),
    }
}

/// Wraps a future so that it can announce heavy work. Without this wrapper, [`announce`] only yields.
pub(crate) fn offload<F: Future>(work: F) -> Offload<F> {
    Offload { work, is_heavy: false, waiting: None }
}

type AcquireSlot = Pin<Box<dyn Future<Output = Option<SemaphorePermit<'static>>> + Send>>;

pin_project! {
    /// The future that [`offload`] returns.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct Offload<F> {
        #[pin]
        work: F,
        is_heavy: bool,
        // The pending acquisition of a permit.
        waiting: Option<AcquireSlot>,
    }
}

impl<F: Future> Future for Offload<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if !*this.is_heavy {
            let _restored = Restore(IS_HEAVY.replace(false));
            let polled = this.work.poll(context);
            *this.is_heavy = IS_HEAVY.get();
            return polled;
        }
        // The permit is held for one poll only: a future that waits for something else does not keep it.
        let waiting = this.waiting.get_or_insert_with(|| Box::pin(async { CPU_SLOTS.acquire().await.ok() }));
        let _slot = ready!(waiting.as_mut().poll(context));
        *this.waiting = None;
        let _restored = Restore(IS_HEAVY.replace(true));
        leave_worker(|| this.work.poll(context))
    }
}

/// Restores the flag of the outer future, also after a panic.
struct Restore(bool);

impl Drop for Restore {
    fn drop(&mut self) {
        IS_HEAVY.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::{Duration, Instant},
    };

    use rdd_stdx::task::Group;

    use super::*;

    /// Computes for a while.
    fn compute(time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    // Finding A-2
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn heavy_work_does_not_hold_up_the_only_worker() {
        let mut tasks = Group::default();
        let (started, has_started) = tokio::sync::oneshot::channel();
        tasks.spawn(
            "heavy",
            offload(async move {
                announce(HEAVY_BYTES).await;
                started.send(()).unwrap();
                compute(Duration::from_secs(1));
            }),
        );
        let began = Instant::now();
        has_started.await.unwrap();
        tasks.spawn("light", async {});
        tasks.next().await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(900), "the light task waited for the heavy one");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn work_that_waits_for_others_holds_no_slot() {
        let many = available_parallelism().map_or(1, usize::from) * 4;
        let mut tasks = Group::default();
        for _ in 0..many {
            tasks.spawn(
                "waiting",
                offload(async {
                    announce(UNBOUNDED).await;
                    std::future::pending::<()>().await;
                }),
            );
        }
        let done = offload(async {
            announce(UNBOUNDED).await;
            compute(Duration::from_millis(1));
        });
        tokio::time::timeout(Duration::from_secs(30), done).await.expect("a slot is free");
    }

    // Finding A-2
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn heavy_work_ends_at_the_first_pause_after_its_deadline() {
        let stages = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&stages);
        let work = offload(async move {
            announce(HEAVY_BYTES).await;
            for _ in 0..50 {
                counted.fetch_add(1, Ordering::SeqCst);
                compute(Duration::from_millis(20));
                pause().await;
            }
        });
        tokio::time::timeout(Duration::from_millis(100), work).await.expect_err("nothing else ends it");
        // A stage that began in time may end late; the rest is tolerance for a busy machine, where stages take longer.
        let done = stages.load(Ordering::SeqCst);
        assert!((1..=7).contains(&done), "{done} stages in the time of 5");
    }

    #[tokio::test]
    async fn a_runtime_with_one_thread_does_heavy_work_itself() {
        assert_eq!(
            offload(async {
                announce(UNBOUNDED).await;
                run(UNBOUNDED, || 7)
            })
            .await,
            7
        );
        assert!(!IS_HEAVY.get(), "the mark does not outlive its future");
    }

    #[tokio::test]
    async fn light_work_is_not_interrupted() {
        let mut light = std::pin::pin!(offload(announce(HEAVY_BYTES - 1)));
        assert!(futures_util::FutureExt::now_or_never(light.as_mut()).is_some());
        let mut heavy = std::pin::pin!(offload(announce(HEAVY_BYTES)));
        assert!(futures_util::FutureExt::now_or_never(heavy.as_mut()).is_none());
    }
}
