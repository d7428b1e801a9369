//! `/datastore/backup`: streams a consistent copy of the store to the client.

use std::{
    fs::File,
    future::Future,
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use rdd_meta::Status;
use rdd_stdx::chain::Chain;
use tokio::task::JoinHandle;

use crate::respond::{self, Body, BoxError, Response};

/// The path that serves the backup.
pub const PATH: &str = "/datastore/backup";
/// The size of one read from the snapshot, and of one frame of the body.
const CHUNK_BYTES: usize = 256 * 1024;
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/vnd.sqlite3");

/// A finished copy of the store.
#[derive(Debug)]
pub struct Snapshot {
    /// The snapshot's file, open for reading and positioned at its start.
    pub file: File,
    /// A guard that is dropped after the last byte is sent, or when the client disconnects. Its destructor removes the file.
    pub keep: Box<dyn std::fmt::Debug + Send>,
}

/// The future of a [`Snapshot`].
pub type Making = Pin<Box<dyn Future<Output = Result<Snapshot, BoxError>> + Send>>;

/// Makes a consistent copy of the store while the store is in use.
pub trait Backup: Send + Sync {
    /// Starts a new copy.
    ///
    /// # Errors
    /// The server logs an error and includes it in the response: only administrators may make a backup.
    fn make(&self) -> Making;
}

pub(crate) async fn answer(copy: Making) -> Response {
    let opened = match copy.await {
        Ok(copy) => Stream::open(copy),
        Err(error) => {
            tracing::error!(error = %Chain(&*error), "the backup could not be made");
            // The cause is not withheld: only administrators get here, and they can act on, for example, a full disk.
            return respond::status(&Status::internal(format!("the backup could not be made: {}", Chain(&*error))));
        }
    };
    match opened {
        Ok(stream) => {
            let length = stream.left;
            let mut response = Response::new(Body::new(stream));
            *response.status_mut() = StatusCode::OK;
            response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
            // With the length, a client detects a copy that was truncated.
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            response
        }
        Err(error) => {
            tracing::error!(error = %Chain(&error), "the backup could not be read");
            respond::status(&Status::internal("the backup could not be read; the server's log says why"))
        }
    }
}

/// A file as a body. The blocking pool reads it, one chunk at a time.
struct Stream {
    state: State,
    left: u64,
    _keep: Box<dyn std::fmt::Debug + Send>,
}

enum State {
    Idle(File),
    Reading(JoinHandle<(File, io::Result<Bytes>)>),
    Ended,
}

impl Stream {
    fn open(copy: Snapshot) -> io::Result<Self> {
        let left = copy.file.metadata()?.len();
        Ok(Self { state: State::Idle(copy.file), left, _keep: copy.keep })
    }
}

impl HttpBody for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            // The read takes the file by value; after an error the stream stays `Ended`.
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Poll::Ready(None),
                State::Idle(_) if self.left == 0 => return Poll::Ready(None),
                State::Idle(file) => {
                    let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
                    self.state = State::Reading(tokio::task::spawn_blocking(move || read_chunk(file, size)));
                }
                State::Reading(mut reading) => {
                    let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
                        self.state = State::Reading(reading);
                        return Poll::Pending;
                    };
                    let (file, chunk) = read?;
                    let chunk = chunk?;
                    self.left -= chunk.len() as u64;
                    self.state = State::Idle(file);
                    return Poll::Ready(Some(Ok(Frame::data(chunk))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

fn read_chunk(mut file: File, size: usize) -> (File, io::Result<Bytes>) {
    let mut chunk = vec![0; size];
    // A file that became shorter is an error, which aborts the transfer.
    let read = file.read_exact(&mut chunk).map(|()| chunk.into());
    (file, read)
}
