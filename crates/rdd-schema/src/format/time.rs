//! Parses dates, times and durations as Go's `time` and kube-openapi's `strfmt` do.

use rdd_meta::go_text;

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads exactly `count` digits, and returns the rest of the text.
fn digits(text: &str, count: usize) -> Option<(u32, &str)> {
    let head = text.get(..count)?;
    head.bytes().all(|byte| byte.is_ascii_digit()).then(|| (head.parse().unwrap_or(0), &text[count..]))
}

/// Whether a text is a date that exists, as `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let read = || {
        let (year, rest) = digits(text, 4)?;
        let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
        let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
        Some(rest.is_empty() && (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day))
    };
    read().unwrap_or(false)
}

/// Whether a text is a date and time for `strfmt`: it ignores the text after a second `t` and the range of the zone.
pub(super) fn is_date_time(text: &str) -> bool {
    // `strfmt` accepts `t` and `z` in either case.
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    text.len() >= 4 && is_date(date) && is_time_with_zone(time).unwrap_or(false)
}

fn is_time_with_zone(text: &str) -> Option<bool> {
    let (hour, rest) = digits(text, 2)?;
    let (minute, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (second, rest) = digits(rest.strip_prefix(':')?, 2)?;
    let in_range = hour <= 23 && minute <= 59 && second <= 59;
    Some(in_range && (is_zone(rest) || fraction(rest).is_some_and(|ways| ways.into_iter().any(is_zone))))
}

fn is_zone(text: &str) -> bool {
    let numeric = || {
        let rest = text.strip_prefix(['+', '-'])?;
        let (_, rest) = digits(rest, 2)?;
        let (_, rest) = digits(rest.strip_prefix(':')?, 2)?;
        Some(rest.is_empty())
    };
    text == "z" || numeric().unwrap_or(false)
}

/// Returns the possible ends of a fraction. Upstream's pattern has an unescaped dot, so any character but a line feed may begin
/// it.
fn fraction(text: &str) -> Option<Vec<&str>> {
    let mut characters = text.chars();
    if characters.next()? == '\n' {
        return None;
    }
    let rest = characters.as_str();
    let length = rest.bytes().take_while(u8::is_ascii_digit).count();
    Some((1..=length).map(|end| &rest[end..]).collect())
}

/// Whether a text is a duration for `time.ParseDuration`, or contains a number with one of Scala's units.
pub(super) fn is_duration(text: &str) -> bool {
    rdd_meta::go_duration::parse(text).is_ok() || is_scala_duration(text)
}

const SCALA_UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "µs", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// Whether a text contains a number with a unit, and no number of such a pair exceeds an `int64`.
fn is_scala_duration(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut found = false;
    let mut at = 0;
    while at < bytes.len() {
        let digits_end = at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits_end == at {
            at += 1;
            continue;
        }
        let space =
            bytes[digits_end..].iter().take_while(|byte| matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')).count();
        let unit_start = digits_end + space;
        let unit_text: &str = &text[unit_start..];
        let unit_length: usize =
            unit_text.chars().take_while(|c| c.is_ascii_alphabetic() || *c == 'µ').map(char::len_utf8).sum();
        if unit_length == 0 {
            at = digits_end;
            continue;
        }
        // Upstream fails here instead of trying the next pair.
        if text[at..digits_end].parse::<i64>().is_err() {
            return false;
        }
        let name = unit_text[..unit_length].to_lowercase();
        found |= SCALA_UNITS.iter().any(|variants| {
            // The last name of a unit also matches with any suffix, such as its plural.
            variants.contains(&name.as_str()) || variants.last().is_some_and(|last| name.starts_with(last))
        });
        at = unit_start + unit_length;
    }
    found
}

/// A point in time: seconds since the epoch in UTC, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

impl Instant {
    /// Whether this is Go's zero time: the first second of the year 1.
    pub(crate) fn is_zero(self) -> bool {
        self.seconds == -62_135_596_800 && self.nanoseconds == 0
    }
}

const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

/// Parses as Go's `time.Parse(time.RFC3339, text)`, with its error texts.
pub(crate) fn parse_rfc3339(text: &str) -> Result<Instant, String> {
    let mut rest = text;
    let fail = |rest: &str, element: &str| {
        let element = go_text::quote(element);
        Err(format!(
            "parsing time {} as {}: cannot parse {} as {element}",
            go_text::quote(text),
            go_text::quote(RFC3339),
            go_text::quote(rest)
        ))
    };
    // Go checks ranges while it parses, so that an earlier field is reported first.
    let range = |name: &str| Err(format!("parsing time {}: {name} out of range", go_text::quote(text)));
    let mut values = [0_u32; 6];
    let elements = [("2006", 4, ""), ("01", 2, "-"), ("02", 2, "-"), ("15", 2, "T"), ("04", 2, ":"), ("05", 2, ":")];
    for (at, (element, width, separator)) in elements.into_iter().enumerate() {
        rest = match rest.strip_prefix(separator) {
            Some(after) => after,
            None => return fail(rest, separator),
        };
        // As Go: an hour may have a single digit.
        let single = element == "15" && digits(rest, 2).is_none();
        match digits(rest, if single { 1 } else { width }) {
            Some((value, after)) => (values[at], rest) = (value, after),
            None => return fail(rest, element),
        }
        let good = match at {
            1 => (1..=12).contains(&values[1]),
            3 => values[3] < 24,
            4 | 5 => values[at] < 60,
            _ => true,
        };
        if !good {
            return range(["year", "month", "day", "hour", "minute", "second"][at]);
        }
    }
    let mut nanoseconds = 0;
    if rest.starts_with(['.', ',']) && rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) {
        // Go keeps nine digits of a fraction and ignores the rest.
        let length = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let padded = format!("{:0<9}", &rest[1..=length.min(9)]);
        nanoseconds = padded.parse().unwrap_or(0);
        rest = &rest[length + 1..];
    }
    let offset = match rest.strip_prefix('Z') {
        Some(after) => {
            rest = after;
            0
        }
        None => {
            let Some(zone) = rest.get(..6).filter(|zone| zone.as_bytes()[3] == b':') else {
                return fail(rest, "Z07:00");
            };
            let (hours, minutes) = match (digits(&zone[1..], 2), digits(&zone[4..], 2)) {
                (Some((hours, _)), Some((minutes, _))) => (i64::from(hours), i64::from(minutes)),
                _ => return fail(rest, "Z07:00"),
            };
            // Go's limits of an offset, which are one too large.
            if hours > 24 {
                return range("time zone offset hour");
            }
            if minutes > 60 {
                return range("time zone offset minute");
            }
            let seconds = hours * 3600 + minutes * 60;
            let signed = match zone.as_bytes()[0] {
                b'+' => seconds,
                b'-' => -seconds,
                _ => return fail(rest, "Z07:00"),
            };
            rest = &rest[6..];
            signed
        }
    };
    if !rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", go_text::quote(text), go_text::quote(rest)));
    }
    let [year, month, day, hour, minute, second] = values;
    if day < 1 || day > days_in(year, month) {
        return range("day");
    }
    let seconds = days_from_civil(i64::from(year), month, day) * 86_400
        + i64::from(hour) * 3600
        + i64::from(minute) * 60
        + i64::from(second)
        - offset;
    Ok(Instant { seconds, nanoseconds })
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar. Years begin in March, so that the leap day comes last.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Formats a point in time as `2006-01-02T15:04:05Z`, as timestamps of objects are written.
pub(crate) fn format_time(instant: Instant) -> String {
    let days = instant.seconds.div_euclid(86_400);
    let second_of_day = instant.seconds.rem_euclid(86_400);
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_with_an_offset_is_written_in_utc() {
        let instant = parse_rfc3339("2024-03-01T00:30:00.5+01:00").unwrap();
        assert_eq!(format_time(instant), "2024-02-29T23:30:00Z");
        assert_eq!(instant.nanoseconds, 500_000_000);
    }

    #[test]
    fn a_bad_time_is_explained_as_go_explains_it() {
        assert_eq!(
            parse_rfc3339("foo").unwrap_err(),
            r#"parsing time "foo" as "2006-01-02T15:04:05Z07:00": cannot parse "foo" as "2006""#
        );
        assert_eq!(
            parse_rfc3339("2023-02-29T00:00:00Z").unwrap_err(),
            r#"parsing time "2023-02-29T00:00:00Z": day out of range"#
        );
    }
}
