//! Parses and formats values as Go's standard library does, since scripts and stored files rely on that form.

use std::{fmt, str::FromStr, time::Duration};

use rdd_meta::go_text;
pub use rdd_meta::go_text::quote;

/// Parses a boolean as `strconv.ParseBool` does.
pub fn parse_bool(text: &str) -> Result<bool, ParseError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(ParseError(format!("strconv.ParseBool: parsing {}: invalid syntax", quote(text)))),
    }
}

/// Parses a decimal number as `strconv.ParseInt` does.
pub fn parse_int(text: &str) -> Result<i64, ParseError> {
    go_text::parse_int(text).map_err(|error| ParseError(error.to_string()))
}

/// A parse error with Go's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

/// A duration in Go's syntax: `1m30s`, `0`, `-5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoDuration {
    nanoseconds: i64,
}

impl GoDuration {
    /// The duration as a timeout: 0 is no timeout (`None`), a negative one has already passed.
    pub fn as_bound(self) -> Option<Duration> {
        (self.nanoseconds != 0).then(|| Duration::from_nanos(u64::try_from(self.nanoseconds).unwrap_or(0)))
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self { nanoseconds: i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX) }
    }
}

impl FromStr for GoDuration {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let invalid = || ParseError(format!("time: invalid duration {}", quote(text)));
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        // The only value without a unit.
        if rest == "0" {
            return Ok(Self { nanoseconds: 0 });
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at(number_end);
            let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_end);
            // Go allows `.5s` and `5.s`, but not `.s`.
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
                return Err(invalid());
            }
            let scale = match unit {
                "" => return Err(ParseError(format!("time: missing unit in duration {}", quote(text)))),
                "ns" => 1,
                "us" | "µs" | "μs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60 * 1_000_000_000,
                "h" => 3_600 * 1_000_000_000_i128,
                _ => {
                    let message = format!("time: unknown unit {} in duration {}", quote(unit), quote(text));
                    return Err(ParseError(message));
                }
            };
            // Sums in `i128`, so that an overflow is detected only at the end, as a value out of range.
            let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
            let mut place = scale;
            let mut part = whole.checked_mul(scale).ok_or_else(invalid)?;
            // Further digits are below a nanosecond.
            for digit in fraction.bytes().take(18) {
                place /= 10;
                part += i128::from(digit - b'0') * place;
            }
            total = total.checked_add(part).ok_or_else(invalid)?;
            rest = next;
        }
        let nanoseconds = i64::try_from(if negative { -total } else { total }).map_err(|_| invalid())?;
        Ok(Self { nanoseconds })
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let total = self.nanoseconds.unsigned_abs();
        match total {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{total}ns"),
            1_000..1_000_000 => write!(f, "{}µs", decimal(total, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(total, 1_000_000)),
            _ => {
                let minutes = total / 60_000_000_000;
                let seconds = decimal(total % 60_000_000_000, 1_000_000_000);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// `amount / unit` in decimal, without trailing zeros.
fn decimal(amount: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", amount / unit, amount % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_does() {
        for (text, quoted) in [
            ("", r#""""#),
            ("plain", r#""plain""#),
            (r#"say "hi""#, r#""say \"hi\"""#),
            (r"C:\x", r#""C:\\x""#),
            ("a\nb\tc\r", r#""a\nb\tc\r""#),
            ("\u{1b}[31m", r#""\x1b[31m""#),
            ("\u{7f}\0", r#""\x7f\x00""#),
            ("é ✓ 漢", r#""é ✓ 漢""#),
            ("\u{a0}\u{202e}", r#""\u00a0\u202e""#),
            ("\u{85}", r#""\u0085""#),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, nanoseconds, written) in [
            ("0", 0, "0s"),
            ("-0", 0, "0s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("5m", 300_000_000_000, "5m0s"),
            ("1h", 3_600_000_000_000, "1h0m0s"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("1ms", 1_000_000, "1ms"),
            ("1500us", 1_500_000, "1.5ms"),
            ("3µs", 3_000, "3µs"),
            ("12ns", 12, "12ns"),
            (".5s", 500_000_000, "500ms"),
            ("2.s", 2_000_000_000, "2s"),
            ("-5s", -5_000_000_000, "-5s"),
            ("+1s", 1_000_000_000, "1s"),
            ("1s500ms", 1_500_000_000, "1.5s"),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!((duration.nanoseconds, duration.to_string().as_str()), (nanoseconds, written), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_in_go_words() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("x", r#"time: invalid duration "x""#),
            ("-", r#"time: invalid duration "-""#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5x", r#"time: unknown unit "x" in duration "5x""#),
            ("1.2.3s", r#"time: invalid duration "1.2.3s""#),
            (".s", r#"time: invalid duration ".s""#),
            ("9999999999h", r#"time: invalid duration "9999999999h""#),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn zero_is_no_bound_and_a_negative_bound_has_passed() {
        let bound = |text: &str| text.parse::<GoDuration>().unwrap().as_bound();
        assert_eq!(bound("0"), None);
        assert_eq!(bound("-1s"), Some(Duration::ZERO));
        assert_eq!(bound("2s"), Some(Duration::from_secs(2)));
    }

    #[test]
    fn numbers_and_truth_values_fail_in_go_words() {
        assert_eq!(parse_bool("no").unwrap_err().0, r#"strconv.ParseBool: parsing "no": invalid syntax"#);
        assert_eq!(parse_int("x").unwrap_err().0, r#"strconv.ParseInt: parsing "x": invalid syntax"#);
        let huge = "99999999999999999999";
        assert_eq!(parse_int(huge).unwrap_err().0, format!("strconv.ParseInt: parsing \"{huge}\": value out of range"));
        assert_eq!((parse_bool("T"), parse_bool("0"), parse_int("-3")), (Ok(true), Ok(false), Ok(-3)));
    }
}
