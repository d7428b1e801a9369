//! `Warning` headers of responses.

use std::collections::HashSet;

use http::{HeaderMap, HeaderName, HeaderValue};

const WARNING: HeaderName = HeaderName::from_static("warning");
/// If all texts together have more characters than this, each text is truncated.
const TOTAL_MAX: usize = 4 * 1024;
/// The number of characters that remain of a truncated text.
const EACH_MAX: usize = 256;

/// Adds warnings to a response as upstream does, without duplicates. If they are too long in total, each is truncated, and those that
/// do not fit are omitted. A text with control characters cannot be sent in a header and is skipped.
pub fn add_warnings(headers: &mut HeaderMap, texts: &[String]) {
    let mut seen = HashSet::new();
    let texts: Vec<&str> =
        texts.iter().map(String::as_str).filter(|text| !text.is_empty() && seen.insert(*text)).collect();
    // Texts that cannot be sent do not count.
    let total: usize = texts.iter().filter(|text| is_sane(text)).map(|text| text.chars().count()).sum();
    let mut written = 0;
    for text in texts {
        if total > TOTAL_MAX && written >= TOTAL_MAX {
            break;
        }
        let cut = if total > TOTAL_MAX { beginning(text) } else { text };
        if let Some(value) = header_value(cut) {
            headers.append(WARNING, value);
            written += cut.chars().count();
        }
    }
}

fn is_sane(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(EACH_MAX).map_or(text, |(end, _)| &text[..end])
}

fn header_value(text: &str) -> Option<HeaderValue> {
    if !is_sane(text) {
        return None;
    }
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(texts: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, texts);
        let told = headers.get_all(WARNING).iter();
        told.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn texts_are_quoted_and_told_once() {
        let texts = [r#"unknown field "spec.x\y""#, "", "ü", "a\nb", "ü"].map(str::to_owned);
        assert_eq!(headers(&texts), [r#"299 - "unknown field \"spec.x\\y\"""#, r#"299 - "ü""#]);
    }

    #[test]
    fn what_is_too_much_is_cut() {
        let texts: Vec<String> = (0..100).map(|number| format!("{number:04}{}", "x".repeat(500))).collect();
        let told = headers(&texts);
        assert_eq!(told.len(), 16, "4 KiB in pieces of 256");
        assert!(told.iter().all(|text| text.len() == EACH_MAX + r#"299 - """#.len()));
        let fitting: Vec<String> = (0..8).map(|number| format!("{number}{}", "x".repeat(511))).collect();
        assert!(headers(&fitting).iter().all(|text| text.len() == 512 + 8));
    }
}
