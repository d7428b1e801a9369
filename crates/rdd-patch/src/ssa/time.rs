//! The timestamps of `metadata.managedFields`, with a precision of one second.

use std::{fmt, str::FromStr};

const DAY: i64 = 86_400;

/// Seconds since the Unix epoch; formatted and parsed as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// A text is not an RFC 3339 timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse {text:?} as an RFC 3339 timestamp")]
pub struct ParseTimeError {
    text: String,
}

impl FromStr for Timestamp {
    type Err = ParseTimeError;

    /// Accepts and drops fractions of a second.
    fn from_str(text: &str) -> Result<Self, ParseTimeError> {
        parse(text).map(Self).ok_or_else(|| ParseTimeError { text: text.to_owned() })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&rdd_meta::time::Timestamp::new(self.0, 0).format_time())
    }
}

fn parse(text: &str) -> Option<i64> {
    if !text.is_ascii() {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let mark = |at: usize, expected: &[u8]| text.as_bytes().get(at).filter(|byte| expected.contains(byte)).map(|_| ());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    for (at, expected) in [(4, b"-"), (7, b"-"), (10, b"T"), (13, b":"), (16, b":")] {
        mark(at, expected)?;
    }
    let is_valid = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    let mut rest = &text[19..];
    if let Some(fraction) = rest.strip_prefix(['.', ',']) {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        rest = &fraction[digits..];
    }
    let offset = offset_of(rest)?;
    is_valid.then(|| days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset)
}

/// Parses an offset from UTC (`Z`, `+01:00`, `-05:30`) into seconds.
fn offset_of(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text.get(1..)?.split_once(':')?;
    let two_digits =
        |text: &str| (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?;
    let (hours, minutes): (i64, i64) = (two_digits(hours)?, two_digits(minutes)?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date in the Gregorian calendar. Years begin in March here, in eras of 400 years.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_four_centuries_survives_the_text() {
        for day in -140_000..160_000 {
            let time = Timestamp(day * DAY + 45_296);
            assert_eq!(time.to_string().parse(), Ok(time), "{time}");
        }
        assert_eq!(Timestamp(951_782_400).to_string(), "2000-02-29T00:00:00Z");
    }

    #[test]
    fn offsets_are_taken_to_utc_and_fractions_dropped() {
        assert_eq!("1970-01-01T01:00:00.999+01:00".parse(), Ok(Timestamp(0)));
        for text in [
            "",
            "1970-01-01",
            "1970-02-29T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00",
            "é970-01-01T00:00:00Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
