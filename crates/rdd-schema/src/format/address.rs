//! Parses IP, CIDR and MAC addresses as Go's `net` does, strictly and in its older lenient way.

use std::net::{IpAddr, Ipv6Addr};

/// Parses as `net.ParseIP`: no leading zeros in an IPv4 octet, and no zone.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// Parses as Kubernetes' `ParseIPSloppy`, which is Go before 1.17: leading zeros in an octet are allowed.
pub(crate) fn parse_ip_sloppy(text: &str) -> Option<IpAddr> {
    match text.bytes().find(|byte| matches!(byte, b'.' | b':')) {
        Some(b'.') => sloppy_ipv4(text).map(|octets| IpAddr::V4(octets.into())),
        Some(_) => sloppy_ipv6(text).map(IpAddr::V6),
        None => None,
    }
}

/// Parses four octets, each with leading zeros allowed.
fn sloppy_ipv4(text: &str) -> Option<[u8; 4]> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = u8::try_from(decimal(parts.next()?)?).ok()?;
    }
    parts.next().is_none().then_some(octets)
}

fn sloppy_ipv6(text: &str) -> Option<Ipv6Addr> {
    // Only a trailing IPv4 part can have octets with leading zeros: normalize it, then parse strictly. Go's old parser also
    // accepted groups of more than four hex digits if their value was small.
    let (head, tail) = text.rsplit_once(':')?;
    let tail = if tail.contains('.') {
        let [a, b, c, d] = sloppy_ipv4(tail)?;
        format!("{a}.{b}.{c}.{d}")
    } else {
        short_group(tail)?
    };
    let groups: Option<Vec<String>> = head.split(':').map(short_group).collect();
    format!("{}:{tail}", groups?.join(":")).parse().ok()
}

/// Removes the leading zeros of an IPv6 group, so that the strict parser accepts it.
fn short_group(group: &str) -> Option<String> {
    if group.is_empty() {
        return Some(String::new());
    }
    let digits = group.trim_start_matches('0');
    (digits.len() <= 4 && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() })
}

/// Parses a number of digits only, below the overflow limit of Go's parser.
fn decimal(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| *number < 0xff_ffff)
}

pub(super) fn is_cidr_sloppy(text: &str) -> bool {
    let Some((address, mask)) = text.split_once('/') else { return false };
    let bits = if sloppy_ipv4(address).is_some() {
        32
    } else if address.contains(':') && sloppy_ipv6(address).is_some() {
        128
    } else {
        return false;
    };
    decimal(mask).is_some_and(|length| length <= bits)
}

/// Whether a text is 6, 8 or 20 octets: in pairs with `:` or `-`, in fours with `.`, or without a separator.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < 12 {
        return false;
    }
    let (separator, width) = match (bytes[2], bytes[4]) {
        (separator @ (b':' | b'-'), _) => (Some(separator), 2),
        (_, b'.') => (Some(b'.'), 4),
        _ => (None, 2),
    };
    let groups: Vec<&[u8]> = match separator {
        Some(separator) => bytes.split(|byte| *byte == separator).collect(),
        None => bytes.chunks(width).collect(),
    };
    let octets = groups.len() * width / 2;
    matches!(octets, 6 | 8 | 20)
        && groups.iter().all(|group| group.len() == width && group.iter().all(u8::is_ascii_hexdigit))
}
