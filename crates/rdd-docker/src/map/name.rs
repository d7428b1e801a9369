//! The names of mirror objects.

use ring::digest::{SHA256, digest};

/// The prefix of the names of image mirrors.
const IMAGE: &str = "img-";
/// The prefix of the names of volume mirrors.
const VOLUME: &str = "vol-";

/// The name of the mirror of an image with one of its tags, or of an untagged image.
pub fn image_name(id: &str, tag: Option<&str>) -> String {
    let text = match tag {
        Some(tag) => format!("{id}\0{tag}"),
        None => id.to_owned(),
    };
    hashed(IMAGE, &text)
}

/// The name of the mirror of a volume.
pub fn volume_name(volume: &str) -> String {
    hashed(VOLUME, volume)
}

/// Whether this can be the name of a container's mirror, which is the container's ID.
pub fn is_container_name(name: &str) -> bool {
    is_hash(name)
}

/// Whether this can be the name of an image's mirror.
pub fn is_image_name(name: &str) -> bool {
    name.strip_prefix(IMAGE).is_some_and(is_hash)
}

/// Whether this can be the name of a volume's mirror.
pub fn is_volume_name(name: &str) -> bool {
    name.strip_prefix(VOLUME).is_some_and(is_hash)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hashed(prefix: &str, text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = String::with_capacity(prefix.len() + 64);
    name.push_str(prefix);
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        name.push(char::from(DIGITS[usize::from(byte >> 4)]));
        name.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashes_of_what_is_mirrored() {
        // printf '%s' data | sha256sum
        assert_eq!(volume_name("data"), "vol-3a6eb0790f39ac87c94f3856b2dd2c5d110e6811602261a9a923d3bb23adc8b7");
        // printf 'sha256:0af\0alpine:3' | sha256sum
        let tagged = image_name("sha256:0af", Some("alpine:3"));
        assert_eq!(tagged, "img-d0633920f84b60407162b356e729f4c2abf09103118a9c219d9fa80673425272");
        assert_ne!(image_name("sha256:0af", None), tagged);
        assert!(is_image_name(&tagged) && is_volume_name(&volume_name("")) && is_container_name(&"0f".repeat(32)));
        assert!(!is_image_name("img-short") && !is_volume_name(&tagged) && !is_container_name(&"0F".repeat(32)));
    }
}
