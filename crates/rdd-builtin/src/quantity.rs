//! The canonical form of quantities, as `resource.Quantity` writes them.

/// Why a text is not a quantity, with upstream's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wrong(pub(crate) &'static str);

const FORM: Wrong =
    Wrong("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
const NUMBER: Wrong = Wrong("unable to parse numeric part of quantity");
const SUFFIX: Wrong = Wrong("unable to parse quantity's suffix");
/// The smallest exponent that is kept, as a power of ten.
const NANO: i64 = -9;
/// More digits are not exact in numbers with a binary suffix; upstream caps those at the largest `int64`.
const BINARY_DIGITS_MAX: usize = 19;
/// Larger exponents are treated as this one, to bound the number of digits.
const EXPONENT_MAX: i64 = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    DecimalSi,
    BinarySi,
    DecimalExponent,
}

struct Parts<'t> {
    negative: bool,
    whole: &'t str,
    fraction: &'t str,
    /// Sign, digits and point, without the suffix.
    number: &'t str,
    suffix: &'t str,
}

/// The canonical text of a quantity.
pub(crate) fn canonical(text: &str) -> Result<String, Wrong> {
    if text.is_empty() {
        return Err(FORM);
    }
    let parts = split(text)?;
    let (format, exponent) = interpret(parts.suffix).ok_or(SUFFIX)?;
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let scale = if format == Format::BinarySi { 0 } else { exponent } - parts.fraction.len() as i64;
    if is_small(&parts, format, exponent, scale) {
        let value: i64 = digits.parse().map_err(|_| NUMBER)?;
        let kept = match format {
            Format::BinarySi => exponent % 10 == 0 && value & 7 != 0,
            _ => scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0'),
        };
        if kept {
            return Ok(text.to_owned());
        }
    } else if !is_decimal(parts.number) {
        return Err(NUMBER);
    }
    Ok(match format {
        Format::BinarySi => binary(&parts, exponent),
        _ => decimal(parts.negative, &digits, scale, format),
    })
}

fn split(text: &str) -> Result<Parts<'_>, Wrong> {
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let count = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole_end = count(unsigned);
    let whole = unsigned[..whole_end].trim_start_matches('0');
    let mut suffix = &unsigned[whole_end..];
    let mut fraction = "";
    if let Some(after) = suffix.strip_prefix('.') {
        let end = count(after);
        fraction = &after[..end];
        suffix = &after[end..];
    }
    let letters = suffix.bytes().take_while(|letter| b"eEinumkKMGTP".contains(letter)).count();
    let exponent = suffix[letters..].strip_prefix(['-', '+']).unwrap_or(&suffix[letters..]);
    if !exponent.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(FORM);
    }
    let number = if unsigned.bytes().all(|digit| digit == b'0') { "0" } else { &text[..text.len() - suffix.len()] };
    Ok(Parts { negative, whole: if whole.is_empty() { "0" } else { whole }, fraction, number, suffix })
}

/// The meaning of a suffix: notation and exponent, of two for a binary suffix, otherwise of ten.
fn interpret(suffix: &str) -> Option<(Format, i64)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|known| *known == suffix);
    let binary =
        ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix && !suffix.is_empty());
    match (decimal, binary) {
        (Some(at), _) => Some((Format::DecimalSi, at as i64 * 3 - 9)),
        (_, Some(at)) => Some((Format::BinarySi, at as i64 * 10)),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            Some((Format::DecimalExponent, exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX)))
        }
    }
}

/// Whether upstream stores it as an `int64`; only then may the text stay unchanged.
fn is_small(parts: &Parts<'_>, format: Format, exponent: i64, scale: i64) -> bool {
    let precision = match format {
        Format::BinarySi if parts.fraction.is_empty() => 15 - parts.whole.len() as i64 - exponent * 3 / 10 - 1,
        Format::BinarySi => -1,
        _ => 18 - (parts.whole.len() + parts.fraction.len()) as i64,
    };
    precision >= 0 && scale >= NANO
}

fn is_decimal(number: &str) -> bool {
    let unsigned = number.strip_prefix(['-', '+']).unwrap_or(number);
    unsigned.bytes().any(|digit| digit.is_ascii_digit())
}

