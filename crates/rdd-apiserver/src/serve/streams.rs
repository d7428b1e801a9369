//! Where the requests of an HTTP/2 connection are answered: in tasks of their own, or, if they are brief, by the connection's.
//!
//! A task costs more than a look-up: room for it, a place in a queue, and the connection has to be woken to send what it has
//! answered.

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

/// How often in a row a connection that was woken while it was polled is polled, before others have their turn.
const TURNS: usize = 4;

/// Runs the requests of one connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Streams(Arc<Shared>);

/// What a connection and its requests share.
#[derive(Debug, Default)]
struct Shared {
    /// The request that comes next is.
    is_brief: AtomicBool,
    /// The connection is being polled.
    is_polled: AtomicBool,
    /// It has to be polled again.
    is_woken: AtomicBool,
    /// The connection's task.
    task: AtomicWaker,
}

impl Streams {
    /// The next request is of this class. hyper asks for an answer and hands it over in one go, so there is only one at a time.
    pub(super) fn expect(&self, class: Class) {
        self.0.is_brief.store(class == Class::Brief, Ordering::Relaxed);
    }

    /// The connection whose requests these are.
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
        // If it has to wait after all, the task looks at it anew and is the one to be woken.
        let polled = request.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // An answer wakes the connection to send it. It was about to look for more requests, and sends what there is before it does.
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

/// A connection that answers requests itself, and so wakes itself while it is polled. To the scheduler that would be a task that yields,
/// for which it wakes another worker; so whoever is woken then is polled again at once.
pub(super) struct Driven<C> {
    connection: Pin<Box<C>>,
    shared: Arc<Shared>,
    waker: Waker,
}

impl<C> Driven<C> {
    /// The connection itself.
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
        // In this order: who wakes it from now on tells the task.
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

    /// Polls once; whether it is over, and how often its task was woken meanwhile.
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
            // Twice there is more to do.
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
