//! Parses values of a template like Lima's Go code, with its error messages.

use rdd_meta::go_text::parse_int;
use serde_json::Value;

use super::shown;
pub(super) use crate::template::{as_integer, size_problem};

const IDENTIFIER_BYTES_MAX: usize = 76;
const IDENTIFIER_PATTERN: &str = "^[A-Za-z0-9]+(?:[._-](?:[A-Za-z0-9]+))*$";

/// An integer as Lima's YAML parser accepts it: also from a string or a fraction. 0 if it is absent, as in Go.
pub(super) fn integer_of(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(as_integer).unwrap_or_default()
}

/// The problem with a digest, in the words of the OCI's digest library.
pub(super) fn digest_problem(digest: &str) -> Option<&'static str> {
    const FORMAT: &str = "invalid checksum digest format";
    let (algorithm, encoded) = match digest.split_once(':') {
        Some((algorithm, encoded)) if !algorithm.is_empty() && !encoded.is_empty() => (algorithm, encoded),
        _ => return Some(FORMAT),
    };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => {
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            let is_name =
                algorithm.split(['+', '.', '_', '-']).all(|part| !part.is_empty() && part.chars().all(is_word));
            let is_text = encoded.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '=' | '_' | '-'));
            return Some(if is_name && is_text { "unsupported digest algorithm" } else { FORMAT });
        }
    };
    if encoded.len() != length {
        return Some("invalid checksum digest length");
    }
    let is_hex = encoded.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (!is_hex).then_some(FORMAT)
}

/// Why a path of this host cannot be made absolute.
pub(super) fn unexpandable(path: &str) -> Option<String> {
    if path.is_empty() {
        return Some("empty path".to_owned());
    }
    // Like Lima, expand `~` and `~/…` but not `~user`.
    let is_other_home = path.starts_with('~') && path != "~" && !path.starts_with("~/");
    is_other_home.then(|| format!("unexpandable path {}", shown(path)))
}

/// The shortest equivalent path, like Go's `filepath.Clean`.
pub(super) fn clean_path(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            // The parent of the root is the root.
            ".." if is_absolute => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// The problem with the name of a disk.
pub(super) fn identifier_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("identifier must not be empty".to_owned());
    }
    if name.len() > IDENTIFIER_BYTES_MAX {
        let name = shown(name);
        return Some(format!("identifier {name} greater than maximum length ({IDENTIFIER_BYTES_MAX} characters)"));
    }
    let is_word = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_valid = name.split(['.', '_', '-']).all(is_word);
    (!is_valid).then(|| format!("identifier {} must match {IDENTIFIER_PATTERN}", shown(name)))
}

/// Parses a version of three numbers.
pub(super) fn semantic_version(text: &str) -> Result<[i64; 3], String> {
    // Remove build metadata first: it may contain hyphens.
    let core = text.split_once('+').map_or(text, |(core, _)| core);
    let core = core.split_once('-').map_or(core, |(core, _)| core);
    let parts: Vec<&str> = core.splitn(3, '.').collect();
    let [major, minor, patch] = parts[..] else {
        return Err(format!("{} is not in dotted-tri format", core.chars().take(200).collect::<String>()));
    };
    let read = |part: &str| parse_int(part).map_err(|error| error.to_string());
    Ok([read(major)?, read(minor)?, read(patch)?])
}

/// Parses a version of Lima, without the suffix of `git describe`.
pub(super) fn lima_version(text: &str) -> Result<[i64; 3], String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let text = text.split_once('-').map_or(text, |(version, _)| version);
    semantic_version(text.strip_suffix(".m").unwrap_or(text))
}

/// Parses an octal number like `strconv.ParseInt(text, 8, 64)`.
pub(super) fn parse_octal(text: &str) -> Result<i64, String> {
    let fail = |problem| Err(format!("strconv.ParseInt: parsing {}: {problem}", shown(text)));
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        return fail("invalid syntax");
    }
    i64::from_str_radix(text, 8).or_else(|_| fail("value out of range"))
}

/// The length in bytes of a hardware address, as Go's `net.ParseMAC` parses it.
pub(super) fn mac_length(address: &str) -> Option<usize> {
    let is_hex = |part: &&str, width: usize| part.len() == width && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = match address.chars().find(|c| matches!(c, ':' | '-' | '.'))? {
        '.' => {
            let parts: Vec<&str> = address.split('.').collect();
            parts.iter().all(|part| is_hex(part, 4)).then_some(parts.len() * 2)
        }
        separator => {
            let parts: Vec<&str> = address.split(separator).collect();
            parts.iter().all(|part| is_hex(part, 2)).then_some(parts.len())
        }
    };
    // The lengths that Go accepts: EUI-48, EUI-64 and InfiniBand.
    length.filter(|length| matches!(length, 6 | 8 | 20))
}
