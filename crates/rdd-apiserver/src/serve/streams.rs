//! The executor of an HTTP/2 connection: it runs brief requests in the connection's task, and all others in tasks of their own.
//!
//! A task costs more than a look-up: it has to be allocated and scheduled, and it has to wake the connection to send the
//! response.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;

use crate::request::Class;

/// The maximum number of polls in a row of a connection that wakes itself, before other tasks get their turn.
const TURNS: usize = 4;

/// Runs the requests of one connection. Clones share their state.
#[derive(Debug, Clone, Default)]
pub(super) struct Streams(Arc<Shared>);

/// The state that a connection and its requests share.
#[derive(Debug, Default)]
struct Shared {
    /// Whether the next request that hyper hands to the executor is brief.
    is_brief: AtomicBool,
    /// Whether the connection is being polled.
    is_polled: AtomicBool,
    /// Whether the connection has to be polled again.
    is_woken: AtomicBool,
    /// The waker of the connection's task.
    task: AtomicWaker,
}

impl Streams {
    /// Records the class of the next request. hyper calls the service and hands the resulting future to the executor without
    /// polling anything in between, so one flag is enough.
    pub(super) fn expect(&self, class: Class) {
        self.0.is_brief.store(class == Class::Brief, Ordering::Relaxed);
    }

    /// Wraps the connection whose requests run here.
    pub(super) fn drive<C>(&self, connection: C) -> Driven<C> {
        Driven {
            connection: Box::pin(connection),
            waker: Waker::from(Arc::clone(&self.0)),
            shared: Arc::clone(&self.0),
        }
    }
}

impl<R: Future<Output = ()> + Send + 'static> Executor<R> for Streams {
    fn execute(&self, request: R) {
        if !self.0.is_brief.swap(false, Ordering::Relaxed) {
            TokioExecutor::new().execute(request);
            return;
        }
        let mut request = Box::pin(request);
        let was_woken = self.0.is_woken.load(Ordering::Acquire);
        // A noop waker suffices: if the request is pending, its new task polls it again and registers its own waker.
        let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // A response wakes the connection. This is unnecessary here, because the connection sends what is ready before it looks
        // for more requests, so restore the flag.
        self.0.is_woken.store(was_woken, Ordering::Release);
        if polled.is_pending() {
            TokioExecutor::new().execute(request);
        }
    }
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_polled.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

/// A connection that wakes itself while it is polled, because it runs requests itself. The scheduler would treat such a task as
/// one that yields and wake another worker for it, so this future polls the connection again immediately instead.
pub(super) struct Driven<C> {
    connection: Pin<Box<C>>,
    shared: Arc<Shared>,
    waker: Waker,
}

impl<C> Driven<C> {
    /// The wrapped connection.
    pub(super) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.get_mut().connection.as_mut()
    }
}

impl<C: Future> Future for Driven<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.get_mut();
        let shared = &*this.shared;
        shared.task.register(context.waker());
        shared.is_polled.store(true, Ordering::SeqCst);
        for _ in 0..TURNS {
            shared.is_woken.store(false, Ordering::SeqCst);
            if let Poll::Ready(output) = this.connection.as_mut().poll(&mut Context::from_waker(&this.waker)) {
                return Poll::Ready(output);
            }
            if !shared.is_woken.load(Ordering::SeqCst) {
                break;
            }
        }
        // The order matters: a wake-up after the store wakes the task, and one before it is seen by the load.
        shared.is_polled.store(false, Ordering::SeqCst);
        if shared.is_woken.load(Ordering::SeqCst) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::atomic::AtomicUsize};

    use tokio::sync::oneshot;

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls once; returns whether it is ready, and how often its task was woken meanwhile.
    fn poll<C: Future>(driven: &mut Driven<C>) -> (bool, usize) {
        let woken = Arc::<Counting>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let polled = Pin::new(driven).poll(&mut Context::from_waker(&waker));
        (polled.is_ready(), woken.0.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn what_is_brief_is_done_at_once_and_the_rest_in_tasks() {
        let streams = Streams::default();
        let answer = |class: Class| {
            let (tell, mut told) = oneshot::channel();
            streams.expect(class);
            streams.execute(async move { tell.send(()).unwrap() });
            told.try_recv().is_ok()
        };
        assert!(answer(Class::Brief));
        assert!(!answer(Class::Bounded));
        assert!(!answer(Class::Endless));
        let (tell, mut told) = oneshot::channel();
        streams.execute(async move { tell.send(()).unwrap() });
        assert!(told.try_recv().is_err(), "what nobody has said anything about is not brief");
    }

    #[tokio::test]
    async fn what_has_to_wait_after_all_is_woken() {
        let streams = Streams::default();
        let (begin, begun) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        streams.expect(Class::Brief);
        streams.execute(async move {
            begun.await.unwrap();
            tell.send(()).unwrap();
        });
        begin.send(()).unwrap();
        told.await.unwrap();
    }

    #[test]
    fn a_connection_that_wakes_itself_is_polled_again_before_its_task_is_woken() {
        let polls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&polls);
        let mut driven = Streams::default().drive(poll_fn(move |context| {
            // Two polls have more to do.
            if count.fetch_add(1, Ordering::SeqCst) < 2 {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        assert_eq!(poll(&mut driven), (false, 0));
        assert_eq!(polls.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn one_that_never_has_enough_lets_others_have_their_turn() {
        let mut driven = Streams::default().drive(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        assert_eq!(poll(&mut driven), (false, 1));
    }

    #[test]
    fn who_wakes_a_connection_that_is_not_polled_wakes_its_task() {
        let streams = Streams::default();
        let mut driven = streams.drive(std::future::pending::<()>());
        let woken = Arc::<Counting>::default();
        let waker = Waker::from(Arc::clone(&woken));
        assert!(Pin::new(&mut driven).poll(&mut Context::from_waker(&waker)).is_pending());
        driven.waker.wake_by_ref();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn an_answer_given_at_once_is_no_reason_to_poll_again_and_an_earlier_one_stays() {
        for woken_before in [false, true] {
            let streams = Streams::default();
            let polls = Arc::new(AtomicUsize::new(0));
            let (count, executor) = (Arc::clone(&polls), streams.clone());
            let mut driven = streams.drive(poll_fn(move |context| {
                if count.fetch_add(1, Ordering::SeqCst) == 0 {
                    if woken_before {
                        context.waker().wake_by_ref();
                    }
                    let waker = context.waker().clone();
                    executor.expect(Class::Brief);
                    executor.execute(async move { waker.wake() });
                }
                Poll::<()>::Pending
            }));
            assert_eq!(poll(&mut driven), (false, 0));
            assert_eq!(polls.load(Ordering::SeqCst), if woken_before { 2 } else { 1 });
        }
    }
}
