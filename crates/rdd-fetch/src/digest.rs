//! SHA-256 digests, and lists of digests in the format of `sha256sum`.

use std::fmt;

use ring::digest;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

/// A text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a SHA-256 digest: those have 64 hexadecimal digits")]
pub struct InvalidDigest(String);

impl Sha256 {
    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest(text.chars().take(80).collect());
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }

    /// Computes the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Computes a digest incrementally.
#[derive(Clone)]
pub(crate) struct Hasher(digest::Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Sha256 {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.finish().as_ref());
        Sha256(bytes)
    }
}

/// Finds the digest of `entry` in a list in the format of `sha256sum`: digest, white space, an optional asterisk, name.
pub fn find_in_list(list: &str, entry: &str) -> Option<Sha256> {
    list.lines().find_map(|line| {
        let (digest, name) = line.trim().split_once([' ', '\t'])?;
        let name = name.trim_start();
        let name = name.strip_prefix('*').unwrap_or(name);
        // `sha256sum ./*` writes names with a leading `./`.
        (name == entry || name.strip_prefix("./") == Some(entry)).then(|| Sha256::parse(digest).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_read_and_written() {
        assert_eq!(Sha256::parse(EMPTY).unwrap(), Sha256::of(b""));
        assert_eq!(Sha256::of(b"").to_string(), EMPTY);
        assert_eq!(Sha256::parse(&EMPTY.to_uppercase()).unwrap().to_string(), EMPTY);
        for wrong in ["", "e3", &EMPTY[1..], &EMPTY.replace('e', "g"), &format!("+{}", &EMPTY[1..]), &"é".repeat(32)] {
            assert!(Sha256::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_are_read_as_they_are_published() {
        let list = format!(
            "# comment\r\n{EMPTY}  k3s\r\n{EMPTY} *k3s-airgap-images-amd64.tar\n{EMPTY}\t./other\nx k3s-arm64\n"
        );
        for name in ["k3s", "k3s-airgap-images-amd64.tar", "other"] {
            assert_eq!(find_in_list(&list, name), Some(Sha256::of(b"")), "{name}");
        }
        for name in ["k3s-arm64", "k3", "comment", ""] {
            assert_eq!(find_in_list(&list, name), None, "{name}");
        }
    }
}
