//! Kubernetes timestamps, in seconds and in microseconds, and the ages that kubectl shows.

use std::{fmt::Write as _, time::Duration};

mod parse;

pub use parse::ParseError;

const NANOSECONDS: i128 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

/// A point in time, before or after the Unix epoch, with nanosecond precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
}

impl From<Duration> for Timestamp {
    /// Converts a time since the epoch, as `Clock::wall` returns it.
    fn from(since_epoch: Duration) -> Self {
        let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        Self { seconds, nanoseconds: since_epoch.subsec_nanos() }
    }
}

impl Timestamp {
    /// Creates a timestamp from seconds and nanoseconds since the epoch. The nanoseconds are limited to one second.
    pub fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self { seconds, nanoseconds: nanoseconds.min(999_999_999) }
    }

    /// Parses a `metav1.Time`: RFC 3339 with any fraction of a second and any offset.
    pub fn parse_time(text: &str) -> Result<Self, ParseError> {
        parse::timestamp(text, false)
    }

    /// Parses a `metav1.MicroTime`: RFC 3339 with exactly six digits of a fraction.
    pub fn parse_micro_time(text: &str) -> Result<Self, ParseError> {
        parse::timestamp(text, true)
    }

    /// Whole seconds since the epoch.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// The nanoseconds after the whole seconds.
    pub fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// Formats a `metav1.Time`: UTC, in whole seconds.
    pub fn format_time(self) -> String {
        let mut text = self.date_and_time();
        text.push('Z');
        text
    }

    /// Formats a `metav1.MicroTime`: UTC, with six digits of a fraction.
    pub fn format_micro_time(self) -> String {
        let mut text = self.date_and_time();
        write!(text, ".{:06}Z", self.nanoseconds / 1000).expect("writing to a string never fails");
        text
    }

    fn date_and_time(self) -> String {
        let (year, month, day) = civil_from_days(self.seconds.div_euclid(DAY_SECONDS));
        let second = self.seconds.rem_euclid(DAY_SECONDS);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let mut text = String::with_capacity("2006-01-02T15:04:05.000000Z".len());
        if (0..10_000).contains(&year) {
            push_two_digits(&mut text, year / 100);
            push_two_digits(&mut text, year % 100);
        } else {
            write!(text, "{year:04}").expect("writing to a string never fails");
        }
        for (mark, number) in [('-', month), ('-', day), ('T', hour), (':', minute), (':', second)] {
            text.push(mark);
            push_two_digits(&mut text, number);
        }
        text
    }

    /// The age of `self` at the time `now`, as in kubectl's AGE column.
    pub fn age(self, now: Self) -> String {
        let total = |time: Self| i128::from(time.seconds) * NANOSECONDS + i128::from(time.nanoseconds);
        human_duration(total(now) - total(self))
    }
}

/// Appends a number below a hundred. Every write formats timestamps, and `write!` takes ten times as long.
fn push_two_digits(text: &mut String, number: i64) {
    for digit in [number / 10, number % 10] {
        text.push(char::from(b'0' + (digit % 10) as u8));
    }
}

/// Formats a time since the epoch as a `metav1.Time`.
pub fn format_time(since_epoch: Duration) -> String {
    Timestamp::from(since_epoch).format_time()
}

/// Formats a time since the epoch as a `metav1.MicroTime`.
pub fn format_micro_time(since_epoch: Duration) -> String {
    Timestamp::from(since_epoch).format_micro_time()
}

/// Formats a duration with two or three significant digits like upstream's `duration.HumanDuration`: `45s`, `3m20s`,
/// `7d4h`, `2y`. Since clocks differ, less than two seconds in the future count as `0s`; more is `<invalid>`.
pub fn human_duration(nanoseconds: i128) -> String {
    // Go's durations are limited to 292 years.
    let seconds = nanoseconds.clamp(i64::MIN.into(), i64::MAX.into()) / NANOSECONDS;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two_units(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two_units(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two_units(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => two_units(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

fn two_units(large: i128, large_unit: &str, small: i128, small_unit: &str) -> String {
    if small == 0 { format!("{large}{large_unit}") } else { format!("{large}{large_unit}{small}{small_unit}") }
}

/// Converts days since the epoch to year, month and day of the Gregorian calendar. Internally years begin in March, so
/// that the leap day is the last day of its year, and 400 years always have 146,097 days.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Converts a date to days since the epoch, the inverse of [`civil_from_days`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let year_of_era = year.rem_euclid(400);
    let march_month = (month + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    year.div_euclid(400) * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    #[test]
    fn times_are_read_and_refused_as_go_does() {
        for row in vectors::rows("times") {
            let text = row.text("in");
            let expected = |key: &str| {
                let answer = row.value(key);
                let ok = || (answer["out"].as_str().unwrap().to_owned(), answer["seconds"].as_i64().unwrap());
                answer["error"].as_str().map_or_else(|| Ok(ok()), |error| Err(error.to_owned()))
            };
            let time = Timestamp::parse_time(&text).map(|time| (time.format_time(), time.seconds()));
            assert_eq!(time.map_err(|error| error.to_string()), expected("time"), "{text:?}");
            let micro = Timestamp::parse_micro_time(&text).map(|time| (time.format_micro_time(), time.seconds()));
            assert_eq!(micro.map_err(|error| error.to_string()), expected("micro"), "{text:?}");
        }
    }

    #[test]
    fn ages_are_those_of_kubectl() {
        for row in vectors::rows("durations") {
            let milliseconds = row.value("ms").as_i64().unwrap();
            assert_eq!(human_duration(i128::from(milliseconds) * 1_000_000), row.text("ok"), "{milliseconds} ms");
        }
        let (then, now) = (Timestamp::new(100, 600_000_000), Timestamp::new(102, 500_000_000));
        assert_eq!((then.age(now), now.age(then)), ("1s".to_owned(), "0s".to_owned()));
    }

    #[test]
    fn every_day_of_a_thousand_years_has_its_date_and_back() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for days in -135_140..230_000 {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), days);
            day += 1;
            if day > parse::days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn a_wall_clock_is_written_in_utc() {
        let now = Duration::new(1_794_739_712, 123_456_789);
        assert_eq!(format_time(now), "2026-11-15T10:48:32Z");
        assert_eq!(format_micro_time(now), "2026-11-15T10:48:32.123456Z");
        // Years of more than four digits, which Go refuses to format, are not truncated.
        assert_eq!(Timestamp::new(253_402_300_800, 5_000).format_time(), "10000-01-01T00:00:00Z");
        assert_eq!(Timestamp::new(253_402_300_799, 5_000).format_micro_time(), "9999-12-31T23:59:59.000005Z");
        assert_eq!(Timestamp::new(-62_167_219_200, 0).format_time(), "0000-01-01T00:00:00Z");
        assert_eq!(Timestamp::new(-62_167_219_201, 0).format_time(), "-001-12-31T23:59:59Z");
    }
}
