//! Quantities: decimal numbers with suffixes, as Go's `resource.Quantity`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::value::{Fault, Outcome, Value};

const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";
/// The finest precision of a quantity, as a power of ten.
const NANO: i32 = -9;
/// Exponents are limited to this value.
const SCALE_MAX: i32 = 400;

/// A number times a power of ten. Its arithmetic follows Go's, which has a fast form for small integers.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    value: i128,
    scale: i32,
    /// Whether Go keeps it as a small integer; only then can it convert to an integer.
    small: bool,
    /// Whether it is a sum or a difference.
    computed: bool,
}

impl Quantity {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT_WRONG);
        }
        let (negative, unsigned) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole_end = digits(unsigned);
        let whole = unsigned[..whole_end].trim_start_matches('0');
        let mut rest = &unsigned[whole_end..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let end = digits(after);
            fraction = &after[..end];
            rest = &after[end..];
        }
        let letters = rest.bytes().take_while(|octet| b"eEinumkKMGTP".contains(octet)).count();
        let after_letters = rest[letters..].strip_prefix(['-', '+']).unwrap_or(&rest[letters..]);
        if !after_letters.bytes().all(|octet| octet.is_ascii_digit()) {
            return Err(FORMAT_WRONG);
        }
        let (base, exponent) = suffix(rest).ok_or(SUFFIX)?;
        let whole = if whole.is_empty() { "0" } else { whole };
        Self::assemble(negative, whole, fraction, unsigned, base, exponent)
    }

    fn assemble(
        negative: bool,
        whole: &str,
        fraction: &str,
        unsigned: &str,
        base: u32,
        exponent: i32,
    ) -> Result<Self, &'static str> {
        let length = (whole.len() + fraction.len()) as i32;
        // How many more digits fit Go's fast form, an `int64` with a decimal exponent; negative if there are too many.
        let mut mantissa: i64 = 1;
        let precision = match base {
            10 => 18 - length,
            _ if fraction.is_empty() => {
                mantissa = 1 << exponent;
                15 - whole.len() as i32 - (exponent as f32 * 3.0 / 10.0) as i32 - 1
            }
            _ => -1,
        };
        let scale = if base == 10 { exponent } else { 0 } - fraction.len() as i32;
        let sign = |value: i128| if negative { -value } else { value };
        if precision >= 0 && scale >= NANO {
            let value: i64 = format!("{whole}{fraction}").parse().map_err(|_| NUMERIC)?;
            if let Some(value) = value.checked_mul(mantissa) {
                return Ok(Self { value: sign(i128::from(value)), scale, small: true, computed: false });
            }
        }
        if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            || (whole == "0" && length == 1 && unsigned.starts_with('.'))
        {
            return Err(NUMERIC);
        }
        let mut value: i128 = format!("{whole}{fraction}").parse().map_err(|_| NUMERIC)?;
        let mut scale = scale.min(SCALE_MAX);
        if base == 2 {
            value = value.checked_mul(1i128 << exponent).unwrap_or(i128::MAX);
        }
        // Rounds away from zero to nanos, as Go does.
        while scale < NANO && value != 0 {
            let step = 10i128.pow(((NANO - scale) as u32).min(38));
            value = value / step + i128::from(value % step != 0);
            scale += (NANO - scale).min(38);
        }
        // Go caps binary quantities at the largest `int64`.
        if base == 2 && scale <= 0 {
            let most = i128::from(i64::MAX).checked_mul(10i128.pow(scale.unsigned_abs())).unwrap_or(i128::MAX);
            value = value.min(most);
        }
        Ok(Self { value: sign(value), scale, small: false, computed: false })
    }

    /// Whether it is the result of an addition or a subtraction.
    pub(crate) fn is_computed(&self) -> bool {
        self.computed
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let low = self.scale.min(other.scale);
        let scaled = |quantity: &Self| {
            let steps = (quantity.scale - low) as u32;
            10i128.checked_pow(steps).and_then(|factor| quantity.value.checked_mul(factor))
        };
        match (scaled(self), scaled(other)) {
            // Numbers that exceed 128 bits are compared as doubles.
            (Some(a), Some(b)) => a.cmp(&b),
            _ => self.as_float().partial_cmp(&other.as_float()).unwrap_or(Ordering::Equal),
        }
    }

    fn as_float(&self) -> f64 {
        let base = self.value as f64;
        if self.scale == 0 { base } else { base * 10f64.powi(self.scale) }
    }

    /// The exact integer, if Go keeps the quantity as a small integer.
    fn as_int(&self) -> Option<i64> {
        if !self.small || self.scale < 0 {
            return None;
        }
        let factor = 10i128.checked_pow(self.scale as u32)?;
        i64::try_from(self.value.checked_mul(factor)?).ok()
    }

    fn plus(&self, other: &Self, sign: i128) -> Self {
        let other_value = sign * other.value;
        if self.small && other.small {
            if other.value == 0 {
                return Self { computed: true, ..*self };
            }
            if self.value == 0 {
                return Self { value: other_value, scale: other.scale, small: true, computed: true };
            }
        }
        let low = self.scale.min(other.scale);
        let scaled = |value: i128, scale: i32| {
            10i128.checked_pow((scale - low) as u32).and_then(|factor| value.checked_mul(factor))
        };
        let sum = scaled(self.value, self.scale)
            .zip(scaled(other_value, other.scale))
            .and_then(|(a, b)| a.checked_add(b))
            .unwrap_or(if self.as_float() + sign as f64 * other.as_float() < 0.0 { i128::MIN } else { i128::MAX });
        let small = self.small && other.small && i64::try_from(sum).is_ok();
        Self { value: sum, scale: low, small, computed: true }
    }
}

