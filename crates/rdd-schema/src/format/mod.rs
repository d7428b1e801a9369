//! The string formats of OpenAPI, each validated as kube-openapi's `strfmt` does.

mod address;
mod mail;
mod number;
mod time;
mod uri;

use std::sync::LazyLock;

use rdd_meta::names;
use regex::Regex;

pub(crate) use address::{parse_ip, parse_ip_sloppy};
pub(crate) use time::{Instant, format_time, parse_rfc3339};
pub(crate) use uri::parse_request_uri;

/// Whether a text is a URL with a scheme and a host.
pub fn is_absolute_url(text: &str) -> bool {
    parse_request_uri(text).is_some_and(|uri| uri.has_scheme && uri.has_host)
}

/// A string format that is validated. Any other format is accepted and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl Format {
    /// Looks up a format by its name. Dashes are ignored; case is significant.
    pub fn of(name: &str) -> Option<Format> {
        // `strfmt` normalizes names in the same way, so `date-time` and `datetime` are one format.
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Format::BsonObjectId,
            "uri" => Format::Uri,
            "email" => Format::Email,
            "hostname" => Format::Hostname,
            "ipv4" => Format::Ipv4,
            "ipv6" => Format::Ipv6,
            "cidr" => Format::Cidr,
            "mac" => Format::Mac,
            "uuid" => Format::Uuid,
            "uuid3" => Format::Uuid3,
            "uuid4" => Format::Uuid4,
            "uuid5" => Format::Uuid5,
            "isbn" => Format::Isbn,
            "isbn10" => Format::Isbn10,
            "isbn13" => Format::Isbn13,
            "creditcard" => Format::CreditCard,
            "ssn" => Format::Ssn,
            "hexcolor" => Format::HexColor,
            "rgbcolor" => Format::RgbColor,
            "byte" => Format::Byte,
            "password" => Format::Password,
            "date" => Format::Date,
            "duration" => Format::Duration,
            "datetime" => Format::DateTime,
            "k8sshortname" => Format::ShortName,
            "k8slongname" => Format::LongName,
            _ => return None,
        })
    }

    /// Whether `text` has this format.
    pub fn accepts(self, text: &str) -> bool {
        match self {
            Format::BsonObjectId => text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            Format::Uri => parse_request_uri(text).is_some(),
            Format::Email => mail::is_address(text),
            Format::Hostname => is_hostname(text),
            // The parsers accept both families; the separator decides which one it is.
            Format::Ipv4 => parse_ip_sloppy(text).is_some() && text.contains('.'),
            Format::Ipv6 => parse_ip(text).is_some() && text.contains(':'),
            Format::Cidr => address::is_cidr_sloppy(text),
            Format::Mac => address::is_mac(text),
            Format::Uuid => is_uuid(text, None, false),
            Format::Uuid3 => is_uuid(text, Some(b'3'), false),
            Format::Uuid4 => is_uuid(text, Some(b'4'), true),
            Format::Uuid5 => is_uuid(text, Some(b'5'), true),
            Format::Isbn => number::is_isbn10(text) || number::is_isbn13(text),
            Format::Isbn10 => number::is_isbn10(text),
            Format::Isbn13 => number::is_isbn13(text),
            Format::CreditCard => number::is_credit_card(text),
            Format::Ssn => number::is_social_security(text),
            Format::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
            Format::RgbColor => RGB_COLOR.is_match(text),
            Format::Byte => is_base64(text),
            // The format only hides input in user interfaces.
            Format::Password => true,
            Format::Date => time::is_date(text),
            Format::Duration => time::is_duration(text),
            Format::DateTime => time::is_date_time(text),
            Format::ShortName => text.len() <= 63 && names::is_dns_1123_label(text),
            Format::LongName => text.len() <= 253 && names::is_dns_1123_subdomain(text),
        }
    }
}

static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let channel = r"(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])";
    let space = r"[\t\n\f\r ]*";
    Regex::new(&format!(r"^rgb\({space}{channel}{space},{space}{channel}{space},{space}{channel}{space}\)$"))
        .expect("the pattern is a constant")
});

/// Whether a text is a host name: letters, digits and symbols of any script, labels of at most 63 bytes, and, if it has dots,
/// only letters in the top label.
fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    is_bare_host(text) || is_dotted_host(text)
}

