//! Go's conversions and formats of numbers, times and durations, which show in results and error texts.

use std::cmp::Ordering;

use crate::value::Timestamp;

/// The integer that a double is equal to, if there is one.
pub(crate) fn whole_int(value: f64) -> Option<i64> {
    let fits = value.is_finite() && value > i64::MIN as f64 && value < i64::MAX as f64;
    (fits && value.trunc() == value).then_some(value as i64)
}

/// The unsigned integer that a double is equal to, if there is one.
pub(crate) fn whole_uint(value: f64) -> Option<u64> {
    let fits = (0.0..18_446_744_073_709_551_616.0).contains(&value);
    (fits && value.trunc() == value).then_some(value as u64)
}

/// Compares integers of different types without conversion losses.
pub(crate) fn compare_int_uint(int: i64, uint: u64) -> Ordering {
    u64::try_from(int).map_or(Ordering::Less, |int| int.cmp(&uint))
}

/// Compares a double with an integer. The double must not be NaN.
pub(crate) fn compare_double_int(double: f64, int: i64) -> Ordering {
    if double < i64::MIN as f64 {
        return Ordering::Less;
    }
    if double > i64::MAX as f64 {
        return Ordering::Greater;
    }
    double.partial_cmp(&(int as f64)).unwrap_or(Ordering::Equal)
}

/// Compares a double with an unsigned integer. The double must not be NaN.
pub(crate) fn compare_double_uint(double: f64, uint: u64) -> Ordering {
    if double < 0.0 {
        return Ordering::Less;
    }
    if double > u64::MAX as f64 {
        return Ordering::Greater;
    }
    double.partial_cmp(&(uint as f64)).unwrap_or(Ordering::Equal)
}

/// Formats as Go's `strconv.FormatFloat(x, 'f', -1, 64)`.
pub(crate) fn float_f(value: f64) -> String {
    format!("{value}")
}

/// Formats as Go's `time.RFC3339Nano`, with the timestamp's own offset.
pub(crate) fn timestamp_text(moment: Timestamp) -> String {
    let local = civil(moment.seconds + i64::from(moment.offset_seconds));
    let mut text = format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
        local.year, local.month, local.day, local.hour, local.minute, local.second
    );
    if moment.nanos > 0 {
        let fraction = format!("{:09}", moment.nanos);
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    if moment.offset_seconds == 0 {
        text.push('Z');
    } else {
        let minutes = moment.offset_seconds / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60));
    }
    text
}

/// Formats a duration as `string(duration)` does: in seconds.
pub(crate) fn duration_text(nanos: i64) -> String {
    // As Go's `time.Duration.Seconds`: whole seconds plus the rest, added as doubles.
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{}s", float_f(seconds))
}

/// A date and a time of day in the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    /// 0 is the first of January
    pub(crate) day_of_year: u32,
    /// 0 is Sunday
    pub(crate) weekday: u32,
}

/// Converts seconds since 1970 to a date and time of day.
pub(crate) fn civil(seconds: i64) -> Civil {
    let days = seconds.div_euclid(86_400);
    let rest = seconds.rem_euclid(86_400) as u32;
    // Days since 0000-03-01: in years that begin in March, the leap day comes last.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month_index + 2) / 5 + 1) as u32;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let day_of_year = (days - days_from_civil(year, 1, 1)) as u32;
    let weekday = (days + 4).rem_euclid(7) as u32;
    Civil { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60, day_of_year, weekday }
}

/// Converts a date to days since 1970-01-01.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_index = i64::from((month + 9) % 12);
    let of_year = (153 * month_index + 2) / 5 + i64::from(day) - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

/// The number of days of a month.
pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Parses as Go's `time.ParseDuration`. The result is in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    rdd_meta::go_duration::parse(text).ok()
}

/// Parses as Go's `time.Parse(time.RFC3339, …)`, which also accepts a comma before the fraction and an hour of one digit.
pub(crate) fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let octets = text.as_bytes();
    let number = |from: usize, count: usize| -> Option<u32> {
        let part = octets.get(from..from + count)?;
        part.iter().all(u8::is_ascii_digit).then(|| part.iter().fold(0, |n, d| n * 10 + u32::from(d - b'0')))
    };
    let literal = |at: usize, wanted: u8| (octets.get(at) == Some(&wanted)).then_some(());
    let year = i64::from(number(0, 4)?);
    literal(4, b'-')?;
    let month = number(5, 2).filter(|month| (1..=12).contains(month))?;
    literal(7, b'-')?;
    let day = number(8, 2).filter(|day| (1..=days_in_month(year, month)).contains(day))?;
    literal(10, b'T')?;
    let (hour, mut at) = match number(11, 2) {
        Some(hour) => (hour, 13),
        None => (number(11, 1)?, 12),
    };
    literal(at, b':')?;
    let minute = number(at + 1, 2)?;
    literal(at + 3, b':')?;
    let second = number(at + 4, 2)?;
    at += 6;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut nanos = 0;
    if matches!(octets.get(at), Some(b'.' | b',')) {
        let digits = octets[at + 1..].iter().take_while(|d| d.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        for place in 0..9 {
            let digit = if place < digits { u32::from(octets[at + 1 + place] - b'0') } else { 0 };
            nanos = nanos * 10 + digit;
        }
        at += 1 + digits;
    }
    let offset_seconds = match octets.get(at)? {
        b'Z' if at + 1 == octets.len() => 0,
        sign @ (b'+' | b'-') if at + 6 == octets.len() => {
            let (hours, minutes) = (number(at + 1, 2)?, number(at + 4, 2)?);
            literal(at + 3, b':')?;
            if hours > 24 || minutes > 60 {
                return None;
            }
            let offset = (hours * 3600 + minutes * 60) as i32;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };
    let days = days_from_civil(year, month, day);
    let seconds = days * 86_400 + i64::from(hour * 3600 + minute * 60 + second) - i64::from(offset_seconds);
    Some(Timestamp { seconds, nanos, offset_seconds })
}
