//! A response that is read line by line, such as the events of a watch.

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rdd_stdx::task::Group;

use super::{Asked, Error};

/// The lines of a response that may not end. Dropping it ends the call.
#[derive(Debug)]
pub struct Lines {
    asked: Asked,
    body: Incoming,
    buffer: Buffer,
    /// Keeps the connection alive for the body.
    _connection: Group<()>,
}

impl Lines {
    pub(super) fn new(asked: Asked, body: Incoming, connection: Group<()>, line_bytes: usize) -> Self {
        Self {
            asked,
            body,
            buffer: Buffer { bytes: BytesMut::new(), searched: 0, limit: line_bytes },
            _connection: connection,
        }
    }

    /// The next line without its line ending; `None` at the end of the response. Cancel safe.
    ///
    /// # Errors
    /// When the connection fails or a line exceeds the size limit.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(line) = self.buffer.take_line() {
                return Ok(Some(line));
            }
            if self.buffer.is_full() {
                return Err(self.asked.too_large(self.buffer.limit));
            }
            let Some(frame) = self.body.frame().await else { return Ok(self.buffer.take_rest()) };
            if let Ok(data) = frame.map_err(|source| self.asked.broken(source.into()))?.into_data() {
                self.buffer.bytes.extend_from_slice(&data);
            }
        }
    }
}

/// Bytes that arrived and were not returned yet.
#[derive(Debug)]
struct Buffer {
    bytes: BytesMut,
    /// How many bytes at the start are known to contain no line ending.
    searched: usize,
    limit: usize,
}

impl Buffer {
    fn take_line(&mut self) -> Option<Bytes> {
        let Some(end) = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return None;
        };
        let line = self.bytes.split_to(self.searched + end).freeze();
        self.bytes.advance(1);
        self.searched = 0;
        Some(line)
    }

    fn take_rest(&mut self) -> Option<Bytes> {
        self.searched = 0;
        (!self.bytes.is_empty()).then(|| self.bytes.split().freeze())
    }

    fn is_full(&self) -> bool {
        self.bytes.len() > self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&str], limit: usize) -> (Vec<String>, bool) {
        let mut buffer = Buffer { bytes: BytesMut::new(), searched: 0, limit };
        let mut lines = Vec::new();
        let text = |line: Bytes| String::from_utf8(line.to_vec()).unwrap();
        for piece in pieces {
            buffer.bytes.extend_from_slice(piece.as_bytes());
            while let Some(line) = buffer.take_line() {
                lines.push(text(line));
            }
            if buffer.is_full() {
                return (lines, true);
            }
        }
        lines.extend(buffer.take_rest().map(text));
        (lines, false)
    }

    #[test]
    fn lines_are_found_however_they_were_cut() {
        for (pieces, expected) in [
            (&["a\nb\n"][..], &["a", "b"][..]),
            (&["a", "b\nc", "\n", "\nd"], &["ab", "c", "", "d"]),
            (&["", "\n"], &[""]),
            (&[], &[]),
        ] {
            assert_eq!(lines_of(pieces, 100).0, expected, "{pieces:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_for_ever() {
        assert_eq!(lines_of(&["ok\n", "123", "456"], 5), (vec!["ok".to_owned()], true));
        assert!(!lines_of(&["12345\n", "12345"], 5).1);
    }
}
