//! Reads DER with exactly the strictness of Go's `cryptobyte`.

pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const UTF8_STRING: u8 = 0x0c;
pub(super) const NUMERIC_STRING: u8 = 0x12;
pub(super) const PRINTABLE_STRING: u8 = 0x13;
pub(super) const T61_STRING: u8 = 0x14;
pub(super) const IA5_STRING: u8 = 0x16;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;
pub(super) const BMP_STRING: u8 = 0x1e;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// The tag of a primitive, context-specific element.
pub(super) const fn context(number: u8) -> u8 {
    0x80 | number
}

/// The tag of a constructed, context-specific element.
pub(super) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}

/// The rest of a DER text. After a `read` that returned `None`, the position is undefined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Der<'a>(pub(super) &'a [u8]);

/// An element, with and without its header.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) whole: &'a [u8],
    pub(super) content: &'a [u8],
}

impl<'a> Der<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the next element has this tag.
    pub(super) fn peeks(&self, tag: u8) -> bool {
        self.0.first() == Some(&tag)
    }

    /// Reads the next element with any tag below 31. Its length must be encoded in as few bytes as possible.
    pub(super) fn read_any(&mut self) -> Option<Element<'a>> {
        const LENGTH_BYTES_MAX: usize = 4;
        let (&tag, &first) = (self.0.first()?, self.0.get(1)?);
        // Tags of several bytes do not occur in certificates, and `cryptobyte` refuses them.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (header, length) = if first & 0x80 == 0 {
            (2, usize::from(first))
        } else {
            let count = usize::from(first & 0x7f);
            // DER has no indefinite lengths.
            if count == 0 || count > LENGTH_BYTES_MAX {
                return None;
            }
            let bytes = self.0.get(2..2 + count)?;
            let length = bytes.iter().fold(0u64, |length, byte| length << 8 | u64::from(*byte));
            // A shorter encoding exists, so this one is not DER.
            if length < 128 || length >> ((count - 1) * 8) == 0 {
                return None;
            }
            (2 + count, usize::try_from(length).ok()?)
        };
        let whole = self.0.get(..header.checked_add(length)?)?;
        self.0 = &self.0[whole.len()..];
        Some(Element { tag, whole, content: &whole[header..] })
    }

    /// Reads the next element, which must have this tag.
    pub(super) fn read_element(&mut self, tag: u8) -> Option<Element<'a>> {
        self.read_any().filter(|element| element.tag == tag)
    }

    /// Reads the content of the next element, which must have this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<Der<'a>> {
        self.read_element(tag).map(|element| Der(element.content))
    }

    /// Reads the content of the next element if it has this tag; the inner `None` means that it has another one.
    pub(super) fn read_optional(&mut self, tag: u8) -> Option<Option<Der<'a>>> {
        if self.peeks(tag) { self.read(tag).map(Some) } else { Some(None) }
    }

    pub(super) fn read_bool(&mut self) -> Option<bool> {
        match self.read(BOOLEAN)?.0 {
            [0] => Some(false),
            [0xff] => Some(true),
            _ => None,
        }
    }

    /// Reads an integer of any size, which must be encoded in as few bytes as possible.
    pub(super) fn read_integer(&mut self, tag: u8) -> Option<&'a [u8]> {
        let bytes = self.read(tag)?.0;
        match bytes {
            [] => None,
            // A leading byte that only repeats the sign is not minimal.
            [0, second, ..] if second & 0x80 == 0 => None,
            [0xff, second, ..] if second & 0x80 != 0 => None,
            bytes => Some(bytes),
        }
    }

    /// Reads an integer of at most 64 bits, sign-extended.
    pub(super) fn read_i64(&mut self, tag: u8) -> Option<i64> {
        let bytes = self.read_integer(tag).filter(|bytes| bytes.len() <= 8)?;
        let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
        Some(bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)))
    }

    /// Reads the numbers of an object identifier.
    pub(super) fn read_oid(&mut self) -> Option<Vec<u32>> {
        parse_oid(self.read(OBJECT_IDENTIFIER)?.0)
    }

    /// Reads the bytes of a bit string, and the number of padding bits in the last byte.
    pub(super) fn read_bits(&mut self) -> Option<(&'a [u8], u8)> {
        let (&padding, bytes) = self.read(BIT_STRING)?.0.split_first()?;
        let is_good = match bytes.last() {
            _ if padding > 7 => false,
            None => padding == 0,
            // In DER, padding bits are zero.
            Some(last) => last & ((1 << padding) - 1) == 0,
        };
        is_good.then_some((bytes, padding))
    }
}

fn parse_oid(bytes: &[u8]) -> Option<Vec<u32>> {
    const PART_BYTES_MAX: usize = 5;
    let mut parts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let length = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        // 0x80 at the start is a leading zero, which DER forbids.
        if length > PART_BYTES_MAX || rest[0] == 0x80 {
            return None;
        }
        let part = rest[..length]
            .iter()
            .try_fold(0u32, |part, byte| (part < 1 << 24).then(|| part << 7 | u32::from(byte & 0x7f)))?;
        if parts.is_empty() {
            // The first part encodes two numbers: 40 times the first, which is 0, 1 or 2, plus the second.
            let first = (part / 40).min(2);
            parts.push(first);
            parts.push(part - first * 40);
        } else {
            parts.push(part);
        }
        rest = &rest[length..];
    }
    (!parts.is_empty()).then_some(parts)
}
