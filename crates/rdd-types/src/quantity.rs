//! Amounts of memory, as Kubernetes writes them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};

/// What is written after a number, and how much of it that is.
const SUFFIXES: &[(&str, Scale)] = &[
    ("", Scale::Decimal(0)),
    ("k", Scale::Decimal(3)),
    ("M", Scale::Decimal(6)),
    ("G", Scale::Decimal(9)),
    ("T", Scale::Decimal(12)),
    ("P", Scale::Decimal(15)),
    ("E", Scale::Decimal(18)),
    ("m", Scale::Decimal(-3)),
    ("u", Scale::Decimal(-6)),
    ("n", Scale::Decimal(-9)),
    ("Ki", Scale::Binary(1)),
    ("Mi", Scale::Binary(2)),
    ("Gi", Scale::Binary(3)),
    ("Ti", Scale::Binary(4)),
    ("Pi", Scale::Binary(5)),
    ("Ei", Scale::Binary(6)),
];

/// No quantity has more digits on one side of its point than this: more than any machine has bytes.
const DIGITS_MAX: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// A power of ten.
    Decimal(i32),
    /// A power of 1024.
    Binary(u32),
}

/// An amount such as `4Gi`, kept as it was written.
///
/// Two quantities are equal when they are written alike; compare [`Quantity::bytes`] to know whether they are as much.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quantity(String);

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity: write a number of bytes, or one with a suffix such as Mi or Gi")]
pub struct QuantityError(String);

impl Quantity {
    /// So many bytes, with the largest binary suffix that divides them: `16Gi`, or `1537Mi`, or a bare number.
    pub fn binary(bytes: u64) -> Self {
        Self(binary(u128::from(bytes)))
    }

    /// How many bytes that is; a part of a byte counts as a whole one. Less than nothing is nothing.
    ///
    /// # Errors
    /// When the text is no quantity, or more than 2^64 bytes.
    pub fn bytes(&self) -> Result<u64, QuantityError> {
        parse(&self.0).and_then(|(bytes, _)| u64::try_from(bytes).ok()).ok_or_else(|| QuantityError(self.0.clone()))
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As Kubernetes would write it in a message: with the largest suffix of its own family that divides it.
    pub fn canonical(&self) -> String {
        match parse(&self.0) {
            Some((bytes, Scale::Binary(_))) => binary(bytes),
            Some((bytes, Scale::Decimal(_))) => decimal(bytes),
            None => self.0.clone(),
        }
    }
}

fn binary(bytes: u128) -> String {
    with_suffix(bytes, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

fn decimal(bytes: u128) -> String {
    with_suffix(bytes, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

fn with_suffix(mut number: u128, step: u128, suffixes: &[&str]) -> String {
    let mut suffixes = suffixes.iter();
    let mut suffix = suffixes.next().copied().unwrap_or_default();
    while number != 0 && number.is_multiple_of(step) {
        let Some(next) = suffixes.next() else { break };
        suffix = next;
        number /= step;
    }
    format!("{number}{suffix}")
}

/// The bytes, rounded up, and the family of the suffix.
fn parse(text: &str) -> Option<(u128, Scale)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let fits = |digits: &str| digits.len() <= DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !fits(whole) || !fits(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let scale = scale(suffix)?;
    // The number is digits / 10^places.
    let digits: u128 = format!("0{whole}{part}").parse().ok().filter(|_| whole.len() + part.len() <= 30)?;
    let places = i32::try_from(part.len()).ok()?;
    let bytes = match scale {
        Scale::Binary(power) => ceiling(digits.checked_mul(1024_u128.checked_pow(power)?)?, places)?,
        Scale::Decimal(power) if power >= places => digits.checked_mul(ten_to(power - places)?)?,
        Scale::Decimal(power) => ceiling(digits, places - power)?,
    };
    Some((if negative { 0 } else { bytes }, scale))
}

fn scale(suffix: &str) -> Option<Scale> {
    if let Some((_, scale)) = SUFFIXES.iter().find(|(word, _)| *word == suffix) {
        return Some(*scale);
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    (-30..=30).contains(&exponent).then_some(Scale::Decimal(exponent))
}

fn ten_to(power: i32) -> Option<u128> {
    10_u128.checked_pow(u32::try_from(power).ok()?)
}

fn ceiling(digits: u128, places: i32) -> Option<u128> {
    // More places than a number can have digits: a very small part of a byte.
    Some(ten_to(places).map_or(u128::from(digits != 0), |unit| digits.div_ceil(unit)))
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let quantity = Self(text.to_owned());
        quantity.bytes().map(|_| quantity)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// Takes a text as it is, and a number as a text: the server has checked both, and an odd one must not keep us from reading the object.
struct Reader;

impl de::Visitor<'_> for Reader {
    type Value = Quantity;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a quantity")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        Ok(Quantity(text.to_owned()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
        Ok(Quantity(number.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_with_the_largest_binary_suffix_that_divides_them() {
        let table: &[(u64, &str)] = &[
            (0, "0"),
            (1, "1"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1537 << 20, "1537Mi"),
            (16 << 30, "16Gi"),
            (1024 << 30, "1Ti"),
            (16_413_892 << 10, "16413892Ki"),
            (u64::MAX, "18446744073709551615"),
        ];
        for (bytes, text) in table {
            assert_eq!(Quantity::binary(*bytes).as_str(), *text);
            assert_eq!(Quantity::binary(*bytes).bytes(), Ok(*bytes));
        }
    }

    #[test]
    fn every_way_of_writing_an_amount_is_understood() {
        let table: &[(&str, u64, &str)] = &[
            ("4Gi", 4 << 30, "4Gi"),
            ("2048Mi", 2 << 30, "2Gi"),
            ("1.5Gi", 3 << 29, "1536Mi"),
            ("4294967296", 4 << 30, "4294967296"),
            ("4000000000", 4_000_000_000, "4G"),
            ("2e9", 2_000_000_000, "2G"),
            ("1E3", 1000, "1k"),
            ("2E", 2_000_000_000_000_000_000, "2E"),
            ("100m", 1, "1"),
            ("0.3Ki", 308, "308"),
            ("1n", 1, "1"),
            ("+5", 5, "5"),
            ("-5Gi", 0, "0"),
            (".5k", 500, "500"),
            ("5.", 5, "5"),
            ("999999Gi", 999_999 << 30, "999999Gi"),
        ];
        for (text, bytes, canonical) in table {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!((quantity.bytes().unwrap(), quantity.canonical().as_str()), (*bytes, *canonical), "{text}");
            assert_eq!(quantity.to_string(), *text);
        }
    }

    #[test]
    fn what_is_no_amount_is_refused_and_never_panics() {
        for text in [
            "",
            "-",
            "Gi",
            "4GiB",
            "4 Gi",
            "1..2",
            "٣",
            "1e",
            "1e99",
            "4gi",
            "99999999Ei",
            &"9".repeat(99),
            "0x10",
            ".",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        let odd: Quantity = serde_json::from_str("\"4GiB\"").unwrap();
        assert_eq!((odd.canonical().as_str(), odd.bytes().is_err()), ("4GiB", true));
    }

    #[test]
    fn a_number_is_read_as_well_as_a_text() {
        let read = |text: &str| serde_json::from_str::<Quantity>(text).unwrap().bytes().unwrap();
        assert_eq!((read("2147483648"), read("\"2Gi\"")), (2 << 30, 2 << 30));
        assert_eq!(serde_json::to_string(&Quantity::binary(1 << 30)).unwrap(), "\"1Gi\"");
    }
}
