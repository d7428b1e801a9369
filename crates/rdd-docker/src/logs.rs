//! Container logs: a stream of bytes, demultiplexed into stdout and stderr unless the container has a TTY.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes, BytesMut};
use futures::Stream;
use hyper::body::{Body as _, Incoming};

use crate::{Container, Engine, Error, client::name};

/// The length of a frame header in a multiplexed stream.
const HEADER_BYTES: usize = 8;

/// Which part of the log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether to continue with new output at the end.
    pub follow: bool,
    /// The number of last lines, or `all`.
    pub tail: Option<String>,
    /// The start time in the engine's format: seconds since the epoch, optionally with a fraction.
    pub since: Option<String>,
    /// Whether to prefix each line with its time.
    pub timestamps: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { follow: true, tail: None, since: None, timestamps: false }
    }
}

/// The output stream of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The terminal of a container with a TTY.
    Terminal,
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// A piece of a log. Its boundaries have no meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The output stream.
    pub output: Output,
    /// The bytes.
    pub bytes: Bytes,
}

/// The stream of [`Engine::logs`]. It reads from the connection only when polled; dropping it closes the connection.
pub struct Logs {
    body: Pin<Box<Incoming>>,
    split: Option<Splitter>,
    what: String,
    is_over: bool,
}

impl fmt::Debug for Logs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logs").field("what", &self.what).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the log of a container that [`Engine::container`] returned; `None` if it no longer exists.
    ///
    /// # Errors
    /// When the engine refuses or does not answer.
    pub async fn logs(&self, container: &Container, options: &LogOptions) -> Result<Option<Logs>, Error> {
        let id = name("container", &container.id)?;
        let mut path = format!("/containers/{id}/logs?stdout=1&stderr=1");
        for (key, wanted) in [("follow", options.follow), ("timestamps", options.timestamps)] {
            path.push_str(&format!("&{key}={}", u8::from(wanted)));
        }
        for (key, value) in [("tail", &options.tail), ("since", &options.since)] {
            if let Some(value) = value {
                path.push_str(&format!("&{key}={}", encoded(value)));
            }
        }
        let what = format!("read the log of container {id}");
        let Some(answer) = self.open(&what, &path).await? else { return Ok(None) };
        let split = (!container.tty).then(Splitter::default);
        Ok(Some(Logs { body: Box::pin(answer.into_body()), split, what, is_over: false }))
    }
}

/// Percent-encodes the value of a query parameter.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b':' => encoded.push(char::from(byte)),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

impl Stream for Logs {
    type Item = Result<Chunk, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(chunk) = self.split.as_mut().and_then(Splitter::next) {
                return Poll::Ready(Some(Ok(chunk)));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match self.body.as_mut().poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.is_over = true,
                Poll::Ready(Some(Err(error))) => {
                    self.is_over = true;
                    let what = self.what.clone();
                    return Poll::Ready(Some(Err(Error::Broken { what, source: Box::new(error) })));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(bytes) = frame.into_data() else { continue };
                    match &mut self.split {
                        Some(split) => split.take(bytes),
                        None if bytes.is_empty() => {}
                        None => return Poll::Ready(Some(Ok(Chunk { output: Output::Terminal, bytes }))),
                    }
                }
            }
        }
    }
}

/// Demultiplexes a stream of frames. It passes bytes on as they arrive, whatever length the frame header announces, and buffers
/// at most a header.
#[derive(Debug, Default)]
struct Splitter {
    header: BytesMut,
    bytes: Bytes,
    /// The current frame's output and how many of its bytes are missing.
    piece: Option<(Output, usize)>,
}

impl Splitter {
    fn take(&mut self, bytes: Bytes) {
        debug_assert!(self.bytes.is_empty(), "what came before was read to its end");
        self.bytes = bytes;
    }

    fn next(&mut self) -> Option<Chunk> {
        while !self.bytes.is_empty() {
            match self.piece {
                None => self.read_header(),
                Some((_, 0)) => self.piece = None,
                Some((output, missing)) => {
                    let bytes = self.bytes.split_to(missing.min(self.bytes.len()));
                    self.piece = Some((output, missing - bytes.len()));
                    return Some(Chunk { output, bytes });
                }
            }
        }
        None
    }

    fn read_header(&mut self) {
        let missing = HEADER_BYTES - self.header.len();
        self.header.extend_from_slice(&self.bytes.split_to(missing.min(self.bytes.len())));
        if self.header.len() < HEADER_BYTES {
            return;
        }
        // The stream number, three zero bytes, and the length of the frame.
        let output = if self.header[0] == 2 { Output::Error } else { Output::Out };
        self.header.advance(4);
        let length = usize::try_from(self.header.get_u32()).unwrap_or(usize::MAX);
        self.header.clear();
        self.piece = Some((output, length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(stream: u8, text: &str) -> Vec<u8> {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[stream, 0, 0, 0], &length[..], text.as_bytes()].concat()
    }

    /// The output for a stream that arrives in parts of this size, with adjacent pieces of the same output joined.
    fn split(stream: &[u8], part: usize) -> Vec<(Output, String)> {
        let mut splitter = Splitter::default();
        let mut read: Vec<(Output, String)> = Vec::new();
        for part in stream.chunks(part) {
            splitter.take(Bytes::copy_from_slice(part));
            while let Some(chunk) = splitter.next() {
                let text = String::from_utf8(chunk.bytes.to_vec()).unwrap();
                match read.last_mut() {
                    Some((output, known)) if *output == chunk.output => known.push_str(&text),
                    _ => read.push((chunk.output, text)),
                }
            }
        }
        read
    }

    #[test]
    fn the_two_streams_are_told_apart_wherever_the_pieces_are_cut() {
        let stream = [framed(1, "one\n"), framed(1, ""), framed(2, "two\n"), framed(1, "three")].concat();
        let expected = [(Output::Out, "one\n"), (Output::Error, "two\n"), (Output::Out, "three")];
        let expected: Vec<_> = expected.into_iter().map(|(output, text)| (output, text.to_owned())).collect();
        for part in 1..=stream.len() {
            assert_eq!(split(&stream, part), expected, "in parts of {part}");
        }
    }

    #[test]
    fn a_piece_that_claims_to_be_huge_is_handed_on_as_it_comes() {
        let mut splitter = Splitter::default();
        splitter.take(Bytes::from_static(b"\x02\0\0\0\xff\xff\xff\xffabc"));
        assert_eq!(splitter.next(), Some(Chunk { output: Output::Error, bytes: Bytes::from_static(b"abc") }));
        assert_eq!(splitter.next(), None);
        splitter.take(Bytes::from_static(b"def"));
        assert_eq!(splitter.next().map(|chunk| chunk.bytes), Some(Bytes::from_static(b"def")));
    }

    #[test]
    fn values_stay_values() {
        assert_eq!(encoded("1794768123.5"), "1794768123.5");
        assert_eq!(encoded("1&follow=0 é"), "1%26follow%3D0%20%C3%A9");
    }
}
