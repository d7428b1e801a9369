//! Frames of a WebSocket: RFC 6455, section 5. Written unmasked, as a server does; read masked, as clients must.

use bytes::{Buf, BufMut, BytesMut};

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Self::Continuation, Self::Text, Self::Binary, Self::Close, Self::Ping, Self::Pong]
            .into_iter()
            .find(|kind| kind.code() == code)
    }

    fn is_control(self) -> bool {
        self.code() >= 8
    }
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) payload: Vec<u8>,
}

/// Why what came is no frame, as a close code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wrong(pub(super) u16);

/// Against the protocol.
const PROTOCOL: Wrong = Wrong(1002);
/// More than we take.
const TOO_BIG: Wrong = Wrong(1009);

/// A whole frame, as it goes out.
pub(super) fn write(kind: Kind, payload: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(payload.len() + 10);
    frame.put_u8(0x80 | kind.code());
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length), _) if length < 126 => frame.put_u8(length),
        (_, Ok(length)) => {
            frame.put_u8(126);
            frame.put_u16(length);
        }
        _ => {
            frame.put_u8(127);
            frame.put_u64(payload.len() as u64);
        }
    }
    frame.put_slice(payload);
    frame
}

/// Takes a frame off the front of what was read; nothing if more is needed.
pub(super) fn read(buffer: &mut BytesMut, payload_max: usize) -> Result<Option<Frame>, Wrong> {
    let &[first, second, ref rest @ ..] = &buffer[..] else { return Ok(None) };
    // No extension was agreed on, so the three bits mean nothing; and clients mask what they send.
    let kind = Kind::of(first & 0x0f).filter(|_| first & 0x70 == 0 && second & 0x80 != 0).ok_or(PROTOCOL)?;
    let is_last = first & 0x80 != 0;
    let (length, extra) = match (second & 0x7f, rest) {
        (126, [high, low, ..]) => (u64::from(u16::from_be_bytes([*high, *low])), 2),
        (127, bytes) if bytes.len() >= 8 => (u64::from_be_bytes(bytes[..8].try_into().map_err(|_| PROTOCOL)?), 8),
        (126 | 127, _) => return Ok(None),
        (length, _) => (u64::from(length), 0),
    };
    if kind.is_control() && (length > 125 || !is_last) {
        return Err(PROTOCOL);
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= payload_max.max(125)).ok_or(TOO_BIG)?;
    let head = 2 + extra + 4;
    if buffer.len() < head + length {
        return Ok(None);
    }
    let mask = [buffer[head - 4], buffer[head - 3], buffer[head - 2], buffer[head - 1]];
    buffer.advance(head);
    let mut payload = buffer.split_to(length).to_vec();
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok(Some(Frame { kind, payload }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame as a client sends it.
    pub(in crate::websocket) fn masked(kind: Kind, payload: &[u8]) -> BytesMut {
        let plain = write(kind, payload);
        let head = plain.len() - payload.len();
        let mut frame = BytesMut::from(&plain[..head]);
        frame[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        frame.put_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    #[test]
    fn frames_of_every_length_come_back_whole_and_piece_by_piece() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536] {
            let payload = vec![7; length];
            let sent = masked(Kind::Binary, &payload);
            let mut got = BytesMut::new();
            // All but the last byte is never enough.
            got.extend_from_slice(&sent[..sent.len() - 1]);
            assert_eq!(read(&mut got, 1 << 20), Ok(None), "{length}");
            got.extend_from_slice(&sent[sent.len() - 1..]);
            got.extend_from_slice(&[0x81]);
            assert_eq!(read(&mut got, 1 << 20), Ok(Some(Frame { kind: Kind::Binary, payload })), "{length}");
            assert_eq!(&got[..], [0x81]);
        }
    }

    #[test]
    fn what_is_against_the_rules_is_told_by_its_code() {
        let check = |bytes: &[u8]| read(&mut BytesMut::from(bytes), 4096);
        assert_eq!(check(&[0x81, 0x01, b'x']), Err(Wrong(1002)), "not masked");
        assert_eq!(check(&[0xc1, 0x80, 0, 0, 0, 0]), Err(Wrong(1002)), "an extension");
        assert_eq!(check(&[0x83, 0x80, 0, 0, 0, 0]), Err(Wrong(1002)), "an unknown kind");
        assert_eq!(check(&[0x09, 0x80, 0, 0, 0, 0]), Err(Wrong(1002)), "a ping in pieces");
        assert_eq!(check(&[0x89, 0xfe, 0x10, 0]), Err(Wrong(1002)), "a long ping");
        assert_eq!(check(&[0x82, 0xfe, 0xff, 0xff]), Err(Wrong(1009)), "too long");
        assert_eq!(
            check(&[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(Wrong(1009)),
            "far too long"
        );
        for cut in 0..6 {
            assert_eq!(check(&masked(Kind::Text, b"")[..cut]), Ok(None), "{cut}");
        }
    }
}
