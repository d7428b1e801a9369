//! What a name, a label or a group may look like, and upstream's sentences when it does not.

const DNS_1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_KEY_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn regex_error(rule: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

/// Whether `text` is made of `inner` bytes only, and begins and ends with the `edge` kinds.
fn shaped(text: &str, first: fn(u8) -> bool, inner: fn(u8) -> bool, last: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [one] => first(*one),
        [head, middle @ .., tail] => first(*head) && last(*tail) && middle.iter().all(|byte| inner(*byte)),
    }
}

fn lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn label_inner(byte: u8) -> bool {
    lower_alphanumeric(byte) || byte == b'-'
}

fn key_edge(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn key_inner(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn lower_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

pub(crate) fn is_dns_1123_label_shape(text: &str) -> bool {
    shaped(text, lower_alphanumeric, label_inner, lower_alphanumeric)
}

pub(crate) fn is_dns_1123_subdomain_shape(text: &str) -> bool {
    text.split('.').all(is_dns_1123_label_shape)
}

/// Objections to `text` as a lower-case RFC 1123 label.
pub fn dns_1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    if !is_dns_1123_label_shape(text) {
        if is_dns_1123_subdomain_shape(text) {
            errors.push("must not contain dots".to_owned());
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                        start and end with an alphanumeric character";
            errors.push(regex_error(rule, DNS_1123_LABEL, &["my-name", "123-abc"]));
        }
    }
    errors
}

/// Objections to `text` as a lower-case RFC 1123 subdomain.
pub fn dns_1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    errors.extend(subdomain_shape(text));
    errors
}

fn subdomain_shape(text: &str) -> Option<String> {
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                start and end with an alphanumeric character";
    (!is_dns_1123_subdomain_shape(text)).then(|| regex_error(rule, DNS_1123_SUBDOMAIN, &["example.com"]))
}

/// Objections to `text` as an RFC 1035 label.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 characters".to_owned());
    }
    if !shaped(text, lower_letter, label_inner, lower_alphanumeric) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
                    character, and end with an alphanumeric character";
        errors.push(regex_error(rule, DNS_1035_LABEL, &["my-name", "abc-123"]));
    }
    errors
}

/// Objections to `text` as the key of a label, an annotation or a finalizer: `[prefix/]name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let key_error = || regex_error(LABEL_KEY_RULE, LABEL_KEY, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > 253 {
                    errors.push("prefix part must be no more than 253 bytes".to_owned());
                }
                errors.extend(subdomain_shape(prefix).map(|error| format!("prefix part {error}")));
            }
            *name
        }
        _ => {
            let ending = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {} {ending}", key_error())];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !shaped(name, key_edge, key_inner, key_edge) {
        errors.push(format!("name part {}", key_error()));
    }
    errors
}

/// Objections to `text` as the value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !shaped(text, key_edge, key_inner, key_edge) {
        let rule = format!(
            "a valid label must be an empty string or consist of {}",
            &LABEL_KEY_RULE["must consist of ".len()..]
        );
        errors.push(regex_error(&rule, &format!("({LABEL_KEY})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Objections to `text` as a segment of a request path; a prefix (`generateName`) may still grow into a valid name.
pub fn path_segment(text: &str, prefix: bool) -> Vec<String> {
    if !prefix && (text == "." || text == "..") {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|bad| text.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// What upstream checks in place of a `generateName` that ends with a dash.
pub fn mask_trailing_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() && rest.is_char_boundary(rest.len() - 1) => {
            format!("{}a", &rest[..rest.len() - 1])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_bad_ones_are_explained() {
        assert!(dns_1123_subdomain("a-1.b").is_empty() && dns_1035_label("a").is_empty());
        assert!(qualified_name("example.com/A_b").is_empty() && label_value("").is_empty());
        assert_eq!(dns_1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(path_segment("..", false), ["may not be '..'"]);
        assert!(
            dns_1035_label("1a")[0].ends_with(
                "(e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            )
        );
        assert_eq!(qualified_name("a/b/c").len(), 1);
    }
}
