//! The protobuf wire format: tags, varints, lengths, and skipping of fields.

use super::Malformed;

/// The wire types.
pub(super) const VARINT: u8 = 0;
pub(super) const FIXED_64: u8 = 1;
pub(super) const DELIMITED: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED_32: u8 = 5;

/// A position in a message.
#[derive(Debug)]
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

/// The tag of a field: its number and wire type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire: u8,
}

pub(super) fn malformed(text: impl Into<String>) -> Malformed {
    Malformed(text.into())
}

fn cut_off() -> Malformed {
    malformed("unexpected EOF")
}

fn negative() -> Malformed {
    malformed("proto: negative length found during unmarshaling")
}

impl Tag {
    /// Refuses a value with the wrong wire type.
    pub(super) fn expect(self, wire: u8, field: &str) -> Result<(), Malformed> {
        if self.wire == wire {
            return Ok(());
        }
        Err(malformed(format!("proto: wrong wireType = {} for field {field}", self.wire)))
    }
}

/// Iterates over the fields of a message. `take` parses a field that it knows and returns true; others are skipped.
pub(super) fn fields<'b>(
    bytes: &'b [u8],
    message: &str,
    mut take: impl FnMut(Tag, &mut Cursor<'b>) -> Result<bool, Malformed>,
) -> Result<(), Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    while cursor.at < bytes.len() {
        let start = cursor.at;
        let key = cursor.varint()?;
        // Upstream keeps 32 bits of the number.
        let number = (key >> 3) as i32;
        let wire = (key & 7) as u8;
        if wire == END_GROUP {
            return Err(malformed(format!("proto: {message}: wiretype end group for non-group")));
        }
        if number <= 0 {
            return Err(malformed(format!("proto: {message}: illegal tag {number} (wire type {key})")));
        }
        if !take(Tag { number: number.unsigned_abs(), wire }, &mut cursor)? {
            cursor.at = start;
            cursor.skip()?;
        }
    }
    Ok(())
}

impl<'b> Cursor<'b> {
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or_else(cut_off)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("proto: integer overflow"))
    }

    pub(super) fn fixed_64(&mut self) -> Result<u64, Malformed> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()).ok_or_else(cut_off)?;
        self.at += 8;
        Ok(u64::from_le_bytes(*found))
    }

    pub(super) fn delimited(&mut self) -> Result<&'b [u8], Malformed> {
        let length = i64::try_from(self.varint()?).map_err(|_| negative())?;
        let end = i64::try_from(self.at).ok().and_then(|at| at.checked_add(length)).ok_or_else(negative)?;
        let end = usize::try_from(end).map_err(|_| cut_off())?;
        let found = self.bytes.get(self.at..end).ok_or_else(cut_off)?;
        self.at = end;
        Ok(found)
    }

    /// Skips a field with its tag. Groups are skipped without recursion.
    fn skip(&mut self) -> Result<(), Malformed> {
        let mut depth = 0_usize;
        loop {
            let wire = (self.varint()? & 7) as u8;
            match wire {
                VARINT => {
                    self.varint()?;
                }
                FIXED_64 => self.advance(8)?,
                DELIMITED => {
                    self.delimited()?;
                }
                START_GROUP => depth += 1,
                END_GROUP => depth = depth.checked_sub(1).ok_or_else(|| malformed("proto: unexpected end of group"))?,
                FIXED_32 => self.advance(4)?,
                other => return Err(malformed(format!("proto: illegal wireType {other}"))),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn advance(&mut self, count: usize) -> Result<(), Malformed> {
        self.at += count;
        if self.at > self.bytes.len() { Err(cut_off()) } else { Ok(()) }
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire: u8) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire));
}

/// Writes an integer or a boolean.
pub fn put_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, VARINT);
    put_varint(out, value as u64);
}

/// Writes a float.
pub fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_tag(out, number, FIXED_64);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Writes bytes or a string.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, DELIMITED);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Writes a nested message: the output of `write` with its length in front.
pub fn put_message(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_tag(out, number, DELIMITED);
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(10);
    put_varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}
