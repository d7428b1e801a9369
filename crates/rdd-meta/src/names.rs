//! Object names: the rules for them, upstream's error messages, and the generation of names.

const DNS_LABEL_BYTES_MAX: usize = 63;
const DNS_SUBDOMAIN_BYTES_MAX: usize = 253;
const DNS_1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";

/// The characters of generated names, as upstream's: without vowels, so that no words appear, and without characters
/// that look alike.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const GENERATED_BASE_BYTES_MAX: usize = 58;

/// How the names of a resource are validated. The checks return one message per problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NameRule {
    /// A DNS subdomain (RFC 1123), at most 253 bytes: most kinds, and custom resources.
    #[default]
    DnsSubdomain,
    /// A DNS label (RFC 1123), at most 63 bytes: namespaces.
    DnsLabel,
    /// A DNS label that starts with a letter (RFC 1035), at most 63 bytes: services.
    Dns1035Label,
    /// Any text that can be one segment of a path: roles and bindings.
    PathSegment,
}

impl NameRule {
    /// Validates a name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::DnsSubdomain => dns_1123_subdomain(name),
            Self::DnsLabel => dns_1123_label(name),
            Self::Dns1035Label => dns_1035_label(name),
            Self::PathSegment => path_segment_name(name),
        }
    }

    /// Validates a `generateName` if `is_prefix`, otherwise a name.
    pub fn check_either(self, text: &str, is_prefix: bool) -> Vec<String> {
        if is_prefix { self.check_prefix(text) } else { self.check(text) }
    }

    /// Validates a `generateName`, to which the server appends a suffix.
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        match self {
            Self::PathSegment => path_segment_contents(prefix),
            _ => self.check(&mask_trailing_dash(prefix)),
        }
    }
}

/// Replaces a trailing dash and the character before it with an `a`, as upstream does before it validates a
/// `generateName`. Accepting exactly what upstream accepts matters more than the oddity.
fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-').map(|rest| rest.char_indices().next_back()) {
        Some(Some((index, before))) if before.is_ascii() => format!("{}a", &prefix[..index]),
        _ => prefix.to_owned(),
    }
}

/// Validates a lowercase RFC 1123 label.
pub fn dns_1123_label(name: &str) -> Vec<String> {
    let mut problems = length_problems(name, DNS_LABEL_BYTES_MAX, Unit::Characters);
    if !is_dns_1123_label(name) {
        problems.push(if is_dns_1123_subdomain(name) {
            "must not contain dots".to_owned()
        } else {
            regex_problem(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                DNS_1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    problems
}

/// Validates a lowercase RFC 1123 subdomain.
pub fn dns_1123_subdomain(name: &str) -> Vec<String> {
    subdomain_problems(name, Unit::Characters)
}

pub(crate) fn subdomain_problems(name: &str, unit: Unit) -> Vec<String> {
    let mut problems = length_problems(name, DNS_SUBDOMAIN_BYTES_MAX, unit);
    if !is_dns_1123_subdomain(name) {
        problems.push(regex_problem(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            DNS_1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    problems
}

/// Validates an RFC 1035 label.
pub fn dns_1035_label(name: &str) -> Vec<String> {
    let mut problems = length_problems(name, DNS_LABEL_BYTES_MAX, Unit::Characters);
    if !(is_dns_1123_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase())) {
        problems.push(regex_problem(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            DNS_1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// Validates that a name can be one segment of a path.
pub fn path_segment_name(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") { vec![format!("may not be '{name}'")] } else { path_segment_contents(name) }
}

fn path_segment_contents(name: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|bad| name.contains(**bad)).map(|bad| format!("may not contain '{bad}'")).collect()
}

/// The unit in messages about lengths. Upstream always counts bytes, but calls them characters for names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Characters,
}

pub(crate) fn length_problems(text: &str, bytes_max: usize, unit: Unit) -> Vec<String> {
    let unit = match unit {
        Unit::Bytes => "bytes",
        Unit::Characters => "characters",
    };
    if text.len() > bytes_max { vec![format!("must be no more than {bytes_max} {unit}")] } else { Vec::new() }
}

/// Upstream's message for a value that does not match a pattern, stray commas included.
pub(crate) fn regex_problem(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// Whether a name has the form of an RFC 1123 label, of any length.
pub fn is_dns_1123_label(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// Whether a name has the form of an RFC 1123 subdomain, of any length.
pub fn is_dns_1123_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_1123_label)
}

/// Generates a name: the base, cut so that the result has at most 63 bytes, and five random characters from five random
/// bytes.
///
/// The characters come from the remainders of the bytes, which makes the first ones about ten percent likelier. The
/// names must be distinct, not secret.
pub fn generate_name(base: &str, random: [u8; SUFFIX_LENGTH]) -> String {
    let mut end = base.len().min(GENERATED_BASE_BYTES_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let suffix = random.map(|byte| char::from(SUFFIX_ALPHABET[usize::from(byte) % SUFFIX_ALPHABET.len()]));
    base[..end].chars().chain(suffix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors;

    /// All texts of these letters up to a length.
    fn texts(letters: &[char], length: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut from = 0;
        for _ in 0..length {
            let longer: Vec<String> = all[from..]
                .iter()
                .flat_map(|text| letters.iter().map(move |letter| format!("{text}{letter}")))
                .collect();
            from = all.len();
            all.extend(longer);
        }
        all
    }

    #[test]
    fn a_name_that_passes_any_rule_can_be_a_segment_of_a_path_but_not_every_prefix_can() {
        let rules = [NameRule::DnsSubdomain, NameRule::DnsLabel, NameRule::Dns1035Label];
        for name in texts(&['a', '1', '-', '.', '/', '%'], 5) {
            let passes = rules.iter().any(|rule| rule.check(&name).is_empty());
            assert!(!passes || NameRule::PathSegment.check(&name).is_empty(), "{name}");
        }
        assert!(NameRule::DnsSubdomain.check_prefix("a/-").is_empty());
        assert!(!NameRule::PathSegment.check_prefix("a/-").is_empty());
    }

    #[test]
    fn every_rule_says_of_a_name_what_upstream_says() {
        for row in vectors::rows("names") {
            let name = row.text("name");
            for (rule, key) in [
                (NameRule::DnsSubdomain, "subdomain"),
                (NameRule::DnsLabel, "label"),
                (NameRule::Dns1035Label, "label1035"),
                (NameRule::PathSegment, "segment"),
            ] {
                assert_eq!(rule.check(&name), row.texts(key), "{rule:?} of {name:?}");
                assert_eq!(rule.check_prefix(&name), row.texts(&format!("{key}Prefix")), "{rule:?} of {name:?}-");
            }
        }
    }

    #[test]
    fn a_generated_name_is_the_base_cut_to_58_bytes_and_five_letters() {
        assert_eq!(generate_name("job-", [0, 1, 26, 27, 255]), "job-bc9bq");
        let long = generate_name(&"a".repeat(70), [0; 5]);
        assert_eq!(long, format!("{}bbbbb", "a".repeat(58)));
        assert_eq!(generate_name(&"ü".repeat(40), [0; 5]).len(), 63, "cut between characters");
        assert_eq!(generate_name(&format!("a{}", "ü".repeat(40)), [0; 5]).len(), 62);
    }
}
