//! The part of OpenPGP (RFC 9580) that finds a key in a file of keys: ASCII armor, packets, fingerprints.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// The full fingerprint of an OpenPGP key of version 4. Short key IDs can be forged and are not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFingerprint([u8; 20]);

/// A text that is not a full fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the fingerprint of an OpenPGP key: those have 40 hexadecimal digits")]
pub struct InvalidFingerprint(String);

impl KeyFingerprint {
    /// Parses 40 hexadecimal digits, which may be grouped by spaces as gpg prints them.
    pub fn parse(text: &str) -> Result<Self, InvalidFingerprint> {
        let invalid = || InvalidFingerprint(text.chars().take(80).collect());
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
        if digits.len() != 40 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(invalid());
        }
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }

    /// The fingerprint of a public key packet: a SHA-1 digest over its length and content. Only version 4 is supported.
    fn from_packet(content: &[u8]) -> Option<Self> {
        // The first byte of the content is the version of the key.
        let length = u16::try_from(content.len()).ok().filter(|_| content.first() == Some(&4))?;
        let hashed = [&[0x99], &length.to_be_bytes()[..], content].concat();
        let mut bytes = [0; 20];
        bytes.copy_from_slice(digest(&SHA1_FOR_LEGACY_USE_ONLY, &hashed).as_ref());
        Some(Self(bytes))
    }
}

impl fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

const ARMOR_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const ARMOR_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// The type of the packet with which each key begins.
const PUBLIC_KEY: u8 = 6;

/// The keys with this fingerprint and all their packets, as a keyring for gpgv. `None` if the file has no such key or
/// is not a file of keys.
pub(crate) fn select_key(file: &[u8], fingerprint: KeyFingerprint) -> Option<Vec<u8>> {
    let binary = match std::str::from_utf8(file) {
        Ok(text) if text.contains(ARMOR_BEGIN) => read_armor(text)?,
        _ => file.to_vec(),
    };
    let mut keyring = Vec::new();
    let mut is_selected = false;
    let mut rest = &binary[..];
    while !rest.is_empty() {
        let Packet { kind, content, length } = Packet::read(rest)?;
        if kind == PUBLIC_KEY {
            is_selected = KeyFingerprint::from_packet(content) == Some(fingerprint);
        }
        let (packet, after) = rest.split_at(length);
        // User IDs, subkeys and signatures follow the key that they belong to.
        if is_selected {
            keyring.extend_from_slice(packet);
        }
        rest = after;
    }
    Some(keyring).filter(|keyring| !keyring.is_empty())
}

/// Decodes all armored blocks of a text and concatenates them.
fn read_armor(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for block in text.split(ARMOR_BEGIN).skip(1) {
        let (block, _) = block.split_once(ARMOR_END)?;
        let lines = block.lines().map(str::trim);
        // An empty line ends the headers. The checksum can be skipped, because the fingerprint proves the key.
        let body = lines.skip(1).skip_while(|line| !line.is_empty()).filter(|line| !line.starts_with('='));
        bytes.extend(STANDARD.decode(body.collect::<String>()).ok()?);
    }
    Some(bytes)
}

/// The packet at the beginning of a byte slice.
struct Packet<'a> {
    kind: u8,
    content: &'a [u8],
    /// The length of header and content.
    length: usize,
}

impl<'a> Packet<'a> {
    /// Parses a packet header in the old or new format. Partial lengths, which keys do not use, are refused.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first().filter(|first| **first & 0x80 != 0)?;
        let number = |count: usize| -> Option<usize> {
            let digits = bytes.get(1..=count)?;
            Some(digits.iter().fold(0, |number, digit| number << 8 | usize::from(*digit)))
        };
        // Bit 6 distinguishes the new format from the old one.
        let (kind, length, header) = if first & 0x40 == 0 {
            let count = [1, 2, 4].get(usize::from(first & 3))?;
            (first >> 2 & 0xf, number(*count)?, 1 + count)
        } else {
            match *bytes.get(1)? {
                short @ 0..192 => (first & 0x3f, usize::from(short), 2),
                192..224 => (first & 0x3f, number(2)? - (192 << 8) + 192, 3),
                // Partial body lengths.
                224..255 => return None,
                255 => {
                    let digits = bytes.get(2..6)?;
                    let length = digits.iter().fold(0, |number, digit| number << 8 | usize::from(*digit));
                    (first & 0x3f, length, 6)
                }
            }
        };
        let end = header.checked_add(length)?;
        Some(Self { kind, content: bytes.get(header..end)?, length: end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a key packet of version 4 with this content, and a user ID.
    fn key(content: &[u8]) -> (KeyFingerprint, Vec<u8>) {
        let body = [&[4], content].concat();
        let length = u8::try_from(body.len()).unwrap();
        let packets = [&[0x98, length], &body[..], &[0xb4, 1, b'u']].concat();
        (KeyFingerprint::from_packet(&body).unwrap(), packets)
    }

    fn armored(keys: &[u8]) -> String {
        let text = STANDARD.encode(keys);
        let (start, end) = text.split_at(4);
        format!("{ARMOR_BEGIN}\r\nComment: a\r\n\r\n{start}\r\n{end}\r\n=AbC1\r\n{ARMOR_END}\r\n")
    }

    #[test]
    fn fingerprints_are_read_in_groups_and_short_ids_are_refused() {
        let text = "C020 EA87 6CE4 E06C 7AB9  5AEF 4952 4C6F 9F63 8F1A";
        let fingerprint = KeyFingerprint::parse(text).unwrap();
        assert_eq!(fingerprint.to_string(), text.replace(' ', ""));
        assert_eq!(KeyFingerprint::parse(&text.to_lowercase()).unwrap(), fingerprint);
        for wrong in ["", "9F638F1A", "49524C6F9F638F1A", &text.replace('C', "G"), &"é".repeat(20)] {
            assert!(KeyFingerprint::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_key_with_the_fingerprint_is_taken_from_a_file_of_several() {
        let ((first, one), (second, two)) = (key(b"first"), key(b"second"));
        let both = [&one[..], &two].concat();
        let apart = format!("{}\n{}", armored(&one), armored(&two));
        for file in [&both[..], armored(&both).as_bytes(), apart.as_bytes()] {
            assert_eq!(select_key(file, first).as_deref(), Some(&one[..]));
            assert_eq!(select_key(file, second).as_deref(), Some(&two[..]));
            assert_eq!(select_key(file, key(b"third").0), None);
        }
    }

    #[test]
    fn both_forms_of_lengths_are_read() {
        let content = vec![4; 300];
        let fingerprint = KeyFingerprint::from_packet(&content).unwrap();
        for header in [
            &[0x99, 1, 44][..],
            &[0x9a, 0, 0, 1, 44],
            // 300 = 192 + 108.
            &[0xc6, 192, 108],
            &[0xc6, 255, 0, 0, 1, 44],
        ] {
            let file = [header, &content].concat();
            assert_eq!(select_key(&file, fingerprint), Some(file), "{header:?}");
        }
    }

    #[test]
    fn what_is_no_file_of_keys_is_refused() {
        let (fingerprint, packets) = key(b"k");
        let cut = &packets[..packets.len() - 4];
        let other_version = [&[0x98, 2, 6], &b"k"[..]].concat();
        let no_end = armored(&packets).replace(ARMOR_END, "");
        for file in [b"", &b"<html>"[..], cut, &other_version, &[0xc6, 230], &[0x9b, 0], no_end.as_bytes()] {
            assert_eq!(select_key(file, fingerprint), None, "{file:?}");
        }
    }
}
