//! Parses RFC 3339 like Go's `time.Parse`, with the same leniency and error messages.

use std::fmt::Write as _;

use super::{Timestamp, days_from_civil};

/// Why a time cannot be parsed. The message is that of Go's `time.ParseError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text does not follow the layout.
    #[error("parsing time {} as {}: cannot parse {} as {}", quote(.text), quote(.layout), quote(.rest), quote(.element))]
    Layout {
        /// The whole text.
        text: String,
        /// The layout.
        layout: &'static str,
        /// The rest of the text, from the mismatch on.
        rest: String,
        /// The element of the layout that was expected.
        element: &'static str,
    },
    /// The text follows the layout, but a part is out of range.
    #[error("parsing time {}: {what} out of range", quote(.text))]
    Range {
        /// The whole text.
        text: String,
        /// The part that is out of range.
        what: &'static str,
    },
    /// Text follows the time.
    #[error("parsing time {}: extra text: {}", quote(.text), quote(.rest))]
    Extra {
        /// The whole text.
        text: String,
        /// The text after the time.
        rest: String,
    },
}

/// Quotes text like Go's `time` package, which escapes all bytes beyond ASCII in hexadecimal.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..0x80 => quoted.push(char::from(byte)),
            other => write!(quoted, "\\x{other:02x}").expect("writing to a string never fails"),
        }
    }
    quoted.push('"');
    quoted
}

const TIME_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_TIME_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

pub(super) fn timestamp(text: &str, micro: bool) -> Result<Timestamp, ParseError> {
    let layout = if micro { MICRO_TIME_LAYOUT } else { TIME_LAYOUT };
    let mut reader = Reader { text, rest: text, layout };
    let year = reader.number(4, "2006")?;
    reader.literal("-")?;
    let month = reader.number(2, "01")?;
    reader.within(1..=12, month, "month")?;
    reader.literal("-")?;
    let day = reader.number(2, "02")?;
    reader.literal("T")?;
    let hour = reader.hour()?;
    reader.within(0..=23, hour, "hour")?;
    reader.literal(":")?;
    let minute = reader.number(2, "04")?;
    reader.within(0..=59, minute, "minute")?;
    reader.literal(":")?;
    let second = reader.number(2, "05")?;
    reader.within(0..=59, second, "second")?;
    let nanoseconds = if micro { reader.microseconds()? } else { reader.fraction() };
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(ParseError::Extra { text: text.to_owned(), rest: reader.rest.to_owned() });
    }
    // Go checks the day last, since the length of a month depends on the year.
    reader.within(1..=days_in_month(year, month), day, "day")?;
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Ok(Timestamp::new(seconds, nanoseconds))
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl Reader<'_> {
    fn mismatch(&self, element: &'static str) -> ParseError {
        let (text, rest) = (self.text.to_owned(), self.rest.to_owned());
        ParseError::Layout { text, layout: self.layout, rest, element }
    }

    fn within(&self, range: std::ops::RangeInclusive<i64>, value: i64, what: &'static str) -> Result<(), ParseError> {
        if range.contains(&value) { Ok(()) } else { Err(ParseError::Range { text: self.text.to_owned(), what }) }
    }

    fn literal(&mut self, literal: &'static str) -> Result<(), ParseError> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    fn digits(&self) -> usize {
        self.rest.bytes().take_while(u8::is_ascii_digit).count()
    }

    fn number(&mut self, length: usize, element: &'static str) -> Result<i64, ParseError> {
        if self.digits() < length {
            return Err(self.mismatch(element));
        }
        Ok(self.take_number(length))
    }

    /// Go's layout element `15` accepts one digit as well as two.
    fn hour(&mut self) -> Result<i64, ParseError> {
        match self.digits() {
            0 => Err(self.mismatch("15")),
            digits => Ok(self.take_number(digits.min(2))),
        }
    }

    fn take_number(&mut self, length: usize) -> i64 {
        let (number, rest) = self.rest.split_at(length);
        self.rest = rest;
        number.parse().expect("a few digits were counted")
    }

    /// Go accepts a fraction of any length after the seconds, after a dot or a comma, even if the layout has none.
    fn fraction(&mut self) -> u32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let length = after.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return 0;
        }
        self.rest = &after[length..];
        let nine: String = after[..length].chars().chain("000000000".chars()).take(9).collect();
        nine.parse().expect("nine digits")
    }

    fn microseconds(&mut self) -> Result<u32, ParseError> {
        let element = ".000000";
        let after = self.rest.strip_prefix('.').filter(|after| after.len() >= 6);
        let digits = after.and_then(|after| after.get(..6)).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let microseconds: u32 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| self.mismatch(element))?;
        self.rest = &self.rest[7..];
        Ok(microseconds * 1000)
    }

    /// The offset in seconds east of UTC.
    fn offset(&mut self) -> Result<i64, ParseError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let well_formed =
            bytes.len() >= 6 && bytes[3] == b':' && [1, 2, 4, 5].iter().all(|index| bytes[*index].is_ascii_digit());
        if !well_formed {
            return Err(self.mismatch("Z07:00"));
        }
        let number = |index: usize| i64::from(bytes[index] - b'0') * 10 + i64::from(bytes[index + 1] - b'0');
        let (hours, minutes) = (number(1), number(4));
        // Go accepts an offset of 24 hours and of 60 minutes.
        self.within(0..=24, hours, "time zone offset hour")?;
        self.within(0..=60, minutes, "time zone offset minute")?;
        let size = hours * 3600 + minutes * 60;
        // Go checks the sign last.
        let offset = match bytes[0] {
            b'+' => size,
            b'-' => -size,
            _ => return Err(self.mismatch("Z07:00")),
        };
        self.rest = &self.rest[6..];
        Ok(offset)
    }
}
