//! A certificate with its key, which does not print the key.

use std::fmt;

/// A certificate and its key, both as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS#8.
    pub key: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("certificate", &self.certificate).field("key", &"***").finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_not_printed() {
        let pair = Pair { certificate: "shown".to_owned(), key: "secret".to_owned() };
        assert_eq!(format!("{pair:?}"), r#"Pair { certificate: "shown", key: "***" }"#);
    }
}
