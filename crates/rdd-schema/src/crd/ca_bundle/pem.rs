//! Finds PEM blocks in a text, as Go's `encoding/pem`.

use base64::Engine as _;
use memchr::memmem;

use super::BASE64;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";

/// A PEM block.
pub(super) struct Block {
    is_certificate: bool,
    has_headers: bool,
    bytes: Vec<u8>,
}

impl Block {
    /// The DER of a certificate; `None` for other blocks and for blocks with headers.
    pub(super) fn into_certificate(self) -> Option<Vec<u8>> {
        (self.is_certificate && !self.has_headers).then_some(self.bytes)
    }
}

/// Returns the certificates of a bundle, up to the end of its last block.
pub(super) fn certificates(bundle: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut rest = bundle;
    let blocks = std::iter::from_fn(move || {
        let (block, after) = decode(rest)?;
        rest = after;
        Some(block)
    });
    blocks.filter_map(Block::into_certificate)
}

/// Returns the next block, and the text after it.
pub(super) fn decode(data: &[u8]) -> Option<(Block, &[u8])> {
    let mut rest = data;
    loop {
        let end = memmem::find(rest, END)?;
        // Where the search continues if no block belongs to this end.
        let next = rest.get(end + END.len()..)?;
        match decode_at(rest, end) {
            Some(found) => return Some(found),
            None => rest = next,
        }
    }
}

/// Returns the block that ends at `end`; it begins at the last beginning before it.
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
    // Headers need a line end of their own before the end of the block.
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

/// Returns the line at `at` without trailing white space, and the position of the next line.
fn line_at(data: &[u8], at: usize) -> (&[u8], usize) {
    let rest = data.get(at..).unwrap_or_default();
    let (line, length) = match memchr::memchr(b'\n', rest) {
        Some(end) => (rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]), end + 1),
        None => (rest, rest.len()),
    };
    let kept = line.iter().rposition(|byte| !matches!(byte, b' ' | b'\t')).map_or(0, |last| last + 1);
    (&line[..kept], at + length)
}
