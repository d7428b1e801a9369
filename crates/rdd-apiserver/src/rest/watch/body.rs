//! A watch as the body of a response.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};

use super::session::Session;
use crate::{represent::frames::Gather, respond::BoxError};

/// What waits for the next events: it has the session while it waits, and gives it back with what it gathered.
type Step = Pin<Box<dyn Future<Output = (Box<Session>, Gather)> + Send>>;

/// The events of a session. It asks for more only when the client has taken what was there: one that does not read holds a
/// frame or two and its place in the history.
pub(super) struct WatchBody {
    ready: Gather,
    /// `None` once it has ended.
    step: Option<Step>,
}

impl WatchBody {
    pub(super) fn new(session: Session) -> Self {
        Self { ready: Gather::default(), step: Some(step(Box::new(session))) }
    }
}

fn step(mut session: Box<Session>) -> Step {
    Box::pin(async move {
        let mut gather = Gather::default();
        session.gather(&mut gather).await;
        gather.close();
        (session, gather)
    })
}

impl HttpBody for WatchBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(piece) = self.ready.next() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let Some(waiting) = &mut self.step else { return Poll::Ready(None) };
            let (session, gathered) = match waiting.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(told) => told,
            };
            self.ready = gathered;
            self.step = (!session.has_ended()).then(|| step(session));
        }
    }
}
