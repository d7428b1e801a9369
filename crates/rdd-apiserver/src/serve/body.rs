//! Wraps response bodies: counts requests in flight until their bodies end, enforces deadlines, ends watches at shutdown, and
//! contains panics.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rdd_stdx::task::panic_message;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::respond::{Body, BoxError};

/// The reason that a body was cut off. The client sees an aborted transfer, never a seemingly complete one.
#[derive(Debug, thiserror::Error)]
pub(super) enum CutOff {
    #[error("the response took longer than the request timeout")]
    Timeout,
    #[error("the handler panicked while it was responding")]
    Panic,
}

/// Tracks the response bodies that have no deadline, such as backups, and their progress.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    open: AtomicUsize,
    frames: AtomicU64,
}

impl Transfers {
    /// Returns the number of open transfers, and a counter that changes whenever one of them makes progress.
    pub(super) fn observe(&self) -> (usize, u64) {
        (self.open.load(Ordering::SeqCst), self.frames.load(Ordering::SeqCst))
    }
}

/// A guard that counts one transfer in [`Transfers`] until it is dropped.
struct Transfer(Arc<Transfers>);

impl Transfer {
    fn begin(transfers: &Arc<Transfers>) -> Self {
        transfers.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(transfers))
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The body of a handler's response, with the guard and the ends that belong to its request.
pub(super) struct Guarded<G> {
    /// The body and the guard; `None` after the end.
    inner: Option<(Body, G)>,
    /// Ends the body without an error.
    stopping: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Ends the body with [`CutOff::Timeout`].
    deadline: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Counts the frames that are sent.
    transfer: Option<Transfer>,
}

impl<G> Guarded<G> {
    /// Wraps a body. `guard` is dropped when the body has ended or the connection drops the body.
    pub(super) fn new(body: Body, guard: G) -> Self {
        Self { inner: Some((body, guard)), stopping: None, deadline: None, transfer: None }
    }

    /// Ends the body without an error when the token is cancelled.
    pub(super) fn until_cancelled(mut self, stopping: WaitForCancellationFutureOwned) -> Self {
        self.stopping = Some(Box::pin(stopping));
        self
    }

    /// Cuts the body off at the deadline.
    pub(super) fn until(mut self, deadline: tokio::time::Instant) -> Self {
        self.deadline = Some(Box::pin(tokio::time::sleep_until(deadline)));
        self
    }

    /// Tracks the body among the transfers: it has no deadline, and shutdown waits for it only as long as it makes progress.
    pub(super) fn with_transfer(mut self, transfers: &Arc<Transfers>) -> Self {
        self.transfer = Some(Transfer::begin(transfers));
        self
    }

    fn poll_inner(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Some((body, _)) = &mut self.inner else { return Poll::Ready(None) };
        let polled = catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(context)));
        polled.unwrap_or_else(|payload| {
            tracing::error!(panic = panic_message(&*payload), "a handler panicked while it was responding");
            Poll::Ready(Some(Err(CutOff::Panic.into())))
        })
    }
}

impl<G: Unpin> HttpBody for Guarded<G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Check the ends first: a body that always has a frame ready would otherwise never end.
        let polled = if self.stopping.as_mut().is_some_and(|stop| stop.as_mut().poll(context).is_ready()) {
            Poll::Ready(None)
        } else if self.deadline.as_mut().is_some_and(|end| end.as_mut().poll(context).is_ready()) {
            Poll::Ready(Some(Err(CutOff::Timeout.into())))
        } else {
            self.poll_inner(context)
        };
        if let (Poll::Ready(_), Some(transfer)) = (&polled, &self.transfer) {
            transfer.0.frames.fetch_add(1, Ordering::SeqCst);
        }
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            // The request is over now, even if the connection keeps this body for longer.
            self.inner = None;
            self.transfer = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), |(body, _)| body.size_hint())
    }
}
