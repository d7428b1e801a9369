//! Validates numbers with check digits (ISBN, credit cards), and social security numbers, which have none.

fn without_spaces_and_dashes(text: &str) -> Vec<u8> {
    text.bytes().filter(|byte| !matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ' | b'-')).collect()
}

fn digit(byte: u8) -> u32 {
    u32::from(byte - b'0')
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let bytes = without_spaces_and_dashes(text);
    if bytes.len() != 10 || !bytes[..9].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match bytes[9] {
        b'X' => 10,
        byte if byte.is_ascii_digit() => digit(byte),
        _ => return false,
    };
    let sum: u32 = bytes[..9].iter().zip(1..).map(|(byte, weight)| weight * digit(*byte)).sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let bytes = without_spaces_and_dashes(text);
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 =
        bytes[..12].iter().enumerate().map(|(at, byte)| digit(*byte) * if at % 2 == 0 { 1 } else { 3 }).sum();
    digit(bytes[12]) == (10 - sum % 10) % 10
}

/// Whether the digits of a text have a known issuer's prefix and length, and pass Luhn's check. Other characters are ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.bytes().filter(u8::is_ascii_digit).map(digit).collect();
    let starts = |prefix: &[u32]| digits.starts_with(prefix);
    let known = match digits.len() {
        13 | 16 if starts(&[4]) => true,
        16 if digits[0] == 5 => (1..=5).contains(&digits[1]),
        16 if digits[0] == 6 => starts(&[6, 0, 1, 1]) || digits[1] == 5,
        15 if starts(&[3, 4]) || starts(&[3, 7]) => true,
        14 if digits[0] == 3 => (digits[1] == 0 && digits[2] <= 5) || digits[1] == 6 || digits[1] == 8,
        15 => starts(&[2, 1, 3, 1]) || starts(&[1, 8, 0, 0]),
        16 => starts(&[3, 5]),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match digit * 2 {
            _ if at % 2 == 0 => *digit,
            doubled if doubled >= 10 => doubled % 10 + 1,
            doubled => doubled,
        })
        .sum();
    known && sum.is_multiple_of(10)
}

/// Whether a text has eleven characters: three, two and four digits, separated by a dash or a space.
pub(super) fn is_social_security(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            3 | 6 => matches!(byte, b'-' | b' '),
            _ => byte.is_ascii_digit(),
        })
}
