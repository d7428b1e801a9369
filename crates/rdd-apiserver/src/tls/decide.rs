//! Decides whether a certificate on disk can be kept, as a pure function of facts about it.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A serving certificate that expires within this time is renewed at start.
pub const LEAF_LEFT_AT_START: Duration = Duration::from_secs(30 * DAY.as_secs());
/// A serving certificate that expires within this time is renewed while serving. A restart in the month before prevents that.
pub const LEAF_LEFT_IN_FLIGHT: Duration = DAY;
/// The validity of a serving or client certificate.
pub const LEAF_VALIDITY: Duration = Duration::from_secs(365 * DAY.as_secs());
/// The validity of the authority.
pub const CA_VALIDITY: Duration = Duration::from_secs(3_650 * DAY.as_secs());
/// An authority that expires within this time is renewed at start: it must outlive the leaf that it signs today, and also the
/// renewal of that leaf in a year.
pub const CA_LEFT_AT_START: Duration = Duration::from_secs(2 * LEAF_VALIDITY.as_secs());

/// The result of reading a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The certificate or its key does not exist.
    Missing,
    /// The files are not a valid certificate and key; the text is the reason.
    Unreadable(String),
    /// A certificate and a key.
    Readable(Facts),
}

/// The facts about a certificate that the decision needs. Times are since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The key file belongs to the certificate.
    pub key_matches: bool,
    /// The authority's key signed the certificate (for the authority: its own key), and the certificate names the authority as
    /// its issuer.
    pub signed_by_authority: bool,
    /// The certificate has the required content: the names and addresses of the server, or the CA flag.
    pub fit_for_use: bool,
    /// The start of the validity.
    pub not_before: Duration,
    /// The end of the validity.
    pub not_after: Duration,
}

/// Whether to keep a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Keep using the certificate.
    Keep,
    /// Issue a new certificate.
    Renew {
        /// The reason, a clause for the log, as in "it expires in less than 30 days".
        reason: String,
    },
}

/// Decides whether to keep a certificate at the time `now`, if it must remain valid for at least `least_left`.
pub fn decide(found: &Found, now: Duration, least_left: Duration) -> Decision {
    let renew = |reason: &str| Decision::Renew { reason: reason.to_owned() };
    let facts = match found {
        Found::Missing => return renew("there is none yet"),
        Found::Unreadable(why) => return renew(&format!("it cannot be read: {why}")),
        Found::Readable(facts) => facts,
    };
    if !facts.key_matches {
        return renew("its key does not match");
    }
    if !facts.signed_by_authority {
        return renew("it is not signed by our authority");
    }
    if !facts.fit_for_use {
        return renew("it was not made for this use");
    }
    if now < facts.not_before {
        return renew("it is not valid yet");
    }
    if facts.not_after <= now {
        return renew("it has expired");
    }
    if facts.not_after - now < least_left {
        return renew(&format!("it expires in less than {} days", least_left.as_secs().div_ceil(DAY.as_secs())));
    }
    Decision::Keep
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    fn good() -> Facts {
        Facts {
            key_matches: true,
            signed_by_authority: true,
            fit_for_use: true,
            not_before: NOW - DAY,
            not_after: NOW + LEAF_VALIDITY,
        }
    }

    #[track_caller]
    fn check(found: &Found, expected: &str) {
        let said = match decide(found, NOW, LEAF_LEFT_AT_START) {
            Decision::Keep => "keep".to_owned(),
            Decision::Renew { reason } => reason,
        };
        assert_eq!(said, expected, "{found:?}");
    }

    #[test]
    fn a_certificate_is_kept_only_if_nothing_is_wrong_with_it() {
        let second = Duration::from_secs(1);
        check(&Found::Missing, "there is none yet");
        check(&Found::Unreadable("bad pem".to_owned()), "it cannot be read: bad pem");
        let rows = [
            (good(), "keep"),
            (Facts { key_matches: false, ..good() }, "its key does not match"),
            (Facts { signed_by_authority: false, ..good() }, "it is not signed by our authority"),
            (Facts { fit_for_use: false, ..good() }, "it was not made for this use"),
            (Facts { not_before: NOW, ..good() }, "keep"),
            (Facts { not_before: NOW + second, ..good() }, "it is not valid yet"),
            (Facts { not_after: NOW, ..good() }, "it has expired"),
            (Facts { not_after: NOW - second, ..good() }, "it has expired"),
            (Facts { not_after: NOW + LEAF_LEFT_AT_START, ..good() }, "keep"),
            (Facts { not_after: NOW + LEAF_LEFT_AT_START - second, ..good() }, "it expires in less than 30 days"),
        ];
        for (facts, expected) in rows {
            check(&Found::Readable(facts), expected);
        }
    }
}