/// Formats a decimal number with an exponent that is a multiple of three.
fn decimal(negative: bool, digits: &str, mut scale: i64, format: Format) -> String {
    let mut digits = digits.trim_start_matches('0').to_owned();
    if scale < NANO {
        digits = rounded_up(&digits, (NANO - scale) as usize);
        scale = NANO;
    }
    if digits.is_empty() {
        return "0".to_owned();
    }
    while digits.len() > 1 && digits.ends_with('0') {
        digits.pop();
        scale += 1;
    }
    let surplus = scale.rem_euclid(3);
    digits.push_str(&"0".repeat(surplus as usize));
    scale -= surplus;
    let suffix = match format {
        Format::DecimalExponent if scale != 0 => format!("e{scale}"),
        Format::DecimalExponent => String::new(),
        _ => usize::try_from((scale + 9) / 3)
            .ok()
            .and_then(|at| "n,u,m,,k,M,G,T,P,E".split(',').nth(at))
            .unwrap_or("")
            .to_owned(),
    };
    format!("{}{digits}{suffix}", if negative { "-" } else { "" })
}

/// Removes the last `places` digits and rounds up.
fn rounded_up(digits: &str, places: usize) -> String {
    let kept = digits.len().saturating_sub(places);
    let (kept, lost) = digits.split_at(kept);
    if lost.bytes().all(|digit| digit == b'0') {
        return kept.to_owned();
    }
    let mut number: Vec<u8> = format!("0{kept}").into_bytes();
    for digit in number.iter_mut().rev() {
        if *digit != b'9' {
            *digit += 1;
            break;
        }
        *digit = b'0';
    }
    String::from_utf8_lossy(&number).trim_start_matches('0').to_owned()
}

/// Formats a number with a binary suffix: in binary notation if it is an integer and large enough, otherwise in decimal.
fn binary(parts: &Parts<'_>, exponent: i64) -> String {
    let sign = if parts.negative { "-" } else { "" };
    let capped = |value: Option<i128>| value.unwrap_or(i128::MAX).min(i64::MAX.into());
    let shifted = |text: &str| {
        let value: Option<i128> = if text.is_empty() { Some(0) } else { text.parse().ok() };
        value.and_then(|value| value.checked_mul(1 << exponent))
    };
    if parts.whole.len() > BINARY_DIGITS_MAX {
        return base_1024(sign, i64::MAX.into());
    }
    let whole = capped(shifted(parts.whole));
    // The fraction is less than one unit of the suffix; digits below nano are rounded up.
    let places = parts.fraction.len().min(18);
    let unit = 10i128.pow(places as u32);
    let product = shifted(&parts.fraction[..places]).unwrap_or(0);
    let (more, rest) = (product / unit, product % unit);
    let value = capped(whole.checked_add(more));
    if rest == 0 && value >= 1024 {
        return base_1024(sign, value);
    }
    if rest == 0 || value == i128::from(i64::MAX) {
        return decimal(parts.negative, &value.to_string(), 0, Format::DecimalSi);
    }
    let digits = format!("{value}{rest:0places$}");
    decimal(parts.negative, &digits, -(places as i64), Format::DecimalSi)
}

fn base_1024(sign: &str, mut value: i128) -> String {
    let mut times = 0;
    while value >= 1024 && value % 1024 == 0 {
        value /= 1024;
        times += 1;
    }
    let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(times).copied().unwrap_or("");
    format!("{sign}{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_written_as_upstream_writes_them() {
        for (text, expected) in [
            ("0", "0"),
            ("00", "0"),
            ("1", "1"),
            ("+5", "+5"),
            ("007", "007"),
            ("1000", "1k"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("-0.25", "-250m"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("8Ki", "8Ki"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("12e5", "1200e3"),
            ("1E", "1E"),
            ("0.1n", "1n"),
            ("100000000000000000000", "100E"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_in_upstreams_words() {
        for (text, expected) in
            [("", FORM), ("a", FORM), ("1.2.3", FORM), ("1x", FORM), ("1ki", SUFFIX), ("1eM", SUFFIX)]
        {
            assert_eq!(canonical(text), Err(expected), "{text}");
        }
    }
}