/// Formats the number as plain digits without a suffix.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.value < 0 { "-" } else { "" };
        let digits = self.value.unsigned_abs().to_string();
        if self.value == 0 {
            return f.write_str("0");
        }
        if self.scale >= 0 {
            return write!(f, "{sign}{digits}{}", "0".repeat(self.scale as usize));
        }
        let places = self.scale.unsigned_abs() as usize;
        let padded = format!("{digits:0>width$}", width = places + 1);
        let (whole, fraction) = padded.split_at(padded.len() - places);
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

fn suffix(text: &str) -> Option<(u32, i32)> {
    Some(match text {
        "" => (10, 0),
        "n" => (10, -9),
        "u" => (10, -6),
        "m" => (10, -3),
        "k" => (10, 3),
        "M" => (10, 6),
        "G" => (10, 9),
        "T" => (10, 12),
        "P" => (10, 15),
        "E" => (10, 18),
        "Ki" => (2, 10),
        "Mi" => (2, 20),
        "Gi" => (2, 30),
        "Ti" => (2, 40),
        "Pi" => (2, 50),
        "Ei" => (2, 60),
        other => {
            let exponent: i64 = other.strip_prefix(['e', 'E'])?.parse().ok()?;
            (10, (exponent as i32).clamp(-SCALE_MAX, SCALE_MAX))
        }
    })
}

fn text<'v>(value: &'v Value<'_>) -> Result<&'v str, Fault> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(Fault::no_such_overload()),
    }
}

fn quantity(value: &Value<'_>) -> Result<Quantity, Fault> {
    match value {
        Value::Quantity(quantity) => Ok(**quantity),
        Value::Int(value) => Ok(Quantity { value: i128::from(*value), scale: 0, small: true, computed: false }),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(crate) fn parse<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Quantity::parse(text(&args[0])?).map(|quantity| Value::Quantity(Arc::new(quantity))).map_err(Fault::error)
}

pub(crate) fn is_quantity<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(Quantity::parse(text(&args[0])?).is_ok()))
}

pub(crate) fn sign<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(quantity(&args[0])?.value.signum() as i64))
}

pub(crate) fn is_greater_than<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(quantity(&args[0])?.compare(&quantity(&args[1])?).is_gt()))
}

pub(crate) fn is_less_than<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(quantity(&args[0])?.compare(&quantity(&args[1])?).is_lt()))
}

pub(crate) fn compare_to<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(quantity(&args[0])?.compare(&quantity(&args[1])?) as i64))
}

pub(crate) fn as_approximate_float<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(quantity(&args[0])?.as_float()))
}

pub(crate) fn as_integer<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    quantity(&args[0])?.as_int().map(Value::Int).ok_or_else(|| Fault::error("cannot convert value to integer"))
}

pub(crate) fn is_integer<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(quantity(&args[0])?.as_int().is_some()))
}

pub(crate) fn add<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Quantity(Arc::new(quantity(&args[0])?.plus(&quantity(&args[1])?, 1))))
}

pub(crate) fn subtract<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Quantity(Arc::new(quantity(&args[0])?.plus(&quantity(&args[1])?, -1))))
}
