//! Response bodies: complete ones, and ones that are encoded while they are sent, optionally with gzip.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, StatusCode, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::{Encoding, Representation};
use crate::{
    offload,
    respond::{self, Body, BoxError, Response},
};

/// The size up to which small pieces are combined, so that neither TLS records nor HTTP chunks are tiny.
pub(crate) const FRAME_BYTES: usize = 64 * 1024;
/// Pieces of at least this size are sent without a copy.
const WHOLE_BYTES: usize = 16 * 1024;
/// Responses up to this size are not compressed, as in upstream.
const GZIP_MIN: usize = 128 * 1024;

/// A buffer of pieces to send: it combines small pieces and passes large ones through without a copy.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    ready: VecDeque<Bytes>,
    open: BytesMut,
    /// The capacity that the buffer reserves at once; 0 for writers that mostly write little.
    room: usize,
}

impl Gather {
    /// A buffer for a writer that fills many frames.
    pub(crate) fn for_much() -> Self {
        Self { room: FRAME_BYTES + WHOLE_BYTES, ..Self::default() }
    }

    /// Appends bytes by copying them.
    pub(crate) fn text(&mut self, text: &[u8]) {
        if self.open.is_empty() {
            self.open.reserve(self.room);
        }
        self.open.extend_from_slice(text);
        if self.open.len() >= FRAME_BYTES {
            self.close();
        }
    }

    /// Appends a piece whose bytes are shared; a large piece is not copied.
    pub(crate) fn shared(&mut self, piece: Bytes) {
        if piece.len() < WHOLE_BYTES {
            self.text(&piece);
        } else {
            self.close();
            self.ready.push_back(piece);
        }
    }

    /// Appends a piece that becomes a frame of its own.
    pub(crate) fn message(&mut self, piece: Bytes) {
        self.close();
        self.ready.push_back(piece);
    }

    /// Whether a frame is ready to be sent.
    pub(crate) fn is_full(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Makes the rest of the buffer ready, even if it is small.
    pub(crate) fn close(&mut self) {
        if !self.open.is_empty() {
            self.ready.push_back(self.open.split().freeze());
        }
    }

    /// Takes the next frame that is ready.
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }
}

/// Produces a body piece by piece.
pub(super) trait Source: Send {
    /// Appends more of the body; returns `false` at the end. An error breaks off the response, so that the client does not take the
    /// body for complete.
    fn fill(&mut self, gather: &mut Gather) -> Result<bool, BoxError>;

    /// Whether filling a frame takes long, because objects are parsed or compressed for it.
    fn is_expensive(&self) -> bool {
        false
    }
}

/// A body that calls its source only after the client has taken the previous frames.
pub(super) struct Streamed<S> {
    source: S,
    gather: Gather,
    done: bool,
}

impl<S: Source> Streamed<S> {
    pub(super) fn new(source: S) -> Self {
        Self { source, gather: Gather::for_much(), done: false }
    }

    fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            if let Some(piece) = self.gather.next() {
                return Ok(Some(piece));
            }
            if self.done {
                return Ok(None);
            }
            while !self.done && !self.gather.is_full() {
                self.done = !self.source.fill(&mut self.gather)?;
            }
            if self.done {
                self.gather.close();
            }
        }
    }
}

impl<S: Source + Unpin> HttpBody for Streamed<S> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Expensive work leaves the runtime's worker, so that other connections go on meanwhile.
        let work = if self.source.is_expensive() { offload::UNBOUNDED } else { 0 };
        let piece = offload::run(work, || self.next());
        Poll::Ready(piece.transpose().map(|piece| piece.map(Frame::data)))
    }
}

/// A source that compresses the output of another source.
pub(super) struct Zipped<S> {
    inner: Streamed<S>,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<S: Source> Zipped<S> {
    pub(super) fn new(source: S) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        Self { inner: Streamed::new(source), encoder: Some(encoder) }
    }
}

impl<S: Source> Source for Zipped<S> {
    fn is_expensive(&self) -> bool {
        true
    }

