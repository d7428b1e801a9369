//! Negotiation of the Docker API version: the newest that client and engine both support.

use std::fmt;

use crate::Error;

/// A version of the Docker API, as in 1.41.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// The number before the dot.
    pub major: u16,
    /// The number after the dot.
    pub minor: u16,
}

impl ApiVersion {
    /// The oldest version that this client supports; that of Debian's engine.
    pub const OLDEST: Self = Self { major: 1, minor: 41 };
    /// The newest version that this client uses; newer engines still support it.
    pub const NEWEST: Self = Self { major: 1, minor: 53 };

    /// Parses a version such as `1.41`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.trim().split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The version to use with an engine whose newest version this is. An engine that does not announce one gets
    /// [`OLDEST`](Self::OLDEST).
    ///
    /// # Errors
    /// [`Error::TooOld`] if the engine does not support [`OLDEST`](Self::OLDEST).
    pub(crate) fn negotiate(newest: Option<Self>) -> Result<Self, Error> {
        match newest {
            None => Ok(Self::OLDEST),
            Some(theirs) if theirs < Self::OLDEST => Err(Error::TooOld { theirs, oldest: Self::OLDEST }),
            Some(theirs) => Ok(theirs.min(Self::NEWEST)),
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_both_know_is_spoken() {
        let table = [
            (None, Some("1.41")),
            (Some("1.41"), Some("1.41")),
            (Some("1.47"), Some("1.47")),
            (Some("1.53"), Some("1.53")),
            (Some("1.99"), Some("1.53")),
            (Some("2.0"), Some("1.53")),
            (Some("1.40"), None),
            (Some("1.9"), None),
        ];
        for (theirs, spoken) in table {
            let theirs = theirs.map(|text| ApiVersion::parse(text).unwrap());
            let negotiated = ApiVersion::negotiate(theirs).map(|version| version.to_string());
            assert_eq!(negotiated.ok().as_deref(), spoken, "{theirs:?}");
        }
        for text in ["", "1", "1.x", "one.two", "-1.41", "99999.1"] {
            assert_eq!(ApiVersion::parse(text), None, "{text}");
        }
    }
}
