//! Removes secrets from text before it leaves the machine.

/// The replacement of a secret.
const HIDDEN: &str = "***";

/// A key whose name contains one of these has a secret value. `certificate-authority-data` is public and stays.
const SECRET_NAMES: &[&str] =
    &["token", "password", "passwd", "secret", "client-key", "private_key", "api_key", "apikey", "credential"];

/// Removes the values of secret keys, bearer tokens, JSON web tokens and private keys from text.
///
/// It works line by line on YAML, JSON, logs and command lines. In doubt it removes too much rather than too little.
pub fn redact(text: &str) -> String {
    let mut inside_key = false;
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let starts = line.contains("-----BEGIN") && line.contains("PRIVATE KEY");
        let ends = line.contains("-----END");
        if starts || inside_key {
            if starts {
                clean.push_str(HIDDEN);
                clean.push('\n');
            }
            inside_key = !ends;
            continue;
        }
        clean.push_str(&redact_line(line));
    }
    clean
}

fn redact_line(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut hide_next = false;
    let mut hidden_until: Option<&[char]> = None; // what ends the value that is being hidden
    let mut before = "";
    for piece in split_keeping_separators(line) {
        match (piece, hidden_until) {
            (Piece::Word(_), Some(_)) => {}
            (Piece::Separator(text), Some(ends)) => {
                if let Some(end) = text.find(ends) {
                    hidden_until = None;
                    clean.push_str(&text[end..]);
                }
            }
            (Piece::Separator(text), None) => {
                // A new field begins: the key before it had no value to hide.
                hide_next &= !text.contains([',', '{', '}', '\n', '&', ';']);
                clean.push_str(text);
                before = text;
            }
            (Piece::Word(word), None) => {
                let is_scheme = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
                let is_web_token = word.starts_with("eyJ") && word.len() > 20;
                // `Authorization: Bearer TOKEN`: the scheme stays, the word after it is the secret.
                if is_web_token || hide_next && !is_scheme {
                    clean.push_str(HIDDEN);
                    hide_next = false;
                    hidden_until = Some(match before.chars().last() {
                        Some('"') => &['"'],
                        Some('\'') => &['\''],
                        _ => &[' ', '\t', '\r', '\n', ',', '&', ';', '}', ']', '"', '\''],
                    });
                } else {
                    clean.push_str(word);
                    hide_next = is_scheme || is_secret_name(word);
                }
            }
        }
    }
    clean
}

fn is_secret_name(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|name| word.contains(name))
}

enum Piece<'a> {
    Separator(&'a str),
    Word(&'a str),
}

fn split_keeping_separators(line: &str) -> impl Iterator<Item = Piece<'_>> {
    let is_separator = |letter: char| {
        letter.is_whitespace() || matches!(letter, ':' | '=' | '"' | '\'' | ',' | '{' | '}' | '&' | ';' | '[' | ']')
    };
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let in_separator = is_separator(first);
        let end = rest.find(|letter| is_separator(letter) != in_separator).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(if in_separator { Piece::Separator(piece) } else { Piece::Word(piece) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_and_the_rest_stays() {
        let table = [
            ("token: abc123", "token: ***"),
            ("    client-key-data: LS0tLS1CRUdJTg==", "    client-key-data: ***"),
            (r#"{"password":"p w","user":"x"}"#, r#"{"password":"***","user":"x"}"#),
            ("GET /api Authorization: Bearer s3cret", "GET /api Authorization: Bearer ***"),
            ("token=abc:def=ghi next", "token=*** next"),
            ("rdd --token=abc --port 1", "rdd --token=*** --port 1"),
            ("rdd --token abc --port 1", "rdd --token *** --port 1"),
            ("seen eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ.e30.sig", "seen ***"),
            ("certificate-authority-data: LS0t", "certificate-authority-data: LS0t"),
            ("url?access_token=abc&limit=5", "url?access_token=***&limit=5"),
            ("server: https://127.0.0.1:6443", "server: https://127.0.0.1:6443"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(redact(text), expected, "{text}");
        }
    }

    #[test]
    fn a_private_key_goes_whole_and_a_certificate_stays() {
        let text = "a\n-----BEGIN EC PRIVATE KEY-----\nMHc=\n-----END EC PRIVATE KEY-----\nb\n-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";
        let clean = redact(text);
        assert_eq!(clean, "a\n***\nb\n-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n");
    }
}
