//! Unquotes string literals like Go's `strconv`.

/// Removes the quotes and resolves escapes; `None` if it is not a valid quoted string.
pub(super) fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let mut rest = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut bytes = Vec::with_capacity(rest.len());
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        if letter == quote {
            return None;
        }
        if letter != '\\' {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.chars().next()?;
        rest = &rest[escape.len_utf8()..];
        rest = push_escape(&mut bytes, escape, quote, rest)?;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn push_escape<'t>(bytes: &mut Vec<u8>, escape: char, quote: char, rest: &'t str) -> Option<&'t str> {
    let plain = match escape {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        '\'' | '"' if escape == quote => u8::try_from(escape).ok()?,
        'x' => return push_number(bytes, rest, 2, 16, false),
        'u' => return push_number(bytes, rest, 4, 16, true),
        'U' => return push_number(bytes, rest, 8, 16, true),
        '0'..='7' => {
            let first = escape.to_digit(8)?;
            let digits = rest.get(..2)?;
            let value = first * 64 + u32::from_str_radix(digits, 8).ok()?;
            bytes.push(u8::try_from(value).ok()?);
            return rest.get(2..);
        }
        _ => return None,
    };
    bytes.push(plain);
    Some(rest)
}

fn push_number<'t>(bytes: &mut Vec<u8>, rest: &'t str, digits: usize, radix: u32, is_rune: bool) -> Option<&'t str> {
    let text = rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    let value = u32::from_str_radix(text, radix).ok()?;
    if is_rune {
        bytes.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        bytes.push(u8::try_from(value).ok()?);
    }
    rest.get(digits..)
}
