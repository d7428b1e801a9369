//! PEM blocks as Go's `encoding/pem` finds them in a text.

use base64::Engine as _;
use memchr::memmem;

use super::BASE64;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// A block.
pub(super) struct Block {
    is_certificate: bool,
    has_headers: bool,
    bytes: Vec<u8>,
}

impl Block {
    /// The DER of a certificate; other blocks, and those with headers, are none.
    pub(super) fn into_certificate(self) -> Option<Vec<u8>> {
        (self.is_certificate && !self.has_headers).then_some(self.bytes)
    }
}

/// The certificates of a bundle, up to where it has no more blocks.
pub(super) fn certificates(bundle: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = bundle;
    let blocks = std::iter::from_fn(move || {
        let (block, after) = decode(rest)?;
        rest = after;
        Some(block)
    });
    blocks.filter_map(Block::into_certificate)
}

/// The next block, and what follows it.
pub(super) fn decode(data: &[u8]) -> Option<(Block, &[u8])> {
    let mut rest = data;
    loop {
        let end = memmem::find(rest, END)?;
        // Where to go on when this end belongs to no block.
        let next = rest.get(end + END.len()..)?;
        match decode_at(rest, end) {
            Some(found) => return Some(found),
            None => rest = next,
        }
    }
}

/// The block that ends at `end`, and begins at the last beginning before it.
fn decode_at(data: &[u8], end: usize) -> Option<(Block, &[u8])> {
    let begin = memmem::rfind(&data[..end], BEGIN)?;
    if begin > 0 && data[begin - 1] != b'\n' {
        return None;
    }
    let trailer = end + END.len();
    let (line, mut at) = line_at(data, begin + BEGIN.len());
    let kind = line.strip_suffix(DASHES)?;
    let mut has_headers = false;
    loop {
        if at >= data.len() {
            return None;
        }
        let (line, next) = line_at(data, at);
        if !line.contains(&b':') {
            break;
        }
        has_headers = true;
        at = next;
    }
    // Between headers and the end there is a line end of its own.
    if has_headers && at > end {
        return None;
    }
    let after_kind = data.get(trailer..)?.strip_prefix(kind)?.strip_prefix(DASHES)?;
    let (rest_of_line, _) = line_at(after_kind, 0);
    if !rest_of_line.is_empty() {
        return None;
    }
    let text = data.get(at..end).unwrap_or_default().iter().copied();
    let text: Vec<u8> = text.filter(|byte| !b" \t\r\n".contains(byte)).collect();
    let block = Block { is_certificate: kind == b"CERTIFICATE", has_headers, bytes: BASE64.decode(text).ok()? };
    let (_, after) = line_at(data, trailer);
    Some((block, &data[after..]))
}

/// The line that begins at `at`, without the white space at its end, and where the next one begins.
fn line_at(data: &[u8], at: usize) -> (&[u8], usize) {
    let rest = data.get(at..).unwrap_or_default();
    let (line, length) = match memchr::memchr(b'\n', rest) {
        Some(end) => (rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), end + 1),
        None => (rest, rest.len()),
    };
    let kept = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
    (&line[..kept], at + length)
}
