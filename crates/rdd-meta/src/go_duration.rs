//! Parses durations in Go's format, such as `1h15m30.918s`, `-1.5s` or `0`.

use crate::go_text::quote;

/// Parses a duration into nanoseconds.
///
/// # Errors
/// The message of Go's `time.ParseDuration`, when the text is malformed or exceeds 64 bits.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (value, scale, after) = number(rest).ok_or_else(invalid)?;
        let end = after.find(|found: char| found == '.' || found.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let nanoseconds =
            unit_of(unit).ok_or_else(|| format!("time: unknown unit {} in duration {}", quote(unit), quote(text)))?;
        let whole = value.checked_mul(nanoseconds).ok_or_else(invalid)?;
        // Go truncates the fraction to whole nanoseconds.
        let (fraction, power) = scale;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as Go computes it"
        )]
        let part = (fraction as f64 * (nanoseconds as f64 / power)) as u64;
        total = whole.checked_add(part).and_then(|sum| total.checked_add(sum)).ok_or_else(invalid)?;
        if total > 1 << 63 {
            return Err(invalid());
        }
        rest = next;
    }
    match (negative, i64::try_from(total)) {
        (true, Ok(total)) => Ok(-total),
        // 2^63 nanoseconds only fit as a negative number.
        (true, Err(_)) => Ok(i64::MIN),
        (false, Ok(total)) => Ok(total),
        (false, Err(_)) => Err(invalid()),
    }
}

/// Splits off a number: its whole part, its fraction with the power of ten, and the rest. `None` without digits, or
/// when the whole part overflows.
fn number(text: &str) -> Option<(u64, (u64, f64), &str)> {
    let digits = |text: &str| text.len() - text.trim_start_matches(|found: char| found.is_ascii_digit()).len();
    let whole = digits(text);
    let value = if whole == 0 { 0 } else { text[..whole].parse().ok()? };
    let mut rest = &text[whole..];
    let mut fraction = (0, 1.0);
    let mut count = 0;
    if let Some(after) = rest.strip_prefix('.') {
        count = digits(after);
        // Go ignores the digits of a fraction that would overflow 63 bits.
        let kept = after[..count].bytes().scan(0_u64, |read, digit| {
            *read = (*read <= (1 << 63) / 10).then(|| *read * 10 + u64::from(digit - b'0'))?;
            (*read <= 1 << 63).then_some(*read)
        });
        fraction = kept.fold(fraction, |(_, scale), read| (read, scale * 10.0));
        rest = &after[count..];
    }
    (whole + count > 0).then_some((value, fraction, rest))
}

fn unit_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("-1.5s", -1_500_000_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            (".5ms", 500_000),
            ("1µs2ns", 1_002),
            ("0.333333333333333333h", 1_200_000_000_000 - 1),
            ("-9223372036854775808ns", i64::MIN),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse(text), Ok(nanoseconds), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_in_gos_words() {
        let cases = [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            ("3", "time: missing unit in duration \"3\""),
            ("s", "time: invalid duration \"s\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("99999999999999999999s", "time: invalid duration \"99999999999999999999s\""),
        ];
        for (text, why) in cases {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
