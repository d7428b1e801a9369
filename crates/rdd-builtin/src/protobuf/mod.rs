//! Objects of built-in kinds between their JSON form and protobuf, by the numbers in the table of types.
//!
//! Upstream's messages are those of its Go structs in `proto2`: what is no pointer is always written, fields come in the order
//! of their numbers and entries of maps in the order of their keys. What is read is what was sent; bringing it into Go's form
//! is for [`decode`](crate::decode). The wire is read as upstream's generated code reads it, in its words where it refuses.
//! Known differences: text that is not UTF-8, JSON that is none and nesting beyond what can be stored are refused.

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

/// Why bytes are no message, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

/// A struct, or one that is embedded in a struct: in JSON its fields are those of the outer one, here it is a message.
#[derive(Debug, Clone, Copy)]
struct Message {
    structure: &'static Struct,
    /// The numbers that lead to the embedded one.
    within: &'static [u32],
}

/// What a number in a message stands for.
#[derive(Debug, Clone, Copy)]
enum Member {
    Field(&'static Field),
    Embedded(Message, &'static str),
}

impl Message {
    fn of(structure: &'static Struct) -> Self {
        Self { structure, within: &[] }
    }

    /// Its name in Go.
    fn name(self) -> &'static str {
        match self.within.len().checked_sub(1) {
            None => self.structure.name,
            Some(depth) => self.fields().next().and_then(|field| field.via.split('.').nth(depth)).unwrap_or_default(),
        }
    }

    /// Its fields and those of what is embedded in it, in the order of their numbers.
    fn fields(self) -> impl Iterator<Item = &'static Field> {
        let fields = self.structure.numbered.iter().map(move |at| &self.structure.fields[*at]);
        fields.filter(move |field| field.numbers.starts_with(self.within))
    }

    /// What a field of it is to this message.
    fn member(self, field: &'static Field) -> Member {
        let depth = self.within.len() + 1;
        if field.numbers.len() == depth {
            return Member::Field(field);
        }
        let name = field.via.split('.').nth(depth - 1).unwrap_or_default();
        Member::Embedded(Self { within: &field.numbers[..depth], ..self }, name)
    }

    /// What a number stands for, if it is known.
    fn numbered(self, number: u32) -> Option<Member> {
        let field = self.fields().find(|field| field.numbers[self.within.len()] == number)?;
        Some(self.member(field))
    }
}

/// Go's zero time, in seconds.
const YEAR_ONE: i64 = -62_135_596_800;

/// Whether it is Go's zero time.
fn is_zero(time: Timestamp) -> bool {
    time.seconds() == YEAR_ONE && time.nanoseconds() == 0
}

#[cfg(test)]
mod tests;
