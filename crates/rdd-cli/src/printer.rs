//! Writes data to standard output; messages never go there.

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard},
};

/// A writer that several owners share.
#[derive(Clone)]
pub struct Stream(Arc<Mutex<Box<dyn Write + Send>>>);

impl Stream {
    /// Wraps a writer.
    pub fn new(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Box::new(writer))))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Box<dyn Write + Send>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stream")
    }
}

/// A failed write to standard output.
#[derive(Debug, thiserror::Error)]
#[error("write to standard output")]
pub struct Error(#[from] io::Error);

impl Error {
    /// Whether the reader closed the pipe, as `head` does.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Writes data for the user or for the next program of a pipeline.
#[derive(Debug, Clone)]
pub struct Printer {
    stream: Stream,
}

impl Printer {
    /// Creates a printer on this stream.
    pub fn new(stream: Stream) -> Self {
        Self { stream }
    }

    /// Writes a line, with a newline at the end.
    pub fn line(&self, text: impl fmt::Display) -> Result<(), Error> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes text unchanged.
    pub fn text(&self, text: &str) -> Result<(), Error> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes unchanged and flushes them, so that the next program of a pipeline gets them at once.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stream = self.stream.lock();
        stream.write_all(bytes)?;
        Ok(stream.flush()?)
    }
}
