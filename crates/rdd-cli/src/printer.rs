//! The only writer to standard output: data, never messages.

use std::{
    fmt,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard},
};

/// A stream that several owners write to.
#[derive(Clone)]
pub struct Stream(Arc<Mutex<Box<dyn Write + Send>>>);

impl Stream {
    /// Wraps anything that can be written to.
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

/// Data that could not be delivered.
#[derive(Debug, thiserror::Error)]
#[error("write to standard output")]
pub struct Error(#[from] io::Error);

impl Error {
    /// Whether the reader went away, as `head` does when it has seen enough.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Writes data for the user or for the next program in the pipe.
#[derive(Debug, Clone)]
pub struct Printer {
    stream: Stream,
}

impl Printer {
    /// A printer on this stream.
    pub fn new(stream: Stream) -> Self {
        Self { stream }
    }

    /// Writes a line.
    pub fn line(&self, text: impl fmt::Display) -> Result<(), Error> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// Writes text as it is.
    pub fn text(&self, text: &str) -> Result<(), Error> {
        self.bytes(text.as_bytes())
    }

    /// Writes bytes as they are, and flushes: the next program waits for them.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stream = self.stream.lock();
        stream.write_all(bytes)?;
        Ok(stream.flush()?)
    }
}
