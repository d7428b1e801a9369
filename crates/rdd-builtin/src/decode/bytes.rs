//! Base64 with the semantics of Go's standard encoding: padding required, line breaks anywhere, trailing bits ignored.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Decodes and re-encodes the text. The error is the offset of the first invalid character.
pub(super) fn canonical(text: &str) -> Result<String, usize> {
    check(text.as_bytes())?;
    let compact: String = text.chars().filter(|letter| !is_line_end(*letter as u32)).collect();
    match ENGINE.decode(&compact) {
        Ok(bytes) => Ok(ENGINE.encode(bytes)),
        // Unreachable: the check above has validated every character.
        Err(_) => Err(text.len()),
    }
}

/// Encodes bytes.
pub(super) fn encode(octets: &[u8]) -> String {
    ENGINE.encode(octets)
}

fn is_line_end(letter: u32) -> bool {
    letter == u32::from(b'\n') || letter == u32::from(b'\r')
}

/// The offset at which Go fails, following `decodeQuantum` of `encoding/base64`, four characters at a time.
fn check(text: &[u8]) -> Result<(), usize> {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'+' || letter == b'/';
    let skip = |mut at: usize| {
        while text.get(at).is_some_and(|letter| is_line_end(u32::from(*letter))) {
            at += 1;
        }
        at
    };
    let (mut at, mut in_quantum) = (0, 0);
    while let Some(letter) = text.get(at).copied() {
        at += 1;
        if is_letter(letter) {
            in_quantum = (in_quantum + 1) % 4;
        } else if is_line_end(u32::from(letter)) {
            continue;
        } else if letter != b'=' || in_quantum < 2 {
            return Err(at - 1);
        } else {
            if in_quantum == 2 {
                at = skip(at);
                match text.get(at) {
                    None => return Err(text.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(at - 1),
                }
            }
            at = skip(at);
            return if at < text.len() { Err(at) } else { Ok(()) };
        }
    }
    if in_quantum == 0 { Ok(()) } else { Err(at - in_quantum) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_go_reads_it() {
        for (text, expected) in [
            ("", Ok("")),
            ("YQ==", Ok("YQ==")),
            ("YR==", Ok("YQ==")),
            ("Y\nQ=\r=", Ok("YQ==")),
            ("YWJj", Ok("YWJj")),
            ("YWJ", Err(0)),
            ("YWJjY", Err(4)),
            ("Y!==", Err(1)),
            ("Y===", Err(1)),
            ("YQ=", Err(3)),
            ("YQ=x", Err(2)),
            ("YQ==x", Err(4)),
        ] {
            assert_eq!(canonical(text), expected.map(str::to_owned), "{text:?}");
        }
    }
}