    fn fill(&mut self, gather: &mut Gather) -> Result<bool, BoxError> {
        use std::io::Write as _;
        let Some(encoder) = &mut self.encoder else { return Ok(false) };
        match self.inner.next()? {
            Some(piece) => {
                encoder.write_all(&piece)?;
                // The encoder may have buffered all of its input; then this is empty.
                gather.shared(std::mem::take(encoder.get_mut()).into());
                Ok(true)
            }
            None => {
                let rest = self.encoder.take().map(GzEncoder::finish).transpose()?;
                gather.shared(rest.unwrap_or_default().into());
                Ok(false)
            }
        }
    }
}

/// A body whose pieces are all in memory.
#[derive(Debug)]
struct Whole {
    pieces: VecDeque<Bytes>,
}

impl HttpBody for Whole {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
    }
}

impl Source for VecDeque<Bytes> {
    fn fill(&mut self, gather: &mut Gather) -> Result<bool, BoxError> {
        let piece = self.pop_front();
        let more = piece.is_some();
        piece.into_iter().for_each(|piece| gather.shared(piece));
        Ok(more)
    }
}

/// A complete response: `text` followed by `end`. It is compressed if the client accepts that and the size makes it worthwhile.
pub(super) fn whole(representation: &Representation, code: StatusCode, text: Bytes, end: &'static [u8]) -> Response {
    let length = text.len() + end.len();
    if representation.gzip && length > GZIP_MIN {
        return streamed(representation, code, length, VecDeque::from([text, Bytes::from_static(end)]));
    }
    let body = if end.is_empty() {
        respond::full(text)
    } else if length < WHOLE_BYTES {
        // For a small body a copy is cheaper than a second frame.
        let mut joined = Vec::with_capacity(length);
        joined.extend_from_slice(&text);
        joined.extend_from_slice(end);
        respond::full(joined)
    } else {
        Body::new(Whole { pieces: [text, Bytes::from_static(end)].into() })
    };
    headed(representation.encoding, code, body)
}

/// A response that is encoded while it is sent. `length` is its approximate length, which decides about compression.
pub(super) fn streamed<S>(representation: &Representation, code: StatusCode, length: usize, source: S) -> Response
where
    S: Source + Unpin + 'static,
{
    if !representation.gzip || length <= GZIP_MIN {
        return headed(representation.encoding, code, Body::new(Streamed::new(source)));
    }
    let mut response = headed(representation.encoding, code, Body::new(Streamed::new(Zipped::new(source))));
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers_mut().append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

fn headed(encoding: Encoding, code: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(encoding.media_type()));
    response
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    struct Counting(usize);

    impl Source for Counting {
        fn fill(&mut self, gather: &mut Gather) -> Result<bool, BoxError> {
            self.0 -= 1;
            gather.text(&[b'x'; 1000]);
            Ok(self.0 > 0)
        }
    }

    #[test]
    fn small_pieces_are_gathered_and_large_ones_shared() {
        let mut body = Streamed::new(Counting(1000));
        let mut sizes = Vec::new();
        while let Some(piece) = body.next().unwrap() {
            sizes.push(piece.len());
        }
        assert_eq!(sizes.iter().sum::<usize>(), 1_000_000);
        assert!(sizes.len() < 20 && sizes.iter().all(|size| *size < FRAME_BYTES + 1000), "{sizes:?}");

        let large = Bytes::from(vec![b'y'; WHOLE_BYTES]);
        let mut gather = Gather::default();
        gather.text(b"a");
        gather.shared(large.clone());
        gather.text(b"b");
        gather.close();
        assert_eq!(gather.next().unwrap(), "a");
        assert_eq!(gather.next().unwrap().as_ptr(), large.as_ptr());
        assert_eq!((gather.next().unwrap(), gather.next()), (Bytes::from("b"), None));
    }

    #[test]
    fn what_is_compressed_comes_out_as_it_was() {
        let mut body = Streamed::new(Zipped::new(Counting(1000)));
        let mut zipped = Vec::new();
        while let Some(piece) = body.next().unwrap() {
            zipped.extend_from_slice(&piece);
        }
        assert!(zipped.len() < 20_000);
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&zipped[..]).read_to_end(&mut plain).unwrap();
        assert!(plain.len() == 1_000_000 && plain.iter().all(|byte| *byte == b'x'));
    }
}
