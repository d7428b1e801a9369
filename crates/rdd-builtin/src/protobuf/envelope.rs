//! The envelope of a protobuf message: the magic prefix, the type, and the frame of a watch event.

use super::{
    Malformed,
    wire::{self, Cursor, DELIMITED, Tag, malformed, put_bytes, put_message},
};

/// The magic prefix of every message.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// A message with its type: `runtime.Unknown`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// The apiVersion; empty if absent.
    pub api_version: String,
    /// The kind; empty if absent.
    pub kind: String,
    /// The message.
    pub raw: &'b [u8],
}

/// Opens the envelope of a body.
///
/// # Errors
/// [`Malformed`] with upstream's message.
pub fn open(body: &[u8]) -> Result<Envelope<'_>, Malformed> {
    if body.is_empty() {
        return Err(malformed("empty data"));
    }
    let Some(bytes) = body.strip_prefix(&MAGIC) else {
        let prefix = MAGIC.map(|byte| byte.to_string()).join(" ");
        let text = "provided data does not appear to be a protobuf message, expected prefix";
        return Err(malformed(format!("{text} [{prefix}]")));
    };
    if bytes.is_empty() {
        return Err(malformed("empty body"));
    }
    let mut envelope = Envelope::default();
    wire::fields(bytes, "Unknown", |tag, cursor| {
        match tag.number {
            1 => {
                tag.expect(DELIMITED, "TypeMeta")?;
                type_meta(cursor.delimited()?, &mut envelope)?;
            }
            2 => {
                tag.expect(DELIMITED, "Raw")?;
                envelope.raw = cursor.delimited()?;
            }
            3 => drop(text(tag, cursor, "ContentEncoding")?),
            4 => drop(text(tag, cursor, "ContentType")?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(envelope)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), Malformed> {
    wire::fields(bytes, "TypeMeta", |tag, cursor| {
        match tag.number {
            1 => envelope.api_version = text(tag, cursor, "APIVersion")?,
            2 => envelope.kind = text(tag, cursor, "Kind")?,
            _ => return Ok(false),
        }
        Ok(true)
    })
}

pub(super) fn text(tag: Tag, cursor: &mut Cursor<'_>, field: &str) -> Result<String, Malformed> {
    tag.expect(DELIMITED, field)?;
    let found = std::str::from_utf8(cursor.delimited()?);
    found.map(str::to_owned).map_err(|_| malformed(format!("proto: field {field} contains invalid UTF-8")))
}

/// Wraps a message in its envelope.
pub fn seal(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len() + api_version.len() + kind.len() + 32);
    out.extend_from_slice(&MAGIC);
    put_message(&mut out, 1, |out| {
        put_bytes(out, 1, api_version.as_bytes());
        put_bytes(out, 2, kind.as_bytes());
    });
    put_bytes(&mut out, 2, raw);
    // Content encoding and content type, both empty for the default.
    put_bytes(&mut out, 3, b"");
    put_bytes(&mut out, 4, b"");
    out
}

/// The frame of a watch event: a length of four bytes, then the event type and the object in its envelope.
pub fn watch_event(kind: &str, sealed: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(sealed.len() + kind.len() + 24);
    event.extend_from_slice(&[0; 4]);
    put_bytes(&mut event, 1, kind.as_bytes());
    put_message(&mut event, 2, |out| put_bytes(out, 1, sealed));
    let length = u32::try_from(event.len() - 4).unwrap_or(u32::MAX);
    event[..4].copy_from_slice(&length.to_be_bytes());
    event
}
