//! Validates a request URI as Go's `url.ParseRequestURI` does.

use std::net::Ipv6Addr;

/// The parts of a URI that callers use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestUri {
    pub(crate) has_scheme: bool,
    pub(crate) has_host: bool,
}

/// Parses an absolute URI or an absolute path.
pub(crate) fn parse_request_uri(text: &str) -> Option<RequestUri> {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return None;
    }
    if text == "*" {
        return Some(RequestUri { has_scheme: false, has_host: false });
    }
    let (scheme, rest) = split_scheme(text)?;
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !rest.starts_with('/') {
        return scheme.map(|_| RequestUri { has_scheme: true, has_host: false });
    }
    let (has_host, path) = match (scheme, rest.strip_prefix("//")) {
        (Some(_), Some(after)) => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            if !is_authority(authority) {
                return None;
            }
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            (!host.is_empty(), path)
        }
        _ => (false, rest),
    };
    escapes_are_whole(path).then_some(RequestUri { has_scheme: scheme.is_some(), has_host })
}

/// Splits off the scheme, if there is one; `None` when the text begins with a colon.
fn split_scheme(text: &str) -> Option<(Option<&str>, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((Some(&text[..at]), &text[at + 1..])),
            _ => return Some((None, text)),
        }
    }
    Some((None, text))
}

/// Whether every percent sign begins an escape of two hex digits.
fn escapes_are_whole(text: &str) -> bool {
    text.split('%').skip(1).all(|after| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit()))
}

fn is_authority(authority: &str) -> bool {
    match authority.rsplit_once('@') {
        None => is_host(authority),
        Some((user, host)) => {
            let allowed =
                |character: char| character.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(character);
            is_host(host) && user.chars().all(allowed) && escapes_are_whole(user)
        }
    }
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_host(host: &str) -> bool {
    match host.rfind('[') {
        Some(0) => {
            let Some((literal, port)) = host[1..].rsplit_once(']') else { return false };
            is_port(port) && is_ip_literal(literal)
        }
        Some(_) => false,
        None => {
            // Only the last colon of a host begins a port; Go accepts any text before it, such as a list of hosts.
            host.rfind(':').is_none_or(|colon| is_port(&host[colon..])) && is_host_text(host)
        }
    }
}

/// Whether a text is an IPv6 address, optionally with a zone after `%25`.
fn is_ip_literal(literal: &str) -> bool {
    let (address, zone) = match literal.split_once("%25") {
        Some((address, zone)) => (address, Some(zone)),
        None => (literal, None),
    };
    let zone_is_good = zone.is_none_or(|zone| !zone.is_empty() && is_zone_text(zone));
    zone_is_good && is_host_text(address) && address.parse::<Ipv6Addr>().is_ok()
}

/// Whether a host may contain this byte unescaped. Non-ASCII bytes are always allowed.
fn is_host_byte(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte)
}

/// Whether a text is a valid host. Only non-ASCII bytes and the percent sign may be escaped in it.
fn is_host_text(text: &str) -> bool {
    escapes_are_whole(text)
        && text.bytes().all(|byte| byte == b'%' || is_host_byte(byte))
        && text.split('%').skip(1).all(|after| after.as_bytes()[0] >= b'8' || after.starts_with("25"))
}

fn is_zone_text(text: &str) -> bool {
    let escaped = |after: &str| {
        u8::from_str_radix(&after[..2], 16).is_ok_and(|byte| byte == b'%' || byte == b' ' || is_host_byte(byte))
    };
    escapes_are_whole(text)
        && text.bytes().all(|byte| byte == b'%' || is_host_byte(byte))
        && text.split('%').skip(1).all(escaped)
}
