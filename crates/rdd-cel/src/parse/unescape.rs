//! Removes the quotes of a string or bytes literal and resolves its escapes.

/// Returns the octets of a literal; the error is cel-go's text. `literal` may begin with `r`, but not with `b`.
pub(super) fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    // As in cel-go, every line end inside of a literal becomes a line feed.
    let normalized = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (body, is_raw) = match normalized.strip_prefix(['r', 'R']) {
        Some(rest) => (rest, true),
        None => (normalized.as_str(), false),
    };
    let inner = ["'''", "\"\"\""]
        .iter()
        .find_map(|quotes| (body.len() >= 6).then(|| body.strip_prefix(quotes)?.strip_suffix(quotes)).flatten())
        .or_else(|| body.get(1..body.len().saturating_sub(1)))
        .ok_or("unable to unescape string")?;
    if is_raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut octets = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => escaped(&mut rest, is_bytes, &mut octets)?,
            plain => push(plain, &mut octets),
        }
    }
    Ok(octets)
}

fn push(c: char, octets: &mut Vec<u8>) {
    octets.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Resolves the escape after a backslash.
fn escaped(rest: &mut std::str::Chars<'_>, is_bytes: bool, octets: &mut Vec<u8>) -> Result<(), &'static str> {
    let Some(kind) = rest.next() else { return Err("unable to unescape string, found '\\' as last character") };
    let octet = match kind {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => kind as u8,
        'x' | 'X' => return emit(hexadecimal(rest, 2)?, is_bytes, octets),
        'u' if !is_bytes => return emit(hexadecimal(rest, 4)?, false, octets),
        'U' if !is_bytes => return emit(hexadecimal(rest, 8)?, false, octets),
        '0'..='3' => {
            let mut value = kind as u32 - '0' as u32;
            for _ in 0..2 {
                let digit = rest.next().and_then(|c| c.to_digit(8));
                value = value * 8 + digit.ok_or("unable to unescape octal sequence in string")?;
            }
            return emit(value, is_bytes, octets);
        }
        _ => return Err("unable to unescape string"),
    };
    octets.push(octet);
    Ok(())
}

fn hexadecimal(rest: &mut std::str::Chars<'_>, count: usize) -> Result<u32, &'static str> {
    let mut value: u32 = 0;
    for _ in 0..count {
        let digit = rest.next().and_then(|c| c.to_digit(16)).ok_or("unable to unescape string")?;
        value = (value << 4) | digit;
    }
    Ok(value)
}

/// Appends an escape's value: as one octet, or as a code point in UTF-8.
fn emit(value: u32, as_octet: bool, octets: &mut Vec<u8>) -> Result<(), &'static str> {
    if as_octet {
        octets.push(value as u8);
        return Ok(());
    }
    push(char::from_u32(value).ok_or("invalid unicode code point")?, octets);
    Ok(())
}
