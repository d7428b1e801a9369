//! The reply to a request, for async tasks and for threads.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::oneshot;

use crate::Error;

/// The pending result of a request. Await it in a task, or [`wait`](Self::wait) for it in a thread.
#[derive(Debug)]
#[must_use = "a request's outcome is in its reply"]
pub struct Reply<T>(State<T>);

#[derive(Debug)]
enum State<T> {
    /// `None` once taken.
    Ready(Option<Result<T, Error>>),
    Waiting(oneshot::Receiver<Result<T, Error>>),
}

/// The sending half of a [`Reply`]. Dropped unused, it makes the reply [`Error::Closed`].
#[derive(Debug)]
pub(crate) struct Answer<T>(oneshot::Sender<Result<T, Error>>);

impl<T> Reply<T> {
    /// A reply with a result that is already known.
    pub fn ready(result: Result<T, Error>) -> Self {
        Self(State::Ready(Some(result)))
    }

    pub(crate) fn pair() -> (Answer<T>, Self) {
        let (sender, receiver) = oneshot::channel();
        (Answer(sender), Self(State::Waiting(receiver)))
    }

    /// Blocks this thread until the result is there. Panics in an asynchronous task: await the reply there.
    pub fn wait(self) -> Result<T, Error> {
        match self.0 {
            State::Ready(result) => result.unwrap_or(Err(Error::Closed)),
            State::Waiting(receiver) => receiver.blocking_recv().unwrap_or(Err(Error::Closed)),
        }
    }
}

impl<T> Answer<T> {
    /// Sends the result. It is dropped if the caller has dropped the reply.
    pub(crate) fn send(self, result: Result<T, Error>) {
        let _ = self.0.send(result);
    }
}

/// Nothing is pinned structurally: the receiver is `Unpin`, and a ready value is moved out.
impl<T> Unpin for Reply<T> {}

impl<T> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.0 {
            State::Ready(result) => result.take().expect("a reply is not polled after it was taken"),
            State::Waiting(receiver) => ready!(Pin::new(receiver).poll(context)).unwrap_or(Err(Error::Closed)),
        };
        self.0 = State::Ready(None);
        Poll::Ready(result)
    }
}
