//! A TCP stream that holds a connection permit, also after an upgrade, and that lingers when HTTP closes it.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Instant, Sleep},
};

use super::{
    limits::{LINGER_BYTES, LINGER_IDLE, LINGER_TIME},
    pending::Visit,
};
use crate::metrics::Entered;

/// A TCP stream that counts as an open connection until it is dropped.
pub(super) struct Placed {
    stream: TcpStream,
    visit: Arc<Visit>,
    /// Set after the server has shut down its side.
    linger: Option<Linger>,
    _place: OwnedSemaphorePermit,
    _counted: Entered,
}

/// Discards what the client still sends after the server has closed its side.
///
/// Closing a socket with unread data resets the connection, and a reset makes the client's kernel discard the response that the
/// client has not read yet. Therefore a server that responds before it has read the whole body must continue to read until the
/// client closes its side too. Time and size are bounded, because a client may never close.
struct Linger {
    bytes_left: usize,
    end: Instant,
    idle: Pin<Box<Sleep>>,
}

impl Linger {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            bytes_left: LINGER_BYTES,
            end: now + LINGER_TIME,
            idle: Box::pin(tokio::time::sleep_until(now + LINGER_IDLE)),
        }
    }

    /// Ready when the client has closed, the connection has failed, or a limit is reached.
    fn poll_drain(&mut self, stream: &mut TcpStream, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        while self.bytes_left > 0 {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                // Nothing to read: wait for more data or for the idle timeout.
                Poll::Pending => return self.idle.as_mut().poll(context),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.bytes_left = self.bytes_left.saturating_sub(buffer.filled().len());
                    // Each read extends the wait, up to the total limit.
                    self.idle.as_mut().reset((Instant::now() + LINGER_IDLE).min(self.end));
                }
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

impl Placed {
    pub(super) fn new(stream: TcpStream, visit: Arc<Visit>, place: OwnedSemaphorePermit, counted: Entered) -> Self {
        Self { stream, visit, linger: None, _place: place, _counted: counted }
    }

    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    pub(super) fn set_nodelay(&self) -> io::Result<()> {
        self.stream.set_nodelay(true)
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        // After an upgrade the client may continue to send after our side is closed, and the conversation reads it.
        if this.visit.is_upgraded() {
            return Poll::Ready(Ok(()));
        }
        let linger = this.linger.get_or_insert_with(Linger::new);
        linger.poll_drain(&mut this.stream, context).map(Ok)
    }
}
