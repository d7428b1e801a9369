//! A certificate with its private key, which `Debug` does not print.

use std::fmt;

/// A certificate and its private key in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key, in PKCS#8.
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
