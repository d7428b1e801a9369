//! Quantities with the semantics of `resource.Quantity`: parsing, rounding, comparison, canonical form.

use std::cmp::Ordering;

/// The notation of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

/// A number: `value` times ten to the power of `scale`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    value: i128,
    scale: i32,
    format: Format,
    /// Whether upstream stores it as an `int64`; larger ones have arbitrary precision until they are converted.
    small: bool,
}

const NANO: i32 = -9;
const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
/// Values with more digits are capped.
const DIGITS_MAX: usize = 30;

impl Quantity {
    /// Parses a quantity; `None` for invalid text, which the decoder has already refused.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = unsigned.split_at(digits(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let (factor, exponent, format) = suffix_of(suffix)?;
        let whole = whole.trim_start_matches('0');
        let small = is_small(whole, fraction, factor, exponent);
        let (value, scale) = magnitude(whole, fraction, factor, exponent)?;
        let format = match format {
            // A value below one has no binary form.
            Format::BinarySi if value != 0 && scale < 0 && value < 10i128.checked_pow(scale.unsigned_abs())? => {
                Format::DecimalSi
            }
            other => other,
        };
        Some(Self { value: if negative { -value } else { value }, scale, format, small })
    }

    /// Rounds away from zero to thousandths; `None` if nothing needs rounding.
    pub(crate) fn round_up_to_milli(self) -> Option<Self> {
        let places = u32::try_from(-3 - self.scale).ok().filter(|places| *places > 0)?;
        Some(Self { value: divide_up(self.value, 10i128.pow(places)), scale: -3, ..self })
    }

    pub(crate) fn is_negative(self) -> bool {
        self.value < 0
    }

    /// Whether it is an integer. Like upstream, the check uses an `int64` of thousandths, which may overflow.
    pub(crate) fn is_integer(self) -> bool {
        let Self { value, scale, .. } = self.round_up_to_milli().unwrap_or(self);
        let factor = 10i128.checked_pow((scale + 3).unsigned_abs()).unwrap_or(0);
        let thousandths = value.wrapping_mul(factor);
        match i64::try_from(thousandths) {
            Ok(thousandths) => thousandths % 1000 == 0,
            Err(_) if self.small => true,
            Err(_) => low_bits(thousandths) % 1000 == 0,
        }
    }

    pub(crate) fn compare(self, other: Self) -> Ordering {
        let low = self.scale.min(other.scale);
        let scaled = |quantity: Self| {
            let factor = 10i128.checked_pow(quantity.scale.abs_diff(low));
            factor.and_then(|factor| quantity.value.checked_mul(factor))
        };
        match (scaled(self), scaled(other)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => self.approximate().total_cmp(&other.approximate()),
        }
    }

    fn approximate(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "this is only asked where the two are far apart")]
        let value = self.value as f64;
        value * 10f64.powi(self.scale)
    }

    /// The canonical text.
    pub(crate) fn canonical(self) -> String {
        if self.value == 0 {
            return "0".to_owned();
        }
        match (self.format, self.rounded_up()) {
            (Format::BinarySi, Some(whole)) if whole.abs() >= 1024 => {
                let mut whole = whole;
                let mut times = 0;
                while whole % 1024 == 0 && times < 6 {
                    whole /= 1024;
                    times += 1;
                }
                let suffix = BINARY.get(times - usize::from(times > 0)).filter(|_| times > 0);
                format!("{whole}{}", suffix.map_or("", |(name, _)| name))
            }
            _ => self.canonical_decimal(),
        }
    }

    fn canonical_decimal(self) -> String {
        let Self { mut value, mut scale, .. } = self;
        while value % 10 == 0 {
            value /= 10;
            scale += 1;
        }
        let excess = scale.rem_euclid(3);
        value *= 10i128.pow(excess.unsigned_abs());
        scale -= excess;
        if self.format == Format::DecimalExponent {
            return if scale == 0 { value.to_string() } else { format!("{value}e{scale}") };
        }
        let suffix = DECIMAL.iter().find(|(_, exponent)| *exponent == scale);
        format!("{value}{}", suffix.map_or("", |(name, _)| name))
    }

    /// The integer value, rounded away from zero.
    fn rounded_up(self) -> Option<i128> {
        let factor = 10i128.checked_pow(self.scale.unsigned_abs())?;
        if self.scale < 0 { Some(divide_up(self.value, factor)) } else { self.value.checked_mul(factor) }
    }
}

/// The low 64 bits of a number, as a conversion to `int64` keeps them.
fn low_bits(value: i128) -> i64 {
    let bytes = value.to_le_bytes();
    i64::from_le_bytes(bytes[..8].try_into().expect("eight of sixteen bytes"))
}

/// Whether upstream parses it on its fast path.
fn is_small(whole: &str, fraction: &str, factor: i128, exponent: i32) -> bool {
    let whole_length = whole.len().max(1);
    if factor == 1 {
        let scale = i64::from(exponent) - fraction.len() as i64;
        return whole_length + fraction.len() <= 18 && scale >= i64::from(NANO);
    }
    let bits = factor.trailing_zeros() as usize;
    fraction.is_empty() && whole_length + bits * 3 / 10 <= 14
}

fn divide_up(value: i128, step: i128) -> i128 {
    value / step + if value % step == 0 { 0 } else { value.signum() }
}

/// The meaning of a suffix: factor, power of ten, and notation.
fn suffix_of(suffix: &str) -> Option<(i128, i32, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((1, *exponent, Format::DecimalSi));
    }
    if let Some((_, bits)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((1 << bits, 0, Format::BinarySi));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((1, exponent.parse().ok()?, Format::DecimalExponent))
}

/// Value and scale. Digits below 10⁻⁹ are rounded up, and a value with a binary suffix is capped at the largest `int64`.
/// Extremely large decimal values are capped too; upstream keeps them.
fn magnitude(whole: &str, fraction: &str, factor: i128, exponent: i32) -> Option<(i128, i32)> {
    let scale = exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let most = (i128::from(i64::MAX), 0);
    let digits = format!("{whole}{fraction}");
    // Digits below 10⁻⁹ only matter for rounding up.
    let dropped = usize::try_from(NANO.saturating_sub(scale).max(0)).ok()?;
    let kept = digits.len().saturating_sub(dropped);
    if kept > DIGITS_MAX {
        return Some(most);
    }
    if factor == 1 {
        let more = digits[kept..].bytes().any(|digit| digit != b'0');
        return Some((read(&digits[..kept]) + i128::from(more), scale.max(NANO)));
    }
    // The digits behind the cut are multiplied as well, as far as they can matter.
    let more_digits = digits.len().min(kept + 12);
    let Some(value) = read(&digits[..more_digits]).checked_mul(factor) else { return Some(most) };
    let surplus = u32::try_from(more_digits - kept).ok()?;
    Some(cut(divide_up(value, 10i128.pow(surplus)), scale.max(NANO)))
}

fn read(digits: &str) -> i128 {
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i128::MAX) }
}

fn cut(value: i128, scale: i32) -> (i128, i32) {
    let most = i128::from(i64::MAX);
    let over = match 10i128.checked_pow(scale.unsigned_abs()) {
        Some(power) if scale < 0 => value / power >= most,
        Some(power) => value.checked_mul(power).is_none_or(|value| value > most),
        None => scale > 0 && value > 0,
    };
    if over { (most, 0) } else { (value, scale) }
}
