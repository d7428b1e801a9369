//! Converts objects of built-in kinds between JSON and protobuf, using the field numbers in the table of types.
//!
//! Upstream's messages are generated from its Go structs as `proto2`: non-pointer fields are always written, in the order of
//! their numbers, and map entries in the order of their keys. Reading returns what was sent; [`decode`](crate::decode) brings it
//! into Go's form. Parsing follows upstream's generated code, including its errors. Known differences: invalid UTF-8, invalid
//! JSON and nesting that cannot be stored are refused.

mod envelope;
mod read;
mod wire;
mod write;

use rdd_meta::time::Timestamp;

pub use envelope::{Envelope, MAGIC, open, seal, watch_event};
pub use read::read;
pub use wire::{put_bytes, put_double, put_integer, put_message};
pub use write::{write, write_list, write_partial, write_partial_list};

use crate::types::{Field, Struct};

/// Why bytes are not a valid message, with upstream's message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

/// A struct, or an embedded struct: its fields are inlined in JSON, but a nested message in protobuf.
#[derive(Debug, Clone, Copy)]
struct Message {
    structure: &'static Struct,
    /// The field numbers that lead to the embedded struct.
    within: &'static [u32],
}

/// What a field number refers to.
#[derive(Debug, Clone, Copy)]
enum Member {
    Field(&'static Field),
    Embedded(Message, &'static str),
}

impl Message {
    fn of(structure: &'static Struct) -> Self {
        Self { structure, within: &[] }
    }

    /// The Go name.
    fn name(self) -> &'static str {
        match self.within.len().checked_sub(1) {
            None => self.structure.name,
            Some(depth) => self.fields().next().and_then(|field| field.via.split('.').nth(depth)).unwrap_or_default(),
        }
    }

    /// The fields, including those of embedded structs, in the order of their numbers.
    fn fields(self) -> impl Iterator<Item = &'static Field> {
        let fields = self.structure.numbered.iter().map(move |at| &self.structure.fields[*at]);
        fields.filter(move |field| field.numbers.starts_with(self.within))
    }

    /// The member of this message that contains the field.
    fn member(self, field: &'static Field) -> Member {
        let depth = self.within.len() + 1;
        if field.numbers.len() == depth {
            return Member::Field(field);
        }
        let name = field.via.split('.').nth(depth - 1).unwrap_or_default();
        Member::Embedded(Self { within: &field.numbers[..depth], ..self }, name)
    }

    /// The member with a field number, if it is known.
    fn numbered(self, number: u32) -> Option<Member> {
        let field = self.fields().find(|field| field.numbers[self.within.len()] == number)?;
        Some(self.member(field))
    }
}

/// Go's zero time, as a Unix time in seconds.
const YEAR_ONE: i64 = -62_135_596_800;

/// Whether it is Go's zero time.
fn is_zero(time: Timestamp) -> bool {
    time.seconds() == YEAR_ONE && time.nanoseconds() == 0
}

#[cfg(test)]
mod tests;