static HOST_CHARACTER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[a-zA-Z0-9\p{S}\p{L}]$").expect("the pattern is a constant"));
static LETTER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\p{L}$").expect("the pattern is a constant"));

fn is_host_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || HOST_CHARACTER.is_match(character.encode_utf8(&mut [0; 4]))
}

/// Whether a text is one character, optionally a dash, and up to 62 more characters without a dash.
fn is_bare_host(text: &str) -> bool {
    let mut rest = text.chars();
    if !rest.next().is_some_and(is_host_character) {
        return false;
    }
    let rest = rest.as_str();
    // Only the second character may be a dash, as in upstream's expression.
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    rest.chars().count() <= 62 && rest.chars().all(is_host_character)
}

/// Whether a text is a host name with dots; each label begins and ends without a dash.
fn is_dotted_host(text: &str) -> bool {
    let Some((head, top)) = text.rsplit_once('.') else { return false };
    let top_length = top.chars().count();
    let letter = |c: char| c.is_ascii_alphabetic() || LETTER.is_match(c.encode_utf8(&mut [0; 4]));
    if !(2..=63).contains(&top_length) || !top.chars().all(letter) {
        return false;
    }
    head.split('.').all(|label| {
        let mut characters = label.chars();
        let Some(first) = characters.next() else { return false };
        if !is_host_character(first) {
            return false;
        }
        // A label of one character has no last one.
        match characters.next_back() {
            None => true,
            Some(last) => {
                is_host_character(last)
                    && characters.clone().count() <= 61
                    && characters.all(|character| character == '-' || is_host_character(character))
            }
        }
    })
}

/// Whether a text is a UUID: five groups of hex digits, dashes between them optional. `version` is the first digit of the third
/// group; with `variant`, the fourth begins with a variant digit.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut rest = text.as_bytes();
    for (group, length) in [8_usize, 4, 4, 4, 12].into_iter().enumerate() {
        // Upstream's expression makes each dash optional on its own.
        if group > 0 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
        if rest.len() < length || !rest[..length].iter().all(u8::is_ascii_hexdigit) {
            return false;
        }
        if group == 2 && version.is_some_and(|digit| rest[0] != digit) {
            return false;
        }
        if group == 3 && variant && !matches!(rest[0].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b') {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

/// Whether a text is standard base64 with padding and not empty.
fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) {
        return false;
    }
    // Go's decoder accepts at most two padding characters, and only at the end.
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    padding <= 2
        && bytes[..bytes.len() - padding].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_in_a_format_name_do_not_count_and_unknown_names_are_no_format() {
        assert_eq!(Format::of("date-time"), Some(Format::DateTime));
        assert_eq!(Format::of("k8s-short-name"), Some(Format::ShortName));
        assert_eq!(Format::of("int32"), None);
    }

    #[test]
    fn each_format_takes_its_own_and_refuses_the_rest() {
        for (format, good, bad) in [
            (Format::Ipv4, "010.0.0.1", "1.2.3"),
            (Format::Ipv6, "::ffff:1.2.3.4", "1.2.3.4"),
            (Format::Cidr, "10.0.0.0/8", "10.0.0.0"),
            (Format::Mac, "01:23:45:67:89:ab", "01:23"),
            (Format::Uuid4, "f47ac10b58cc4372a5670e02b2c3d479", "f47ac10b-58cc-3372-a567-0e02b2c3d479"),
            (Format::Isbn13, "978-0321751041", "978-0321751042"),
            (Format::CreditCard, "4111 1111 1111 1111", "4111 1111 1111 1112"),
            (Format::Byte, "aGk=", "aGk"),
            (Format::Date, "2024-02-29", "2023-02-29"),
            (Format::DateTime, "2024-02-29T23:59:59.1+00:00", "2024-02-29 23:59:59Z"),
            (Format::Duration, "2 days", "x"),
            (Format::Hostname, "a-b.example", "-a.example"),
            (Format::Email, "Bob <b@c.d>", "b@"),
            (Format::Uri, "mailto:a@b", "a/b"),
            (Format::RgbColor, "rgb( 1,2 ,255)", "rgb(1,2)"),
            (Format::Ssn, "123-45-6789", "123456789"),
        ] {
            assert!(format.accepts(good), "{format:?} {good}");
            assert!(!format.accepts(bad), "{format:?} {bad}");
        }
    }
}
